/*
 * src/loss/criteria/center.c - center loss (Wen, Zhang, Li, Qiao: A Discriminative Feature Learning
 * Approach for Deep Face Recognition, ECCV 2016): pulls features to a centre of their class.
 *
 *     value = 1/(2N) Σ_i ‖x_i − c_{y_i}‖²
 *
 * Centres start at 0 and move once per step by alpha Σ_{i of c} (x_i − c) / (1 + n_c).  It cannot
 * stand alone: all features in one point minimise it.
 */
#include "loss/criteria/criterion.h"

static bool eval(ole_criterion_call *c, double *value) {
    double sum = 0.0, alpha = c->param[0];
    for (int64_t k = 0; k < c->present; k++) {
        int64_t first = c->start[k], end = c->start[k + 1];
        double *center = c->centers + c->labels[first] * c->dim;
        for (int64_t d = 0; d < c->dim; d++) {
            double pull = 0.0;
            for (int64_t i = first; i < end; i++) {
                double away = c->x[i * c->dim + d] - center[d];
                c->dx[i * c->dim + d] = away / (double)c->rows;
                sum += away * away;
                pull += away;
            }
            center[d] += alpha * pull / (double)(1 + end - first);
        }
    }
    *value = sum / (2.0 * (double)c->rows);
    return true;
}

const ole_criterion ole_center = {
    .name = "center",
    .title = "center loss",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_CENTERS,
    .weight = 0.003,
    .param = {{.name = "alpha", .initial = 0.5, .min = 0.0, .max = 1.0}},
    .weight_grid = {0.0003, 0.001, 0.003, 0.01, 0.03},
    .eval = eval,
};
