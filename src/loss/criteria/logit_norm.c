/*
 * src/loss/criteria/logit_norm.c - LogitNorm (Wei et al.: Mitigating Neural Network Overconfidence
 * with Logit Normalization, ICML 2022): the cross-entropy of z / (tau (‖z‖ + 1e-7)), z = W x + b.
 */
#include "loss/criteria/criterion.h"

#include <math.h>

static bool eval(ole_criterion_call *c, double *value) {
    int64_t n = c->classes;
    const ole_factor dz = {c->dlogits, false}, dzt = {c->dlogits, true};
    double tau = c->param[0];
    ole_criterion_multiply(c, (ole_factor){c->x, false}, (ole_factor){c->w, true}, c->rows, c->dim,
                           n, 1.0, c->logits);
    for (int64_t i = 0; i < c->rows; i++) {
        double *z = c->logits + i * n, sum = 0.0;
        for (int64_t j = 0; j < n; j++) {
            z[j] += c->b[j];
            sum += z[j] * z[j];
        }
        c->length[i] = sqrt(sum);
        for (int64_t j = 0; j < n; j++)
            z[j] /= tau * (c->length[i] + 1e-7);
    }
    ole_criterion_count(c);
    *value = ole_criterion_cross_entropy(c);
    for (int64_t i = 0; i < c->rows;
         i++) { /* z / (tau ‖z‖) is y: d becomes (d - tau² y (y·d) ...) */
        const double *y = c->logits + i * n;
        double *d = c->dlogits + i * n, along = 0.0, length = c->length[i] + 1e-7;
        for (int64_t j = 0; j < n; j++)
            along += d[j] * y[j];
        double back = c->length[i] > 0.0 ? along * tau * length / c->length[i] : 0.0;
        for (int64_t j = 0; j < n; j++) {
            d[j] = (d[j] / tau - back * y[j]) / length;
            c->db[j] += d[j];
        }
    }
    ole_criterion_multiply(c, dz, (ole_factor){c->w, false}, c->rows, n, c->dim, 1.0, c->dx);
    ole_criterion_multiply(c, dzt, (ole_factor){c->x, false}, n, c->rows, c->dim, 1.0, c->dw);
    return true;
}

const ole_criterion ole_logit_norm = {
    .name = "logit-norm",
    .title = "LogitNorm",
    .traits = OLE_CRITERION_HEAD,
    .param = {{.name = "tau", .initial = 0.04, .min = 1e-4, .max = 1e3}},
    .tuned = "tau",
    .grid = {0.01, 0.02, 0.04, 0.1, 0.2},
    .eval = eval,
};
