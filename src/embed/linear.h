/*
 * src/embed/linear.h - OLE_EMBED_LINEAR: one matrix and a bias, trained on all rows at once.
 *
 * With rows x centred and scaled (problem.h) the objective is
 *
 *     mean of weight · softmax loss(W x + b) + lambda · OLE(W x) + decay/2 ‖W‖²
 */
#ifndef OLE_SRC_EMBED_LINEAR_H
#define OLE_SRC_EMBED_LINEAR_H

#include "embed/problem.h"

typedef struct ole_linear ole_linear;

/* Memory for fits of this problem, and the preconditioner. */
ole_status ole_linear_create(ole_linear **linear, ole_problem *problem, ole_error *error);
void ole_linear_free(ole_linear *linear);

typedef struct ole_linear_fit {
    double lambda, decay;
    int fold;         /* whose rows are left out; -1: none are */
    const char *part; /* for progress */
    double objective; /* set by the fit, like the next */
    int64_t steps;
} ole_linear_fit;

/* Starts from the weights, which are 0 at first, and leaves them at the minimum. */
ole_status ole_linear_run(ole_linear *linear, ole_linear_fit *fit, ole_error *error);

/* W [C, D] followed by b [C]; they may be set. */
double *ole_linear_weights(ole_linear *linear);
int64_t ole_linear_variables(const ole_linear *linear);

/* The same for rows as they lie in memory: `map` [C, D] and `bias` [C]. */
void ole_linear_unscaled(const ole_linear *linear, double *map, double *bias);

/* Rows with a class that are classified right, in float32. */
int64_t ole_linear_right(ole_linear *linear);

/* Logits [count, C] of these rows, which are in rising order. */
void ole_linear_score(ole_linear *linear, const int64_t *rows, int64_t count, float *logits);

/* For tests: value and gradient at [W, b]; `fast`: as far as float32 goes. */
ole_status ole_linear_evaluate(ole_linear *linear, const ole_linear_fit *fit, bool fast,
                               const double *x, double *value, double *gradient, ole_error *error);

#endif
