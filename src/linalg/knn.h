/* src/linalg/knn.h - the nearest neighbours of each feature by cosine distance, exactly. */
#ifndef OLE_SRC_LINALG_KNN_H
#define OLE_SRC_LINALG_KNN_H

#include "linalg/unit_rows.h"

#include <stdbool.h>

/* Progress, reported in the calling thread; return true to stop. */
typedef struct ole_knn_watch {
    bool (*report)(void *context, double share);
    void *context;
} ole_knn_watch;

/* A search for the neighbours of `query` among `reference`. */
typedef struct ole_knn {
    ole_row_set reference, query;
    int k;        /* neighbours of a query, 1 or more */
    bool one_out; /* a query is not its own neighbour: both sets are of the same matrix */
    const ole_knn_watch *watch; /* NULL: none */
    double *cosine; /* [queries, k] of the neighbours, -Inf where there are fewer; NULL: unwanted */
} ole_knn;

/*
 * nearest[queries, k]: positions in the reference set by falling cosine (of equals the first
 * position first); -1 where there are fewer references.  A row of zeros has cosine 0 with
 * everything.  The memory needed does not grow with queries x references, and the result does not
 * depend on the number of threads.  If stopped, `nearest` holds what was found so far.
 */
ole_status ole_knn_search(const ole_knn *search, ole_pool *pool, int64_t *nearest,
                          ole_error *error);

#endif
