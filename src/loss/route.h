/*
 * src/loss/route.h - the two ways to the norms and polar factors of a grouped batch.
 *
 * A route gets the rows sorted by class and fills nuclear norm and rank of every class and of the
 * whole batch, and on request direction[rows, dim]: for each row
 * [‖X_c‖_* > Δ] polar(X_c) - polar(X), before any factor.
 *
 *   route_gram.c  float32: Gram matrices in float64 (linalg/spectrum.h)
 *   route_svd.c   float64: SVD by LAPACK (linalg/svd.h)
 */
#ifndef OLE_SRC_LOSS_ROUTE_H
#define OLE_SRC_LOSS_ROUTE_H

#include "base/arena.h"
#include "base/pool.h"
#include "linalg/spectrum.h"
#include "linalg/svd.h"
#include "loss/group.h"
#include "ole/loss.h"

#include <stdbool.h>

/* Input and output of a route. */
typedef struct ole_route_job {
    ole_pool *pool;
    const ole_groups *groups;
    int64_t dim;
    double floor; /* Δ */
    ole_cut cut;
    bool want_direction;
    ole_loss_class *classes; /* [groups->classes]: label and count given, norm and rank filled */
    double norm;             /* of the whole */
    int64_t rank;
    double *direction; /* filled if want_direction; points into the route's memory */
} ole_route_job;

/* Classes whose smaller side is at most this are solved one per thread, larger ones by all. */
enum { OLE_SMALL_CLASS = 128 };

/* Whether threads pay, found by timing both ways now and then; zero at first. */
typedef struct ole_route_pace {
    unsigned calls;
    double cost[2]; /* seconds per multiplication: one thread, all threads */
} ole_route_pace;

/* Memory of the Gram route. */
typedef struct ole_route_gram {
    ole_route_pace pace;
    double *rows;              /* [max_rows, dim], sorted by class */
    ole_spectrum_space whole;  /* for X and for large classes */
    ole_spectrum_space *small; /* one per thread, for small classes */
    double *gram;              /* [m, m], m = min(max_rows, dim): X X^T, then polar roots */
    double *root;              /* [m, m]: the inverse root of X's Gram matrix */
    double *direction;         /* [max_rows, dim] */
} ole_route_gram;

void ole_route_gram_lay_out(ole_route_gram *route, ole_arena *arena, int64_t max_rows, int64_t dim,
                            int threads);
bool ole_route_gram_run(ole_route_gram *route, ole_route_job *job);

/* Memory of the SVD route. */
typedef struct ole_route_svd {
    double *rows;      /* [max_rows, dim], sorted by class */
    ole_svd_space svd; /* for one matrix at a time */
    double *direction; /* [max_rows, dim] */
} ole_route_svd;

void ole_route_svd_lay_out(ole_route_svd *route, ole_arena *arena, int64_t max_rows, int64_t dim);
bool ole_route_svd_run(ole_route_svd *route, ole_route_job *job);

#endif
