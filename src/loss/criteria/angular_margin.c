/*
 * src/loss/criteria/angular_margin.c - the margins that multiply the angle.  L-Softmax (Liu, Wen,
 * Yu, Yang: Large-Margin Softmax Loss, ICML 2016) and, with unit class vectors, A-Softmax (Liu et
 * al.: SphereFace, CVPR 2017): the cross-entropy of logits ‖w_j‖‖x‖ cos θ_j in which
 *
 *     cos θ_y  becomes  (λ cos θ_y + ψ(θ_y)) / (1 + λ),   ψ(θ) = (−1)^k cos mθ − 2k,
 *
 * k = ⌊mθ/π⌋.  λ = max(least, base (1 + gamma t)^−power) falls with the step t, as in the authors'
 * code: ψ alone does not train from random weights.
 */
#include "loss/criteria/criterion.h"

#include <math.h>
#include <string.h>

/* cos mθ and its derivative by cos θ: Chebyshev polynomials T_m and m U_{m−1}. */
static double cos_multiple(int m, double x, double *slope) {
    double t = x, before = 1.0, u = 1.0, u_before = 0.0;
    for (int i = 1; i < m; i++) {
        double next = 2.0 * x * t - before, u_next = 2.0 * x * u - u_before;
        before = t;
        t = next;
        u_before = u;
        u = u_next;
    }
    *slope = m * u;
    return t;
}

static double psi(int m, double cosine, double *slope) {
    double k = fmin(floor(m * acos(cosine) / 3.14159265358979323846), m - 1);
    double value = cos_multiple(m, cosine, slope);
    if (fmod(k, 2.0) == 0.0) return value - 2.0 * k;
    *slope = -*slope;
    return -value - 2.0 * k;
}

/* How little ψ counts at this step. */
static double lambda_at(const ole_criterion_call *c) {
    double base = c->param[1], gamma = c->param[2], power = c->param[3], least = c->param[4];
    return fmax(least, base * pow(1.0 + gamma * (double)c->step, -power));
}

/* The lengths of features and class vectors; `unit`: the latter count as 1. */
static double scale(const ole_criterion_call *c, bool unit, int64_t i, int64_t j) {
    return c->length[i] * (unit ? 1.0 : c->w_length[j]);
}

/* Adds the gradients through the lengths; those through the cosines are left in dlogits. */
static void lengths_backward(ole_criterion_call *c, bool unit) {
    int64_t n = c->classes, dim = c->dim;
    for (int64_t i = 0; i < c->rows; i++) {
        double along = 0.0;
        for (int64_t j = 0; j < n; j++)
            along += c->dlogits[i * n + j] * c->cosines[i * n + j] * (unit ? 1.0 : c->w_length[j]);
        for (int64_t k = 0; k < dim; k++)
            c->dx[i * dim + k] += along * c->u[i * dim + k];
    }
    for (int64_t j = 0; j < n && !unit; j++) {
        double along = 0.0;
        for (int64_t i = 0; i < c->rows; i++)
            along += c->dlogits[i * n + j] * c->cosines[i * n + j] * c->length[i];
        for (int64_t k = 0; k < dim; k++)
            c->dw[j * dim + k] += along * c->unit_w[j * dim + k];
    }
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < n; j++)
            c->dlogits[i * n + j] *= scale(c, unit, i, j) * (j == c->labels[i] ? c->slope[i] : 1.0);
}

static bool eval(ole_criterion_call *c, bool unit, double *value) {
    int64_t n = c->classes;
    double lambda = lambda_at(c);
    ole_criterion_class_cosines(c);
    for (int64_t i = 0; i < c->rows * n; i++)
        c->logits[i] = scale(c, unit, i / n, i % n) * c->cosines[i];
    ole_criterion_count(c);
    for (int64_t i = 0; i < c->rows; i++) {
        int64_t y = c->labels[i], at = i * n + y;
        double slope, angular = psi((int)c->param[0], c->cosines[at], &slope);
        c->slope[i] = (lambda + slope) / (1.0 + lambda);
        c->cosines[at] = (lambda * c->cosines[at] + angular) / (1.0 + lambda);
        c->logits[at] = scale(c, unit, i, y) * c->cosines[at];
    }
    *value = ole_criterion_cross_entropy(c);
    lengths_backward(c, unit);
    ole_criterion_class_cosines_backward(c);
    return true;
}

static bool eval_l_softmax(ole_criterion_call *call, double *value) {
    return eval(call, false, value);
}

static bool eval_a_softmax(ole_criterion_call *call, double *value) {
    return eval(call, true, value);
}

/* clang-format off */
#define PARAMS(lowest)                                                                             \
    {{.name = "margin", .initial = 4.0, .min = 1.0, .max = 10.0, .whole = true},                   \
     {.name = "base", .initial = 1000.0, .min = 0.0, .max = 1e9},                                  \
     {.name = "gamma", .initial = 0.12, .min = 0.0, .max = 1e9},                                   \
     {.name = "power", .initial = 1.0, .min = 0.0, .max = 1e3},                                    \
     {.name = "least", .initial = (lowest), .min = 0.0, .max = 1e9}}
/* clang-format on */

const ole_criterion ole_l_softmax = {
    .name = "l-softmax",
    .title = "L-Softmax",
    .traits = OLE_CRITERION_HEAD | OLE_CRITERION_NO_BIAS,
    .param = PARAMS(0.0),
    .tuned = "margin",
    .grid = {1, 2, 3, 4, 5},
    .eval = eval_l_softmax,
};

const ole_criterion ole_a_softmax = {
    .name = "a-softmax",
    .title = "A-Softmax (SphereFace)",
    .traits = OLE_CRITERION_HEAD | OLE_CRITERION_NO_BIAS | OLE_CRITERION_UNIT,
    .param = PARAMS(5.0),
    .tuned = "margin",
    .grid = {1, 2, 3, 4, 5},
    .eval = eval_a_softmax,
};
