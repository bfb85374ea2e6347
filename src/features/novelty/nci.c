/*
 * src/features/novelty/nci.c - NCI, how far a centred feature points along the weights of its
 * class, plus a share of its 1-norm.
 *
 *     w_p·(h - μ) / ‖h - μ‖ + a ‖h‖_1,   p = argmax_c z_c, a = 0.0001
 *
 * Liu and Qin, "Detecting out-of-distribution through the lens of neural collapse", CVPR 2025.  For
 * a feature at μ itself the first term is 0.
 */
#include "features/novelty/covariance.h"

#include <float.h>
#include <math.h>

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    double *centre = scorer_add(s, "centre", OLE_F64, t->known->dim, 0, error);
    ole_status status = centre ? known_means(t, centre, NULL, error) : OLE_ERROR_MEMORY;
    if (status == OLE_OK)
        status = scorer_add_number(s, "norm_weight", t->options->norm_weight, error);
    return status;
}

static ole_status prepare(ole_scorer *s, ole_error *error) {
    if (!scorer_find(s, "centre", OLE_F64, s->dim, 0, error)) return OLE_ERROR_FORMAT;
    return scorer_find_number(s, "norm_weight", 0.0, DBL_MAX, error);
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    const float *weight = scorer_find(s, "weight", OLE_F32, -1, -1, NULL)->data;
    double share = scorer_number(s, "norm_weight");
    scorer_centre(s, b, scorer_find(s, "centre", OLE_F64, s->dim, 0, NULL)->data);
    for (int64_t i = 0; i < b->rows; i++) {
        const double *centred = b->centred + i * s->dim;
        const float *w = weight + scorer_largest(b->logits + i * s->classes, s->classes) * s->dim;
        double along = 0.0, norm = 0.0, length = sqrt(scorer_square(centred, s->dim));
        for (int64_t k = 0; k < s->dim; k++) {
            along += w[k] * centred[k];
            norm += fabs((double)b->features[i * s->dim + k]);
        }
        scores[i] = (length > 0.0 ? along / length : 0.0) + share * norm;
    }
}

const score_kind score_nci = {.name = "nci",
                              .title = "projection on the predicted class's weights (NCI)",
                              .needs = OLE_NEEDS_FEATURES | OLE_NEEDS_LOGITS | OLE_NEEDS_WEIGHTS,
                              .fit = fit,
                              .prepare = prepare,
                              .run = run};
