/* src/device/ref/pad.c - channels of zeros around those of the input (OLE_OP_PAD). */
#include "device/ref/ref.h"

/* The range of the input in each image of the output: `size` elements from `first`. */
typedef struct range {
    int64_t first, size, image;
} range;

static range range_of(const ole_node *node) {
    int64_t area = node->in.h * node->in.w;
    return (range){ole_pad_first(node->in, node->out) * area, ole_shape_size(node->in),
                   ole_shape_size(node->out)};
}

void REF(pad_forward)(const ref_run *run) {
    range r = range_of(run->node);
    const real *x = run->call->x[0];
    real *y = run->call->y;
    for (int64_t n = 0; n < run->n; n++)
        for (int64_t e = 0; e < r.image; e++) {
            int64_t from = e - r.first;
            *y++ = from >= 0 && from < r.size ? x[n * r.size + from] : 0;
        }
}

void REF(pad_backward)(const ref_run *run) {
    range r = range_of(run->node);
    const real *dy = run->call->dy;
    real *dx = run->call->dx[0];
    for (int64_t e = 0; dx && e < run->n * r.size; e++)
        ref_put(&dx[e], run->call->accumulate[0],
                (double)dy[e / r.size * r.image + r.first + e % r.size]);
}
