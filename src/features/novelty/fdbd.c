/*
 * src/features/novelty/fdbd.c - fDBD, the mean distance of a feature to the decision boundaries of
 * the other classes, over its distance to the mean of the known features.
 *
 *     1/(C-1) Σ_{c≠p} (z_p - z_c) / ‖w_p - w_c‖  /  ‖h - μ‖,   p = argmax_c z_c
 *
 * Liu and Qin, "Fast decision boundary based out-of-distribution detector", ICML 2024.  Classes
 * with equal weights have no boundary and add nothing; a feature at μ itself, and a classifier of
 * one class, have the score 0.
 */
#include "features/novelty/covariance.h"

#include <math.h>

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    double *centre = scorer_add(s, "centre", OLE_F64, t->known->dim, 0, error);
    return centre ? known_means(t, centre, NULL, error) : OLE_ERROR_MEMORY;
}

/* square[p, c] = 1 / ‖w_p - w_c‖, or 0. */
static ole_status prepare(ole_scorer *s, ole_error *error) {
    if (!scorer_find(s, "centre", OLE_F64, s->dim, 0, error)) return OLE_ERROR_FORMAT;
    const float *weight = scorer_find(s, "weight", OLE_F32, s->classes, s->dim, error)->data;
    double *inverse = scorer_keep(s, s->classes, (size_t)s->classes * sizeof *inverse, error);
    if (!inverse) return OLE_ERROR_MEMORY;
    for (int64_t p = 0; p < s->classes; p++) {
        inverse[p * s->classes + p] = 0.0;
        for (int64_t c = 0; c < p; c++) {
            const float *a = weight + p * s->dim, *b = weight + c * s->dim;
            double sum = 0.0;
            for (int64_t k = 0; k < s->dim; k++)
                sum += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
            inverse[p * s->classes + c] = inverse[c * s->classes + p] =
                sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
        }
    }
    s->square = inverse;
    return OLE_OK;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    scorer_centre(s, b, scorer_find(s, "centre", OLE_F64, s->dim, 0, NULL)->data);
    for (int64_t i = 0; i < b->rows; i++) {
        const double *z = b->logits + i * s->classes;
        int64_t p = scorer_largest(z, s->classes);
        const double *inverse = s->square + p * s->classes;
        double sum = 0.0, length = sqrt(scorer_square(b->centred + i * s->dim, s->dim));
        for (int64_t c = 0; c < s->classes; c++)
            sum += (z[p] - z[c]) * inverse[c];
        scores[i] =
            s->classes > 1 && length > 0.0 ? sum / ((double)(s->classes - 1) * length) : 0.0;
    }
}

const score_kind score_fdbd = {.name = "fdbd",
                               .title = "distance to the decision boundaries (fDBD)",
                               .needs = OLE_NEEDS_FEATURES | OLE_NEEDS_LOGITS | OLE_NEEDS_WEIGHTS,
                               .fit = fit,
                               .prepare = prepare,
                               .run = run};
