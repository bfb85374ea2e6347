/* src/features/knn1_error.c - labels of nearest neighbours, compared. */
#include "features/knn1_error.h"

#include "base/error.h"

#include <math.h>
#include <stdlib.h>

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
