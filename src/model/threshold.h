/*
 * src/model/threshold.h - the threshold for "unknown" that every run stores in its model, so that
 * `ole predict` need not guess; `ole novelty` replaces it by one of its own.
 *
 * It is a threshold on the score that predictions show: the largest softmax score at the model's
 * temperature.  With a validation split both come from it: the temperature that fits best (1
 * without a mistake to fit it to), and the score that 95 % of its samples reach.  Without one there
 * are only samples that the network has learned, which score too high; their lowest score is the
 * threshold then, and few samples give none.  The test split is never used.
 */
#ifndef OLE_SRC_MODEL_THRESHOLD_H
#define OLE_SRC_MODEL_THRESHOLD_H

#include "model/calibration.h"
#include "model/model_card.h"

/* The largest threshold that keeps at least this share of the scores, which get sorted: halfway
 * between the lowest kept and the one below, so that rounding does not decide. */
double ole_threshold_keep(double *scores, int64_t count, double keep);

/* Training samples per class without which their scores say too little. */
enum { OLE_THRESHOLD_SAMPLES = 20 };

/*
 * Sets the card's threshold and temperature from the logits of the validation split (`held_out`) or
 * of the training split; NULL, too few samples, one class or numbers that are not finite: none.
 */
ole_status ole_card_set_threshold(ole_card *card, const ole_logits *logits, bool held_out,
                                  ole_error *error);

#endif
