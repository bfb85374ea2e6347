/*
 * src/loss/ranks/ranks_spectra.h - singular values and polar factors of several matrices whose
 * columns lie on several ranks.
 *
 * Each A is [n, k] with k = sum of the columns k_r that rank r holds; k_r may be 0.  The Gram
 * matrix A A^T = sum_r A_r A_r^T is n x n whatever k is: it is added up over the ranks, decomposed
 * by one of them and handed to all.  So are the Gram matrices of the refinements (spectrum.h).
 * Several matrices go step by step together: their sums travel as one message, and different ranks
 * solve different ones.  What decides the way is the same number on every rank, never one that a
 * rank computed for itself, so ranks with different CPUs go the same way.
 */
#ifndef OLE_SRC_LOSS_RANKS_RANKS_SPECTRA_H
#define OLE_SRC_LOSS_RANKS_RANKS_SPECTRA_H

#include "linalg/spectrum_steps.h"
#include "ranks/ranks.h"

/* One matrix. */
typedef struct ole_ranks_loss_spectrum {
    ole_operand a;      /* in: this rank's columns (items = n, depth = k_r) */
    ole_spectrum found; /* out */
    /* Of ranks_spectra.c: */
    double *vectors, *values;
    ole_spectrum_refinement refinement;
    double size;  /* of the rows of the weak directions */
    double *gram; /* [n - weak, n - weak], the lower triangle packed */
    int owner;    /* who decomposes it */
    bool open;    /* weak directions are left */
} ole_ranks_loss_spectrum;

typedef struct ole_ranks_loss_spectra {
    ole_ranks *ranks;
    int64_t n;
    int most; /* matrices at a time */
    ole_ranks_loss_spectrum *items;
    ole_spectrum_space space;
    double *message; /* [most, n, n + 1] */
    double *mine;    /* what this rank found, to be handed out */
    int64_t *bytes;  /* [ranks] of a message */
} ole_ranks_loss_spectra;

/* Memory for up to `most` matrices of n rows at a time, with up to k columns here. */
void ole_ranks_loss_spectra_place(ole_ranks_loss_spectra *spectra, ole_arena *arena,
                                  ole_ranks *ranks, int64_t n, int64_t k, int most);

/*
 * Decomposes items[0 .. count-1], count <= most, whose `a` are set: the same on every rank.  False
 * on every rank if the eigensolver does not converge on one.
 */
bool ole_ranks_loss_spectra_of(ole_pool *pool, ole_ranks_loss_spectra *spectra, int count,
                               ole_cut cut);

/* product = this rank's columns of the polar factor, transposed: [k_r, n]. */
void ole_ranks_loss_spectra_polar(ole_pool *pool, ole_ranks_loss_spectra *spectra, int item,
                                  const ole_product *product);

#endif
