/*
 * src/embed/minimise.h - a minimum of a smooth function of many variables by L-BFGS (Nocedal 1980)
 * with a preconditioner, in the calling thread: the bits depend on the function alone.
 */
#ifndef OLE_SRC_EMBED_MINIMISE_H
#define OLE_SRC_EMBED_MINIMISE_H

#include "ole/base.h"

#include <stdbool.h>

typedef struct ole_minimiser {
    int64_t n;
    void *context;
    /* The value at x, and its gradient. NaN or Inf shortens the step. */
    ole_status (*evaluate)(void *context, const double *x, double *value, double *gradient,
                           ole_error *error);
    /* direction = inverse of an estimate of the Hessian times the gradient, positive definite. */
    void (*precondition)(void *context, const double *gradient, double *direction);
    /* Called after each step; true stops. */
    bool (*report)(void *context, int64_t step, double value);
    int64_t most;     /* steps */
    double tolerance; /* stops once sqrt(gᵀ H⁻¹ g) falls to this share of `reference` */
    double reference; /* 0: the first point's, which is then stored here */
} ole_minimiser;

typedef struct ole_minimum {
    double value;
    int64_t steps;
    bool stopped;   /* by `report` */
    bool converged; /* the tolerance was reached */
} ole_minimum;

/* Starts at x and leaves the best point found there. */
ole_status ole_minimise(ole_minimiser *minimiser, double *x, ole_minimum *minimum,
                        ole_error *error);

#endif
