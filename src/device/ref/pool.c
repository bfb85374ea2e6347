/*
 * src/device/ref/pool.c - max and average pooling, as in PyTorch with ceil_mode off.
 *
 * Where a window reaches into the padding, the maximum ignores it and the average counts it as
 * zeros.  Max pooling saves the position of each maximum in its plane, one int32_t per output.  The
 * first of equal values wins, and NaN beats everything.
 */
#include "device/ref/ref.h"

#include "base/min_max.h"

#include <math.h>

/* The part of a window inside the image: rows [top, bottom), columns [left, right). */
typedef struct window {
    int64_t top, bottom, left, right;
} window;

static window window_of(const ole_node *node, int64_t i, int64_t j) {
    if (node->kernel == 0) return (window){0, node->in.h, 0, node->in.w};
    int64_t top = i * node->stride - node->pad, left = j * node->stride - node->pad;
    return (window){.top = ole_max(top, 0),
                    .bottom = ole_min(top + node->kernel, node->in.h),
                    .left = ole_max(left, 0),
                    .right = ole_min(left + node->kernel, node->in.w)};
}

/* The position of a window's maximum in its plane. */
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

/* Pixels per window, including padding. */
static double window_area(const ole_node *node) {
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
                *y++ = (real)(sum / window_area(node));
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
                real share = (real)((double)*dy++ / window_area(node));
                for (int64_t row = at.top; row < at.bottom; row++)
                    for (int64_t column = at.left; column < at.right; column++)
                        dx[row * node->in.w + column] += share;
            }
}
