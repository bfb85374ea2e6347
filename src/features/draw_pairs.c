/*
 * src/features/draw_pairs.c - pairs of rows from their labels.
 *
 * With the rows sorted by label, the same pairs of a row are those with the rows behind it in its
 * class, and its different pairs those with the rows of later classes.  All pairs of a kind thus
 * have a number, and a draw takes one number from each of as many equal ranges: no pair twice.
 */
#include "ole/verify.h"

#include "base/error.h"
#include "base/philox.h"

#include <inttypes.h>
#include <stdlib.h>

enum { OLE_RANDOM_PAIRS = 9 }; /* a = same, b = number of the pair */

typedef struct labelled {
    int64_t label, row;
} labelled;

/* The rows that count, by label. */
typedef struct classes {
    int64_t count;
    labelled *rows; /* [count] */
    int64_t *end;   /* [count]: behind the class of the row */
    int64_t *first; /* [count + 1]: number of the row's first pair of the kind at hand */
} classes;

static int by_label(const void *left, const void *right) {
    const labelled *a = left, *b = right;
    int order = (a->label > b->label) - (a->label < b->label);
    return order ? order : (a->row > b->row) - (a->row < b->row);
}

static ole_status sort_rows(classes *c, int64_t rows, const int64_t *labels, ole_error *error) {
    c->rows = malloc((size_t)rows * sizeof *c->rows);
    c->end = malloc((size_t)rows * sizeof *c->end);
    c->first = malloc((size_t)(rows + 1) * sizeof *c->first);
    if (!c->rows || !c->end || !c->first)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= 0) c->rows[c->count++] = (labelled){labels[i], i};
    qsort(c->rows, (size_t)c->count, sizeof *c->rows, by_label);
    for (int64_t i = c->count; i-- > 0;) {
        bool last = i == c->count - 1 || c->rows[i].label != c->rows[i + 1].label;
        c->end[i] = last ? i + 1 : c->end[i + 1];
    }
    return OLE_OK;
}

/* Numbers the pairs of a kind; how many there are. */
static int64_t number_pairs(classes *c, bool same) {
    c->first[0] = 0;
    for (int64_t i = 0; i < c->count; i++)
        c->first[i + 1] = c->first[i] + (same ? c->end[i] - i - 1 : c->count - c->end[i]);
    return c->first[c->count];
}

static uint64_t random_below(uint64_t seed, bool same, int64_t i, uint64_t n) {
    uint32_t word[4];
    ole_philox(seed, OLE_RANDOM_PAIRS, same, (uint64_t)i, word);
    return (((uint64_t)word[0] << 32) | word[1]) % n;
}

/* `count` pairs of the kind that is numbered, behind those there are, dealt to the folds in turn.
 */
static void draw(const classes *c, bool same, int64_t count, uint64_t seed, ole_pairs *pairs) {
    int64_t all = c->first[c->count], at = 0, whole = all / count, rest = all % count;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = i * whole + i * rest / count, high = (i + 1) * whole + (i + 1) * rest / count;
        int64_t pair = low + (int64_t)random_below(seed, same, i, (uint64_t)(high - low));
        while (c->first[at + 1] <= pair)
            at++;
        int64_t other = (same ? at + 1 : c->end[at]) + (pair - c->first[at]);
        pairs->pair[pairs->count++] =
            (ole_pair){c->rows[at].row, c->rows[other].row, same, (int)(i % pairs->folds)};
    }
}

ole_status ole_pairs_draw(ole_pairs *pairs, int64_t rows, const int64_t *labels, int64_t most,
                          int folds, uint64_t seed, ole_error *error) {
    if (!pairs || !labels || rows < 1 || most < 2 || folds < 2 || most < folds)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_pairs_draw: a pointer is NULL, there are no rows, or fewer than 2 "
                        "folds or pairs of each kind");
    classes c = {0};
    ole_pairs drawn = {.folds = folds};
    ole_status status = sort_rows(&c, rows, labels, error);
    if (status == OLE_OK) {
        int64_t different = number_pairs(&c, false), same = number_pairs(&c, true);
        int64_t count = same < different ? same : different;
        if (count > most) count = most;
        if (count < folds)
            status = ole_fail(error, OLE_ERROR_ARGUMENT,
                              "%" PRId64 " pairs of one class and %" PRId64
                              " of two are too few for %d folds; give more rows, or fewer folds",
                              same, different, folds);
        else if (!(drawn.pair = malloc((size_t)count * 2 * sizeof *drawn.pair)))
            status =
                ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " pairs", 2 * count);
        if (status == OLE_OK) {
            draw(&c, true, count, seed, &drawn);
            number_pairs(&c, false);
            draw(&c, false, count, seed, &drawn);
            *pairs = drawn;
        }
    }
    free(c.rows);
    free(c.end);
    free(c.first);
    return status;
}
