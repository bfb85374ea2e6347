/*
 * src/features/nearest.h - classifying features without a classifier: by the class whose directions
 * fit a row best (nearest centroid and nearest class subspace are the same product of blocks), and
 * by the nearest neighbour.
 */
#ifndef OLE_SRC_FEATURES_NEAREST_H
#define OLE_SRC_FEATURES_NEAREST_H

#include "base/export.h"

#include "features/subspace.h"
#include "linalg/knn.h"

/* Unit vectors, some for each class. */
typedef struct ole_directions {
    int64_t dim;
    int64_t classes;
    int64_t *first;  /* [classes + 1]: class c has directions first[c] to first[c + 1] - 1 */
    double *vectors; /* [first[classes], dim] */
    bool squares;    /* a row's score is its energy along the directions, else its cosine */
} ole_directions;

/* The bases of subspaces; of sums[classes, dim] each at length 1. Free with destroy. */
OLE_INTERNAL ole_status ole_directions_of_subspaces(ole_directions *d,
                                                    const ole_subspaces *subspaces,
                                                    ole_error *error);
ole_status ole_directions_of_centroids(ole_directions *d, const double *sums, int64_t classes,
                                       int64_t dim, ole_error *error);
OLE_INTERNAL void ole_directions_destroy(ole_directions *d);

/* A row's score with its own class, where that is not the class as it stands. */
typedef struct ole_own_score {
    const int64_t *class;
    const double *score;
} ole_own_score;

/*
 * predicted[queries]: the class with the largest score, in a tie (up to rounding) the first.
 * `own` ([queries] both) replaces scores; NULL: none.
 */
OLE_INTERNAL ole_status ole_nearest_class(const ole_directions *d, const ole_row_set *query,
                                          const ole_own_score *own, ole_pool *pool,
                                          int64_t *predicted, ole_error *error);

/* ---- Nearest neighbours ------------------------------------------------------------------- */

/* Features [rows, dim] with their labels [rows]. */
typedef struct ole_labelled {
    int64_t rows;
    const float *features;
    const int32_t *labels;
} ole_labelled;

/*
 * The percentage of queries whose nearest reference has another label; NaN if there are no queries
 * or no references.  If both are the same array, no row is its own neighbour.  `watch` may be NULL.
 */
OLE_INTERNAL ole_status ole_knn1_error(int64_t dim, const ole_labelled *reference,
                                       const ole_labelled *query, int threads,
                                       const ole_knn_watch *watch, double *percent,
                                       ole_error *error);

#endif
