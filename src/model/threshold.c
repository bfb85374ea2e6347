/* src/model/threshold.c - the threshold for "unknown" of a model that was just trained. */
#include "model/threshold.h"

#include "base/error.h"
#include "base/sort.h"
#include "model/confidence.h"
#include "model/cross_fit.h"
#include "model/network.h"

#include <math.h>
#include <stdlib.h>

static const double keep = 0.95;         /* of the held-out samples, as `ole novelty` does */
static const double keep_learned = 0.99; /* of the training samples, whose scores are too high */

double ole_threshold_keep(double *scores, int64_t count, double share) {
    qsort(scores, (size_t)count, sizeof *scores, ole_by_rising_double);
    int64_t kept = (int64_t)fmax(1.0, ceil(share * (double)count - 1e-9)), left_out = count - kept;
    return left_out > 0 ? 0.5 * (scores[left_out - 1] + scores[left_out]) : scores[0];
}

/* No threshold. */
static void clear(ole_card *card) {
    card->threshold = 0.0;
    card->threshold_score = OLE_SCORE_NONE;
    card->temperature = 1.0;
    card->threshold_from = OLE_THRESHOLD_UNSAID;
    card->threshold_samples = 0;
}

static bool has_scores(const ole_logits *logits) {
    return logits && logits->count > 0 && logits->classes > 1 &&
           ole_find_not_finite(logits->logits, logits->count, logits->classes) < 0;
}

/* The threshold at the card's temperature that this share of the samples reach. */
static ole_status keep_share(ole_card *card, const ole_logits *logits, double share,
                             ole_threshold_source from, ole_error *error) {
    double *scores = malloc((size_t)logits->count * sizeof *scores);
    if (!scores) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for scores");
    for (int64_t i = 0; i < logits->count; i++)
        scores[i] = ole_largest_softmax(logits->logits + i * logits->classes, logits->classes,
                                        card->temperature);
    card->threshold = ole_threshold_keep(scores, logits->count, share);
    card->threshold_score = OLE_SCORE_CALIBRATED;
    card->threshold_from = from;
    card->threshold_samples = logits->count;
    free(scores);
    return OLE_OK;
}

ole_status ole_card_set_threshold(ole_card *card, const ole_logits *held_out, ole_error *error) {
    clear(card);
    if (card->classes < 2 || !has_scores(held_out)) return OLE_OK;
    int64_t wrong = 0;
    for (int64_t i = 0; i < held_out->count; i++)
        wrong += ole_largest(held_out->logits + i * held_out->classes, held_out->classes) !=
                 held_out->labels[i];
    if (wrong > 0) ole_temperature_fit(held_out, &card->temperature);
    return keep_share(card, held_out, keep, OLE_THRESHOLD_HELD_OUT, error);
}

ole_status ole_card_cross_fit_threshold(ole_card *card, const ole_logits *training,
                                        const float *features, int64_t dim, ole_error *error) {
    clear(card);
    if (card->classes < 2 || !has_scores(training)) return OLE_OK;
    ole_cross_fitted fitted;
    ole_status status = ole_cross_fit(&fitted, features, dim, training, error);
    if (status != OLE_OK) return status;
    const ole_logits logits = {fitted.count, training->classes, fitted.logits, fitted.labels};
    if (has_scores(&logits))
        status = keep_share(card, &logits, keep_learned, OLE_THRESHOLD_CROSS_FITTED, error);
    ole_cross_fit_free(&fitted);
    return status;
}
