/*
 * src/loss/criteria/ole_unit.c - OLÉ on rows of length 1, each class centred on its mean, a change
 * of the paper's loss under trial:
 *
 *     value = 1/N ( Σ_c max(floor, ‖U_c − 1ū_cᵀ‖_s) − gamma ‖U‖_s ),
 *     ‖A‖_s = Σ √(σ² + smooth²) − smooth over the singular values σ of A
 *
 * A nuclear norm's gradient has the same size however small σ is; with `smooth` it fades.  Centring
 * gives a row that does not fit a gradient towards its class's mean, which the paper's loss lacks;
 * the mean needs no gradient of its own, as that of ‖U_c − 1ū_cᵀ‖_s has columns that sum to 0.
 * Rows that are not of length 1 (unit=no) are never centred: the loss would have no lower bound.
 */
#include "base/min_max.h"
#include "loss/criteria/criterion.h"

#include <math.h>

enum { UNIT, CENTERED, GAMMA, SMOOTH, FLOOR };

/* ‖a‖_s of a[rows, dim]; its gradient times `factor` is added to `to` where it exceeds `least`. */
static bool add_norm(ole_criterion_call *c, const double *a, int64_t rows, double least,
                     double factor, double *value, double *to) {
    double smooth = c->param[SMOOTH], norm;
    int64_t k = ole_min(rows, c->dim);
    if (!ole_criterion_decompose(c, a, rows, &norm)) return false;
    if (smooth > 0.0) {
        norm = 0.0;
        for (int64_t i = k - 1; i >= 0; i--) {
            double root = hypot(c->svd.sigma[i], smooth);
            norm += c->svd.sigma[i] * (c->svd.sigma[i] / (root + smooth)); /* root − smooth */
            for (int64_t d = 0; d < c->dim; d++)
                c->svd.vt[i * c->dim + d] *= c->svd.sigma[i] / root;
        }
    }
    *value += factor * fmax(norm, least);
    if (norm > least)
        ole_criterion_add_polar(c, rows, smooth > 0.0 ? k : ole_criterion_rank(c, rows), factor,
                                to);
    return true;
}

static bool eval(ole_criterion_call *c, double *value) {
    bool unit = c->param[UNIT] != 0.0, centered = unit && c->param[CENTERED] != 0.0;
    const double *rows = unit ? c->u : c->x;
    double *slopes = unit ? c->du : c->dx, share = 1.0 / (double)c->rows;
    *value = 0.0;
    if (unit) ole_criterion_unit(c);
    for (int64_t i = 0; i < c->rows * c->dim; i++)
        slopes[i] = 0.0;
    for (int64_t k = 0; k < c->present; k++) {
        int64_t first = c->start[k], count = c->start[k + 1] - first;
        const double *block = rows + first * c->dim;
        if (centered) ole_criterion_center(c, first, count, c->room);
        if (!add_norm(c, centered ? c->room : block, count, c->param[FLOOR], share, value,
                      slopes + first * c->dim))
            return false;
    }
    if (!add_norm(c, rows, c->rows, 0.0, -share * c->param[GAMMA], value, slopes)) return false;
    if (unit) ole_criterion_unit_backward(c);
    return true;
}

const ole_criterion ole_ole_unit = {
    .name = "ole-unit",
    .title = "OLÉ, unit rows",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE | OLE_CRITERION_SVD,
    .weight = 0.3,
    .param = {{.name = "unit", .initial = 1.0, .max = 1.0, .whole = true, .words = "no|yes"},
              {.name = "centered", .initial = 1.0, .max = 1.0, .whole = true, .words = "no|yes"},
              {.name = "gamma", .initial = 1.5, .min = 0.0, .max = 1e3},
              {.name = "smooth", .initial = 0.0, .min = 0.0, .max = 1e6},
              {.name = "floor", .initial = 0.0, .min = 0.0, .max = 1e6}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "gamma",
    .grid = {1.0, 1.5, 2.0, 2.5, 3.0},
    .eval = eval,
};
