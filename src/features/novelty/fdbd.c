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

enum { MOST_CLASSES = 2048 }; /* of a table of distances, 32 MiB; of more, a row is computed anew */

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    double *centre = scorer_add(s, "centre", OLE_F64, t->known->dim, 0, error);
    return centre ? known_means(t, centre, NULL, error) : OLE_ERROR_MEMORY;
}

/* inverse[c] = 1 / ‖w_p - w_c‖, or 0, for c < count. */
static void invert_distances(const ole_scorer *s, const float *weight, int64_t p, int64_t count,
                             double *inverse) {
    const float *a = weight + p * s->dim;
    for (int64_t c = 0; c < count; c++) {
        const float *b = weight + c * s->dim;
        double sum = 0.0;
        for (int64_t k = 0; k < s->dim; k++)
            sum += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
        inverse[c] = sum > 0.0 ? 1.0 / sqrt(sum) : 0.0;
    }
}

/* square[p, c], of as many classes as a table has room for. */
static ole_status prepare(ole_scorer *s, ole_error *error) {
    if (!scorer_find(s, "centre", OLE_F64, s->dim, 0, error)) return OLE_ERROR_FORMAT;
    if (s->classes > MOST_CLASSES) return OLE_OK;
    const float *weight = scorer_find(s, "weight", OLE_F32, s->classes, s->dim, error)->data;
    double *inverse = scorer_keep(s, s->classes, (size_t)s->classes * sizeof *inverse, error);
    if (!inverse) return OLE_ERROR_MEMORY;
    for (int64_t p = 0; p < s->classes; p++) {
        invert_distances(s, weight, p, p + 1, inverse + p * s->classes);
        for (int64_t c = 0; c < p; c++)
            inverse[c * s->classes + p] = inverse[p * s->classes + c];
    }
    s->square = inverse;
    return OLE_OK;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    const float *weight = scorer_find(s, "weight", OLE_F32, -1, -1, NULL)->data;
    int64_t listed = -1;
    scorer_centre(s, b, scorer_find(s, "centre", OLE_F64, s->dim, 0, NULL)->data);
    for (int64_t i = 0; i < b->rows; i++) {
        const double *z = b->logits + i * s->classes;
        int64_t p = scorer_largest(z, s->classes);
        const double *inverse = s->square ? s->square + p * s->classes : b->list;
        if (!s->square && p != listed) {
            invert_distances(s, weight, p, s->classes, b->list);
            listed = p;
        }
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
