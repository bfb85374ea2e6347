/*
 * ole/linalg.h - the building blocks of the loss for any matrix: singular values, nuclear norm,
 * thin SVD and polar factor.
 *
 * Example: the nuclear norm of a 2 x 3 matrix.
 *
 *     float a[6] = {3, 0, 0, 0, 4, 0};
 *     double norm;
 *     ole_matrix view = {.data = a, .rows = 2, .cols = 3, .dtype = OLE_F32};
 *     if (ole_nuclear_norm(&view, 1, &norm, NULL) == OLE_OK)
 *         printf("%g\n", norm); // 7
 *
 * Matrices are row-major views of OLE_F32 or OLE_F64.  These functions allocate and free what they
 * need; for a loss in a training loop, plan once with ole/loss.h instead.
 *
 * NaN or Inf is OLE_ERROR_DATA and the message names the row; an empty matrix is
 * OLE_ERROR_ARGUMENT; float64 elements so large that a result overflows are OLE_ERROR_NUMERIC.
 * Results have the same bits for any number of threads.
 */
#ifndef OLE_LINALG_H
#define OLE_LINALG_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

typedef struct ole_matrix {
    void *data; /* element (0, 0) */
    int64_t rows;
    int64_t cols;
    int64_t stride; /* elements from one row to the next, >= cols; 0 means cols */
    ole_dtype dtype;
} ole_matrix;

/* The min(rows, cols) singular values of `a`, falling, into `sigma`. */
OLE_API ole_status ole_singular_values(const ole_matrix *a, int threads, double *sigma,
                                       ole_error *error);

/* ‖a‖_*: the sum of the singular values. */
OLE_API ole_status ole_nuclear_norm(const ole_matrix *a, int threads, double *norm,
                                    ole_error *error);

/* ---- Factors -------------------------------------------------------------------------------- */

/*
 * Thin SVD, a = u diag(sigma) vt with k = min(rows, cols): u is [rows, k], vt is [k, cols], both of
 * a's type and filled through their views; sigma falls.  u and vt may be NULL.  Computed in float64
 * (LAPACK dgesdd) in the calling thread.
 */
OLE_API ole_status ole_svd(const ole_matrix *a, const ole_matrix *u, double *sigma,
                           const ole_matrix *vt, ole_error *error);

/*
 * polar = U1 V1^T, over the singular directions with σ > max(delta_abs, delta_rel * σ_max).  For a
 * full-rank matrix and both thresholds zero this is the orthogonal factor of the polar
 * decomposition.  `delta_rel` may be OLE_DELTA_REL_AUTO of ole/loss.h.  `rank`, the number of
 * directions kept, may be NULL.
 */
OLE_API ole_status ole_polar(const ole_matrix *a, double delta_abs, double delta_rel, int threads,
                             const ole_matrix *polar, int64_t *rank, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
