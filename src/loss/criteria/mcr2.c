/*
 * src/loss/criteria/mcr2.c - maximal coding rate reduction (Yu, Chan, You, Song, Ma: Learning
 * Diverse and Discriminative Representations, NeurIPS 2020), negated, on unit rows U [N, D]:
 *
 *     value = −½ logdet(I + D/(N eps2) UᵀU) + Σ_c (N_c/2N) logdet(I + D/(N_c eps2) U_cᵀU_c)
 *
 * eps2 is ε².  Meant for large batches.  logdet(I + a UᵀU) = logdet(I + a U Uᵀ): whichever matrix
 * is smaller is factored, and its inverse gives the gradient a (I + a U Uᵀ)⁻¹ U.
 */
#include "base/min_max.h"
#include "loss/criteria/criterion.h"

/* Adds factor/2 logdet(I + a UᵀU) of rows first to end - 1 to *value, and its gradient to du. */
static bool add_rate(ole_criterion_call *c, int64_t first, int64_t end, double factor,
                     double *value) {
    int64_t rows = end - first, dim = c->dim, n = ole_min(rows, dim);
    double a = (double)dim / ((double)rows * c->param[0]), logdet;
    const double *u = c->u + first * dim;
    double *m = c->square[0], *direction = c->room;
    bool of_rows = rows <= dim;
    ole_criterion_multiply(c, (ole_factor){u, !of_rows}, (ole_factor){u, of_rows}, n,
                           of_rows ? dim : rows, n, a, m);
    for (int64_t i = 0; i < n; i++)
        m[i * n + i] += 1.0;
    if (!ole_invert_definite(m, n, &logdet)) return false;
    if (of_rows)
        ole_criterion_multiply(c, (ole_factor){m, false}, (ole_factor){u, false}, rows, rows, dim,
                               factor * a, direction);
    else
        ole_criterion_multiply(c, (ole_factor){u, false}, (ole_factor){m, false}, rows, dim, dim,
                               factor * a, direction);
    for (int64_t i = 0; i < rows * dim; i++)
        c->du[first * dim + i] += direction[i];
    *value += factor * logdet / 2.0;
    return true;
}

static bool eval(ole_criterion_call *c, double *value) {
    ole_criterion_unit(c);
    *value = 0.0;
    for (int64_t i = 0; i < c->rows * c->dim; i++)
        c->du[i] = 0.0;
    bool good = add_rate(c, 0, c->rows, -1.0, value);
    for (int64_t k = 0; k < c->present && good; k++) {
        double share = (double)(c->start[k + 1] - c->start[k]) / (double)c->rows;
        good = add_rate(c, c->start[k], c->start[k + 1], share, value);
    }
    ole_criterion_unit_backward(c);
    return good;
}

const ole_criterion ole_mcr2 = {
    .name = "mcr2",
    .title = "MCR²",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE,
    .weight = 0.1,
    .param = {{.name = "eps2", .initial = 0.5, .min = 1e-6, .max = 1e6}},
    .weight_grid = {0.001, 0.003, 0.01, 0.03, 0.1},
    .tuned = "eps2",
    .grid = {0.1, 0.25, 0.5, 1.0, 2.0},
    .eval = eval,
};
