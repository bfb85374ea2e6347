/*
 * src/device/ref/norm.c - batch norm over (N, H, W) of each channel, as in PyTorch's BatchNorm2d,
 * optionally followed by an addition and a ReLU.
 *
 *     y = relu(gamma * (x - mean) / sqrt(variance + eps) + beta + second input)
 *
 * Training uses the mean and biased variance of the batch, and moves the running statistics a tenth
 * of the way towards the mean and the unbiased variance (towards 0 if a channel has one value).
 * Evaluation uses the running statistics.  Parameters: gamma, beta if `affine`, then running mean
 * and variance.  Saved: mean and 1 / deviation per channel, doubles.
 *
 * With a share, sums run over all ranks.  Forward sums x - s and (x - s)^2, where s is the running
 * mean, which all ranks know; the mean and squared distances follow from them.  Backward sums the
 * gradient and its product with the normalised x.  Gradients of gamma and beta are sums over this
 * rank's rows: they are added up later with those of all parameters.
 */
#include "device/ref/ref.h"
#include "device/share.h"

#include <math.h>

static const double eps = 1e-5, momentum = 0.1;

/* The elements of a channel: `plane` of them in each of n images, starting at `first`. */
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

/* Values per channel in the whole batch. */
static double count_of(const ref_run *run, bool shared) {
    int64_t rows = shared ? run->call->share->rows : run->n;
    return (double)(rows * run->node->out.h * run->node->out.w);
}

static real *running(const ref_run *run, bool variance) {
    return run->call->param[(run->node->affine ? 2 : 0) + variance];
}

/* Mean and sum of squared distances to it, of one channel. */
static void batch_moments(const ref_run *run, int64_t c, double *mean, double *squares) {
    const real *x = run->call->x[0];
    channel ch = channel_of(run, c);
    double sum = 0;
    *squares = 0;
    FOR_EACH(e, ch) sum += (double)x[e];
    *mean = sum / (double)(ch.n * ch.plane);
    FOR_EACH(e, ch) *squares += ((double)x[e] - *mean) * ((double)x[e] - *mean);
}

/* The same for the whole batch and all channels at once: moments [2, C]. */
static void shared_moments(const ref_run *run, double *moments) {
    int64_t channels = run->node->out.c;
    double ours = count_of(run, false), all = count_of(run, true);
    double *mean = moments, *squares = moments + channels;
    const real *shift = running(run, false);
    for (int64_t c = 0; c < channels; c++) {
        batch_moments(run, c, &mean[c], &squares[c]);
        double distance = mean[c] - (double)shift[c];
        mean[c] = ours * distance;
        squares[c] += ours * distance * distance;
    }
    ole_share_sum(run->call->share, moments, 2 * channels);
    for (int64_t c = 0; c < channels; c++) {
        double distance = mean[c] / all;
        mean[c] = (double)shift[c] + distance;
        squares[c] = fmax(squares[c] - all * distance * distance, 0);
    }
}

/* Updates the running statistics; returns the batch's 1 / deviation. */
static double batch_scale(const ref_run *run, int64_t c, double count, double mean,
                          double squares) {
    real *running_mean = running(run, false), *running_var = running(run, true);
    double unbiased = squares / fmax(count - 1, 1);
    running_mean[c] = (real)((1 - momentum) * (double)running_mean[c] + momentum * mean);
    running_var[c] = (real)((1 - momentum) * (double)running_var[c] + momentum * unbiased);
    return 1 / sqrt(squares / count + eps);
}

/* Mean and 1 / deviation of a channel. moments: those of all ranks, or NULL. */
static void statistics(const ref_run *run, int64_t c, const double *moments, double *mean,
                       double *scale) {
    if (!run->call->train) {
        *mean = (double)running(run, false)[c];
        *scale = 1 / sqrt((double)running(run, true)[c] + eps);
        return;
    }
    double squares;
    if (moments) {
        *mean = moments[c];
        squares = moments[run->node->out.c + c];
    } else {
        batch_moments(run, c, mean, &squares);
    }
    *scale = batch_scale(run, c, count_of(run, moments != NULL), *mean, squares);
}

void REF(norm_forward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0], *other = node->input[1] >= 0 ? run->call->x[1] : NULL;
    const real *gamma = run->call->param[0], *beta = run->call->param[1];
    real *y = run->call->y;
    double *saved = run->call->saved;
    double *moments = ole_norm_shared(run->call) ? run->call->scratch : NULL;
    if (moments) shared_moments(run, moments);
    for (int64_t c = 0; c < node->out.c; c++) {
        double mean, scale;
        statistics(run, c, moments, &mean, &scale);
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

/* Sums [2, C] of the gradient and of its product with the normalised x. Also writes the gradients
 * that need this rank's rows only. */
static void find_sums(const ref_run *run, double *sums) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0];
    real *dother = node->input[1] >= 0 ? run->call->dx[1] : NULL;
    real *dgamma = node->affine ? run->call->dparam[0] : NULL;
    real *dbeta = node->affine ? run->call->dparam[1] : NULL;
    const double *saved = run->call->saved;
    for (int64_t c = 0; c < node->out.c; c++) {
        channel ch = channel_of(run, c);
        double mean = saved[c], scale = saved[node->out.c + c], sum = 0, product = 0;
        FOR_EACH(e, ch) {
            sum += gradient(run, e);
            product += gradient(run, e) * ((double)x[e] - mean) * scale;
            if (dother) ref_put(&dother[e], run->call->accumulate[1], gradient(run, e));
        }
        if (dgamma) dgamma[c] = (real)product;
        if (dbeta) dbeta[c] = (real)sum;
        sums[c] = sum;
        sums[node->out.c + c] = product;
    }
}

void REF(norm_backward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0], *gamma = run->call->param[0];
    real *dx = run->call->dx[0];
    const double *saved = run->call->saved;
    double *sums = run->call->scratch;
    bool shared = ole_norm_shared(run->call);
    find_sums(run, sums);
    if (!dx) return;
    if (shared) ole_share_sum(run->call->share, sums, 2 * node->out.c);
    double count = count_of(run, shared);
    for (int64_t c = 0; c < node->out.c; c++) {
        channel ch = channel_of(run, c);
        double mean = saved[c], scale = saved[node->out.c + c];
        double sum = sums[c], product = sums[node->out.c + c];
        double g = (node->affine ? (double)gamma[c] : 1) * scale;
        FOR_EACH(e, ch) {
            double normal = ((double)x[e] - mean) * scale;
            ref_put(&dx[e], run->call->accumulate[0],
                    g * (gradient(run, e) - sum / count - normal * product / count));
        }
    }
}
