/*
 * src/device/ref/linear.c - the linear layer, forward and backward.
 *
 *     y[n, o] = bias[o] + sum over i of weight[o, i] * x[n, i]
 *
 * Parameters: weight, then bias if the node has one.
 */
#include "device/ref/ref.h"

void REF(linear_forward)(const ref_run *run) {
    int64_t in = ole_shape_size(run->node->in), out = ole_shape_size(run->node->out);
    const real *x = run->call->x[0], *weight = run->call->param[0], *bias = run->call->param[1];
    real *y = run->call->y;
    for (int64_t n = 0; n < run->n; n++)
        for (int64_t o = 0; o < out; o++) {
            double sum = run->node->bias ? (double)bias[o] : 0.0;
            for (int64_t i = 0; i < in; i++)
                sum += (double)weight[o * in + i] * (double)x[n * in + i];
            y[n * out + o] = (real)sum;
        }
}

static void backward_input(const ref_run *run) {
    int64_t in = ole_shape_size(run->node->in), out = ole_shape_size(run->node->out);
    const real *dy = run->call->dy, *weight = run->call->param[0];
    real *dx = run->call->dx[0];
    for (int64_t n = 0; n < run->n; n++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < out; o++)
                sum += (double)weight[o * in + i] * (double)dy[n * out + o];
            ref_put(&dx[n * in + i], run->call->accumulate[0], sum);
        }
}

static void backward_weight(const ref_run *run) {
    int64_t in = ole_shape_size(run->node->in), out = ole_shape_size(run->node->out);
    const real *dy = run->call->dy, *x = run->call->x[0];
    real *dweight = run->call->dparam[0];
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t n = 0; n < run->n; n++)
                sum += (double)dy[n * out + o] * (double)x[n * in + i];
            dweight[o * in + i] = (real)sum;
        }
}

void REF(bias_gradient)(const ref_run *run) {
    const real *dy = run->call->dy;
    real *dbias = run->call->dparam[1];
    int64_t channels = run->node->out.c, plane = run->node->out.h * run->node->out.w;
    for (int64_t o = 0; o < channels; o++) {
        double sum = 0;
        for (int64_t n = 0; n < run->n; n++)
            for (int64_t i = 0; i < plane; i++)
                sum += (double)dy[(n * channels + o) * plane + i];
        dbias[o] = (real)sum;
    }
}

void REF(linear_backward)(const ref_run *run) {
    if (run->call->dx[0]) backward_input(run);
    if (run->call->dparam[0]) backward_weight(run);
    if (run->node->bias && run->call->dparam[1]) REF(bias_gradient)(run);
}
