/*
 * src/features/novelty/gen.c - GEN, minus the generalised entropy of the M largest probabilities.
 *
 *     -Σ_{c among the M largest p} (p_c (1 - p_c))^γ,   p = softmax(z), γ = 0.1, M = 100
 *
 * Liu, Lochman and Zach, "GEN: Pushing the limits of softmax-based out-of-distribution detection",
 * CVPR 2023.
 */
#include "features/novelty/scorer.h"

#include "base/sort.h"

#include <math.h>

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    double *gen = scorer_add(s, "gen", OLE_F64, 2, 0, error);
    if (!gen) return OLE_ERROR_MEMORY;
    gen[0] = t->options->gamma;
    gen[1] = (double)t->options->largest;
    return OLE_OK;
}

static ole_status prepare(ole_scorer *s, ole_error *error) {
    return scorer_find(s, "gen", OLE_F64, 2, 0, error) ? OLE_OK : OLE_ERROR_FORMAT;
}

#define LARGER(a, b) ((a) > (b))
OLE_DEFINE_SELECT(select_largest, double, LARGER)

static double power(double product, double gamma) {
    return product > 0.0 ? pow(product, gamma) : 0.0;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    const double *gen = scorer_find(s, "gen", OLE_F64, 2, 0, NULL)->data;
    int64_t classes = s->classes, counted = (int64_t)fmin(gen[1], (double)classes);
    for (int64_t i = 0; i < b->rows; i++) {
        const double *z = b->logits + i * classes;
        int64_t top = scorer_largest(z, classes), others = 0;
        double rest = 0.0;
        for (int64_t c = 0; c < classes; c++)
            if (c != top) rest += b->list[others++] = exp(z[c] - z[top]);
        /* The largest p is 1 / (1 + rest), and 1 - p is not computed by subtraction. */
        double sum = 1.0 + rest, entropy = power(rest / (sum * sum), gen[0]);
        if (counted - 1 < others) select_largest(b->list, others, counted - 1);
        for (int64_t c = 0; c < counted - 1; c++)
            entropy += power(b->list[c] / sum * (1.0 - b->list[c] / sum), gen[0]);
        scores[i] = -entropy;
    }
}

const score_kind score_gen = {.name = "gen",
                              .title = "generalised entropy of the probabilities (GEN)",
                              .needs = OLE_NEEDS_LOGITS,
                              .fit = fit,
                              .prepare = prepare,
                              .run = run};
