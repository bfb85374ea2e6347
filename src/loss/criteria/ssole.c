/*
 * src/loss/criteria/ssole.c - SSOLE (Huang et al.: SSOLE, Rethinking Orthogonal Low-rank Embedding
 * for Self-Supervised Learning, ICLR 2025) with the classes in place of the views of an image.  A
 * nuclear norm of unit rows becomes a cosine, and with it a loss that is bounded and scaled alike
 * for any number of rows:
 *
 *     low  = mean over classes of n rows, n > 1, of (‖U_c − 1ū_cᵀ‖_* / (n − 1))²
 *     high = ½ (N²/r² − 1)/(N − 1) + ½ (N cos²(asin(r/N) − asin(1/√N)) − 1)/(N − 1),  r = ‖U‖_*
 *     value = low + spread · high
 *
 * high is 1 if all rows are parallel, 0 if all are orthogonal.  A singular value enters the
 * gradient by the rule of OLÉ's default for float32.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

/* The cosine that a nuclear norm r of n unit rows stands for, and its derivative by r. */
static double spread_of(double r, double n, double *slope) {
    double share = fmin(r / n, 1.0), beta = asin(share) - asin(1.0 / sqrt(n));
    double first = (n * n / (r * r) - 1.0) / (n - 1.0);
    double second = (n * cos(beta) * cos(beta) - 1.0) / (n - 1.0);
    double by_beta = -n * sin(2.0 * beta) / (n - 1.0);
    double by_r = 1.0 / (n * sqrt(fmax(1.0 - share * share, 1e-12)));
    *slope = 0.5 * (-2.0 * n * n / (r * r * r) / (n - 1.0) + by_beta * by_r);
    return 0.5 * (first + second);
}

static bool eval(ole_criterion_call *c, double *value) {
    double spread = c->param[0], low = 0.0, classes = 0.0, norm, slope;
    ole_criterion_unit(c);
    for (int64_t i = 0; i < c->rows * c->dim; i++)
        c->du[i] = 0.0;
    for (int64_t k = 0; k < c->present; k++)
        classes += c->start[k + 1] - c->start[k] > 1;
    for (int64_t k = 0; k < c->present; k++) {
        int64_t first = c->start[k], rows = c->start[k + 1] - first;
        double others = (double)(rows - 1);
        if (rows < 2) continue;
        ole_criterion_center(c, first, rows, c->room);
        if (!ole_criterion_decompose(c, c->room, rows, &norm)) return false;
        low += norm * norm / (others * others * classes);
        ole_criterion_add_polar(c, rows, ole_criterion_rank(c, rows),
                                2.0 * norm / (others * others * classes), c->du + first * c->dim);
    }
    *value = low;
    if (c->rows > 1) {
        if (!ole_criterion_decompose(c, c->u, c->rows, &norm)) return false;
        if (norm > 0.0) {
            *value += spread * spread_of(norm, (double)c->rows, &slope);
            ole_criterion_add_polar(c, c->rows, ole_criterion_rank(c, c->rows), spread * slope,
                                    c->du);
        }
    }
    ole_criterion_unit_backward(c);
    return true;
}

const ole_criterion ole_ssole = {
    .name = "ssole",
    .title = "SSOLE",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE | OLE_CRITERION_SVD,
    .weight = 0.3,
    .param = {{.name = "spread", .initial = 1.0, .min = 0.0, .max = 1e3}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "spread",
    .grid = {0.3, 1.0, 3.0, 10.0, 30.0},
    .eval = eval,
};
