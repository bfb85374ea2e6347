/*
 * src/linalg/divide.h - eigenvalues and eigenvectors of a symmetric tridiagonal matrix by divide
 * and conquer (Cuppen; Gu and Eisenstat), implicit QL at the leaves.
 */
#ifndef OLE_SRC_LINALG_DIVIDE_H
#define OLE_SRC_LINALG_DIVIDE_H

#include "base/pool.h"

#include <stdbool.h>
#include <stdint.h>

/* Doubles of panel memory and of scratch for n rows with leading dimension ld. */
int64_t ole_divide_panels(int64_t ld);
int64_t ole_divide_scratch(int64_t ld);

/*
 * diag[n], off[n] (its last element is free to use): the matrix, destroyed.  On return diag holds
 * the eigenvalues in no particular order, row i of z[ld, ld] the eigenvector of diag[i], zero
 * beyond column n.  False if a leaf does not converge.
 */
bool ole_divide(ole_pool *pool, double *diag, double *off, int64_t n, double *z, int64_t ld,
                double *panels, double *scratch);

#endif
