/*
 * src/model/calibration.h - are softmax scores probabilities?  The temperature that makes them
 * so, the expected calibration error, and the bins of a reliability plot.
 */
#ifndef OLE_SRC_MODEL_CALIBRATION_H
#define OLE_SRC_MODEL_CALIBRATION_H

#include "ole/train/novelty.h"

/* Logits and the right classes. */
typedef struct ole_logits {
    int64_t count;
    int classes;
    const float *logits;   /* [count, classes] */
    const int32_t *labels; /* [count] */
} ole_logits;

/*
 * The T for which softmax(logits / T) has the smallest mean negative log-likelihood; where all n
 * samples are classified right, so that there is none (the colder the better), that for which the
 * largest scores have the mean (n + 1) / (n + 2).  Where the classifier is no better than chance
 * (the hotter the better) it is 1 and false is returned.
 */
bool ole_temperature_fit(const ole_logits *data, double *temperature);

/* Mean negative log-likelihood at a temperature. */
double ole_temperature_nll(const ole_logits *data, double temperature);

/* Bins of equal width from 0 to 1 by the largest softmax score at a temperature; sets `ece`. */
void ole_calibration_measure(ole_calibration *calibration, const ole_logits *data,
                             double temperature);

#endif
