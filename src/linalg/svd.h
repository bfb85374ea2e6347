/*
 * src/linalg/svd.h - thin SVD in float64 by LAPACK (QR first where the matrix is long, then divide
 * and conquer), for float64 features: there squaring the matrix would cost too many digits.  And,
 * because only one thread at a time may be in LAPACK, the inverse of a definite matrix.
 */
#ifndef OLE_SRC_LINALG_SVD_H
#define OLE_SRC_LINALG_SVD_H

#include "base/arena.h"
#include "linalg/cut.h"
#include "linalg/panels.h"

#include <stdbool.h>

/* Memory for matrices of up to rows x cols. */
typedef struct ole_svd_space {
    double *a;     /* [rows, cols], destroyed by the decomposition */
    double *u;     /* [rows, k], row-major, k = min(rows, cols) */
    double *sigma; /* [k], falling */
    double *vt;    /* [k, cols], row-major */
    double *work;
    int64_t work_size;
    int *iwork;
    double *left; /* u and vt packed, for the polar factor */
    double *right;
} ole_svd_space;

void ole_svd_lay_out(ole_svd_space *space, ole_arena *arena, int64_t rows, int64_t cols);

/*
 * a[rows, cols] = u diag(sigma) vt for the matrix that `source` describes (items = rows).  Scaled
 * by a power of two on the way, so that neither huge nor tiny elements do harm.  False if LAPACK
 * does not converge by either of its methods.
 */
bool ole_svd_of(const ole_operand *source, ole_svd_space *space);

/* The sum of the k singular values just found, and how many are over the cut. */
double ole_svd_norm(const ole_svd_space *space, int64_t k);
int64_t ole_svd_rank(const ole_svd_space *space, int64_t k, ole_cut cut);

/* product = U1 V1^T of the first `rank` directions of the rows x cols matrix just decomposed. */
void ole_svd_polar(ole_pool *pool, ole_svd_space *space, int64_t rows, int64_t cols, int64_t rank,
                   const ole_product *product);

/* a[n, n], symmetric and positive definite, becomes its inverse; *logdet is the logarithm of its
 * determinant.  False if it is not definite. */
bool ole_invert_definite(double *a, int64_t n, double *logdet);

#endif
