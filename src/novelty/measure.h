/*
 * src/novelty/measure.h - every score of known and novel samples whose features and logits are
 * there, with thresholds, curves and calibration.
 */
#ifndef OLE_SRC_NOVELTY_MEASURE_H
#define OLE_SRC_NOVELTY_MEASURE_H

#include "model/model.h"
#include "ole/train/novelty.h"

typedef struct ole_novelty_work {
    int classes;
    int64_t features;
    ole_linear_classifier classifier;
    ole_outputs training;    /* what scores are fitted on */
    ole_outputs validation;  /* what thresholds and temperature come from */
    ole_outputs judged;      /* known samples to measure on; its labels move to the result */
    ole_outputs strange;     /* novel samples, or none; likewise */
    double keep;             /* share of the validation samples over the threshold */
    double temperature;      /* 0: fitted to the validation samples */
    const double *threshold; /* [OLE_SCORES] instead of those; NULL: none */
    int threads;
} ole_novelty_work;

/* Fills all but the choice. On failure the caller frees the result. */
ole_status ole_novelty_fill(ole_novelty *result, ole_novelty_work *work, ole_error *error);

/* Scorers of all kinds, fitted on outputs with these labels; on failure none. */
ole_status ole_novelty_fit_scorers(ole_scorer *scorer[OLE_SCORES], const ole_outputs *training,
                                   int64_t features, const ole_linear_classifier *classifier,
                                   double temperature, int threads, ole_error *error);

/* OLE_ERROR_ARGUMENT names a bad option. */
ole_status ole_novelty_read_options(ole_novelty_options *read, const ole_novelty_options *given,
                                    ole_error *error);

#endif
