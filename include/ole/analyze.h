/*
 * ole/analyze.h - what embedded features look like: which class subspaces overlap, and how much.
 *
 * The principal subspace of a class is spanned by the leading right singular vectors of its rows
 * X_c that hold a share `energy` of ‖X_c‖_F².  The principal angle between two classes is the
 * smallest angle between a vector of one subspace and a vector of the other: 90° when the classes
 * are orthogonal, which is what OLÉ asks for; 0° when they share a direction.
 */
#ifndef OLE_ANALYZE_H
#define OLE_ANALYZE_H

#include "ole/geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two classes and the smallest principal angle between their subspaces, in degrees. */
typedef struct ole_overlap {
    int64_t label_a; /* label_a < label_b */
    int64_t label_b;
    double angle;
} ole_overlap;

/*
 * The up to `capacity` pairs of classes with the smallest principal angles, by rising angle (then
 * by labels), into `pairs`; their number into *count.  `features` is [rows, dim] of OLE_F32 or
 * OLE_F64, contiguous; rows with a label < 0 are ignored, and so are classes whose rows are all
 * zero.  `energy` in (0, 1], 0.95 is usual; at most 32 directions a class are used.
 */
OLE_API ole_status ole_overlaps(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                                const int64_t *labels, double energy, int threads,
                                ole_overlap *pairs, int64_t capacity, int64_t *count,
                                ole_error *error);

/*
 * exp of the entropy of the normalised singular values σ_i / sum σ: how many directions really
 * carry the features.  Between 1 and min(rows, cols); 0 for an all-zero spectrum.
 */
OLE_API double ole_effective_rank(const double *sigma, int64_t count);

/*
 * The mean angle, in degrees, between two rows of one class and between two rows of different
 * classes (as a vector of features points, 0 to 180); NaN where there are no such rows.  Rows of
 * zeros and rows with a label < 0 are left out.  ole/geometry.h measures more.
 */
OLE_API ole_status ole_mean_angles(int64_t rows, int64_t dim, const float *features,
                                   const int32_t *labels, double *within, double *between,
                                   ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
