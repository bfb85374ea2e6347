/*
 * src/features/novelty/energy.c - the (negative free) energy of the logits.
 *
 *     log Σ_c exp(z_c)
 *
 * Liu et al., "Energy-based out-of-distribution detection", NeurIPS 2020.
 */
#include "features/novelty/scorer.h"

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    for (int64_t i = 0; i < b->rows; i++)
        scores[i] = scorer_log_sum_exp(b->logits + i * s->classes, s->classes);
}

const score_kind score_energy = {.name = "energy",
                                 .title = "energy (log-sum-exp) of the logits",
                                 .needs = OLE_NEEDS_LOGITS,
                                 .run = run};
