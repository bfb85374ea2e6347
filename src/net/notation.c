/*
 * src/net/notation.c - turns a string in the paper's notation into tokens.
 *
 * One table lists the numbers and modifiers each token takes and its defaults.  The rest is a
 * cursor that walks the string and reports errors with their column.
 */
#include "net/notation.h"

#include "base/number.h"
#include "base/quote.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNEL = 63, MAX_REPEAT = OLE_MAX_NODES, MAX_SHOWN = 40 };

/* ---- The tokens and the modifiers --------------------------------------------------------- */

typedef enum modifier {
    KERNEL = 1 << 0,
    STRIDE = 1 << 1,
    PAD = 1 << 2, /* the last with a whole number */
    NOBN = 1 << 3,
    NORELU = 1 << 4,
    NOBIAS = 1 << 5,
    NOAFFINE = 1 << 6,
    DROP = 1 << 7,
    NOPROJ = 1 << 8,
} modifier;

typedef enum numbers {
    NUMBER_NONE,
    NUMBER_MAY,  /* "BN" or "BN456" */
    NUMBER_MUST, /* "C64" */
    NUMBER_TWO,  /* "R64/16" */
} numbers;

static const struct {
    const char *name;
    numbers numbers;
    const char *usage; /* example, for messages */
    unsigned modifiers;
    ole_token defaults;
} kinds[] = {
    [OLE_TOKEN_C] = {"C",
                     NUMBER_MUST,
                     "C64",
                     KERNEL | STRIDE | PAD | NOBN | NORELU | NOBIAS | NOAFFINE | DROP,
                     {.kernel = 3, .stride = 1, .norm = true, .relu = true, .bias = true}},
    [OLE_TOKEN_CO] = {"CO", NUMBER_MUST, "CO24", KERNEL | STRIDE | PAD, {.kernel = 3, .stride = 1}},
    [OLE_TOKEN_MP] = {"MP", NUMBER_NONE, "MP", KERNEL | STRIDE | PAD, {.kernel = 2, .stride = 2}},
    [OLE_TOKEN_AP] = {"AP", NUMBER_NONE, "AP", KERNEL | STRIDE, {.stride = 2}},
    [OLE_TOKEN_FC] = {"FC",
                      NUMBER_MUST,
                      "FC512",
                      NOBN | NORELU | NOBIAS | NOAFFINE | DROP,
                      {.norm = true, .relu = true, .bias = true}},
    [OLE_TOKEN_FCD] = {"FCD",
                       NUMBER_MUST,
                       "FCD4096",
                       NORELU | NOBIAS | DROP,
                       {.relu = true, .bias = true, .drop = 0.5f}},
    [OLE_TOKEN_R] = {"R", NUMBER_TWO, "R64/16", STRIDE, {.stride = OLE_STRIDE_OF_STAGE}},
    [OLE_TOKEN_PR] = {"PR", NUMBER_TWO, "PR64/16", STRIDE, {.stride = OLE_STRIDE_OF_STAGE}},
    [OLE_TOKEN_B] = {"B", NUMBER_MUST, "B64", STRIDE | NOPROJ, {.stride = OLE_STRIDE_OF_STAGE}},
    [OLE_TOKEN_PB] = {"PB", NUMBER_MUST, "PB64", STRIDE | NOPROJ, {.stride = OLE_STRIDE_OF_STAGE}},
    [OLE_TOKEN_D] = {"D", NUMBER_TWO, "D168/12", DROP, {0}},
    [OLE_TOKEN_CR] = {"CR", NUMBER_MUST, "CR168", DROP, {.kernel = 2, .stride = 2}},
    [OLE_TOKEN_BN] = {"BN", NUMBER_MAY, "BN", NOAFFINE, {.norm = true}},
    [OLE_TOKEN_RELU] = {"ReLU", NUMBER_NONE, "ReLU", 0, {.relu = true}},
    [OLE_TOKEN_ID] = {"ID", NUMBER_NONE, "ID", 0, {0}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char known[] = "C, CO, MP, AP, FC, FCD, R, PR, B, PB, D, CR, BN, ReLU, ID";

static const struct {
    const char *name;
    modifier which;
    size_t field; /* of ole_token: a number that follows the name, or a flag that it clears */
} modifiers[] = {
    {"k", KERNEL, offsetof(ole_token, kernel)},
    {"s", STRIDE, offsetof(ole_token, stride)},
    {"p", PAD, offsetof(ole_token, pad)},
    {"d", DROP, offsetof(ole_token, drop)},
    {"nobn", NOBN, offsetof(ole_token, norm)},
    {"norelu", NORELU, offsetof(ole_token, relu)},
    {"nobias", NOBIAS, offsetof(ole_token, bias)},
    {"noaffine", NOAFFINE, offsetof(ole_token, affine)},
    {"noproj", NOPROJ, offsetof(ole_token, proj)},
};
enum { MODIFIERS = sizeof modifiers / sizeof *modifiers };

/* ---- Errors ------------------------------------------------------------------------------- */

/* Quotes `length` characters of the string before the message; none if 0. */
static ole_status fail_at(const ole_notation *notation, int column, const char *text, int length,
                          ole_error *error, const char *format, va_list args) {
    char message[256], excerpt[MAX_SHOWN + 8] = "";
    vsnprintf(message, sizeof message, format, args);
    int shorter = length > MAX_SHOWN ? MAX_SHOWN : length;
    if (length > 0)
        snprintf(excerpt, sizeof excerpt, "'%.*s%s' ", MAX_SHOWN,
                 ole_quote(text, (size_t)shorter).text, shorter < length ? "..." : "");
    return ole_fail(error, OLE_ERROR_ARGUMENT, "net%s%s: column %d: %s%s",
                    notation->name ? " " : "", notation->name ? notation->name : "", column,
                    excerpt, message);
}

ole_status ole_notation_fail(const ole_notation *notation, const ole_token *token, ole_error *error,
                             const char *format, ...) {
    va_list args;
    va_start(args, format);
    ole_status status =
        fail_at(notation, token->column, token->text, token->length, error, format, args);
    va_end(args);
    return status;
}

/* ---- The cursor --------------------------------------------------------------------------- */

/* The current position `at` inside the token that ends at `end`. */
typedef struct walk {
    const ole_notation *notation;
    const char *text, *at, *end;
    ole_error *error;
} walk;

/* Reports an error about the `length` characters from `from` on. */
OLE_PRINTF(4, 5)
static ole_status fail(const walk *w, const char *from, int length, const char *format, ...) {
    va_list args;
    va_start(args, format);
    ole_status status =
        fail_at(w->notation, (int)(from - w->text) + 1, from, length, w->error, format, args);
    va_end(args);
    return status;
}

/* Reports that something other than `expected` comes next. */
static ole_status fail_rest(const walk *w, const char *expected) {
    if (*w->at == '\0') return fail(w, w->at, 0, "the net ends where %s is expected", expected);
    int rest = w->at < w->end ? (int)(w->end - w->at) : 1;
    return fail(w, w->at, rest, "found where %s is expected", expected);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* An integer from `least` to `most`. */
static ole_status read_number(walk *w, int least, int most, int *number) {
    const char *begin = w->at;
    int64_t value = 0;
    while (w->at < w->end && is_digit(*w->at)) {
        if (value <= most) value = value * 10 + (*w->at - '0');
        w->at++;
    }
    if (w->at == begin) return fail_rest(w, "a number");
    if (value < least || value > most)
        return fail(w, begin, (int)(w->at - begin), "is out of range; use %d to %d", least, most);
    *number = (int)value;
    return OLE_OK;
}

/* A dropout rate in [0, 1). */
static ole_status read_rate(walk *w, float *rate) {
    char text[32], *end; /* no rate needs more digits; further ones are ignored */
    const char *begin = w->at;
    snprintf(text, sizeof text, "%.*s", (int)strspn(begin, "0123456789."), begin);
    *rate = (float)ole_number_read(text, &end);
    if (end == text) return fail_rest(w, "a dropout rate such as 0.5");
    w->at += end - text;
    while (w->at < w->end && is_digit(*w->at))
        w->at++;
    if (*rate < 1.0f) return OLE_OK;
    return fail(w, begin, (int)(w->at - begin),
                "is not a dropout rate: use at least 0 and less than 1");
}

/* ---- Pieces of a token -------------------------------------------------------------------- */

/* One modifier such as "k5" or "nobn". `seen` collects them to reject duplicates. */
static ole_status read_modifier(walk *w, ole_token *token, unsigned *seen) {
    const char *begin = w->at;
    while (w->at < w->end && is_letter(*w->at))
        w->at++;
    size_t letters = (size_t)(w->at - begin);
    for (size_t i = 0; i < MODIFIERS; i++) {
        if (strlen(modifiers[i].name) != letters || memcmp(modifiers[i].name, begin, letters) != 0)
            continue;
        modifier which = modifiers[i].which;
        if (!(kinds[token->kind].modifiers & which))
            return fail(w, begin, (int)letters, "is not a modifier of %s", kinds[token->kind].name);
        if (*seen & which) return fail(w, begin, (int)letters, "is given twice");
        *seen |= which;
        void *field = (char *)token + modifiers[i].field;
        if (which == DROP) return read_rate(w, field);
        if (which < NOBN) return read_number(w, which != PAD, MAX_KERNEL, field);
        *(bool *)field = false;
        return OLE_OK;
    }
    w->at = begin;
    return fail_rest(w, "a modifier (kN, sN, pN, dX, nobn, norelu, nobias, noaffine or noproj)");
}

/* "[k5,p0]", after the bracket. Unless padding is given it preserves the image size. */
static ole_status read_modifiers(walk *w, ole_token *token) {
    unsigned seen = 0;
    for (;;) {
        ole_status status = read_modifier(w, token, &seen);
        if (status != OLE_OK) return status;
        char next = w->at < w->end ? *w->at : '\0';
        if (next != ',' && next != ']') return fail_rest(w, "',' or ']'");
        w->at++;
        if (next == ']') break;
    }
    bool convolution = token->kind == OLE_TOKEN_C || token->kind == OLE_TOKEN_CO;
    if (convolution && !(seen & PAD)) token->pad = token->kernel / 2;
    if (token->kind == OLE_TOKEN_AP && seen == STRIDE)
        return fail(w, token->text, token->length,
                    "has a stride but no window size, as in AP[k2,s2]");
    return OLE_OK;
}

/* "(x18)", after the bracket. */
static ole_status read_repeat(walk *w, ole_token *token) {
    if (w->at == w->end || *w->at != 'x') return fail_rest(w, "a repetition count xN");
    w->at++;
    ole_status status = read_number(w, 1, MAX_REPEAT, &token->repeat);
    if (status != OLE_OK) return status;
    if (w->at == w->end || *w->at != ')') return fail_rest(w, "')'");
    w->at++;
    return OLE_OK;
}

static ole_status read_suffixes(walk *w, ole_token *token) {
    bool modified = false, repeated = false;
    while (w->at < w->end) {
        ole_status status;
        if (*w->at == '[' && !modified) {
            w->at++;
            modified = true;
            status = read_modifiers(w, token);
        } else if (*w->at == '(' && !repeated) {
            w->at++;
            repeated = true;
            status = read_repeat(w, token);
        } else {
            status = fail_rest(w, "'-', a modifier in [] or a repetition (xN)");
        }
        if (status != OLE_OK) return status;
    }
    return OLE_OK;
}

static ole_status read_numbers(walk *w, ole_token *token) {
    numbers allowed = kinds[token->kind].numbers;
    bool here = w->at < w->end && is_digit(*w->at);
    if (!here && allowed >= NUMBER_MUST)
        return fail(w, token->text, token->length, "needs a width, as in %s",
                    kinds[token->kind].usage);
    if (!here) return OLE_OK;
    if (allowed == NUMBER_NONE)
        return fail(w, token->text, token->length, "takes no number: write %s",
                    kinds[token->kind].usage);
    ole_status status = read_number(w, 1, OLE_MAX_WIDTH, &token->width);
    if (status != OLE_OK || allowed != NUMBER_TWO) return status;
    if (w->at == w->end || *w->at != '/')
        return fail(w, token->text, token->length, "needs a second number, as in %s",
                    kinds[token->kind].usage);
    w->at++;
    return read_number(w, 1, OLE_MAX_WIDTH, &token->inner);
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static ole_status read_token(walk *w, ole_token *token) {
    const char *begin = w->at;
    int length = (int)(w->end - begin);
    if (length == 0) return fail_rest(w, "a token");
    const char *letters = begin;
    while (letters < w->end && is_letter(*letters))
        letters++;
    size_t size = (size_t)(letters - begin), kind = 0;
    while (kind < KINDS &&
           (strlen(kinds[kind].name) != size || memcmp(kinds[kind].name, begin, size) != 0))
        kind++;
    if (kind == KINDS) return fail(w, begin, length, "is not a token; known tokens: %s", known);
    *token = kinds[kind].defaults;
    token->kind = (ole_token_kind)kind;
    token->text = begin;
    token->length = length;
    token->column = (int)(begin - w->text) + 1;
    token->repeat = 1;
    token->affine = token->proj = true;
    if (kind == OLE_TOKEN_C || kind == OLE_TOKEN_CO) token->pad = token->kernel / 2;
    w->at = letters;
    ole_status status = read_numbers(w, token);
    return status == OLE_OK ? read_suffixes(w, token) : status;
}

/* The '-' that ends the token, or the end of the string. */
static const char *find_end(const char *begin) {
    return begin + strcspn(begin, "-");
}

static size_t count_tokens(const char *text) {
    size_t count = 1;
    for (const char *end = find_end(text); *end; end = find_end(end + 1))
        count++;
    return count;
}

ole_status ole_notation_parse(ole_notation *notation, const char *name, const char *text,
                              ole_error *error) {
    *notation = (ole_notation){.name = name};
    size_t count = count_tokens(text);
    if (count > OLE_MAX_NODES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "net: %zu tokens; at most %d are allowed", count,
                        OLE_MAX_NODES);
    notation->token = malloc(count * sizeof *notation->token);
    if (!notation->token) return ole_fail(error, OLE_ERROR_MEMORY, "net: out of memory");
    walk w = {.notation = notation, .text = text, .at = text, .error = error};
    for (size_t i = 0; i < count; i++) {
        w.end = find_end(w.at);
        ole_status status = read_token(&w, &notation->token[i]);
        if (status != OLE_OK) {
            ole_notation_free(notation);
            return status;
        }
        w.at = w.end + 1;
    }
    notation->tokens = (int)count;
    return OLE_OK;
}

void ole_notation_free(ole_notation *notation) {
    free(notation->token);
    *notation = (ole_notation){0};
}
