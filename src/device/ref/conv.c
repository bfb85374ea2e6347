/*
 * src/device/ref/conv.c - convolution, forward and backward, one sum per element.
 *
 *     y[n, o, i, j] = bias[o] + sum over c, a, b of
 *                     weight[o, c, a, b] * x[n, c, i * stride - pad + a, j * stride - pad + b]
 *
 * with x = 0 outside the image.  Parameters: weight, then bias if the node has one.
 */
#include "device/ref/ref.h"

/* y[o, i, j] of one image, without the bias; `weight` is filter o. */
static double window_sum(const ole_node *node, const real *x, const real *weight, int64_t i,
                         int64_t j) {
    int64_t k = node->kernel, h = node->in.h, w = node->in.w;
    int64_t top = i * node->stride - node->pad, left = j * node->stride - node->pad;
    double sum = 0;
    for (int64_t c = 0; c < node->in.c; c++)
        for (int64_t a = 0; a < k; a++) {
            if (top + a < 0 || top + a >= h) continue;
            const real *row = x + (c * h + top + a) * w;
            for (int64_t b = 0; b < k; b++)
                if (left + b >= 0 && left + b < w)
                    sum += (double)weight[(c * k + a) * k + b] * (double)row[left + b];
        }
    return sum;
}

void REF(conv_forward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0], *weight = run->call->param[0], *bias = run->call->param[1];
    real *y = run->call->y;
    int64_t filter = node->in.c * node->kernel * node->kernel;
    for (int64_t n = 0; n < run->n; n++)
        for (int64_t o = 0; o < node->out.c; o++)
            for (int64_t i = 0; i < node->out.h; i++)
                for (int64_t j = 0; j < node->out.w; j++) {
                    double sum = window_sum(node, x + n * ole_shape_size(node->in),
                                            weight + o * filter, i, j);
                    *y++ = (real)(sum + (node->bias ? (double)bias[o] : 0.0));
                }
}

/* The output row (or column) that reads input row `i` through kernel tap `a`, or -1. */
static int64_t reader(const ole_node *node, int64_t i, int64_t a, int64_t size) {
    int64_t at = i + node->pad - a;
    if (at < 0 || at % node->stride != 0 || at / node->stride >= size) return -1;
    return at / node->stride;
}

/* The gradient of x[c, i, j] of one image. */
static double input_gradient(const ole_node *node, const real *dy, const real *weight, int64_t c,
                             int64_t i, int64_t j) {
    int64_t k = node->kernel, h = node->out.h, w = node->out.w;
    double sum = 0;
    for (int64_t a = 0; a < k; a++) {
        int64_t row = reader(node, i, a, h);
        for (int64_t b = 0; row >= 0 && b < k; b++) {
            int64_t column = reader(node, j, b, w);
            for (int64_t o = 0; column >= 0 && o < node->out.c; o++)
                sum += (double)weight[((o * node->in.c + c) * k + a) * k + b] *
                       (double)dy[(o * h + row) * w + column];
        }
    }
    return sum;
}

static void backward_input(const ref_run *run) {
    const ole_node *node = run->node;
    const real *dy = run->call->dy, *weight = run->call->param[0];
    real *dx = run->call->dx[0];
    for (int64_t n = 0; n < run->n; n++, dy += ole_shape_size(node->out))
        for (int64_t c = 0; c < node->in.c; c++)
            for (int64_t i = 0; i < node->in.h; i++)
                for (int64_t j = 0; j < node->in.w; j++)
                    ref_put(dx++, run->call->accumulate[0],
                            input_gradient(node, dy, weight, c, i, j));
}

/* The gradient of weight[o, c, a, b]. */
static double weight_gradient(const ref_run *run, int64_t o, int64_t c, int64_t a, int64_t b) {
    const ole_node *node = run->node;
    int64_t h = node->in.h, w = node->in.w;
    double sum = 0;
    for (int64_t n = 0; n < run->n; n++) {
        const real *x = (const real *)run->call->x[0] + (n * node->in.c + c) * h * w;
        const real *dy =
            (const real *)run->call->dy + (n * node->out.c + o) * node->out.h * node->out.w;
        for (int64_t i = 0; i < node->out.h; i++) {
            int64_t row = i * node->stride - node->pad + a;
            if (row < 0 || row >= h) continue;
            for (int64_t j = 0; j < node->out.w; j++) {
                int64_t column = j * node->stride - node->pad + b;
                if (column >= 0 && column < w)
                    sum += (double)dy[i * node->out.w + j] * (double)x[row * w + column];
            }
        }
    }
    return sum;
}

static void backward_weight(const ref_run *run) {
    const ole_node *node = run->node;
    real *dweight = run->call->dparam[0];
    for (int64_t o = 0; o < node->out.c; o++)
        for (int64_t c = 0; c < node->in.c; c++)
            for (int64_t a = 0; a < node->kernel; a++)
                for (int64_t b = 0; b < node->kernel; b++)
                    *dweight++ = (real)weight_gradient(run, o, c, a, b);
}

void REF(conv_backward)(const ref_run *run) {
    if (run->call->dx[0]) backward_input(run);
    if (run->call->dparam[0]) backward_weight(run);
    if (run->node->bias && run->call->dparam[1]) REF(bias_gradient)(run);
}
