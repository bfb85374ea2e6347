/*
 * src/train/knn.c - 1-NN with cosine distance, as products of blocks in float64.
 *
 * Each block of references is normalised and packed once and multiplied with one packed block of
 * queries after the other, so the memory does not grow with rows x rows.
 */
#include "train/knn.h"

#include "base/arena.h"
#include "base/error.h"
#include "linalg/panels.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 512 };

typedef struct search {
    int64_t dim;
    const ole_labelled *reference, *query;
    ole_pool *pool;
    double *unit;         /* [BLOCK, dim]: rows of length 1 */
    double *left, *right; /* packed blocks of queries and references */
    double *cosine;       /* [BLOCK, BLOCK] */
    double *best;         /* [queries] */
    int32_t *label;       /* [queries] of the best so far */
} search;

typedef struct block {
    const float *features;
    int64_t rows, dim;
    double *unit;
} block;

static void normalise_row(void *context, int64_t row, int worker) {
    (void)worker;
    const block *b = context;
    const float *x = b->features + row * b->dim;
    double square = 0.0;
    for (int64_t k = 0; k < b->dim; k++)
        square += (double)x[k] * x[k];
    double scale = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    for (int64_t k = 0; k < b->dim; k++)
        b->unit[row * b->dim + k] = scale * x[k];
}

/* Rows `first` on of a set, at most BLOCK, normalised and packed. */
static ole_panels pack(const search *s, const ole_labelled *set, int64_t first, double *buffer) {
    int64_t rows = set->rows - first < BLOCK ? set->rows - first : BLOCK;
    block b = {set->features + first * s->dim, rows, s->dim, s->unit};
    ole_pool_run(s->pool, rows, normalise_row, &b);
    const ole_operand operand = {.data = s->unit,
                                 .dtype = OLE_F64,
                                 .items = rows,
                                 .depth = s->dim,
                                 .item_stride = s->dim,
                                 .depth_stride = 1};
    return ole_panels_pack(s->pool, buffer, &operand);
}

/* Looks at the cosines of a block of queries with a block of references. */
static void improve(const search *s, int64_t first_query, int64_t queries, int64_t first_reference,
                    int64_t references) {
    for (int64_t i = 0; i < queries; i++)
        for (int64_t j = 0; j < references; j++)
            if (s->cosine[i * BLOCK + j] > s->best[first_query + i]) {
                s->best[first_query + i] = s->cosine[i * BLOCK + j];
                s->label[first_query + i] = s->reference->labels[first_reference + j];
            }
}

static void compare_all(const search *s) {
    for (int64_t j = 0; j < s->reference->rows; j += BLOCK) {
        ole_panels references = pack(s, s->reference, j, s->right);
        for (int64_t i = 0; i < s->query->rows; i += BLOCK) {
            ole_panels queries = pack(s, s->query, i, s->left);
            const ole_product product = {.alpha = 1.0, .c = s->cosine, .ldc = BLOCK};
            ole_panels_multiply(s->pool, &queries, &references, &product);
            improve(s, i, queries.items, j, references.items);
        }
    }
}

static void place(search *s, ole_arena *arena) {
    s->unit = ole_arena_take(arena, BLOCK * s->dim, sizeof *s->unit);
    s->left = ole_arena_take(arena, ole_panels_size(BLOCK, s->dim), sizeof *s->left);
    s->right = ole_arena_take(arena, ole_panels_size(BLOCK, s->dim), sizeof *s->right);
    s->cosine = ole_arena_take(arena, BLOCK * BLOCK, sizeof *s->cosine);
    s->best = ole_arena_take(arena, s->query->rows, sizeof *s->best);
    s->label = ole_arena_take(arena, s->query->rows, sizeof *s->label);
}

ole_status ole_knn1_error(int64_t dim, const ole_labelled *reference, const ole_labelled *query,
                          int threads, double *percent, ole_error *error) {
    *percent = NAN;
    if (reference->rows == 0 || query->rows == 0) return OLE_OK;
    search s = {.dim = dim, .reference = reference, .query = query};
    ole_arena arena = {0};
    place(&s, &arena);
    char *memory = ole_arena_allocate(arena.used);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for nearest neighbours");
    arena = (ole_arena){.base = memory};
    place(&s, &arena);
    ole_status status = ole_pool_create(&s.pool, threads, error);
    if (status == OLE_OK) {
        for (int64_t i = 0; i < query->rows; i++)
            s.best[i] = -INFINITY;
        compare_all(&s);
        int64_t wrong = 0;
        for (int64_t i = 0; i < query->rows; i++)
            wrong += !(s.best[i] > -INFINITY) || s.label[i] != query->labels[i];
        *percent = 100.0 * (double)wrong / (double)query->rows;
        ole_pool_destroy(s.pool);
    }
    free(memory);
    return status;
}
