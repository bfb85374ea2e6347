/*
 * src/features/novelty/neco.c - NECO, the share of a standardised feature inside the principal
 * subspace of the known ones.
 *
 *     ‖P x‖ / ‖x‖,   x = (h - μ) / σ element by element
 *
 * P: the K leading principal directions of the standardised known features; where σ is 0 it counts
 * as 1.  Ben Ammar et al., "NECO: Neural collapse based out-of-distribution detection", ICLR 2024,
 * without the factor max_c z_c that it adds for some networks.  The paper chooses K by hand; here
 * it is C - 1, the rank of collapsed class means, or half the dimensions if they are fewer.
 */
#include "features/novelty/covariance.h"

#include "base/error.h"
#include "base/min_max.h"

#include <math.h>
#include <string.h>

/* The covariance becomes that of standardised features. */
static void standardise(scatter *s, double *scale) {
    for (int64_t i = 0; i < s->dim; i++) {
        double variance = s->matrix[i * s->pad + i];
        scale[i] = variance > 0.0 ? sqrt(variance) : 1.0;
    }
    for (int64_t i = 0; i < s->dim; i++)
        for (int64_t k = 0; k <= i; k++)
            s->matrix[i * s->pad + k] /= scale[i] * scale[k];
}

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    int64_t dim = t->known->dim, inside = t->options->principal;
    if (inside == 0) inside = t->classes.classes - 1 < dim ? t->classes.classes - 1 : dim / 2;
    inside = ole_max(1, inside);
    if (inside > dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the score 'neco' cannot have a principal subspace of more dimensions than "
                        "the features' %lld",
                        (long long)dim);
    double *centre = scorer_add(s, "centre", OLE_F64, dim, 0, error);
    double *scale = centre ? scorer_add(s, "scale", OLE_F64, dim, 0, error) : NULL;
    double *to = scale ? scorer_add(s, "principal", OLE_F64, inside, dim, error) : NULL;
    if (!to) return OLE_ERROR_MEMORY;
    scatter found;
    ole_status status = known_means(t, centre, NULL, error);
    if (status == OLE_OK) status = scatter_of(&found, t, centre, false, error);
    if (status != OLE_OK) return status;
    standardise(&found, scale);
    status = scatter_decompose(&found, t->pool, error);
    for (int64_t i = 0; i < inside && status == OLE_OK; i++)
        memcpy(to + i * dim, found.matrix + found.order[i] * found.pad, (size_t)dim * sizeof *to);
    scatter_destroy(&found);
    return status;
}

static ole_status prepare(ole_scorer *s, ole_error *error) {
    const ole_scorer_tensor *principal = scorer_find(s, "principal", OLE_F64, -1, -1, error);
    if (!principal) return OLE_ERROR_FORMAT;
    s->dim = principal->shape[1];
    if (!scorer_find(s, "centre", OLE_F64, s->dim, 0, error)) return OLE_ERROR_FORMAT;
    const ole_scorer_tensor *scale = scorer_find(s, "scale", OLE_F64, s->dim, 0, error);
    if (!scale) return OLE_ERROR_FORMAT;
    for (int64_t k = 0; k < s->dim; k++)
        if (!(((const double *)scale->data)[k] > 0.0))
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "the tensor 'scale' of the score 'neco' holds a number that is not "
                            "over 0");
    return scorer_pack(s, principal, &s->operand, error);
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    const double *scale = scorer_find(s, "scale", OLE_F64, s->dim, 0, NULL)->data;
    int64_t inside = s->operand.items;
    scorer_centre(s, b, scorer_find(s, "centre", OLE_F64, s->dim, 0, NULL)->data);
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t k = 0; k < s->dim; k++)
            b->centred[i * s->dim + k] /= scale[k];
    scorer_multiply(b, b->centred, OLE_F64, &s->operand, b->product);
    for (int64_t i = 0; i < b->rows; i++) {
        double whole = scorer_square(b->centred + i * s->dim, s->dim);
        double part = scorer_square(b->product + i * inside, inside);
        scores[i] = whole > 0.0 ? sqrt(part / whole) : 0.0;
    }
}

const score_kind score_neco = {.name = "neco",
                               .title = "share inside the known features' subspace (NECO)",
                               .needs = OLE_NEEDS_FEATURES,
                               .fit = fit,
                               .prepare = prepare,
                               .run = run};
