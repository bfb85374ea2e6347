/*
 * src/train/knn.h - the nearest neighbour of each feature by cosine distance, exactly.
 */
#ifndef OLE_SRC_TRAIN_KNN_H
#define OLE_SRC_TRAIN_KNN_H

#include "ole/base.h"

/* Features [rows, dim] with their labels [rows]. */
typedef struct ole_labelled {
    int64_t rows;
    const float *features;
    const int32_t *labels;
} ole_labelled;

/*
 * The share of queries, in %, whose nearest reference (the largest cosine; of equals the first) has
 * another label.  A zero vector has cosine 0 with everything.  NaN without queries or references.
 * The result does not depend on the number of threads.
 */
ole_status ole_knn1_error(int64_t dim, const ole_labelled *reference, const ole_labelled *query,
                          int threads, double *percent, ole_error *error);

#endif
