/*
 * src/features/classes.c - what every analysis of an embedding begins with: checks, rows by class,
 * samples.
 */
#include "features/classes.h"

#include "base/error.h"
#include "base/philox.h"
#include "base/sort.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, CHECK_ROWS = 1024 };

ole_status ole_embedding_check(const char *who, const ole_embedding *e, int threads,
                               ole_error *error) {
    if (!e || !e->features || !e->labels)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: %s is NULL", who,
                        !e             ? "embedding"
                        : !e->features ? "features"
                                       : "labels");
    if (e->rows < 1 || e->dim < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: rows is %" PRId64 " and dim is %" PRId64 ": both must be at least 1",
                        who, e->rows, e->dim);
    if (e->dtype != OLE_F32 && e->dtype != OLE_F64)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: dtype is %s: use OLE_F32 or OLE_F64", who,
                        ole_dtype_name(e->dtype));
    if (threads < 1 || threads > MAX_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: threads is %d (1 to %d)", who, threads,
                        MAX_THREADS);
    return OLE_OK;
}

/* ---- Grouping ----------------------------------------------------------------------------- */

ole_status ole_classes_create(ole_classes *c, int64_t rows, const int64_t *labels,
                              ole_error *error) {
    *c = (ole_classes){0};
    ole_keyed *sorted = malloc(((size_t)rows + 1) * sizeof *sorted);
    ole_status status = OLE_ERROR_MEMORY;
    if (sorted) {
        for (int64_t i = 0; i < rows; i++)
            if (labels[i] >= 0) sorted[c->rows++] = (ole_keyed){(uint64_t)labels[i], i};
        qsort(sorted, (size_t)c->rows, sizeof *sorted, ole_by_key);
        size_t classes = 0;
        for (int64_t i = 0; i < c->rows; i++)
            classes += i == 0 || sorted[i].key != sorted[i - 1].key;
        c->order = malloc(((size_t)c->rows + 1) * sizeof *c->order);
        c->begin = malloc((classes + 1) * sizeof *c->begin);
        c->label = malloc((classes + 1) * sizeof *c->label);
        if (c->order && c->begin && c->label) status = OLE_OK;
    }
    for (int64_t i = 0; i < c->rows && status == OLE_OK; i++) {
        c->order[i] = sorted[i].row;
        if (i > 0 && sorted[i].key == sorted[i - 1].key) continue;
        c->begin[c->classes] = i;
        c->label[c->classes++] = (int64_t)sorted[i].key;
    }
    if (status == OLE_OK) c->begin[c->classes] = c->rows;
    free(sorted);
    if (status == OLE_OK) return OLE_OK;
    ole_classes_destroy(c);
    return ole_fail(error, status, "out of memory for %" PRId64 " rows", rows);
}

void ole_classes_destroy(ole_classes *c) {
    free(c->order); /* NOLINT(clang-analyzer-unix.Malloc): cleared below */
    free(c->begin);
    free(c->label);
    *c = (ole_classes){0};
}

int64_t ole_classes_find(const ole_classes *c, int64_t label) {
    const int64_t *found =
        bsearch(&label, c->label, (size_t)c->classes, sizeof label, ole_by_rising_integer);
    return found ? found - c->label : -1;
}

/* ---- NaN and Inf -------------------------------------------------------------------------- */

/* Whether all are finite, by their exponents: this the compiler turns into wide instructions. */
#define DEFINE_FINITE(NAME, TYPE, BITS, MASK)                                                      \
    bool NAME(const TYPE *x, int64_t n) {                                                          \
        BITS bad = 0;                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            BITS bits;                                                                             \
            memcpy(&bits, x + i, sizeof bits);                                                     \
            bad |= (bits & (MASK)) == (MASK);                                                      \
        }                                                                                          \
        return !bad;                                                                               \
    }

DEFINE_FINITE(ole_finite_f32, float, uint32_t, UINT32_C(0x7f800000))
DEFINE_FINITE(ole_finite_f64, double, uint64_t, UINT64_C(0x7ff0000000000000))

bool ole_embedding_is_finite(const ole_embedding *e, int64_t row) {
    return e->dtype == OLE_F32 ? ole_finite_f32((const float *)e->features + row * e->dim, e->dim)
                               : ole_finite_f64((const double *)e->features + row * e->dim, e->dim);
}

typedef struct check {
    const ole_embedding *embedding;
    int64_t *bad; /* one a task: its first bad row */
} check;

static void check_rows(void *context, int64_t task, int worker) {
    (void)worker;
    const check *c = context;
    const ole_embedding *e = c->embedding;
    int64_t first = task * CHECK_ROWS;
    int64_t last = first + CHECK_ROWS < e->rows ? first + CHECK_ROWS : e->rows;
    c->bad[task] = INT64_MAX;
    for (int64_t i = last - 1; i >= first; i--) {
        if (e->labels[i] < 0) continue;
        if (!ole_embedding_is_finite(e, i)) c->bad[task] = i;
    }
}

ole_status ole_classes_check_finite(const ole_classes *classes, const ole_embedding *e,
                                    ole_pool *pool, ole_error *error) {
    if (classes->rows == 0) return OLE_OK;
    int64_t tasks = (e->rows + CHECK_ROWS - 1) / CHECK_ROWS, bad = INT64_MAX;
    check c = {e, malloc((size_t)tasks * sizeof(int64_t))};
    if (!c.bad) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_pool_run(pool, tasks, check_rows, &c);
    for (int64_t i = tasks - 1; i >= 0; i--)
        if (c.bad[i] != INT64_MAX) bad = c.bad[i];
    free(c.bad);
    if (bad == INT64_MAX) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA, "features: row %" PRId64 " holds NaN or Inf", bad);
}

ole_status ole_classes_open(ole_classes *classes, ole_pool **pool, const char *who,
                            const ole_embedding *e, int threads, ole_error *error) {
    *pool = NULL;
    *classes = (ole_classes){0};
    ole_status status = ole_embedding_check(who, e, threads, error);
    if (status == OLE_OK) status = ole_classes_create(classes, e->rows, e->labels, error);
    if (status == OLE_OK && classes->rows == 0)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "%s: every label is negative, so every row is ignored", who);
    if (status == OLE_OK) status = ole_pool_create(pool, threads, error);
    if (status == OLE_OK) status = ole_classes_check_finite(classes, e, *pool, error);
    if (status != OLE_OK) ole_classes_close(classes, *pool);
    return status;
}

void ole_classes_close(ole_classes *classes, ole_pool *pool) {
    ole_pool_destroy(pool);
    ole_classes_destroy(classes);
}

/* ---- Samples ------------------------------------------------------------------------------ */

ole_row_set ole_embedding_rows(const ole_embedding *e, const int64_t *index, int64_t rows) {
    return (ole_row_set){rows, e->dim, e->dtype, e->features, index};
}

int64_t ole_sample_size(int64_t count, int64_t limit) {
    return limit > 0 && limit < count ? limit : count;
}

enum { OLE_RANDOM_SAMPLE = 7 }; /* b = position */

/* Each position in turn is taken with the chance (still wanted) / (still there). */
void ole_sample_draw(int64_t count, int64_t limit, uint64_t seed, int64_t *chosen) {
    int64_t wanted = ole_sample_size(count, limit), taken = 0;
    for (int64_t i = 0; taken < wanted; i++) {
        uint32_t w[4];
        ole_philox(seed, OLE_RANDOM_SAMPLE, 0, (uint64_t)i, w);
        double uniform = (double)((uint64_t)w[0] << 21 | w[1] >> 11) * 0x1p-53; /* [0, 1) */
        if (uniform * (double)(count - i) < (double)(wanted - taken)) chosen[taken++] = i;
    }
}
