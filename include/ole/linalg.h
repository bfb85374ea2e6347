/*
 * ole/linalg.h - the building blocks of the loss, for any matrix: singular values, thin SVD,
 * nuclear norm and polar factor.
 *
 * Matrices are row-major views: `data` points at element (0,0), `stride` is the number of elements
 * from one row to the next (0 means cols).  Types: OLE_F32 and OLE_F64.  These functions allocate
 * and free what they need; for a loss in a training loop, plan once with ole/loss.h instead.
 *
 *     float a[6] = {3, 0, 0, 0, 4, 0};
 *     double norm;
 *     ole_matrix view = {.data = a, .rows = 2, .cols = 3, .dtype = OLE_F32};
 *     if (ole_nuclear_norm(&view, 1, &norm, NULL) == OLE_OK)
 *         printf("%g\n", norm); // 7
 *
 * NaN or Inf is OLE_ERROR_DATA with the row named; an empty matrix is OLE_ERROR_ARGUMENT; float64
 * elements so large that a result overflows are OLE_ERROR_NUMERIC.
 * Results do not depend on the number of threads, bit for bit.
 */
#ifndef OLE_LINALG_H
#define OLE_LINALG_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_matrix {
    void *data;
    int64_t rows;
    int64_t cols;
    int64_t stride; /* elements, >= cols; 0 means cols */
    ole_dtype dtype;
} ole_matrix;

/* The min(rows, cols) singular values of `a`, falling, into `sigma`. */
OLE_API ole_status ole_singular_values(const ole_matrix *a, int threads, double *sigma,
                                       ole_error *error);

/* ‖a‖_*: the sum of the singular values. */
OLE_API ole_status ole_nuclear_norm(const ole_matrix *a, int threads, double *norm,
                                    ole_error *error);

/*
 * Thin SVD, a = u diag(sigma) vt, k = min(rows, cols): u is [rows, k], vt is [k, cols], both of
 * a's type and filled through their views; sigma falls.  Either of u and vt may be NULL.  Computed
 * in float64 (LAPACK dgesdd); single-threaded.
 */
OLE_API ole_status ole_svd(const ole_matrix *a, const ole_matrix *u, double *sigma,
                           const ole_matrix *vt, ole_error *error);

/*
 * polar = U1 V1^T, over the singular directions with σ > max(delta_abs, delta_rel * σ_max); for a
 * full-rank matrix and both zero this is the orthogonal factor of the polar decomposition.
 * `delta_rel` may be OLE_DELTA_REL_AUTO of ole/loss.h.  `rank` (how many were kept) may be NULL.
 */
OLE_API ole_status ole_polar(const ole_matrix *a, double delta_abs, double delta_rel, int threads,
                             const ole_matrix *polar, int64_t *rank, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
