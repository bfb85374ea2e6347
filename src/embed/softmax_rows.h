/*
 * src/embed/softmax_rows.h - the softmax loss of all rows and its gradient, in float32.
 *
 * Products, exponentials and the sums over a block of rows are in float32, the sums over blocks and
 * of the loss in float64: six digits of the gradient, in a quarter of the time of float64.  Rows
 * are centred and scaled before they are rounded, so a large mean costs no digits.  All sums are in
 * an order that the shape alone decides.
 */
#ifndef OLE_SRC_EMBED_SOFTMAX_ROWS_H
#define OLE_SRC_EMBED_SOFTMAX_ROWS_H

#include "embed/problem.h"

typedef struct ole_softmax_rows ole_softmax_rows;

ole_status ole_softmax_rows_create(ole_softmax_rows **rows, const ole_problem *problem,
                                   ole_error *error);
void ole_softmax_rows_free(ole_softmax_rows *rows);

/* The mean over the rows outside `fold` of weight · softmax loss(W x + b). */
typedef struct ole_softmax_call {
    const double *x; /* W [C, D], then b [C] */
    int fold;        /* -1: all rows count */
    double total;    /* sum of the weights of the rows that count */
    /* The gradient of another loss at W x, [rows, C], to be added with this factor; NULL: none. */
    const float *other;
    double factor;
    double value;     /* set by the call */
    double *gradient; /* [C, D], then [C]: set by the call */
} ole_softmax_call;

/* The rows with a class whose largest logit is that of their class, by W and b. */
int64_t ole_softmax_rows_right(ole_softmax_rows *rows, const double *x);

void ole_softmax_rows_run(ole_softmax_rows *rows, ole_softmax_call *call);

#endif
