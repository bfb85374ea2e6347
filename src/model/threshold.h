/*
 * src/model/threshold.h - the threshold for "unknown" that every run stores in its model, so that
 * `ole predict` need not guess; `ole novelty` replaces it by one of its own.
 *
 * It is a threshold on the score that predictions show: the largest softmax score at the model's
 * temperature.  With held-out samples both come from them: the temperature that fits best (1
 * without a mistake to fit it to), and the score that 95 % of the samples reach.  Without, there
 * are only samples that the network has learned, which score too high: classifiers are fitted to
 * half of their features and score the other half (cross_fit.h), and 99 % reach the threshold, at
 * temperature 1.  The test split is never used.
 */
#ifndef OLE_SRC_MODEL_THRESHOLD_H
#define OLE_SRC_MODEL_THRESHOLD_H

#include "model/calibration.h"
#include "model/model_card.h"

/* The largest threshold that keeps at least this share of the scores, which get sorted: halfway
 * between the lowest kept and the one below, so that rounding does not decide. */
double ole_threshold_keep(double *scores, int64_t count, double keep);

/*
 * Sets the card's threshold and temperature from the logits of held-out samples, or from those of
 * the training split and its features [count, dim].  NULL, samples that do not do for it, one class
 * or numbers that are not finite: none.
 */
ole_status ole_card_set_threshold(ole_card *card, const ole_logits *held_out, ole_error *error);
ole_status ole_card_cross_fit_threshold(ole_card *card, const ole_logits *training,
                                        const float *features, int64_t dim, ole_error *error);

#endif
