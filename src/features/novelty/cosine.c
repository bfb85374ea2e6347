/*
 * src/features/novelty/cosine.c - the cosine of a feature and the mean direction of its nearest
 * class.
 *
 *     max_c h·m_c / ‖h‖,   m_c the mean of h/‖h‖ over the known features of class c, at length 1
 *
 * The rule of the nearest class mean, by angle; the OLÉ paper compares features by their angles.
 * Rows of zeros have no direction and do not count.
 */
#include "features/novelty/directions.h"

#include <math.h>

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    int64_t dim = t->known->dim, classes = t->classes.classes;
    int64_t *size = scorer_add(s, "sizes", OLE_I64, classes, 0, error);
    float *basis = size ? scorer_add(s, "directions", OLE_F32, classes, dim, error) : NULL;
    double *sum = basis ? scorer_keep(s, 2 * dim, sizeof *sum, error) : NULL, *unit = sum + dim;
    if (!sum) return OLE_ERROR_MEMORY;
    const ole_row_set rows = ole_embedding_rows(t->known, t->classes.order, t->classes.rows);
    for (int64_t c = 0; c < classes; c++) {
        double square = 0.0;
        for (int64_t k = 0; k < dim; k++)
            sum[k] = 0.0;
        for (int64_t i = t->classes.begin[c]; i < t->classes.begin[c + 1]; i++) {
            ole_row_unit(&rows, i, unit);
            for (int64_t k = 0; k < dim; k++)
                sum[k] += unit[k];
        }
        for (int64_t k = 0; k < dim; k++)
            square += sum[k] * sum[k];
        size[c] = 1;
        for (int64_t k = 0; k < dim; k++)
            basis[c * dim + k] = square > 0.0 ? (float)(sum[k] / sqrt(square)) : 0.0f;
    }
    return OLE_OK;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    directions_run(s, b, true, scores);
}

const score_kind score_cosine = {.name = "cosine",
                                 .title = "cosine with the nearest class mean",
                                 .needs = OLE_NEEDS_FEATURES,
                                 .fit = fit,
                                 .prepare = directions_prepare,
                                 .run = run};
