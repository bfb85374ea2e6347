/*
 * ole/roc.h - how well a score separates two kinds of samples: the ROC curve and its numbers.
 *
 * Example: scores of known samples against scores of novel ones.
 *
 *     const double known[3] = {0.9, 0.8, 0.4}, novel[2] = {0.5, 0.1};
 *     ole_roc roc;
 *     if (ole_roc_make(&roc, known, 3, novel, 2, &error) != OLE_OK) return puts(error.message), 1;
 *     printf("AUROC %.4f, FPR at 95 %% TPR %.4f\n", roc.auroc, roc.fpr95);
 *     ole_roc_free(&roc);
 *
 * Positives should have the larger scores.  A threshold t accepts the samples with a score of at
 * least t: the accepted share of the positives is the true-positive rate (TPR), that of the
 * negatives the false-positive rate (FPR).  Equal scores make one point of the curve.
 */
#ifndef OLE_ROC_H
#define OLE_ROC_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rates and areas from 0 to 1. */
typedef struct ole_roc {
    int64_t positives, negatives;
    double auroc;       /* area under the curve: P(positive over negative), ties count half */
    double ap_positive; /* average precision (area under precision against recall, in steps) */
    double ap_negative; /* the same with negatives as the kind to find */
    double fpr95;       /* FPR at the highest threshold that accepts 95 % of the positives */
    int64_t points;
    double *threshold; /* [points], falling; the first is INFINITY, which accepts nothing */
    double *tpr;       /* [points] */
    double *fpr;       /* [points] */
} ole_roc;

/* NaN among the scores is OLE_ERROR_DATA; no score of one kind is OLE_ERROR_ARGUMENT. */
OLE_API ole_status ole_roc_make(ole_roc *roc, const double *positive, int64_t positives,
                                const double *negative, int64_t negatives, ole_error *error);
OLE_API void ole_roc_free(ole_roc *roc);

#ifdef __cplusplus
}
#endif
#endif
