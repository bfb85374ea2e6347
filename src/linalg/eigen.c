/*
 * src/linalg/eigen.c - the symmetric eigenproblem: scale, tridiagonalise, divide and
 * conquer, transform back.  The inner loops are in kernels.c; this file puts the steps in order and
 * keeps the padding.
 */
#include "linalg/eigen.h"

#include "linalg/divide.h"
#include "linalg/kernels.h"

#include <math.h>
#include <string.h>

enum { TILE = 16 };

/* Clears the padding, copies the lower triangle over the upper, and returns the largest element. */
static double symmetrise(double *a, int64_t n, int64_t lda) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * lda;
        for (int64_t j = 0; j <= i; j++) {
            double size = fabs(row[j]);
            if (size > largest) largest = size;
            a[j * lda + i] = row[j];
        }
        memset(row + n, 0, (size_t)(lda - n) * sizeof *row);
    }
    memset(a + n * lda, 0, (size_t)((lda - n) * lda) * sizeof *a);
    return largest;
}

static void transpose(double *to, const double *from, int64_t n) {
    for (int64_t i0 = 0; i0 < n; i0 += TILE)
        for (int64_t j0 = 0; j0 < n; j0 += TILE)
            for (int64_t i = i0; i < i0 + TILE && i < n; i++)
                for (int64_t j = j0; j < j0 + TILE && j < n; j++)
                    to[i * n + j] = from[j * n + i];
}

int64_t ole_eigen_panels(int64_t n) {
    return ole_divide_panels(ole_eigen_pad(n));
}

int64_t ole_eigen_scratch(int64_t n) {
    return 10 * ole_eigen_pad(n) + ole_divide_scratch(ole_eigen_pad(n));
}

bool ole_eigen(ole_pool *pool, double *a, int64_t n, double *values, double *work, double *panels,
               double *scratch) {
    const ole_kernels *k = ole_kernels_get();
    int64_t lda = ole_eigen_pad(n);
    double largest = symmetrise(a, n, lda);
    if (n == 1) {
        values[0] = a[0];
        a[0] = 1.0;
        return true;
    }
    /* A power of two: exact, and squares inside the reflectors neither overflow nor vanish. */
    int exponent = 0;
    frexp(largest, &exponent);
    double scale = ldexp(1.0, -exponent);
    for (int64_t i = 0; i < n * lda; i++)
        a[i] *= scale;
    double *off = scratch, *tau = scratch + lda, *rest = scratch + 2 * lda;
    k->tridiagonalise(a, n, lda, values, off, tau, rest);
    if (!ole_divide(pool, values, off, n, work, lda, panels, rest)) return false;
    /* The reflectors act on columns: they are applied to the transpose. */
    transpose(panels, work, lda);
    k->apply_q(a, n, lda, tau, panels, n, rest);
    transpose(a, panels, lda);
    for (int64_t i = 0; i < n; i++)
        values[i] = ldexp(values[i], exponent);
    return true;
}
