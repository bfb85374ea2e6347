/*
 * src/linalg/float_kernels.h - products in float32, for operands that are stored as float32 and
 * results that need no more.  Everything else multiplies in float64 (panels.h).
 *
 * float_kernels.c is compiled once per instruction set and selected as in kernels.h.  The right
 * side is packed once: panels of `width` items side by side, [ceil(items/width)][depth][width]
 * floats, zero-padded.  The left side is read where it lies.
 */
#ifndef OLE_SRC_LINALG_FLOAT_KERNELS_H
#define OLE_SRC_LINALG_FLOAT_KERNELS_H

#include <stdint.h>

typedef struct ole_float_kernels {
    int width; /* items of a panel */

    /* Packs from[items, depth]. */
    void (*pack)(float *to, const float *from, int64_t items, int64_t depth);

    /*
     * c[rows, ldc] = a b^T of a[rows, depth] and packed b.  ldc is at least `items` rounded up to
     * the width: what lies beyond the items becomes 0 or stays.  Each element is summed in the same
     * order, whatever the rows beside it.
     */
    void (*multiply)(const float *a, int64_t rows, int64_t depth, const float *b, int64_t items,
                     float *c, int64_t ldc);
} ole_float_kernels;

/* The table for this CPU, or for the level that OLE_CPU caps it at. */
const ole_float_kernels *ole_float_kernels_get(void);

/* `items` rounded up to whole panels. */
static inline int64_t ole_float_padded(int64_t items) {
    int64_t width = ole_float_kernels_get()->width;
    return (items + width - 1) / width * width;
}

#endif
