/*
 * tests/support/fixture.h - one batch of the loss with everything around it: features of either
 * type, labels, options, the evaluation and its gradient as doubles.
 *
 *     fixture f = fixture_make(20, 7, 4, CASE_NORMAL, OLE_F64, 1);
 *     f.options.delta_floor = 0.0;
 *     fixture_evaluate(&f);        // f.result, f.gradient
 *     fixture_free(&f);
 */
#ifndef OLE_TESTS_FIXTURE_H
#define OLE_TESTS_FIXTURE_H

#include "cases.h"
#include "ole/loss.h"

typedef struct fixture {
    int64_t rows, dim, count; /* count = rows * dim */
    ole_dtype dtype;
    double *x;             /* [rows, dim]; change it, then evaluate */
    int64_t *labels;       /* [rows] */
    void *features;        /* x in the plan's type */
    void *raw;             /* the gradient in the plan's type */
    double *gradient;      /* the same as doubles */
    ole_loss_class *class; /* [rows]: per-class results */
    ole_loss_options options;
    double upstream;
    ole_loss_result result;
} fixture;

/* Defaults for the options, upstream 1, labels i % classes, x filled with the structure. */
fixture fixture_make(int64_t rows, int64_t dim, int64_t classes, case_structure structure,
                     ole_dtype dtype, uint64_t seed);
fixture fixture_copy(const fixture *from);
void fixture_free(fixture *f);

/* x into features; x itself takes the rounded values. */
void fixture_load(fixture *f);

/* A plan with the fixture's options, for at least its rows; fails the test on an error. */
ole_loss_plan *fixture_plan(const fixture *f, int64_t max_rows);

/* Loads, evaluates (by a plan of its own, or the one given) value and gradient. */
void fixture_evaluate(fixture *f);
void fixture_evaluate_with(fixture *f, ole_loss_plan *plan);

/* The batch that the fixture describes, and the raw gradient as destination. */
ole_loss_batch fixture_batch(const fixture *f);
ole_loss_gradient fixture_destination(const fixture *f);

/* The promised errors for the type: of the value in units of sum_c ‖X_c‖_*, of the gradient. */
double fixture_value_bound(const fixture *f);
double fixture_gradient_bound(const fixture *f);

/* weight/N before which the promises are made: value and gradient are divided by it. */
double fixture_factor(const fixture *f);

/* sum_i a[i] b[i], and the Frobenius norm of a - b. */
double inner(const double *a, const double *b, int64_t count);
double distance(const double *a, const double *b, int64_t count);

#endif
