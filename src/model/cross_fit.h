/*
 * src/model/cross_fit.h - logits of training samples by classifiers that were fitted without them.
 *
 * The network scores the samples it has learned too high.  Where none are held out, its features
 * are divided into two halves, class by class every other sample; on each half a linear classifier
 * is fitted (ridge regression, so that it does not depend on steps and rates), which gives logits
 * to the other half.  Each is scaled to be as sure of its own half as the network is.  The features
 * have still seen every sample, so these logits are too high as well, but less so.
 */
#ifndef OLE_SRC_MODEL_CROSS_FIT_H
#define OLE_SRC_MODEL_CROSS_FIT_H

#include "model/calibration.h"

/* Samples that are used at most, in equal parts per class, unless classes need more. */
enum { OLE_CROSS_FIT_SAMPLES = 1000, OLE_CROSS_FIT_MOST = 2000 };

/* Free with ole_cross_fit_free(). */
typedef struct ole_cross_fitted {
    int64_t count; /* 0: a class has a single sample, or there are too many classes */
    float *logits; /* [count, classes] */
    int32_t *labels;
} ole_cross_fitted;

/* `features` is [all->count, dim], from which the network computes the logits `all`. */
ole_status ole_cross_fit(ole_cross_fitted *result, const float *features, int64_t dim,
                         const ole_logits *all, ole_error *error);
void ole_cross_fit_free(ole_cross_fitted *result);

#endif
