/*
 * src/device/ref/pointwise.c - ops that move or change elements one by one: ReLU, addition (with an
 * optional ReLU behind it), concatenation, flattening, dropout.
 */
#include "base/philox.h"
#include "device/ref/ref.h"

#include <string.h>

static int64_t elements(const ref_run *run) {
    return run->n * ole_shape_size(run->node->out);
}

/* ---- ReLU and addition ----------------------------------------------------------------------- */

static real rectified(real value) {
    return value < 0 ? 0 : value; /* NaN stays */
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

/* dy where y > 0 (everywhere without a ReLU) to input `i`. dx may be dy: done again, the same. */
static void pass(const ref_run *run, int i, bool relu) {
    const real *dy = run->call->dy, *y = run->call->y;
    real *dx = run->call->dx[i];
    for (int64_t e = 0; dx && e < elements(run); e++)
        ref_put(&dx[e], run->call->accumulate[i], relu && !(y[e] > 0) ? 0 : (double)dy[e]);
}

void REF(relu_backward)(const ref_run *run) {
    pass(run, 0, true);
}

void REF(add_backward)(const ref_run *run) {
    pass(run, 0, run->node->relu);
    pass(run, 1, run->node->relu);
}

/* ---- Concatenation and flattening ------------------------------------------------------------ */

/* Where input `i` lies in an image of the output: *size elements from the returned one. */
static int64_t part(const ole_node *node, int i, int64_t *size) {
    int64_t first = ole_shape_size(node->in);
    *size = i == 0 ? first : ole_shape_size(node->out) - first;
    return i == 0 ? 0 : first;
}

void REF(concat_forward)(const ref_run *run) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        int64_t size, first = part(run->node, i, &size);
        const real *x = run->call->x[i];
        real *y = (real *)run->call->y + first;
        for (int64_t n = 0; n < run->n; n++)
            memcpy(y + n * ole_shape_size(run->node->out), x + n * size,
                   (size_t)size * sizeof(real));
    }
}

void REF(concat_backward)(const ref_run *run) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        int64_t size, first = part(run->node, i, &size);
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
    pass(run, 0, false);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

static double scale_of(const ole_node *node) {
    return 1 / (1 - (double)node->rate);
}

/*
 * Saves which elements stay: 1 or 0. Element e of the whole batch is decided by word e % 4 of the
 * counter e / 4.
 */
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
