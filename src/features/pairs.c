/* src/features/pairs.c - reading files of pairs, and lists of what each row of features shows. */
#include "ole/verify.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 5, MOST_FOLDS = 1000 }; /* a line has at most four; a fifth is too many */
static const size_t largest_file = (size_t)1 << 32;

/* ---- Lines and words ---------------------------------------------------------------------- */

typedef struct word {
    const char *at;
    size_t length;
} word;

/* A text file, line by line; `word` are those of the line at hand. */
typedef struct reader {
    ole_quoted name;
    char *bytes;
    size_t size;
    const char *next; /* the line after */
    const char *begin;
    int64_t line; /* from 1 */
    int words;
    word word[MOST_WORDS];
} reader;

static ole_status reader_open(reader *r, const char *path, ole_error *error) {
    *r = (reader){0};
    r->name = ole_quote_string(path);
    ole_status status = ole_read_file(path, largest_file, &r->bytes, &r->size, error);
    r->next = r->bytes;
    return status;
}

static void split_words(reader *r, const char *end) {
    r->words = 0;
    for (const char *at = r->begin; at < end && r->words < MOST_WORDS;) {
        size_t gap = strspn(at, " \t\r"), length = strcspn(at + gap, " \t\r\n");
        if (at + gap >= end) break;
        r->word[r->words++] = (word){at + gap, length > 0 ? length : 1}; /* a zero byte is a word */
        at += gap + (length > 0 ? length : 1);
    }
}

/* The next line that counts; false at the end of the file. */
static bool next_line(reader *r) {
    const char *end = r->bytes + r->size;
    while (r->next < end) {
        const char *newline = memchr(r->next, '\n', (size_t)(end - r->next));
        const char *stop = newline ? newline : end;
        r->begin = r->next;
        r->next = newline ? newline + 1 : end;
        r->line++;
        split_words(r, stop);
        if (r->words > 0 && r->word[0].at[0] != '#') return true;
    }
    return false;
}

/* Fails with the name of the file, the line and what stands there. */
static ole_status wrong_line(const reader *r, const char *expected, ole_error *error) {
    size_t length = strcspn(r->begin, "\r\n");
    return ole_fail(error, OLE_ERROR_FORMAT, "%s, line %" PRId64 ": expected %s, found '%s'",
                    r->name.text, r->line, expected, ole_quote(r->begin, length).text);
}

/* A whole number without a sign, of at most 15 digits. */
static bool whole(word w, int64_t *value) {
    if (w.length == 0 || w.length > 15) return false;
    *value = 0;
    for (size_t i = 0; i < w.length; i++) {
        if (w.at[i] < '0' || w.at[i] > '9') return false;
        *value = *value * 10 + (w.at[i] - '0');
    }
    return true;
}

/* ---- Who is in which row ------------------------------------------------------------------ */

typedef struct picture {
    word name;
    int64_t number;
    int64_t row;
} picture;

typedef struct album {
    reader file;
    picture *pictures; /* [count], sorted by name and number */
    int64_t count;
} album;

static int compare_pictures(const void *left, const void *right) {
    const picture *a = left, *b = right;
    size_t shorter = a->name.length < b->name.length ? a->name.length : b->name.length;
    int order = memcmp(a->name.at, b->name.at, shorter);
    if (order != 0) return order;
    if (a->name.length != b->name.length) return a->name.length < b->name.length ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* "folder/Ada_Lovelace_0004.jpg" is Ada_Lovelace, 4. */
static bool parse_file_name(word w, picture *p) {
    const char *slash = memrchr(w.at, '/', w.length);
    if (slash) w = (word){slash + 1, w.length - (size_t)(slash + 1 - w.at)};
    size_t dot = w.length;
    while (dot > 0 && w.at[dot - 1] != '.')
        dot--;
    size_t stem = dot > 0 ? dot - 1 : w.length, underscore = stem;
    while (underscore > 0 && w.at[underscore - 1] != '_')
        underscore--;
    if (underscore < 2) return false;
    p->name = (word){w.at, underscore - 1};
    return whole((word){w.at + underscore, stem - underscore}, &p->number);
}

static bool parse_picture(const reader *r, picture *p) {
    if (r->words == 1) return parse_file_name(r->word[0], p);
    p->name = r->word[0];
    return r->words == 2 && whole(r->word[1], &p->number);
}

static ole_status find_twins(const album *a, ole_error *error) {
    for (int64_t i = 1; i < a->count; i++) {
        if (compare_pictures(&a->pictures[i - 1], &a->pictures[i]) != 0) continue;
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: picture %" PRId64 " of '%s' appears twice, as rows %" PRId64
                        " and %" PRId64,
                        a->file.name.text, a->pictures[i].number,
                        ole_quote(a->pictures[i].name.at, a->pictures[i].name.length).text,
                        a->pictures[i - 1].row, a->pictures[i].row);
    }
    return OLE_OK;
}

static ole_status album_read(album *a, const char *path, int64_t rows, ole_error *error) {
    ole_status status = reader_open(&a->file, path, error);
    if (status != OLE_OK) return status;
    a->pictures = malloc((size_t)rows * sizeof *a->pictures);
    if (!a->pictures)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " names", rows);
    while (next_line(&a->file)) {
        picture p = {.row = a->count};
        if (!parse_picture(&a->file, &p))
            return wrong_line(&a->file,
                              "a picture's name as Ada_Lovelace_0004.jpg or Ada_Lovelace 4", error);
        if (a->count < rows) a->pictures[a->count] = p;
        a->count++;
    }
    if (a->count != rows)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s names %" PRId64 " pictures but the features have %" PRId64
                        " rows; they must match",
                        a->file.name.text, a->count, rows);
    qsort(a->pictures, (size_t)a->count, sizeof *a->pictures, compare_pictures);
    return find_twins(a, error);
}

/* The row of a picture; an error names the line of the file of pairs. */
static ole_status find_picture(const album *a, const reader *pairs, word name, word number,
                               int64_t *row, ole_error *error) {
    picture key = {.name = name};
    if (!whole(number, &key.number)) return wrong_line(pairs, "NAME N N or NAME N NAME N", error);
    const picture *found =
        bsearch(&key, a->pictures, (size_t)a->count, sizeof *a->pictures, compare_pictures);
    if (!found)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s, line %" PRId64 ": picture %" PRId64 " of '%s' is not in %s",
                        pairs->name.text, pairs->line, key.number,
                        ole_quote(name.at, name.length).text, a->file.name.text);
    *row = found->row;
    return OLE_OK;
}

/* ---- Pairs -------------------------------------------------------------------------------- */

static ole_status read_row(const reader *r, word w, int64_t rows, int64_t *row, ole_error *error) {
    if (!whole(w, row)) return wrong_line(r, "two rows and 1 (same) or 0 (different)", error);
    if (*row < rows) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s, line %" PRId64 ": no row %" PRId64
                    "; the features have rows 0 to %" PRId64,
                    r->name.text, r->line, *row, rows - 1);
}

/* Lines "row row same", from the one at hand on. */
static ole_status read_rows(ole_pairs *pairs, reader *r, int64_t rows, ole_error *error) {
    do {
        ole_pair *p = &pairs->pair[pairs->count++];
        int64_t same;
        if (r->words != 3 || !whole(r->word[2], &same) || same > 1)
            return wrong_line(r, "two rows and 1 (same) or 0 (different)", error);
        ole_status status = read_row(r, r->word[0], rows, &p->a, error);
        if (status == OLE_OK) status = read_row(r, r->word[1], rows, &p->b, error);
        if (status != OLE_OK) return status;
        p->same = same == 1;
    } while (next_line(r));
    return OLE_OK;
}

/* One pair of LFW's kind into the next place. */
static ole_status read_named(ole_pairs *pairs, reader *r, const album *a, bool same, int fold,
                             ole_error *error) {
    const char *expected =
        same ? "two pictures of one person, NAME N N" : "pictures of two people, NAME N NAME N";
    if (!next_line(r))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the file ends after %" PRId64 " pairs, its first line announces more",
                        r->name.text, pairs->count);
    if (r->words != (same ? 3 : 4)) return wrong_line(r, expected, error);
    ole_pair *p = &pairs->pair[pairs->count];
    *p = (ole_pair){.same = same, .fold = fold};
    ole_status status = find_picture(a, r, r->word[0], r->word[1], &p->a, error);
    if (status == OLE_OK)
        status = find_picture(a, r, r->word[same ? 0 : 2], r->word[same ? 2 : 3], &p->b, error);
    if (status == OLE_OK) pairs->count++;
    return status;
}

/* Folds of `each` same and `each` different pairs; the first line is at hand. */
static ole_status read_folds(ole_pairs *pairs, reader *r, const album *a, int64_t lines,
                             ole_error *error) {
    int64_t folds = 1, each = 0;
    bool good = whole(r->word[r->words - 1], &each) && (r->words == 1 || whole(r->word[0], &folds));
    if (!good || folds < 1 || folds > MOST_FOLDS || each < 1)
        return wrong_line(r, "the numbers of folds and of pairs in each, as '10 300'", error);
    if (each > lines / (2 * folds)) /* so that what follows fits into the memory taken */
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s, line %" PRId64 ": announces %" PRId64 " folds of %" PRId64
                        " same and as many different pairs, but the file has %" PRId64 " lines",
                        r->name.text, r->line, folds, each, lines);
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < folds * 2 * each && status == OLE_OK; i++)
        status = read_named(pairs, r, a, i / each % 2 == 0, (int)(i / (2 * each)), error);
    if (status == OLE_OK && next_line(r))
        status =
            wrong_line(r, "the end of the file, after the pairs its first line announces", error);
    pairs->folds = (int)folds;
    return status;
}

/* Deals pairs without folds of their own. */
static ole_status deal(ole_pairs *pairs, int folds, const char *name, ole_error *error) {
    int64_t dealt[2] = {0, 0};
    for (int64_t i = 0; i < pairs->count; i++)
        pairs->pair[i].fold = (int)(dealt[pairs->pair[i].same]++ % folds);
    pairs->folds = folds;
    if (dealt[0] >= folds && dealt[1] >= folds) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: %" PRId64 " same and %" PRId64
                    " different pairs are too few for %d folds, which need one of each kind; use "
                    "more pairs or fewer folds",
                    name, dealt[1], dealt[0], folds);
}

static ole_status read_pairs(ole_pairs *pairs, reader *r, album *a, const char *names, int64_t rows,
                             ole_error *error) {
    int64_t lines = 1;
    for (size_t i = 0; i < r->size; i++)
        lines += r->bytes[i] == '\n';
    pairs->pair = calloc((size_t)lines, sizeof *pairs->pair);
    if (!pairs->pair)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " pairs", lines);
    if (!next_line(r)) return ole_fail(error, OLE_ERROR_FORMAT, "%s: holds no pairs", r->name.text);
    int64_t number;
    bool numbers = whole(r->word[0], &number);
    if (r->words == 3 && numbers && names)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "%s: these pairs are row numbers, which need no list of names; omit --names",
            r->name.text);
    if (r->words == 3 && numbers) return read_rows(pairs, r, rows, error);
    if (r->words > 2 || !numbers)
        return wrong_line(r, "rows as '0 17 1', or LFW's first line as '10 300'", error);
    if (!names)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: these pairs are names, so --names must list the name of each row",
                        r->name.text);
    ole_status status = album_read(a, names, rows, error);
    return status == OLE_OK ? read_folds(pairs, r, a, lines, error) : status;
}

ole_status ole_pairs_read(ole_pairs *pairs, const char *path, const char *names, int64_t rows,
                          int folds, ole_error *error) {
    if (!pairs || !path || rows < 1 || folds < 2 || folds > MOST_FOLDS)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_pairs_read: pairs or path is NULL, there are no rows, or folds is not "
                        "2 to %d",
                        MOST_FOLDS);
    ole_pairs read = {0};
    reader r;
    album a = {0};
    ole_status status = reader_open(&r, path, error);
    if (status == OLE_OK) status = read_pairs(&read, &r, &a, names, rows, error);
    if (status == OLE_OK && read.folds < 2) status = deal(&read, folds, r.name.text, error);
    free(a.pictures);
    free(a.file.bytes);
    free(r.bytes);
    if (status == OLE_OK)
        *pairs = read;
    else
        ole_pairs_free(&read);
    return status;
}

void ole_pairs_free(ole_pairs *pairs) {
    if (!pairs) return;
    free(pairs->pair);
    *pairs = (ole_pairs){0};
}
