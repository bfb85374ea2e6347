/*
 * src/device/ref/pointwise.c - elementwise ops: ReLU, addition (with an optional ReLU),
 * concatenation, flattening, dropout.
 */
#include "base/philox.h"
#include "device/ref/ref.h"

#include <string.h>

static int64_t elements(const ref_run *run) {
    return run->n * ole_shape_size(run->node->out);
}

/* ---- ReLU and addition -------------------------------------------------------------------- */

static real rectified(real value) {
    return value < 0 ? 0 : value; /* keeps NaN */
}

void REF(relu_forward)(const ref_run *run) {
    const real *x = run->call->x[0];
    real *y = run->call->y;
    for (int64_t e = 0; e < elements(run); e++)
        y[e] = rectified(x[e]);
}

void REF(add_forward)(const ref_run *run) {
    const real *a = run->call->x[0], *b = run->call->x[1];
    real *y = run->call->y;
    for (int64_t e = 0; e < elements(run); e++)
        y[e] = run->node->relu ? rectified(a[e] + b[e]) : a[e] + b[e];
}

/* Passes dy to input `i`, masked by the ReLU. dx may be dy: masking twice changes nothing. */
static void pass_gradient(const ref_run *run, int i, bool relu) {
    const real *dy = run->call->dy, *y = run->call->y;
    real *dx = run->call->dx[i];
    for (int64_t e = 0; dx && e < elements(run); e++)
        ref_put(&dx[e], run->call->accumulate[i], relu && !(y[e] > 0) ? 0 : (double)dy[e]);
}

void REF(relu_backward)(const ref_run *run) {
    pass_gradient(run, 0, true);
}

void REF(add_backward)(const ref_run *run) {
    pass_gradient(run, 0, run->node->relu);
    pass_gradient(run, 1, run->node->relu);
}

/* ---- Concatenation and flattening --------------------------------------------------------- */

/* The range of input `i` in each image of the output: *size elements from the returned offset. */
static int64_t range_of(const ole_node *node, int i, int64_t *size) {
    int64_t first = ole_shape_size(node->in);
    *size = i == 0 ? first : ole_shape_size(node->out) - first;
    return i == 0 ? 0 : first;
}

void REF(concat_forward)(const ref_run *run) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        int64_t size, first = range_of(run->node, i, &size);
        const real *x = run->call->x[i];
        real *y = (real *)run->call->y + first;
        for (int64_t n = 0; n < run->n; n++)
            memcpy(y + n * ole_shape_size(run->node->out), x + n * size,
                   (size_t)size * sizeof(real));
    }
}

void REF(concat_backward)(const ref_run *run) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        int64_t size, first = range_of(run->node, i, &size);
        real *dx = run->call->dx[i];
        for (int64_t n = 0; dx && n < run->n; n++) {
            const real *dy =
                (const real *)run->call->dy + n * ole_shape_size(run->node->out) + first;
            for (int64_t e = 0; e < size; e++)
                ref_put(dx++, run->call->accumulate[i], (double)dy[e]);
        }
    }
}

void REF(flatten_forward)(const ref_run *run) {
    if (run->call->y != run->call->x[0])
        memcpy(run->call->y, run->call->x[0], (size_t)elements(run) * sizeof(real));
}

void REF(flatten_backward)(const ref_run *run) {
    pass_gradient(run, 0, false);
}

/* ---- Dropout ------------------------------------------------------------------------------ */

static double scale_of(const ole_node *node) {
    return 1 / (1 - (double)node->rate);
}

/* Saves 1 for elements that stay, else 0. Philox counter e / 4, word e % 4 decides element e. */
void REF(dropout_forward)(const ref_run *run) {
    const real *x = run->call->x[0];
    real *y = run->call->y;
    unsigned char *saved = run->call->saved;
    uint64_t a = (run->call->step << 20) + (uint64_t)run->node->index;
    uint64_t first = (uint64_t)(ole_first_row(run->call) * ole_shape_size(run->node->out));
    uint32_t word[4];
    if (!run->call->train) {
        REF(flatten_forward)(run);
        return;
    }
    for (int64_t e = 0; e < elements(run); e++) {
        uint64_t at = first + (uint64_t)e;
        if (at % 4 == 0 || e == 0) ole_philox(run->seed, OLE_RANDOM_DROPOUT, a, at / 4, word);
        bool stays = ole_uniform(word[at % 4]) >= run->node->rate;
        y[e] = stays ? (real)((double)x[e] * scale_of(run->node)) : 0;
        if (saved) saved[e] = stays;
    }
}

void REF(dropout_backward)(const ref_run *run) {
    const real *dy = run->call->dy;
    real *dx = run->call->dx[0];
    const unsigned char *saved = run->call->saved;
    for (int64_t e = 0; dx && e < elements(run); e++)
        ref_put(&dx[e], run->call->accumulate[0],
                saved[e] ? (double)dy[e] * scale_of(run->node) : 0);
}
