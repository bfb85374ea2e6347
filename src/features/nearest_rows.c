/*
 * src/features/nearest_rows.c - the nearest rows themselves, where ole/classify.h otherwise counts
 * the errors that they make.
 */
#include "ole/classify.h"

#include "base/error.h"
#include "linalg/knn.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_NEIGHBOURS = 1000 };

typedef struct measuring {
    const ole_knn *job;
    const int64_t *nearest;
    double *cosine; /* [queries, k] */
    double *rows;   /* [threads, 2, dim] */
} measuring;

static void measure_row(void *context, int64_t query, int worker) {
    const measuring *m = context;
    int64_t dim = m->job->query.dim;
    double *own = m->rows + 2 * dim * worker, *other = own + dim;
    ole_row_unit(&m->job->query, query, own);
    for (int64_t i = query * m->job->k; i < (query + 1) * m->job->k; i++) {
        m->cosine[i] = NAN;
        if (m->nearest[i] < 0) continue;
        ole_row_unit(&m->job->reference, m->nearest[i], other);
        m->cosine[i] = ole_kernels_get()->dot_f64(own, other, dim);
    }
}

static ole_status check_rows(const ole_embedding *e, const char *what, ole_row_set *set,
                             ole_error *error) {
    if (!e || !e->features || e->rows < 1 || e->dim < 1 ||
        !(e->dtype == OLE_F32 || e->dtype == OLE_F64))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_nearest_rows: %sfeatures are NULL or empty, or not float32 or float64",
                        what);
    *set = (ole_row_set){e->rows, e->dim, e->dtype, e->features, NULL};
    for (int64_t i = 0; i < e->rows; i++)
        if (!isfinite(ole_row_largest(set, i)))
            return ole_fail(error, OLE_ERROR_DATA, "%sfeatures: row %" PRId64 " holds NaN or Inf",
                            what, i);
    return OLE_OK;
}

typedef struct watching {
    ole_part_callback *callback;
    void *context;
    int64_t queries;
} watching;

static bool report(void *context, double share) {
    const watching *w = context;
    int64_t done = (int64_t)(share * (double)w->queries);
    return w->callback(w->context, "neighbours", done, w->queries);
}

static ole_status search(const ole_knn *job, int threads, int64_t *nearest, double *cosine,
                         ole_error *error) {
    ole_pool *pool;
    ole_status status = ole_pool_create(&pool, threads, error);
    if (status != OLE_OK) return status;
    status = ole_knn_search(job, pool, nearest, error);
    if (status == OLE_OK && cosine) {
        measuring m = {job, nearest, cosine,
                       malloc((size_t)(2 * job->query.dim * threads) * sizeof *m.rows)};
        if (m.rows)
            ole_pool_run(pool, job->query.rows, measure_row, &m);
        else
            status = ole_fail(error, OLE_ERROR_MEMORY, "ole_nearest_rows: out of memory");
        free(m.rows);
    }
    ole_pool_destroy(pool);
    return status;
}

ole_status ole_nearest_rows(const ole_embedding *reference, const ole_embedding *query, int k,
                            int threads, ole_part_callback *callback, void *context,
                            int64_t *nearest, double *cosine, ole_error *error) {
    if (!nearest) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_nearest_rows: nearest is NULL");
    if (k < 1 || k > MOST_NEIGHBOURS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "k is %d; must be 1 to %d", k, MOST_NEIGHBOURS);
    ole_knn job = {.k = k, .one_out = !query};
    ole_status status = check_rows(reference, "", &job.reference, error);
    if (status == OLE_OK && query)
        status = check_rows(query, "test ", &job.query, error);
    else
        job.query = job.reference;
    if (status != OLE_OK) return status;
    if (job.query.dim != job.reference.dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "test features have %" PRId64 " dimensions, the features %" PRId64,
                        job.query.dim, job.reference.dim);
    watching w = {callback, context, job.query.rows};
    const ole_knn_watch watch = {report, &w};
    job.watch = callback ? &watch : NULL;
    return search(&job, threads, nearest, cosine, error);
}
