/*
 * src/linalg/float_kernels.c - the inner loops of float_kernels.h, written with vector types and
 * compiled once per instruction set (OLE_ISA is generic, avx2, avx512 or neon).
 *
 * MR rows times up to NV vectors of items stay in registers while the depth runs.  A pass covers
 * DEPTH of it, so that its piece of a panel stays in the first-level cache for all rows.
 */
#include "linalg/float_kernels.h"

#include "linalg/float_tile.h"

enum { NR = VL * NV, DEPTH = 128 };

#define OLE_SCALAR float
#include "base/vector.h"

static void pack(float *to, const float *from, int64_t items, int64_t depth) {
    for (int64_t first = 0; first < items; first += NR, from += NR * depth)
        for (int64_t p = 0; p < depth; p++)
            for (int64_t i = 0; i < NR; i++)
                *to++ = first + i < items ? from[i * depth + p] : 0.0f;
}

/* Rows beyond the last one repeat it and are not stored, so that all rows take the same path. */
INLINE void micro(int nv, const float *a, int64_t rows, int64_t lda, int64_t depth, const float *b,
                  float *c, int64_t ldc, int add) {
    vec sum[MR][NV];
    const float *row[MR];
    for (int r = 0; r < MR; r++) {
        row[r] = a + (r < rows ? r : rows - 1) * lda;
        for (int v = 0; v < nv; v++)
            sum[r][v] = (vec){0};
    }
    for (int64_t p = 0; p < depth; p++, b += NR) {
        vec right[NV];
        for (int v = 0; v < nv; v++)
            right[v] = load(b + v * VL);
        for (int r = 0; r < MR; r++) {
            vec left = splat(row[r][p]);
            for (int v = 0; v < nv; v++)
                sum[r][v] += left * right[v];
        }
    }
    for (int r = 0; r < MR; r++)
        for (int v = 0; v < nv && r < rows; v++) {
            float *to = c + r * ldc + v * VL;
            store(to, add ? load(to) + sum[r][v] : sum[r][v]);
        }
}

/* Functions of their own, so that each keeps its sums in registers. */
#define DEFINE_MICRO(NAME, VECTORS)                                                                \
    static void NAME(const float *a, int64_t rows, int64_t lda, int64_t depth, const float *b,     \
                     float *c, int64_t ldc, int add) {                                             \
        micro(VECTORS, a, rows, lda, depth, b, c, ldc, add);                                       \
    }

DEFINE_MICRO(micro1, 1)
DEFINE_MICRO(micro_full, NV)

static void multiply(const float *a, int64_t rows, int64_t depth, const float *b, int64_t items,
                     float *c, int64_t ldc) {
    for (int64_t item = 0; item < items; item += NR, b += NR * depth, c += NR) {
        int64_t vectors = (items - item + VL - 1) / VL;
        for (int64_t p = 0; p < depth; p += DEPTH) {
            int64_t length = depth - p < DEPTH ? depth - p : DEPTH;
            const float *panel = b + p * NR;
            for (int64_t i = 0; i < rows; i += MR) {
                const float *from = a + i * depth + p;
                float *to = c + i * ldc;
                if (vectors >= NV)
                    micro_full(from, rows - i, depth, length, panel, to, ldc, p > 0);
                else
                    for (int64_t v = 0; v < vectors; v++)
                        micro1(from, rows - i, depth, length, panel + v * VL, to + v * VL, ldc,
                               p > 0);
            }
        }
    }
}

extern const ole_float_kernels PASTE(ole_float_kernels_, OLE_ISA);
const ole_float_kernels PASTE(ole_float_kernels_, OLE_ISA) = {
    .width = NR,
    .pack = pack,
    .multiply = multiply,
};
