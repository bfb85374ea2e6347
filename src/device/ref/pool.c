/*
 * src/device/ref/pool.c - max and average pooling, as PyTorch's with ceil_mode off.
 *
 * A window that reaches into the padding: the maximum is over the pixels that exist, the average
 * counts the others as zeros.  Max pooling saves where each maximum was (an int32_t an output, the
 * pixel of its plane); of equal values the first counts, and NaN is above everything.
 */
#include "device/ref/ref.h"

#include <math.h>

/* The pixels of a window that exist: rows top to bottom - 1, columns left to right - 1. */
typedef struct window {
    int64_t top, bottom, left, right;
} window;

static int64_t at_least(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t at_most(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static window window_of(const ole_node *node, int64_t i, int64_t j) {
    if (node->kernel == 0) return (window){0, node->in.h, 0, node->in.w};
    int64_t top = i * node->stride - node->pad, left = j * node->stride - node->pad;
    return (window){.top = at_least(top, 0),
                    .bottom = at_most(top + node->kernel, node->in.h),
                    .left = at_least(left, 0),
                    .right = at_most(left + node->kernel, node->in.w)};
}

/* The pixel of the maximum in a plane. */
static int64_t find_max(const real *x, int64_t width, window at) {
    int64_t best = at.top * width + at.left;
    for (int64_t row = at.top; row < at.bottom; row++)
        for (int64_t column = at.left; column < at.right; column++) {
            real value = x[row * width + column];
            if (value > x[best] || (isnan(value) && !isnan(x[best]))) best = row * width + column;
        }
    return best;
}

void REF(maxpool_forward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0];
    real *y = run->call->y;
    int32_t *saved = run->call->saved;
    for (int64_t p = 0; p < run->n * node->in.c; p++, x += node->in.h * node->in.w)
        for (int64_t i = 0; i < node->out.h; i++)
            for (int64_t j = 0; j < node->out.w; j++) {
                int64_t best = find_max(x, node->in.w, window_of(node, i, j));
                *y++ = x[best];
                if (saved) *saved++ = (int32_t)best;
            }
}

static void clear_unless_accumulating(const ref_run *run) {
    real *dx = run->call->dx[0];
    for (int64_t e = 0; !run->call->accumulate[0] && e < run->n * ole_shape_size(run->node->in);
         e++)
        dx[e] = 0;
}

void REF(maxpool_backward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *dy = run->call->dy;
    real *dx = run->call->dx[0];
    const int32_t *saved = run->call->saved;
    if (!dx) return;
    clear_unless_accumulating(run);
    for (int64_t p = 0; p < run->n * node->in.c; p++, dx += node->in.h * node->in.w)
        for (int64_t i = 0; i < node->out.h * node->out.w; i++)
            dx[*saved++] += *dy++;
}

/* Pixels of a window, those in the padding too. */
static double area(const ole_node *node) {
    return node->kernel ? (double)node->kernel * node->kernel : (double)(node->in.h * node->in.w);
}

void REF(avgpool_forward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *x = run->call->x[0];
    real *y = run->call->y;
    for (int64_t p = 0; p < run->n * node->in.c; p++, x += node->in.h * node->in.w)
        for (int64_t i = 0; i < node->out.h; i++)
            for (int64_t j = 0; j < node->out.w; j++) {
                window at = window_of(node, i, j);
                double sum = 0;
                for (int64_t row = at.top; row < at.bottom; row++)
                    for (int64_t column = at.left; column < at.right; column++)
                        sum += (double)x[row * node->in.w + column];
                *y++ = (real)(sum / area(node));
            }
}

void REF(avgpool_backward)(const ref_run *run) {
    const ole_node *node = run->node;
    const real *dy = run->call->dy;
    real *dx = run->call->dx[0];
    if (!dx) return;
    clear_unless_accumulating(run);
    for (int64_t p = 0; p < run->n * node->in.c; p++, dx += node->in.h * node->in.w)
        for (int64_t i = 0; i < node->out.h; i++)
            for (int64_t j = 0; j < node->out.w; j++) {
                window at = window_of(node, i, j);
                real share = (real)((double)*dy++ / area(node));
                for (int64_t row = at.top; row < at.bottom; row++)
                    for (int64_t column = at.left; column < at.right; column++)
                        dx[row * node->in.w + column] += share;
            }
}
