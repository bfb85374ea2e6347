/* src/tsne/pca.h - features as centred doubles, and their leading principal components. */
#ifndef OLE_SRC_TSNE_PCA_H
#define OLE_SRC_TSNE_PCA_H

#include "base/pool.h"
#include "ole/base.h"

/* What every function on features checks first: a pointer, a shape, a type, finite numbers, and
 * the threads. */
ole_status ole_features_check(const char *function, int64_t rows, int64_t dim, ole_dtype dtype,
                              const void *features, int threads, ole_error *error);

/*
 * The features less their means into out[rows, dim], times *scale: a power of two that brings the
 * largest element to about 1, so that no square overflows.
 */
void ole_features_centre(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                         double *out, double *scale);

/* The coordinates of centred rows along their leading components, into out[rows, components]. */
ole_status ole_pca_project(ole_pool *pool, int64_t rows, int64_t dim, const double *centred,
                           int64_t components, double *out, ole_error *error);

#endif
