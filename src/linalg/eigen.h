/*
 * src/linalg/eigen.h - eigenvalues and eigenvectors of a symmetric matrix in float64.
 *
 * Written here rather than taken from LAPACK because it is the loss's hottest part at the sizes
 * that training uses: between 2 and 4 times faster for 16 to 512 rows, and its bits do not depend
 * on which BLAS the process happens to have loaded.
 */
#ifndef OLE_SRC_LINALG_EIGEN_H
#define OLE_SRC_LINALG_EIGEN_H

#include "base/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Rows and leading dimension of the padded matrices for a problem of n rows: a multiple of 8, and
 * for larger ones no multiple of 64, whose columns would all fall into the same few cache sets.
 */
static inline int64_t ole_eigen_pad(int64_t n) {
    int64_t pad = (n + 7) / 8 * 8;
    return pad >= 128 && pad % 64 == 0 ? pad + 8 : pad;
}

/* Doubles of panel memory and of scratch that ole_eigen() needs besides its two matrices. */
OLE_INTERNAL int64_t ole_eigen_panels(int64_t n);
OLE_INTERNAL int64_t ole_eigen_scratch(int64_t n);

/*
 * Decomposes the symmetric n x n matrix in `a` (lower triangle given, leading dimension and rows
 * ole_eigen_pad(n), 64-byte aligned; no NaN or Inf).  values[n] in no particular order, row i of
 * `a` becomes the eigenvector of values[i].  `work` is another matrix of the same size.
 * False if the iteration does not converge.
 */
OLE_INTERNAL bool ole_eigen(ole_pool *pool, double *a, int64_t n, double *values, double *work,
                            double *panels, double *scratch);

#endif
