/*
 * src/embed/linear_kernels.c - the inner loops of linear_kernels.h, written with vector types and
 * compiled once per instruction set (OLE_ISA is generic, avx2, avx512 or neon).
 *
 * A product keeps MR rows times up to NV vectors of columns in registers while the depth runs. It
 * reads its left side where it lies, one number at a time, so the rows of the data are never
 * packed.
 */
#include "embed/linear_kernels.h"

#include "linalg/float_tile.h"

#include <math.h>

#define OLE_SCALAR float
#include "base/vector.h"

typedef int32_t ivec __attribute__((vector_size(VL * sizeof(int32_t))));
typedef uint32_t uvec __attribute__((vector_size(VL * sizeof(uint32_t))));

/* ---- Products ----------------------------------------------------------------------------- */

/* MR rows and nv vectors; (row, depth) of the left side is at a[row * by_row + depth * by_depth].
 */
INLINE void micro(int nv, const ole_linear_tile *t, const float *a, int64_t by_row,
                  int64_t by_depth, const float *b, float *c) {
    vec sum[MR][NV];
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++)
            sum[r][v] = (vec){0};
    for (int64_t p = 0; p < t->depth; p++, a += by_depth, b += t->ldb) {
        vec right[NV];
        for (int v = 0; v < nv; v++)
            right[v] = load(b + v * VL);
        for (int r = 0; r < MR; r++) {
            vec left = splat(a[r * by_row]);
            for (int v = 0; v < nv; v++)
                sum[r][v] += left * right[v];
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv; v++) {
            float *to = c + r * t->ldc + v * VL;
            store(to, t->add ? load(to) + sum[r][v] : sum[r][v]);
        }
}

INLINE void columns(int nv, const ole_linear_tile *t, const float *b, float *c) {
    for (int64_t row = 0; row < t->rows; row += MR, c += MR * t->ldc)
        if (t->transposed)
            micro(nv, t, t->a + row, 1, t->lda, b, c);
        else
            micro(nv, t, t->a + row * t->lda, t->lda, 1, b, c);
}

static void multiply(const ole_linear_tile *t) {
    int64_t at = 0;
    for (; at + NV * VL <= t->columns; at += (int64_t)NV * VL)
        columns(NV, t, t->b + at, t->c + at);
    for (; at < t->columns; at += VL)
        columns(1, t, t->b + at, t->c + at);
}

/* ---- Rows --------------------------------------------------------------------------------- */

static void centre_f32(const float *from, const double *mean, double scale, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(((double)from[i] - mean[i]) * scale);
}

static void centre_f64(const double *from, const double *mean, double scale, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)((from[i] - mean[i]) * scale);
}

/* ---- Softmax ------------------------------------------------------------------------------ */

/* e to the x <= 0, to two units in the last place; 0 below -60, far under the rounding of a sum
 * that holds a 1. NaN stays. */
INLINE vec exponential(vec x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    vec shifted = x * 1.44269504f + magic, n = shifted - magic;
    vec r = x - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    vec y = r * (1.0f / 5040) + 1.0f / 720; /* |r| <= ln 2 / 2: the next term is under 1e-8 */
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * (r * r) + r + 1.0f;
    uvec exponent = ((uvec)shifted << 23) + (127u << 23); /* wraps where x is far below -60 */
    y *= (vec)exponent;
    return (vec)((ivec)y & ~(x < -60.0f));
}

static double softmax(const ole_linear_row *row, float *z, float *sums) {
    vec most = splat(-INFINITY), total = {0};
    for (int64_t i = 0; i < row->columns; i += VL) {
        vec v = load(z + i) + load(row->bias + i);
        store(z + i, v);
        ivec more = v > most;
        most = (vec)(((ivec)v & more) | ((ivec)most & ~more));
    }
    float largest = -INFINITY;
    for (int i = 0; i < VL; i++)
        largest = most[i] > largest ? most[i] : largest;
    double margin = (double)z[row->right] - (double)largest;
    for (int64_t i = 0; i < row->columns; i += VL) {
        vec v = exponential(load(z + i) - largest);
        store(z + i, v);
        total += v;
    }
    float sum = sum_lanes(total), factor = row->weight / sum;
    for (int64_t i = 0; i < row->columns; i += VL) {
        vec v = load(z + i) * factor;
        store(z + i, v);
        store(sums + i, load(sums + i) + v);
    }
    z[row->right] -= row->weight;
    sums[row->right] -= row->weight;
    return log((double)sum) - margin;
}

extern const ole_linear_kernels PASTE(ole_linear_kernels_, OLE_ISA);
const ole_linear_kernels PASTE(ole_linear_kernels_, OLE_ISA) = {
    .width = VL * NV,
    .multiply = multiply,
    .centre_f32 = centre_f32,
    .centre_f64 = centre_f64,
    .softmax = softmax,
};
