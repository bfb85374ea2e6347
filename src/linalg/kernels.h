/*
 * src/linalg/kernels.h - the inner loops that decide the speed of everything above them.
 *
 * kernels.c is compiled once per instruction set; panels.c picks the table for the CPU that
 * runs.  Each table gives its own bits (other vector lengths sum in another order), but always the
 * same bits on the same CPU model.
 *
 * Panels.  Products work on operands packed into panels: `width` items side by side, depth after
 * depth, [ceil(items/width)][depth][width] doubles, zero-padded.  One format serves as the left
 * and the right operand, so a Gram matrix packs its matrix once.
 */
#ifndef OLE_SRC_LINALG_KERNELS_H
#define OLE_SRC_LINALG_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a tile of a product replaces C or is added to it. */
typedef enum ole_store {
    OLE_STORE_SET, /* C = alpha A B */
    OLE_STORE_ADD, /* C += alpha A B */
} ole_store;

typedef struct ole_kernels {
    const char *name;
    int width; /* items of a panel */

    /*
     * Packs `items` x `depth` elements, element (i, p) at src[i * item_stride + p * depth_stride],
     * into consecutive panels.
     */
    void (*pack_f32)(double *dst, const float *src, int64_t item_stride, int64_t depth_stride,
                     int64_t items, int64_t depth);
    void (*pack_f64)(double *dst, const double *src, int64_t item_stride, int64_t depth_stride,
                     int64_t items, int64_t depth);

    /*
     * C[rows, cols] (+)= alpha * A B for whole panels a, b of the same depth.  `row0` and `col0`
     * place the tile in the product: with `lower`, micro-tiles wholly above the diagonal are
     * skipped (and elements above it inside the others are written but meaningless).
     */
    void (*multiply)(const double *a, const double *b, int64_t rows, int64_t cols, int64_t depth,
                     double alpha, double *c, int64_t ldc, int64_t row0, int64_t col0, bool lower,
                     ole_store store);

    /*
     * Two products of small matrices straight from memory, where packing would cost more than it
     * saves: gram[n, n] = X X^T (lower triangle) of x[n, depth], and C = M X of m[rows, n] and
     * x[n, cols].
     */
    void (*gram_f64)(const double *x, int64_t n, int64_t depth, int64_t ldx, double *gram,
                     int64_t ld);
    void (*multiply_f64)(const double *m, int64_t ldm, int64_t rows, int64_t n, const double *x,
                         int64_t ldx, int64_t cols, double *c, int64_t ldc);

    /* to = from; false if any element is NaN or Inf. */
    bool (*copy_finite_f32)(double *to, const float *from, int64_t n);

    /* to = factor * from, rounded once. */
    void (*scale_to_f32)(float *to, const double *from, double factor, int64_t n);

    /* sum_i x[i] * y[i]. */
    double (*dot_f64)(const double *x, const double *y, int64_t n);

    /* y[i] += a * x[i]. */
    void (*axpy)(double *y, double a, const double *x, int64_t n);

    /*
     * The symmetric eigenproblem (eigen.c puts the steps together), on matrices [lda, lda] of which
     * n rows and columns count: lda is a multiple of 8, what lies beyond n is zero.  The largest
     * element is about 1; those under 1e-140 count as zero.
     *
     * Householder tridiagonalisation of `a` (both triangles given).  On return diag[n],
     * off[n-1] hold the tridiagonal matrix T, row i of `a` the reflector that eliminated row i
     * (columns 0 to i-1, the last of them 1), tau[i] its factor.  `scratch`, here and below: 8 *
     * lda doubles.
     */
    void (*tridiagonalise)(double *a, int64_t n, int64_t lda, double *diag, double *off,
                           double *tau, double *scratch);

    /* m[n, cols] <- q m for the orthogonal q of those reflectors, a = q T q^T. */
    void (*apply_q)(const double *a, int64_t n, int64_t lda, const double *tau, double *m,
                    int64_t cols, double *scratch);

    /*
     * The eigenvalues of a small T into diag (in no order) by implicit QL, each turn applied to the
     * first `cols` columns (rounded up to 8) of the rows of z.  off has room for n.  False if it
     * does not converge.
     */
    bool (*ql)(double *diag, double *off, double *z, int64_t n, int64_t cols, int64_t ldz);

    /*
     * For D + rho z z^T with rising poles[k] (padded with infinity to a multiple of 8) and
     * square = rho z^2 (padded with zeros, their sum `total`): eigenvalue j is
     * pole[*origin] + the number returned, which is accurate relative to its own size.
     */
    double (*secular_root)(const double *pole, const double *square, int64_t k, int64_t j,
                           double total, int64_t *origin);

    /* product[i] *= (pole[i] - λ) / (pole[i] - pole[j]), without the divisor for i = j. */
    void (*secular_weights)(const double *pole, int64_t k, int64_t j, double base, double offset,
                            double *product);

    /* The unit vector u with u[i] ~ weight[i] / (pole[i] - λ), λ = base + offset. */
    void (*secular_vector)(const double *pole, const double *weight, int64_t k, double base,
                           double offset, double *u);
} ole_kernels;

/* The table for this CPU, or for the level that OLE_CPU caps it at. */
const ole_kernels *ole_kernels_get(void);

/* Its name: "avx512", "avx2", "neon" or "generic". */
const char *ole_kernels_name(void);

#endif
