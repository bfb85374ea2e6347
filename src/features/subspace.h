/* src/features/subspace.h - the principal subspace of each class of an embedding. */
#ifndef OLE_SRC_FEATURES_SUBSPACE_H
#define OLE_SRC_FEATURES_SUBSPACE_H

#include "base/export.h"

#include "features/classes.h"

#include <stdbool.h>

enum { OLE_SUBSPACE_MAX = 32 }; /* directions of a class, at most */

/* One class: `size` orthonormal directions, the rows of basis [size, dim]; 0 for a zero class. */
typedef struct ole_subspace {
    int64_t label;
    int64_t size;
    double *basis;
} ole_subspace;

typedef struct ole_subspaces {
    int64_t dim;
    int64_t classes;
    ole_subspace *of; /* [classes], by rising label */
    double *memory;   /* holds every basis */
} ole_subspaces;

/*
 * The subspaces of all classes with a label >= 0, each class one task of the pool (of `threads`
 * threads).  See ole/analyze.h for `energy`; directions that hold less than 1e-10 of a class's
 * energy are excluded for any `energy`, because the Gram matrix does not resolve them.
 * On failure there is nothing to free.
 */
OLE_INTERNAL ole_status ole_subspaces_create(ole_subspaces *subspaces,
                                             const ole_embedding *embedding, double energy,
                                             ole_pool *pool, int threads, ole_error *error);

/*
 * The share of a row's energy in the subspace of the other rows of its class, for rows with
 * `wanted` set.  Both are [rows].
 */
typedef struct ole_one_out {
    const bool *wanted;
    double *share;
} ole_one_out;

/* The same for rows already grouped and known to be finite; `one_out` may be NULL. */
ole_status ole_subspaces_of(ole_subspaces *subspaces, const ole_embedding *embedding,
                            const ole_classes *classes, double energy, const ole_one_out *one_out,
                            ole_pool *pool, int threads, ole_error *error);
OLE_INTERNAL void ole_subspaces_destroy(ole_subspaces *subspaces);

#endif
