/*
 * tests/support/reference.h - the loss as its definition reads, by LAPACK in float64, class by
 * class: slow, obvious, and sharing no code with the library.
 */
#ifndef OLE_TESTS_REFERENCE_H
#define OLE_TESTS_REFERENCE_H

#include "ole/loss.h"

#include <stdbool.h>

/* Singular values of a[rows, cols] and, unless NULL, u[rows, k] and vt[k, cols]; k is the smaller.
 */
void reference_svd(const double *a, int64_t rows, int64_t cols, double *u, double *sigma,
                   double *vt);

typedef struct reference_loss {
    double class_term;
    double global_norm;
    double sum_of_norms; /* sum_c ‖X_c‖_*, the unit of the promised value error */
    int64_t rows;
    int64_t classes;
    int64_t rank;
    double *gradient; /* [rows given, dim] before weight/N and upstream; free() it */
    /*
     * What the promise of the gradient depends on: no σ within a factor 4 of its threshold (nor
     * both under what a float64 SVD resolves), no norm within 1e-6 of Δ.
     */
    bool clear;
    double condition; /* the largest σ_max / (smallest σ kept), over all blocks */
} reference_loss;

/*
 * `options` gives Δ, δ_abs and δ_rel; `narrow` says that the input was float32 (for δ_rel's
 * automatic value).  features[rows, dim] contiguous.
 */
reference_loss reference_evaluate(const double *features, const int64_t *labels, int64_t rows,
                                  int64_t dim, const ole_loss_options *options, bool narrow);

#endif
