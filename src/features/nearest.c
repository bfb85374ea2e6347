/* src/features/nearest.c - scores of rows with the directions of classes, block by block. */
#include "features/nearest.h"

#include "base/arena.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 512, FEWEST_ROWS = 16, PRODUCT = 1 << 20 };
static const double noise = 1e-12; /* scores, of size 1, that differ by less are equal */

static ole_status allocate(ole_directions *d, int64_t count, ole_error *error) {
    d->first = calloc((size_t)d->classes + 1, sizeof *d->first);
    d->vectors = malloc(((size_t)(count * d->dim) + 1) * sizeof *d->vectors);
    if (d->first && d->vectors) return OLE_OK;
    ole_directions_destroy(d);
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the directions of classes");
}

ole_status ole_directions_of_subspaces(ole_directions *d, const ole_subspaces *subspaces,
                                       ole_error *error) {
    *d = (ole_directions){.dim = subspaces->dim, .classes = subspaces->classes, .squares = true};
    int64_t count = 0;
    for (int64_t c = 0; c < d->classes; c++)
        count += subspaces->of[c].size;
    ole_status status = allocate(d, count, error);
    if (status != OLE_OK) return status;
    for (int64_t c = 0; c < d->classes; c++) {
        const ole_subspace *s = &subspaces->of[c];
        memcpy(d->vectors + d->first[c] * d->dim, s->basis,
               (size_t)(s->size * d->dim) * sizeof *d->vectors);
        d->first[c + 1] = d->first[c] + s->size;
    }
    return OLE_OK;
}

ole_status ole_directions_of_centroids(ole_directions *d, const double *sums, int64_t classes,
                                       int64_t dim, ole_error *error) {
    *d = (ole_directions){.dim = dim, .classes = classes};
    ole_status status = allocate(d, classes, error);
    if (status != OLE_OK) return status;
    const ole_row_set rows = {.rows = classes, .dim = dim, .dtype = OLE_F64, .data = sums};
    for (int64_t c = 0; c < classes; c++) {
        ole_row_unit(&rows, c, d->vectors + c * dim);
        d->first[c + 1] = c + 1;
    }
    return OLE_OK;
}

void ole_directions_destroy(ole_directions *d) {
    free(d->first);
    free(d->vectors);
    *d = (ole_directions){0};
}

/* ---- Scoring ------------------------------------------------------------------------------ */

typedef struct scoring {
    const ole_directions *directions;
    const ole_own_score *own;
    int64_t first;   /* query of the block */
    int64_t columns; /* directions */
    int64_t rows;    /* of a block, at most */
    double *unit;    /* [rows, dim] */
    double *left;    /* packed queries */
    double *right;   /* packed directions */
    double *product; /* [rows, columns] */
    int64_t *predicted;
} scoring;

static void judge_row(void *context, int64_t row, int worker) {
    (void)worker;
    const scoring *s = context;
    const ole_directions *d = s->directions;
    const double *product = s->product + row * s->columns;
    int64_t query = s->first + row, best = -1;
    double most = -INFINITY;
    for (int64_t c = 0; c < d->classes; c++) {
        double score = 0.0;
        for (int64_t k = d->first[c]; k < d->first[c + 1]; k++)
            score += d->squares ? product[k] * product[k] : product[k];
        if (s->own && s->own->class[query] == c) score = s->own->score[query];
        if (score > most + noise) {
            most = score;
            best = c;
        }
    }
    s->predicted[query] = best;
}

static void place(scoring *s, ole_arena *arena) {
    int64_t dim = s->directions->dim;
    s->unit = ole_arena_take(arena, s->rows * dim, sizeof *s->unit);
    s->left = ole_arena_take(arena, ole_panels_size(s->rows, dim), sizeof *s->left);
    s->right = ole_arena_take(arena, ole_panels_size(s->columns, dim), sizeof *s->right);
    s->product = ole_arena_take(arena, s->rows * s->columns + 1, sizeof *s->product);
}

static void score_all(scoring *s, const ole_row_set *query, ole_pool *pool) {
    const ole_directions *d = s->directions;
    const ole_operand operand = {.data = d->vectors,
                                 .dtype = OLE_F64,
                                 .items = s->columns,
                                 .depth = d->dim,
                                 .item_stride = d->dim,
                                 .depth_stride = 1};
    ole_panels right = ole_panels_pack(pool, s->right, &operand);
    for (s->first = 0; s->first < query->rows; s->first += s->rows) {
        int64_t rows = query->rows - s->first < s->rows ? query->rows - s->first : s->rows;
        ole_panels left = ole_unit_rows_pack(pool, query, s->first, rows, s->unit, s->left);
        const ole_product product = {.alpha = 1.0, .c = s->product, .ldc = s->columns};
        ole_panels_multiply(pool, &left, &right, &product);
        ole_pool_run(pool, rows, judge_row, s);
    }
}

ole_status ole_nearest_class(const ole_directions *d, const ole_row_set *query,
                             const ole_own_score *own, ole_pool *pool, int64_t *predicted,
                             ole_error *error) {
    scoring s = {
        .directions = d, .own = own, .columns = d->first[d->classes], .predicted = predicted};
    s.rows = PRODUCT / (s.columns + 1);
    s.rows = s.rows > MOST_ROWS ? MOST_ROWS : s.rows < FEWEST_ROWS ? FEWEST_ROWS : s.rows;
    ole_arena arena = {0};
    place(&s, &arena);
    void *memory = ole_arena_reserve(&arena);
    if (!memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the scores of classes");
    place(&s, &arena);
    score_all(&s, query, pool);
    free(memory);
    return OLE_OK;
}

/* ---- Nearest neighbours ---------------------------------------------------------------------- */

static ole_row_set rows_of(const ole_labelled *set, int64_t dim) {
    return (ole_row_set){.rows = set->rows, .dim = dim, .dtype = OLE_F32, .data = set->features};
}

ole_status ole_knn1_error(int64_t dim, const ole_labelled *reference, const ole_labelled *query,
                          int threads, const ole_knn_watch *watch, double *percent,
                          ole_error *error) {
    *percent = NAN;
    if (reference->rows == 0 || query->rows == 0) return OLE_OK;
    const ole_knn job = {.reference = rows_of(reference, dim),
                         .query = rows_of(query, dim),
                         .k = 1,
                         .one_out = reference->features == query->features,
                         .watch = watch};
    int64_t *nearest = malloc((size_t)query->rows * sizeof *nearest);
    if (!nearest) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for nearest neighbours");
    ole_pool *pool;
    ole_status status = ole_pool_create(&pool, threads, error);
    if (status == OLE_OK) {
        status = ole_knn_search(&job, pool, nearest, error);
        ole_pool_destroy(pool);
    }
    if (status == OLE_OK) {
        int64_t wrong = 0;
        for (int64_t i = 0; i < query->rows; i++)
            wrong += nearest[i] < 0 || reference->labels[nearest[i]] != query->labels[i];
        *percent = 100.0 * (double)wrong / (double)query->rows;
    }
    free(nearest);
    return status;
}
