/*
 * src/features/one_out.h - the principal subspace of a class without one of its rows, from the
 * spectrum of the whole class.
 */
#ifndef OLE_SRC_FEATURES_ONE_OUT_H
#define OLE_SRC_FEATURES_ONE_OUT_H

#include <stdint.h>

/* How many directions a subspace has (see ole/analyze.h). */
typedef struct ole_subspace_rule {
    double energy;   /* share of the energy that the directions hold together */
    double resolved; /* directions that hold less than this share are excluded */
    int most;        /* directions at most */
} ole_subspace_rule;

/* Doubles of scratch for n eigenvalues. */
static inline int64_t ole_one_out_scratch(int64_t n) {
    return 3 * (n + 8);
}

/*
 * The share of ‖x‖² that lies in the principal subspace of the class's other rows.  X_c^T X_c has
 * the eigenvalues lambda[n], falling, none negative; z[n] are the coordinates of the row x along
 * the eigenvectors.  0 if x is the only row.
 */
double ole_share_one_out(const double *lambda, const double *z, int64_t n, ole_subspace_rule rule,
                         double *scratch);

#endif
