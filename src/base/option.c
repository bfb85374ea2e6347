/* src/base/option.c - reading, checking and printing typed options (option.h). */
#include "base/option.h"

#include "base/nearest_name.h"
#include "base/number.h"
#include "base/quote.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAMES = 96 };

typedef union value {
    bool on;
    const char *text;
    const char *pair[2];
    double number;
    int integer;
    int64_t whole;
    uint64_t seed;
} value;

static const size_t sizes[] = {
    [OLE_SWITCH] = sizeof(bool),
    [OLE_TEXT] = sizeof(const char *),
    [OLE_PAIR] = 2 * sizeof(const char *),
    [OLE_WORD] = sizeof(const char *),
    [OLE_CHOICE] = sizeof(int),
    [OLE_SET] = sizeof(int),
    [OLE_NUMBER] = sizeof(double),
    [OLE_SHARE] = sizeof(double),
    [OLE_INTEGER] = sizeof(int),
    [OLE_WHOLE] = sizeof(int64_t),
    [OLE_SEED] = sizeof(uint64_t),
};

static void *field(const ole_option *o, const void *base) {
    return o->to ? o->to : (char *)base + o->offset;
}

static value load(const ole_option *o, const void *base) {
    value v = {0};
    memcpy(&v, field(o, base), sizes[o->kind]);
    return v;
}

/* ---- Names -------------------------------------------------------------------------------- */

static char plain(char c) {
    return c == '-' ? '_' : c;
}

const ole_option *ole_option_find(const ole_option *table, const char *name, size_t length) {
    for (const ole_option *o = table; o && o->name; o++) {
        size_t i = 0;
        while (i < length && o->name[i] && plain(o->name[i]) == plain(name[i]))
            i++;
        if (i == length && !o->name[i]) return o;
    }
    return NULL;
}

const char *ole_option_flag(const ole_option *o, char room[OLE_OPTION_FLAG]) {
    snprintf(room, OLE_OPTION_FLAG, "--%s", o->name);
    for (char *c = room; *c; c++)
        if (*c == '_') *c = '-';
    return room;
}

const ole_option *ole_option_nearest(const ole_option *table, const char *name, size_t length) {
    char flags[MOST_NAMES][OLE_OPTION_FLAG], word[OLE_OPTION_FLAG];
    const char *names[MOST_NAMES];
    size_t count = 0;
    for (const ole_option *o = table; o && o->name && count < MOST_NAMES; o++, count++)
        names[count] = ole_option_flag(o, flags[count]) + 2;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (char *c = word; *c; c++)
        if (*c == '_') *c = '-';
    const char *nearest = ole_nearest_name(word, names, count);
    for (size_t i = 0; nearest && i < count; i++)
        if (names[i] == nearest) return &table[i];
    return NULL;
}

/* ---- Words -------------------------------------------------------------------------------- */

const char *ole_option_word(const char *list, int index, char room[OLE_OPTION_VALUE]) {
    for (; index > 0 && list; index--) {
        list = strchr(list, '|');
        if (list) list++;
    }
    if (index < 0 || !list) return NULL;
    snprintf(room, OLE_OPTION_VALUE, "%.*s", (int)strcspn(list, "|"), list);
    return room;
}

/* -1: the text is none of them. */
static int find_word(const char *list, const char *text) {
    char room[OLE_OPTION_VALUE];
    const char *word;
    for (int i = 0; (word = ole_option_word(list, i, room)); i++)
        if (strcmp(word, text) == 0) return i;
    return -1;
}

/* The bits of "softmax+ole"; 0: a word is unknown or there twice. */
static int read_set(const char *list, const char *text) {
    int set = 0;
    for (;;) {
        char word[OLE_OPTION_VALUE];
        size_t length = strcspn(text, "+");
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        int bit = length < sizeof word ? find_word(list, word) : -1;
        if (bit < 0 || set & 1 << bit) return 0;
        set |= 1 << bit;
        if (!text[length]) return set;
        text += length + 1;
    }
}

static const char *write_set(const char *list, int set, char room[OLE_OPTION_VALUE]) {
    char word[OLE_OPTION_VALUE];
    int rest = set;
    room[0] = '\0';
    for (int i = 0; i < 31 && ole_option_word(list, i, word); i++) {
        size_t used = strlen(room);
        if (set & 1 << i)
            snprintf(room + used, OLE_OPTION_VALUE - used, "%s%s", used ? "+" : "", word);
        rest &= ~(1 << i);
    }
    if (set <= 0 || rest) snprintf(room, OLE_OPTION_VALUE, "%d", set);
    return room;
}

/* Whether the value of an option is one of the words of `list`; of a set, whether any of its words
 * is. */
static bool is_among(const ole_option *o, const void *base, const char *text, const char *list) {
    if (o->kind != OLE_SET) return find_word(list, text) >= 0;
    char word[OLE_OPTION_VALUE];
    for (int i = 0; ole_option_word(o->words, i, word); i++)
        if (load(o, base).integer & 1 << i && find_word(list, word) >= 0) return true;
    return false;
}

bool ole_option_is_idle(const ole_option *o, const ole_option *table, const void *base,
                        char beside[OLE_OPTION_WHY]) {
    if (!o->idle_with) return false;
    size_t length = strcspn(o->idle_with, "=");
    const ole_option *other = ole_option_find(table, o->idle_with, length);
    const char *words = o->idle_with + length;
    char room[OLE_OPTION_VALUE], flag[OLE_OPTION_FLAG];
    const char *text = other ? ole_option_text(other, base, room) : NULL;
    if (!text || !*text) return false;
    bool but = words[0] == '=' && words[1] == '!'; /* =!a|b: any value but these */
    if (*words && is_among(other, base, text, words + 1 + but) == but) return false;
    snprintf(beside, OLE_OPTION_WHY, "%s %s", ole_option_flag(other, flag), text);
    return true;
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

/* "one of sgd, adam" */
static void describe_words(const ole_option *o, char *out, size_t size) {
    char room[OLE_OPTION_VALUE];
    const char *word;
    bool set = o->kind == OLE_SET;
    size_t used = (size_t)snprintf(out, size, set ? "some of" : "one of");
    const char *list = set ? o->words : o->value;
    for (int i = 0; (word = ole_option_word(list, i, room)) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s %s", i ? "," : "", word);
    if (set && used < size) snprintf(out + used, size - used, " with '+' between");
}

/* Whether 0 is too little, and every number above it allowed. */
static bool begins_above_zero(const ole_option *o) {
    return o->min == DBL_TRUE_MIN;
}

/* "a number from 0 to 1" */
static void describe_number(const ole_option *o, char *out, size_t size) {
    const char *what = o->kind == OLE_NUMBER ? "a number" : "a whole number";
    char range[64] = "";
    if (begins_above_zero(o))
        snprintf(range, sizeof range, " above 0");
    else if (o->max != 0.0 && o->max < HUGE_VAL)
        snprintf(range, sizeof range, " from %g to %.10g", o->min, o->max);
    else if (o->min > -HUGE_VAL)
        snprintf(range, sizeof range, " of at least %g", o->min);
    snprintf(out, size, "%s%s%s%s", o->special ? o->special : "", o->special ? " or " : "", what,
             range);
}

static bool refuse(const ole_option *o, const char *name, const char *text,
                   char why[OLE_OPTION_WHY]) {
    char expected[256];
    switch (o->kind) {
    case OLE_SWITCH:
        snprintf(expected, sizeof expected, "true or false");
        break;
    case OLE_WORD:
    case OLE_CHOICE:
    case OLE_SET:
        describe_words(o, expected, sizeof expected);
        break;
    case OLE_SHARE:
        snprintf(expected, sizeof expected, "a share %s%s, such as 10%% or 0.1",
                 begins_above_zero(o) ? "above 0 and " : "",
                 o->max == 0.0          ? "below 1"
                 : begins_above_zero(o) ? "at most 1"
                                        : "of at most 1");
        break;
    default:
        describe_number(o, expected, sizeof expected);
    }
    snprintf(why, OLE_OPTION_WHY, "%s '%s': expected %s", name, ole_quote_string(text).text,
             expected);
    return false;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static bool in_range(const ole_option *o, double number) {
    if (!isfinite(number) || number < o->min) return false;
    if (o->max != 0.0) return number <= o->max;
    return o->kind != OLE_SHARE || number < 1.0;
}

/* A number, a quotient of two, or (where `percent`) one followed by %. */
static bool parse_number(const char *text, bool percent, double *number) {
    char *end;
    *number = ole_number_read(text, &end);
    if (end == text) return false;
    if (percent && strcmp(end, "%") == 0) {
        *number /= 100.0;
        return true;
    }
    if (*end == '/') {
        const char *second = end + 1;
        double divisor = ole_number_read(second, &end);
        if (end == second || divisor == 0.0) return false;
        *number /= divisor;
    }
    return *end == '\0';
}

/* As YAML has them, in upper or lower case. */
static bool parse_switch(const char *text, bool *on) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) {
            *on = i % 2 == 1;
            return true;
        }
    return false;
}

static bool parse_seed(const char *text, uint64_t *seed) {
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static bool parse(const ole_option *o, const char *text, value *v) {
    double number;
    switch (o->kind) {
    case OLE_SWITCH:
        return parse_switch(text, &v->on);
    case OLE_WORD:
        v->text = text;
        return find_word(o->value, text) >= 0;
    case OLE_CHOICE:
        v->integer = find_word(o->value, text) + (int)o->min;
        return v->integer >= (int)o->min;
    case OLE_SET:
        v->integer = read_set(o->words, text);
        return v->integer > 0;
    case OLE_SEED:
        return parse_seed(text, &v->seed);
    case OLE_NUMBER:
    case OLE_SHARE:
        v->number = o->special_value;
        if (o->special && strcmp(text, o->special) == 0) return true;
        return parse_number(text, o->kind == OLE_SHARE, &v->number) && in_range(o, v->number);
    case OLE_INTEGER:
    case OLE_WHOLE:
        if (!parse_number(text, false, &number) || number != floor(number)) return false;
        if (!in_range(o, number)) return false;
        if (o->kind == OLE_INTEGER)
            v->integer = (int)number;
        else
            v->whole = (int64_t)number;
        return true;
    default:
        v->text = text;
        return true;
    }
}

bool ole_option_set(const ole_option *o, void *base, const char *name, const char *text,
                    char why[OLE_OPTION_WHY]) {
    value v = {0};
    if (!parse(o, text, &v)) return refuse(o, name, text, why);
    memcpy(field(o, base), &v, sizes[o->kind]);
    return true;
}

void ole_options_init(const ole_option *table, void *base) {
    char why[OLE_OPTION_WHY];
    for (const ole_option *o = table; o->name; o++)
        if (o->initial) ole_option_set(o, base, o->name, o->initial, why);
}

/* ---- Values ------------------------------------------------------------------------------- */

bool ole_option_check(const ole_option *o, const void *base, const char *name,
                      char why[OLE_OPTION_WHY]) {
    char room[OLE_OPTION_VALUE];
    value v;
    const char *text = ole_option_text(o, base, room);
    return !text || parse(o, text, &v) || refuse(o, name, text, why);
}

const char *ole_option_number(double number, char room[OLE_OPTION_VALUE]) {
    for (int digits = 6; digits <= 17; digits++) {
        ole_number_write(room, digits, number);
        if (ole_number_read(room, NULL) == number) break;
    }
    return room;
}

const char *ole_option_text(const ole_option *o, const void *base, char room[OLE_OPTION_VALUE]) {
    value v = load(o, base);
    switch (o->kind) {
    case OLE_SWITCH:
        return v.on ? "true" : "false";
    case OLE_CHOICE:
        if (ole_option_word(o->value, v.integer - (int)o->min, room)) return room;
        snprintf(room, OLE_OPTION_VALUE, "%d", v.integer);
        return room;
    case OLE_SET:
        return write_set(o->words, v.integer, room);
    case OLE_NUMBER:
    case OLE_SHARE:
        if (o->special && v.number == o->special_value) return o->special;
        return ole_option_number(v.number, room);
    case OLE_INTEGER:
        snprintf(room, OLE_OPTION_VALUE, "%d", v.integer);
        return room;
    case OLE_WHOLE:
        snprintf(room, OLE_OPTION_VALUE, "%" PRId64, v.whole);
        return room;
    case OLE_SEED:
        snprintf(room, OLE_OPTION_VALUE, "%" PRIu64, v.seed);
        return room;
    case OLE_PAIR:
        return NULL;
    default:
        return v.text;
    }
}

bool ole_option_differs(const ole_option *o, const void *a, const void *b) {
    char room[2][OLE_OPTION_VALUE];
    const char *x = ole_option_text(o, a, room[0]), *y = ole_option_text(o, b, room[1]);
    return strcmp(x ? x : "", y ? y : "") != 0;
}

void ole_option_copy(const ole_option *o, void *to, const void *from) {
    memcpy((char *)to + o->offset, (const char *)from + o->offset, sizes[o->kind]);
}
