/*
 * src/loss/criteria/contrastive.c - contrastive loss (Hadsell, Chopra, LeCun: Dimensionality
 * Reduction by Learning an Invariant Mapping, CVPR 2006) over all pairs of a batch, on unit rows.
 *
 *     value = mean over pairs of one class of d^p / p
 *           + mean over other pairs of max(0, margin − d)^p / p,   d = ‖u_i − u_j‖
 *
 * p = power is 2 in the paper.  A kind of pair that the batch lacks adds nothing.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

static bool eval(ole_criterion_call *c, double *value) {
    double margin = c->param[0], power = c->param[1], same = 0.0, other = 0.0;
    int64_t n = c->rows, sames = 0;
    ole_criterion_distances(c);
    for (int64_t k = 0; k < c->present; k++)
        sames += (c->start[k + 1] - c->start[k]) * (c->start[k + 1] - c->start[k] - 1) / 2;
    int64_t others = n * (n - 1) / 2 - sames;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            double d = c->square[0][i * n + j], *to = &c->square[1][i * n + j];
            if (c->labels[i] == c->labels[j]) {
                same += pow(d, power) / power;
                *to = pow(d, power - 1.0) / (double)sames;
            } else if (d < margin) {
                other += pow(margin - d, power) / power;
                *to = -pow(margin - d, power - 1.0) / (double)others;
            }
        }
    ole_criterion_distances_backward(c);
    *value = (sames ? same / (double)sames : 0.0) + (others ? other / (double)others : 0.0);
    return true;
}

const ole_criterion ole_contrastive = {
    .name = "contrastive",
    .title = "contrastive loss",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE,
    .weight = 0.3,
    .param = {{.name = "margin", .initial = 1.0, .min = 0.0, .max = 2.0},
              {.name = "power", .initial = 2.0, .min = 1.0, .max = 4.0}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "margin",
    .grid = {0.5, 0.75, 1.0, 1.25, 1.4},
    .eval = eval,
};
