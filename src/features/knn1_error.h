/*
 * src/features/knn1_error.h - the 1-NN error of labelled features, by cosine distance: how well
 * they separate classes without a classifier.
 */
#ifndef OLE_SRC_FEATURES_KNN1_ERROR_H
#define OLE_SRC_FEATURES_KNN1_ERROR_H

#include "base/export.h"

#include "linalg/knn.h"

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
