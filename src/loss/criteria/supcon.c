/*
 * src/loss/criteria/supcon.c - SupCon (Khosla et al.: Supervised Contrastive Learning, NeurIPS
 * 2020), its L_out, on unit rows, each sample in the batch once:
 *
 *     value = mean over anchors i with positives of −mean over positives p of
 *             log(exp(u_i·u_p / tau) / Σ_{a ≠ i} exp(u_i·u_a / tau))
 */
#include "loss/criteria/criterion.h"

#include <math.h>

/* The row of one anchor: its loss; `d` becomes the gradient of the cosines, without tau. */
static double eval_anchor(const double *cosine, double *d, int64_t n, int64_t i, int64_t first,
                          int64_t end, double tau) {
    double positives = (double)(end - first - 1), largest = -INFINITY, sum = 0.0, value = 0.0;
    for (int64_t j = 0; j < n; j++)
        if (j != i) largest = fmax(largest, cosine[j]);
    for (int64_t j = 0; j < n; j++)
        if (j != i) sum += d[j] = exp((cosine[j] - largest) / tau);
    for (int64_t j = 0; j < n; j++) {
        if (j == i) continue;
        bool positive = j >= first && j < end;
        d[j] = d[j] / sum - (positive ? 1.0 / positives : 0.0);
        if (positive) value += ((largest - cosine[j]) / tau + log(sum)) / positives;
    }
    return value;
}

static bool eval(ole_criterion_call *c, double *value) {
    double tau = c->param[0], sum = 0.0, anchors = 0.0;
    int64_t n = c->rows;
    ole_criterion_cosines(c);
    for (int64_t k = 0; k < c->present; k++) {
        int64_t first = c->start[k], end = c->start[k + 1];
        if (end - first < 2) continue;
        anchors += (double)(end - first);
        for (int64_t i = first; i < end; i++)
            sum += eval_anchor(c->square[0] + i * n, c->square[1] + i * n, n, i, first, end, tau);
    }
    for (int64_t i = 0; i < n * n && anchors > 0.0; i++)
        c->square[1][i] /= tau * anchors;
    ole_criterion_cosines_backward(c);
    *value = anchors > 0.0 ? sum / anchors : 0.0;
    return true;
}

const ole_criterion ole_supcon = {
    .name = "supcon",
    .title = "SupCon",
    .traits = OLE_CRITERION_BESIDE | OLE_CRITERION_ALONE,
    .weight = 0.3,
    .param = {{.name = "tau", .initial = 0.07, .min = 1e-3, .max = 1e3}},
    .weight_grid = {0.03, 0.1, 0.3, 1.0, 3.0},
    .tuned = "tau",
    .grid = {0.05, 0.07, 0.1, 0.2, 0.5},
    .eval = eval,
};
