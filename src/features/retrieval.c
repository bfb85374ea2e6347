/*
 * src/features/retrieval.c - MAP@R, R-precision and recall@k: each query's cosines with all
 * references, of which the R nearest are sorted.
 *
 * MAP@R is that of Musgrave, Belongie and Lim, "A metric learning reality check", ECCV 2020.
 */
#include "ole/analyze.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/sort.h"
#include "features/classes.h"
#include "linalg/unit_rows.h"

#include <math.h>
#include <stdlib.h>

enum { BLOCK = 512, MOST_QUERIES = 256, COSINES = 1 << 24 };

/* Of one query. */
typedef struct grade {
    double average_precision, r_precision;
    bool recalled[OLE_RECALLS];
} grade;

typedef struct work {
    const ole_classes *references; /* classes of the training rows */
    ole_row_set reference, query;
    bool one_out;         /* queries are references */
    int64_t *query_at;    /* [queries]: position among the references; one_out only */
    int64_t *query_class; /* [queries]: class among those of the references, -1: none */
    int64_t most;         /* queries of a block */
    int64_t first;        /* of the block */
    double *rows, *left, *right, *cosine;
    ole_ranked *nearest; /* [threads, references]: cosine and position among the references */
    grade *grades;       /* [most] */
    const int *k;
} work;

#define NEARER(a, b) (ole_by_falling_value(&(a), &(b)) < 0)
OLE_DEFINE_SELECT(select_nearest, ole_ranked, NEARER)

static int64_t relevant(const work *w, int64_t query) {
    int64_t c = w->query_class[query];
    return c < 0 ? 0 : w->references->begin[c + 1] - w->references->begin[c] - w->one_out;
}

static void grade_query(void *context, int64_t row, int worker) {
    const work *w = context;
    int64_t query = w->first + row, total = w->references->rows, count = 0;
    int64_t c = w->query_class[query], r = relevant(w, query);
    if (r < 1) return;
    ole_ranked *nearest = w->nearest + worker * total;
    for (int64_t i = 0; i < total; i++)
        if (!w->one_out || i != w->query_at[query])
            nearest[count++] = (ole_ranked){w->cosine[row * total + i], i};
    int64_t wanted = ole_min(count, ole_max(r, w->k[OLE_RECALLS - 1]));
    if (wanted < count) select_nearest(nearest, count, wanted);
    qsort(nearest, (size_t)wanted, sizeof *nearest, ole_by_falling_value);
    grade g = {0};
    int64_t right = 0;
    for (int64_t i = 0; i < wanted; i++) {
        bool good =
            nearest[i].at >= w->references->begin[c] && nearest[i].at < w->references->begin[c + 1];
        right += good;
        if (good && i < r) {
            g.average_precision += (double)right / (double)(i + 1) / (double)r;
            g.r_precision += 1.0 / (double)r;
        }
        for (int k = 0; k < OLE_RECALLS && good; k++)
            g.recalled[k] |= i < w->k[k];
    }
    w->grades[row] = g;
}

static void place(work *w, int threads, ole_arena *arena) {
    int64_t dim = w->reference.dim, total = w->references->rows;
    w->rows = ole_arena_take(arena, ole_max(BLOCK, w->most) * dim, sizeof(double));
    w->left = ole_arena_take(arena, ole_panels_size(w->most, dim), sizeof(double));
    w->right = ole_arena_take(arena, ole_panels_size(BLOCK, dim), sizeof(double));
    w->cosine = ole_arena_take(arena, w->most * total, sizeof(double));
    w->nearest = ole_arena_take(arena, threads * total, sizeof *w->nearest);
    w->grades = ole_arena_take(arena, w->most, sizeof *w->grades);
}

static void add_block(work *w, ole_retrieval *out, ole_pool *pool) {
    int64_t count = ole_min(w->most, w->query.rows - w->first), total = w->references->rows;
    ole_panels left = ole_unit_rows_pack(pool, &w->query, w->first, count, w->rows, w->left);
    for (int64_t i = 0; i < total; i += BLOCK) {
        int64_t some = ole_min(BLOCK, total - i);
        ole_panels right = ole_unit_rows_pack(pool, &w->reference, i, some, w->rows, w->right);
        const ole_product product = {.alpha = 1.0, .c = w->cosine + i, .ldc = total};
        ole_panels_multiply(pool, &left, &right, &product);
    }
    ole_pool_run(pool, count, grade_query, w);
    for (int64_t i = 0; i < count; i++) {
        if (relevant(w, w->first + i) < 1) continue;
        out->queries++;
        out->map_at_r += w->grades[i].average_precision;
        out->r_precision += w->grades[i].r_precision;
        for (int k = 0; k < OLE_RECALLS; k++)
            out->recall[k] += w->grades[i].recalled[k];
    }
}

static ole_status run(work *w, ole_retrieval *out, ole_pool *pool, int threads,
                      ole_progress *progress, void *context, ole_error *error) {
    ole_arena arena = {0};
    w->most = ole_min(MOST_QUERIES, ole_max(1, COSINES / w->references->rows));
    w->most = ole_min(w->most, w->query.rows);
    w->k = out->k;
    place(w, threads, &arena);
    char *memory = ole_arena_reserve(&arena);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for retrieval");
    place(w, threads, &arena);
    for (w->first = 0; w->first < w->query.rows; w->first += w->most) {
        if (progress) progress(context, "retrieval", (double)w->first / (double)w->query.rows);
        add_block(w, out, pool);
    }
    free(memory);
    double factor = out->queries > 0 ? 100.0 / (double)out->queries : NAN;
    out->map_at_r *= factor;
    out->r_precision *= factor;
    for (int k = 0; k < OLE_RECALLS; k++)
        out->recall[k] *= factor;
    return OLE_OK;
}

/* The rows to seek from: all labelled ones of `from`, or a sample. */
static ole_status choose_queries(work *w, const ole_embedding *from, const ole_classes *classes,
                                 int64_t sample, uint64_t seed, int64_t **rows, ole_error *error) {
    int64_t count = ole_sample_size(classes->rows, sample);
    *rows = malloc((size_t)count * sizeof **rows);
    w->query_at = malloc((size_t)count * sizeof *w->query_at);
    w->query_class = malloc((size_t)count * sizeof *w->query_class);
    if (!*rows || !w->query_at || !w->query_class)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for queries");
    ole_sample_draw(classes->rows, sample, seed, w->query_at);
    for (int64_t i = 0; i < count; i++) {
        (*rows)[i] = classes->order[w->query_at[i]];
        w->query_class[i] = ole_classes_find(w->references, from->labels[(*rows)[i]]);
    }
    w->query = ole_embedding_rows(from, *rows, count);
    return OLE_OK;
}

ole_status ole_retrieval_measure(ole_retrieval *retrieval, const ole_embedding *train,
                                 const ole_embedding *test, int64_t sample, uint64_t seed,
                                 int threads, ole_progress *progress, void *context,
                                 ole_error *error) {
    if (!retrieval || sample < 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_retrieval_measure: retrieval is NULL, or sample is negative");
    ole_classes references, others = {0};
    ole_pool *pool, *second = NULL;
    ole_status status =
        ole_classes_open(&references, &pool, "ole_retrieval_measure", train, threads, error);
    if (status != OLE_OK) return status;
    if (test && test->dim != train->dim)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "ole_retrieval_measure: test has %lld dimensions, train %lld",
                          (long long)test->dim, (long long)train->dim);
    if (status == OLE_OK && test)
        status = ole_classes_open(&others, &second, "ole_retrieval_measure", test, 1, error);
    const ole_classes *queries = test ? &others : &references;
    ole_retrieval out = {.k = {1, 2, 4, 8}};
    work w = {.references = &references,
              .reference = ole_embedding_rows(train, references.order, references.rows),
              .one_out = !test};
    int64_t *rows = NULL;
    if (status == OLE_OK)
        status = choose_queries(&w, test ? test : train, queries, sample, seed, &rows, error);
    out.of_queries = queries->rows;
    if (status == OLE_OK) status = run(&w, &out, pool, threads, progress, context, error);
    free(rows);
    free(w.query_at);
    free(w.query_class);
    if (test) ole_classes_close(&others, second);
    ole_classes_close(&references, pool);
    if (status == OLE_OK) *retrieval = out;
    return status;
}
