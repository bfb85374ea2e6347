/*
 * src/features/novelty/covariance.h - means, scatter matrices and principal directions of the known
 * features, summed in float64 block by block, so that the features may lie in a mapped file.
 */
#ifndef OLE_SRC_FEATURES_NOVELTY_COVARIANCE_H
#define OLE_SRC_FEATURES_NOVELTY_COVARIANCE_H

#include "features/novelty/scorer.h"

/* The mean of each class into means [classes, dim] (may be NULL) and of all rows into centre. */
ole_status known_means(const score_training *t, double *centre, double *means, ole_error *error);

/* A symmetric matrix [dim, dim] with its spectrum; rows and leading dimension are `pad`. */
typedef struct scatter {
    int64_t dim, pad;
    double *matrix; /* the lower triangle; after scatter_decompose() row i is an eigenvector */
    double *values; /* [dim] eigenvalues, and */
    int64_t *order; /* [dim] their rows by falling eigenvalue */
    double fourth;  /* Σ ‖x‖⁴ of the rows summed */
    void *memory;
} scatter;

/*
 * 1/n Σ (x - m)(x - m)^T over the known rows, m the row's class mean (`means` [classes, dim]) or,
 * if `by_class` is false, `means` [dim] for all.  Destroy it.
 */
ole_status scatter_of(scatter *s, const score_training *t, const double *means, bool by_class,
                      ole_error *error);
void scatter_destroy(scatter *s);

/* Copies the lower triangle to the upper one. */
void scatter_fill(scatter *s);

/* The eigenvalues and eigenvectors of the matrix, which the vectors replace. */
ole_status scatter_decompose(scatter *s, ole_pool *pool, ole_error *error);

/*
 * Replaces the matrix S by (1 - a) S + a tr(S)/dim I with the shrinkage a of Ledoit and Wolf, "A
 * well-conditioned estimator for large-dimensional covariance matrices", 2004; returns tr(S)/dim.
 */
double scatter_shrink(scatter *s, int64_t rows);

#endif
