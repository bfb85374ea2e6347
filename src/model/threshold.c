/* src/model/threshold.c - the threshold for "unknown" of a model that was just trained. */
#include "model/threshold.h"

#include "base/error.h"
#include "base/sort.h"
#include "model/confidence.h"
#include "model/network.h"

#include <math.h>
#include <stdlib.h>

static const double keep = 0.95; /* of the validation samples, as `ole novelty` does */

double ole_threshold_keep(double *scores, int64_t count, double share) {
    qsort(scores, (size_t)count, sizeof *scores, ole_by_rising_double);
    int64_t kept = (int64_t)fmax(1.0, ceil(share * (double)count - 1e-9)), left_out = count - kept;
    return left_out > 0 ? 0.5 * (scores[left_out - 1] + scores[left_out]) : scores[0];
}

ole_status ole_card_set_threshold(ole_card *card, const ole_logits *logits, bool held_out,
                                  ole_error *error) {
    card->threshold = 0.0;
    card->threshold_score = OLE_SCORE_NONE;
    card->temperature = 1.0;
    int64_t least = held_out ? 1 : (int64_t)OLE_THRESHOLD_SAMPLES * card->classes;
    if (!logits || logits->count < least || card->classes < 2 ||
        ole_find_not_finite(logits->logits, logits->count, logits->classes) >= 0)
        return OLE_OK;
    double *scores = malloc((size_t)logits->count * sizeof *scores);
    if (!scores) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for scores");
    int64_t wrong = 0;
    for (int64_t i = 0; i < logits->count; i++)
        wrong +=
            ole_largest(logits->logits + i * logits->classes, logits->classes) != logits->labels[i];
    if (held_out && wrong > 0) ole_temperature_fit(logits, &card->temperature);
    for (int64_t i = 0; i < logits->count; i++)
        scores[i] = ole_largest_softmax(logits->logits + i * logits->classes, logits->classes,
                                        card->temperature);
    card->threshold = ole_threshold_keep(scores, logits->count, held_out ? keep : 1.0);
    card->threshold_score = OLE_SCORE_CALIBRATED;
    free(scores);
    return OLE_OK;
}
