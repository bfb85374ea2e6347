/*
 * src/linalg/spectrum_steps.h - the single steps of a decomposition by spectrum.h, for callers that
 * act between them, such as summing parts of a matrix from other ranks.
 *
 * The order is: eigenvectors of A A^T into space->vectors and values, begin; then, while
 * directions are weak: form_rows, judge, (rows_times_a, clear, form_rows), the rows' Gram matrix
 * into square[0], refine, continue; at last end.
 */
#ifndef OLE_SRC_LINALG_SPECTRUM_STEPS_H
#define OLE_SRC_LINALG_SPECTRUM_STEPS_H

#include "linalg/spectrum.h"

/* State of the refinement of one matrix. */
typedef struct ole_spectrum_refinement {
    int64_t n;
    int64_t weak;    /* directions from here on are still weak */
    int64_t settled; /* those before are in norm */
    double norm, largest, threshold;
    double tail; /* a negligible rest, as one number */
    ole_cut cut;
} ole_spectrum_refinement;

typedef enum ole_spectrum_next {
    OLE_SPECTRUM_DONE,   /* the rest is negligible */
    OLE_SPECTRUM_REFINE, /* refine once more */
    OLE_SPECTRUM_CLEAR,  /* clear the weak vectors of the strong ones first */
} ole_spectrum_next;

void ole_spectrum_begin(ole_spectrum_refinement *refinement, ole_spectrum_space *space, int64_t n,
                        ole_cut cut);

/* space->rows[n - first, k] = Q2^T A for the weak directions; returns its Frobenius norm. */
double ole_spectrum_form_rows(ole_pool *pool, const ole_operand *a, ole_spectrum_space *space,
                              int64_t first);

/* What to do about weak directions whose rows have the Frobenius norm `size`. */
ole_spectrum_next ole_spectrum_judge(ole_spectrum_refinement *refinement, ole_spectrum_space *space,
                                     double size, bool whole_tail);

/* square[0][n - first, n] = R A^T for the rows R just formed. */
void ole_spectrum_rows_times_a(ole_pool *pool, const ole_operand *a, ole_spectrum_space *space,
                               int64_t first);

/*
 * The weak vectors Q2 hold a trace of the strong ones Q1, of the size of the eigensolver's error
 * over the gap: nothing to Q2, but in the rows Q2^T A it stands multiplied by the strong σ.  Takes
 * it out: Q2 -= Q1 Λ1^-1 (Q1^T A A^T Q2), the last product from square[0].
 */
void ole_spectrum_clear(ole_pool *pool, int64_t n, ole_spectrum_space *space, int64_t first);

/*
 * Decomposes the Gram matrix of the rows, square[0] with leading dimension
 * ole_eigen_pad(n - first), and turns the weak vectors into the better ones found; their
 * eigenvalues into values.  False if the eigensolver does not converge.
 */
bool ole_spectrum_refine(ole_pool *pool, int64_t n, ole_spectrum_space *space, int64_t first);

/* After a refinement: whether weak directions are left. */
bool ole_spectrum_continue(ole_spectrum_refinement *refinement, ole_spectrum_space *space,
                           double size);

void ole_spectrum_end(const ole_spectrum_refinement *refinement, const ole_spectrum_space *space,
                      ole_spectrum *out);

#endif
