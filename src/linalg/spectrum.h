/*
 * src/linalg/spectrum.h - singular values and polar factors of float32 matrices through a float64
 * Gram matrix, exact to far beyond float32.
 *
 * A is [n, k] with n <= k (take the transpose otherwise).  A A^T = Q Λ Q^T gives σ = sqrt(λ) and
 * polar(A) = Q1 Σ1^-1 Q1^T A.  Squaring loses the directions under about 1e-8 σ_max, so every
 * direction under 1e-4 σ_max is refined: its rows Q2^T A are formed, whose largest σ is now the
 * small one, and decomposed in the same way, as often as needed.  docs/maths.md bounds the error.
 */
#ifndef OLE_SRC_LINALG_SPECTRUM_H
#define OLE_SRC_LINALG_SPECTRUM_H

#include "base/arena.h"
#include "base/pool.h"
#include "linalg/cut.h"
#include "linalg/panels.h"

#include <stdbool.h>

/* Memory for problems up to n x k. Square matrices have ole_eigen_pad(n) rows and columns. */
typedef struct ole_spectrum_space {
    double *vectors;      /* in: the Gram matrix where it is given; out: eigenvectors as rows */
    double *square[2];    /* scratch matrices */
    double *values;       /* eigenvalues, then singular values */
    double *small_values; /* the same of a refinement */
    double *scratch;      /* for the eigensolver */
    double *panels;       /* A or its transpose, packed */
    double *small_panels; /* an n x n matrix, packed */
    double *rows;         /* [n, k]: Q2^T A; free for other use between calls */
} ole_spectrum_space;

void ole_spectrum_lay_out(ole_spectrum_space *space, ole_arena *arena, int64_t n, int64_t k);

/* What was found. `sigma` and `vectors` lie in the space. */
typedef struct ole_spectrum {
    int64_t n;
    double norm;           /* the sum of all singular values */
    double largest;        /* σ_max */
    int64_t rank;          /* directions over the cut */
    double threshold;      /* the cut, as a σ */
    const double *sigma;   /* [n] in no particular order */
    const double *vectors; /* [n, ole_eigen_pad(n)], row i belongs to sigma[i] */
} ole_spectrum;

/*
 * Decomposes A (items = n, depth = k, finite).  With `gram_given`, space->vectors holds A A^T
 * (lower triangle) already.  With `whole_tail` each of the negligible σ is computed; without, their
 * sum may be bounded and counted as one number (error under 1e-7 of the norm), their σ being set
 * to 0.  False if the eigensolver does not converge.
 */
bool ole_spectrum_of(ole_pool *pool, const ole_operand *a, bool gram_given, bool whole_tail,
                     ole_cut cut, ole_spectrum_space *space, ole_spectrum *out);

/* root[n, n] = sum over the directions over the cut of q q^T / σ, so that polar(A) = root A. */
void ole_spectrum_inverse_root(ole_pool *pool, const ole_spectrum *spectrum,
                               ole_spectrum_space *space, double *root, int64_t ld);

/*
 * product = root A, or (root A)^T = A^T root for a transposed operand: either way the polar factor
 * has the layout of the matrix itself.
 */
void ole_spectrum_apply(ole_pool *pool, const ole_operand *a, const double *root, int64_t ld,
                        ole_spectrum_space *space, const ole_product *product);

/* The Gram matrix A A^T of an operand into its lower triangle. */
void ole_gram(ole_pool *pool, const ole_operand *a, double *panels, double *gram, int64_t ld);

#endif
