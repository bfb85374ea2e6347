/*
 * src/embed/linear_kernels.h - the inner loops of softmax regression in float32, compiled once per
 * instruction set (linear_kernels.c) and selected as in linalg.
 */
#ifndef OLE_SRC_EMBED_LINEAR_KERNELS_H
#define OLE_SRC_EMBED_LINEAR_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OLE_LINEAR_UNIT = 16,   /* classes and dimensions are padded to multiples of this */
    OLE_LINEAR_PANEL = 192, /* dimensions side by side: a multiple of every kernel's `width` */
};

/* c[rows, columns] (+)= a b of a[rows, depth] and b[depth, columns]. */
typedef struct ole_linear_tile {
    int64_t rows;    /* a multiple of OLE_LINEAR_UNIT */
    int64_t columns; /* the same, or `width` */
    int64_t depth;
    const float *a;
    int64_t lda;     /* between rows of a; if `transposed`, between those of aᵀ */
    bool transposed; /* aᵀ [depth, rows] lies at `a` */
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    bool add;
} ole_linear_tile;

/* One row of logits, of `columns` classes with padding. */
typedef struct ole_linear_row {
    int64_t columns;
    const float *bias; /* [columns]: large and negative in the padding */
    int32_t right;
    float weight;
} ole_linear_row;

typedef struct ole_linear_kernels {
    int width; /* columns of the largest tile */

    void (*multiply)(const ole_linear_tile *tile);

    /* to = (from - mean) * scale. */
    void (*centre_f32)(const float *from, const double *mean, double scale, int64_t n, float *to);
    void (*centre_f64)(const double *from, const double *mean, double scale, int64_t n, float *to);

    /*
     * Adds the bias to logits, turns them into the gradient of the weighted softmax loss at them,
     * adds that to `sums`, and returns the loss without the weight.
     */
    double (*softmax)(const ole_linear_row *row, float *z, float *sums);
} ole_linear_kernels;

/* The table for this CPU, or for the level that OLE_CPU caps it at. */
const ole_linear_kernels *ole_linear_kernels_get(void);

#endif
