/*
 * src/device/ref/norm.c - batch norm over (N, H, W) of each channel, as PyTorch's BatchNorm2d, with
 * an optional sum and an optional ReLU behind it.
 *
 *     y = relu(gamma * (x - mean) / sqrt(variance + eps) + beta + second input)
 *
 * Training takes the mean and biased variance of the batch and moves the running ones by a tenth,
 * the running variance towards the unbiased one (towards 0 where a channel has one value);
 * otherwise the running ones are taken.  Parameters: gamma, beta where `affine`, then running mean
 * and variance.  Saved: mean and 1 / deviation of each channel, doubles.
 */
#include "device/ref/ref.h"

#include <math.h>

static const double eps = 1e-5, momentum = 0.1;

/* Where the elements of a channel lie: `plane` of each of n images, from `first` on. */
typedef struct channel {
    int64_t n, stride, plane, first;
} channel;

static channel channel_of(const ref_run *run, int64_t c) {
    int64_t plane = run->node->out.h * run->node->out.w;
    return (channel){
        .n = run->n, .stride = run->node->out.c * plane, .plane = plane, .first = c * plane};
}

#define FOR_EACH(e, ch)                                                                            \
    for (int64_t n_ = 0; n_ < (ch).n; n_++)                                                        \
        for (int64_t e = n_ * (ch).stride + (ch).first, end_ = e + (ch).plane; e < end_; e++)

/* The batch's mean and 1 / deviation of a channel; moves the running ones. */
static void batch_statistics(const ref_run *run, int64_t c, double *mean, double *scale) {
    const real *x = run->call->x[0];
    channel ch = channel_of(run, c);
    double count = (double)(ch.n * ch.plane), sum = 0, squares = 0;
    FOR_EACH(e, ch) sum += (double)x[e];
    *mean = sum / count;
    FOR_EACH(e, ch) squares += ((double)x[e] - *mean) * ((double)x[e] - *mean);
    *scale = 1 / sqrt(squares / count + eps);

    int first = run->node->affine ? 2 : 0;
    real *running_mean = run->call->param[first], *running_var = run->call->param[first + 1];
    double unbiased = squares / fmax(count - 1, 1);
    running_mean[c] = (real)((1 - momentum) * (double)running_mean[c] + momentum * *mean);
    running_var[c] = (real)((1 - momentum) * (double)running_var[c] + momentum * unbiased);
}

static void running_statistics(const ref_run *run, int64_t c, double *mean, double *scale) {
    int first = run->node->affine ? 2 : 0;
    *mean = (double)((const real *)run->call->param[first])[c];
    *scale = 1 / sqrt((double)((const real *)run->call->param[first + 1])[c] + eps);
}

void REF(norm_forward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0], *other = node->input[1] >= 0 ? run->call->x[1] : NULL;
    const real *gamma = run->call->param[0], *beta = run->call->param[1];
    real *y = run->call->y;
    double *saved = run->call->saved;
    for (int64_t c = 0; c < node->out.c; c++) {
        double mean, scale;
        if (run->call->train)
            batch_statistics(run, c, &mean, &scale);
        else
            running_statistics(run, c, &mean, &scale);
        if (saved) {
            saved[c] = mean;
            saved[node->out.c + c] = scale;
        }
        double g = node->affine ? (double)gamma[c] : 1, b = node->affine ? (double)beta[c] : 0;
        channel ch = channel_of(run, c);
        FOR_EACH(e, ch) {
            double value = ((double)x[e] - mean) * scale * g + b + (other ? (double)other[e] : 0);
            y[e] = (real)(node->relu && value < 0 ? 0 : value);
        }
    }
}

/* The gradient before the ReLU. */
static double gradient(const ref_run *run, int64_t e) {
    const real *dy = run->call->dy, *y = run->call->y;
    return run->node->relu && !(y[e] > 0) ? 0 : (double)dy[e];
}

void REF(norm_backward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0], *gamma = run->call->param[0];
    real *dx = run->call->dx[0], *dother = node->input[1] >= 0 ? run->call->dx[1] : NULL;
    real *dgamma = node->affine ? run->call->dparam[0] : NULL;
    real *dbeta = node->affine ? run->call->dparam[1] : NULL;
    const double *saved = run->call->saved;
    for (int64_t c = 0; c < node->out.c; c++) {
        channel ch = channel_of(run, c);
        double mean = saved[c], scale = saved[node->out.c + c];
        double count = (double)(ch.n * ch.plane), sum = 0, product = 0;
        FOR_EACH(e, ch) {
            sum += gradient(run, e);
            product += gradient(run, e) * ((double)x[e] - mean) * scale;
        }
        if (dgamma) dgamma[c] = (real)product;
        if (dbeta) dbeta[c] = (real)sum;
        FOR_EACH(e, ch) {
            if (dother) ref_put(&dother[e], run->call->accumulate[1], gradient(run, e));
        }
        if (!dx) continue;
        double g = (node->affine ? (double)gamma[c] : 1) * scale;
        FOR_EACH(e, ch) {
            double normal = ((double)x[e] - mean) * scale;
            ref_put(&dx[e], run->call->accumulate[0],
                    g * (gradient(run, e) - sum / count - normal * product / count));
        }
    }
}
