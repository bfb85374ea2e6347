/*
 * src/linalg/knn.c - k nearest neighbours by cosine, as products of blocks in float64.
 *
 * A batch of queries is packed once and multiplied with one packed block of references after the
 * other; each query keeps a short sorted list of the best it has met.
 */
#include "linalg/knn.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, BATCH = 16 * BLOCK };

typedef struct search {
    const ole_knn *job;
    ole_pool *pool;
    int64_t batch;        /* queries packed at once */
    double *rows;         /* [BLOCK, dim]: rows of length 1 */
    double *left, *right; /* packed: a batch of queries by blocks, a block of references */
    int64_t packed;       /* doubles of a packed block */
    double *cosine;       /* [BLOCK, BLOCK] */
    double *best;         /* [batch, k], falling */
    int64_t *nearest;     /* [queries, k] */
    int64_t batch_first, query_first, reference_first; /* of the tile being looked at */
    int64_t references;                                /* in it */
} search;

/* Puts a reference into the sorted list of a query. */
static void insert(double *best, int64_t *nearest, int k, double cosine, int64_t position) {
    int at = k - 1;
    for (; at > 0 && cosine > best[at - 1]; at--) {
        best[at] = best[at - 1];
        nearest[at] = nearest[at - 1];
    }
    best[at] = cosine;
    nearest[at] = position;
}

/* One row of the tile: the cosines of a query with a block of references. */
static void improve(void *context, int64_t row, int worker) {
    (void)worker;
    const search *s = context;
    const ole_knn *job = s->job;
    int64_t query = s->query_first + row;
    double *best = s->best + (query - s->batch_first) * job->k;
    int64_t *nearest = s->nearest + query * job->k;
    const double *cosine = s->cosine + row * BLOCK;
    double worst = best[job->k - 1];
    for (int64_t j = 0; j < s->references; j++) {
        if (!(cosine[j] > worst)) continue;
        int64_t position = s->reference_first + j;
        if (job->one_out && ole_row_at(&job->reference, position) == ole_row_at(&job->query, query))
            continue;
        insert(best, nearest, job->k, cosine[j], position);
        worst = best[job->k - 1];
    }
}

/* Packs a batch of queries; it begins with none found. */
static int64_t begin_batch(search *s, int64_t first) {
    const ole_row_set *query = &s->job->query;
    int64_t count = ole_min(query->rows - first, s->batch), k = s->job->k;
    for (int64_t i = 0; i < count; i += BLOCK)
        ole_unit_rows_pack(s->pool, query, first + i, ole_min(count - i, BLOCK), s->rows,
                           s->left + i / BLOCK * s->packed);
    for (int64_t i = 0; i < count * k; i++) {
        s->best[i] = -INFINITY;
        s->nearest[first * k + i] = -1;
    }
    s->batch_first = first;
    return count;
}

/* Compares a packed batch of `count` queries with a block of references. */
static void compare(search *s, int64_t count, int64_t reference_first) {
    const ole_row_set *reference = &s->job->reference;
    s->reference_first = reference_first;
    s->references = ole_min(reference->rows - reference_first, BLOCK);
    ole_panels right =
        ole_unit_rows_pack(s->pool, reference, reference_first, s->references, s->rows, s->right);
    for (int64_t i = 0; i < count; i += BLOCK) {
        const ole_panels left = {s->left + i / BLOCK * s->packed, ole_min(count - i, BLOCK),
                                 reference->dim};
        const ole_product product = {.alpha = 1.0, .c = s->cosine, .ldc = BLOCK};
        ole_panels_multiply(s->pool, &left, &right, &product);
        s->query_first = s->batch_first + i;
        ole_pool_run(s->pool, left.items, improve, s);
    }
}

static void compare_all(search *s) {
    const ole_knn *job = s->job;
    int64_t references = job->reference.rows, queries = job->query.rows;
    for (int64_t q = 0; q < queries; q += s->batch) {
        int64_t count = begin_batch(s, q);
        for (int64_t r = 0; r < references; r += BLOCK) {
            double done = (double)q + (double)count * (double)r / (double)references;
            if (job->watch && job->watch->report(job->watch->context, done / (double)queries))
                return;
            compare(s, count, r);
        }
        if (job->cosine)
            memcpy(job->cosine + q * job->k, s->best, (size_t)(count * job->k) * sizeof *s->best);
    }
}

static void place(search *s, ole_arena *arena) {
    int64_t dim = s->job->query.dim;
    s->rows = ole_arena_take(arena, BLOCK * dim, sizeof *s->rows);
    s->packed = ole_panels_size(BLOCK, dim);
    s->left = ole_arena_take(arena, (s->batch + BLOCK - 1) / BLOCK * s->packed, sizeof *s->left);
    s->right = ole_arena_take(arena, s->packed, sizeof *s->right);
    s->cosine = ole_arena_take(arena, BLOCK * BLOCK, sizeof *s->cosine);
    s->best = ole_arena_take(arena, s->batch * s->job->k, sizeof *s->best);
}

ole_status ole_knn_search(const ole_knn *job, ole_pool *pool, int64_t *nearest, ole_error *error) {
    search s = {
        .job = job, .pool = pool, .batch = ole_min(job->query.rows, BATCH), .nearest = nearest};
    ole_arena arena = {0};
    place(&s, &arena);
    char *memory = ole_arena_reserve(&arena);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for nearest neighbours");
    place(&s, &arena);
    compare_all(&s);
    free(memory);
    return OLE_OK;
}
