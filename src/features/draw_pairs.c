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
#include "features/classes.h"

#include <inttypes.h>
#include <stdlib.h>

enum { OLE_RANDOM_PAIRS = 9 }; /* a = same, b = number of the pair */

/* The rows that count, by class. */
typedef struct sorted_rows {
    ole_classes by;
    int64_t *end;   /* [rows]: behind the class of the row */
    int64_t *first; /* [rows + 1]: number of the row's first pair of the kind at hand */
} sorted_rows;

static ole_status sort_rows(sorted_rows *s, int64_t rows, const int64_t *labels, ole_error *error) {
    ole_status status = ole_classes_create(&s->by, rows, labels, error);
    if (status != OLE_OK) return status;
    s->end = calloc((size_t)rows, sizeof *s->end);
    s->first = calloc((size_t)rows + 1, sizeof *s->first);
    if (!s->end || !s->first)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    for (int64_t c = 0; c < s->by.classes; c++)
        for (int64_t i = s->by.begin[c]; i < s->by.begin[c + 1]; i++)
            s->end[i] = s->by.begin[c + 1];
    return OLE_OK;
}

/* Numbers the pairs of a kind; how many there are. */
static int64_t number_pairs(sorted_rows *s, bool same) {
    int64_t rows = s->by.rows;
    s->first[0] = 0;
    for (int64_t i = 0; i < rows; i++)
        s->first[i + 1] = s->first[i] + (same ? s->end[i] - i - 1 : rows - s->end[i]);
    return s->first[rows];
}

static uint64_t random_below(uint64_t seed, bool same, int64_t i, uint64_t n) {
    uint32_t word[4];
    ole_philox(seed, OLE_RANDOM_PAIRS, same, (uint64_t)i, word);
    return (((uint64_t)word[0] << 32) | word[1]) % n;
}

/* `count` pairs of the kind that is numbered, behind those there are, dealt to the folds in turn.
 */
static void draw(const sorted_rows *s, bool same, int64_t count, uint64_t seed, ole_pairs *pairs) {
    int64_t all = s->first[s->by.rows], at = 0, whole = all / count, rest = all % count;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = i * whole + i * rest / count, high = (i + 1) * whole + (i + 1) * rest / count;
        int64_t pair = low + (int64_t)random_below(seed, same, i, (uint64_t)(high - low));
        while (s->first[at + 1] <= pair)
            at++;
        int64_t other = (same ? at + 1 : s->end[at]) + (pair - s->first[at]);
        pairs->pair[pairs->count++] =
            (ole_pair){s->by.order[at], s->by.order[other], same, (int)(i % pairs->folds)};
    }
}

ole_status ole_pairs_draw(ole_pairs *pairs, int64_t rows, const int64_t *labels, int64_t most,
                          int folds, uint64_t seed, ole_error *error) {
    if (!pairs || !labels || rows < 1 || most < 2 || folds < 2 || most < folds)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_pairs_draw: a pointer is NULL, there are no rows, or fewer than 2 "
                        "folds or pairs of each kind");
    sorted_rows s = {0};
    ole_pairs drawn = {.folds = folds};
    ole_status status = sort_rows(&s, rows, labels, error);
    if (status == OLE_OK) {
        int64_t different = number_pairs(&s, false), same = number_pairs(&s, true);
        int64_t count = same < different ? same : different;
        if (count > most) count = most;
        if (count < folds)
            status =
                ole_fail(error, OLE_ERROR_ARGUMENT,
                         "%" PRId64 " same and %" PRId64
                         " different pairs are too few for %d folds; use more rows or fewer folds",
                         same, different, folds);
        else if (!(drawn.pair = malloc((size_t)count * 2 * sizeof *drawn.pair)))
            status =
                ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " pairs", 2 * count);
        if (status == OLE_OK) {
            draw(&s, true, count, seed, &drawn);
            number_pairs(&s, false);
            draw(&s, false, count, seed, &drawn);
            *pairs = drawn;
        }
    }
    ole_classes_destroy(&s.by);
    free(s.end);
    free(s.first);
    return status;
}
