/*
 * src/features/novelty/softmax.c - the largest softmax probability, as trained and at a
 * temperature.
 *
 *     max_c exp(z_c / T) / Σ_k exp(z_k / T)
 *
 * T = 1: Hendrycks and Gimpel, "A baseline for detecting misclassified and out-of-distribution
 * examples in neural networks", ICLR 2017; the score of the OLÉ paper.  A fitted T: Guo et al., "On
 * calibration of modern neural networks", ICML 2017.
 */
#include "features/novelty/scorer.h"

#include <math.h>

static double largest_probability(const double *logits, int64_t classes, double temperature) {
    double largest = logits[scorer_largest(logits, classes)], sum = 0.0;
    for (int64_t c = 0; c < classes; c++)
        sum += exp((logits[c] - largest) / temperature);
    return 1.0 / sum;
}

static void run_softmax(const ole_scorer *s, const score_block *b, double *scores) {
    for (int64_t i = 0; i < b->rows; i++)
        scores[i] = largest_probability(b->logits + i * s->classes, s->classes, 1.0);
}

const score_kind score_softmax = {.name = "softmax",
                                  .title = "largest softmax probability",
                                  .needs = OLE_NEEDS_LOGITS,
                                  .run = run_softmax};

static ole_status fit_temperature(ole_scorer *s, const score_training *t, ole_error *error) {
    return scorer_add_number(s, "temperature", t->options->temperature, error);
}

static ole_status check_temperature(ole_scorer *s, ole_error *error) {
    return scorer_find_number(s, "temperature", 1e-300, 1e300, error);
}

static void run_calibrated(const ole_scorer *s, const score_block *b, double *scores) {
    double temperature = scorer_number(s, "temperature");
    for (int64_t i = 0; i < b->rows; i++)
        scores[i] = largest_probability(b->logits + i * s->classes, s->classes, temperature);
}

const score_kind score_calibrated = {.name = "calibrated",
                                     .title = "largest probability at the fitted temperature",
                                     .needs = OLE_NEEDS_LOGITS,
                                     .fit = fit_temperature,
                                     .prepare = check_temperature,
                                     .run = run_calibrated};
