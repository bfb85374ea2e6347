/*
 * src/loss/criteria/criterion.h - the losses to compare OLÉ with, each a row of one table
 * (table.c) and a file of its own here.
 *
 * A criterion takes a batch of features [N, D] and their labels, some also the classifier's weights
 * or a centre per class, and returns a value and its gradient.  Everything is computed in float64
 * by one thread, so the bits depend on nothing but the input.
 *
 *     const ole_criterion *arcface = ole_criterion_find("arcface");
 *     ole_criterion_plan_options options = {.criterion = arcface, .rows = 64, .dim = 128,
 *                                           .classes = 10};
 *     ole_criterion_defaults(arcface, options.param);
 *     ole_criterion_plan *plan;
 *     ole_status status = ole_criterion_plan_create(&plan, &options, &error);
 *
 * The promise of each: rows with a negative label count as absent; NaN or Inf in the features is
 * OLE_ERROR_DATA and names the row; a batch that gives a criterion nothing to compare (one sample
 * per class, say) has the value 0 and a gradient of zeros; a row of zeros gets no gradient from a
 * criterion that reads only directions.  docs/maths.md has formulas, sources and error bounds.
 */
#ifndef OLE_SRC_LOSS_CRITERIA_CRITERION_H
#define OLE_SRC_LOSS_CRITERIA_CRITERION_H

#include "base/export.h"
#include "linalg/svd.h"
#include "loss/group.h"

#include <stdbool.h>

enum { OLE_CRITERION_PARAMS = 5, OLE_CRITERION_GRID = 5, OLE_CRITERION_TEXT = 256 };

/* How a criterion may be used, and what it needs, as bits. */
enum {
    OLE_CRITERION_BESIDE = 1,   /* added to the classifier's loss */
    OLE_CRITERION_ALONE = 2,    /* the whole objective: nothing trains the classifier */
    OLE_CRITERION_HEAD = 4,     /* in softmax's place: reads and trains the classifier */
    OLE_CRITERION_NO_BIAS = 8,  /* of the classifier: it stays 0 */
    OLE_CRITERION_UNIT = 16,    /* the classifier's rows are kept at length 1 */
    OLE_CRITERION_CENTERS = 32, /* keeps a centre per class: its state */
    OLE_CRITERION_SVD = 64,     /* decomposes the features */
};

typedef struct ole_criterion_param {
    const char *name; /* as in --loss-options; NULL ends a list */
    double initial, min, max;
    bool whole;        /* whole numbers only */
    const char *words; /* "hard|semi-hard": names of 0, 1, ...; or NULL */
} ole_criterion_param;

typedef struct ole_criterion_call ole_criterion_call;

typedef struct ole_criterion {
    const char *name;  /* "center" */
    const char *title; /* "center loss", in reports */
    unsigned traits;
    double weight; /* default beside softmax */
    ole_criterion_param param[OLE_CRITERION_PARAMS];
    const char *tuned;                      /* the parameter that `grid` is for; NULL: its weight */
    double weight_grid[OLE_CRITERION_GRID]; /* what `ole compare` tries beside softmax */
    double grid[OLE_CRITERION_GRID];        /* ... alone or in its place */
    /* False: a decomposition failed. */
    bool (*eval)(ole_criterion_call *call, double *value);
} ole_criterion;

/* The row at `index`, in the order of ole_train_options.loss; NULL behind the last. */
OLE_INTERNAL const ole_criterion *ole_criterion_at(int index);
OLE_INTERNAL const ole_criterion *ole_criterion_find(const char *name);

OLE_INTERNAL void ole_criterion_defaults(const ole_criterion *criterion,
                                         double param[OLE_CRITERION_PARAMS]);

/* Reads "margin=0.5,scale=30" over what `param` holds; "" changes nothing. */
OLE_INTERNAL ole_status ole_criterion_read(const ole_criterion *criterion, const char *text,
                                           double param[OLE_CRITERION_PARAMS], ole_error *error);

/* ---- Evaluating --------------------------------------------------------------------------- */

typedef struct ole_criterion_plan ole_criterion_plan;

typedef struct ole_criterion_plan_options {
    const ole_criterion *criterion;
    int64_t rows, dim, classes; /* at most; exactly; exactly */
    double param[OLE_CRITERION_PARAMS];
} ole_criterion_plan_options;

OLE_INTERNAL ole_status ole_criterion_plan_create(ole_criterion_plan **plan,
                                                  const ole_criterion_plan_options *options,
                                                  ole_error *error);
OLE_INTERNAL void ole_criterion_plan_free(ole_criterion_plan *plan);

typedef struct ole_criterion_batch {
    int64_t rows;
    int64_t step;          /* counts from 1 */
    const double *x;       /* [rows, dim] */
    const int32_t *labels; /* [rows], below classes */
    const double *w, *b;   /* [classes, dim], [classes]: of the classifier, for a HEAD */
    double *centers;       /* [classes, dim]: read, and moved to what the next step reads */
} ole_criterion_batch;

typedef struct ole_criterion_result {
    double value;    /* a mean over the batch, without weight */
    int64_t correct; /* rows that a HEAD's classifier had right */
    double *dx;      /* [rows, dim], filled */
    double *dw, *db; /* [classes, dim], [classes], filled, for a HEAD */
} ole_criterion_result;

OLE_INTERNAL ole_status ole_criterion_eval(ole_criterion_plan *plan,
                                           const ole_criterion_batch *batch,
                                           ole_criterion_result *result, ole_error *error);

/* ---- For the files of the criteria -------------------------------------------------------- */

/* The rows of a call lie in the order of their classes, those of class k (of those present) from
 * start[k] up to start[k + 1]. */
struct ole_criterion_call {
    int64_t rows, dim, classes, step;
    const double *x;       /* [rows, dim] */
    const int32_t *labels; /* [rows] */
    const double *w, *b;
    double *centers;
    const double *param;
    int64_t present; /* classes that have rows */
    const int64_t *start;
    double *dx, *dw, *db; /* zeros, to be added to */
    int64_t correct;
    /* Scratch: */
    double *u, *du;           /* [rows, dim]: unit rows and their gradient */
    double *length;           /* [rows] */
    double *slope;            /* [rows] */
    double *square[2];        /* [rows, rows] */
    double *cosines;          /* [rows, classes]: of features and class vectors */
    double *logits, *dlogits; /* [rows, classes] */
    double *unit_w, *dunit_w; /* [classes, dim] */
    double *w_length;         /* [classes] */
    double *room;             /* [rows, dim] */
    double *panels[2];
    ole_svd_space svd;
};

/* table.c's rows */
extern const ole_criterion ole_center, ole_contrastive, ole_triplet, ole_l_softmax, ole_a_softmax,
    ole_cosface, ole_arcface, ole_supcon, ole_mcr2, ole_opl, ole_ssole, ole_logit_norm,
    ole_ole_unit;

/* parts.c: what they share. */

/* c[n, m] = alpha a[n, k] b[k, m]; `ta`, `tb`: a is stored as [k, n], b as [m, k]. */
typedef struct ole_factor {
    const double *data;
    bool transposed;
} ole_factor;
void ole_criterion_multiply(const ole_criterion_call *call, ole_factor a, ole_factor b, int64_t n,
                            int64_t k, int64_t m, double alpha, double *c);

/* u = x / length, row by row. */
void ole_unit_rows(const double *x, int64_t rows, int64_t dim, double *u, double *length);

/* dx += the gradient through that. */
void ole_unit_rows_backward(const double *u, const double *length, const double *du, int64_t rows,
                            int64_t dim, double *dx);

/* The unit rows of call->x, and through them from call->du to call->dx. */
void ole_criterion_unit(ole_criterion_call *call);
void ole_criterion_unit_backward(const ole_criterion_call *call);

/* square[0] = u u^T, the cosines; then du = (d + d^T) u for d = square[1], its gradient. */
void ole_criterion_cosines(ole_criterion_call *call);
void ole_criterion_cosines_backward(ole_criterion_call *call);

/* square[0] = the distances of unit rows; then du for square[1], its gradient. */
void ole_criterion_distances(ole_criterion_call *call);
void ole_criterion_distances_backward(ole_criterion_call *call);

/* to[count, dim] = unit rows first to first + count - 1 minus their mean. */
void ole_criterion_center(const ole_criterion_call *call, int64_t first, int64_t count, double *to);

/* The SVD of a[rows, dim] into call->svd, its nuclear norm, and how many of its singular values
 * enter a gradient: the rule is that of OLÉ's default for float32.  False: no convergence. */
bool ole_criterion_decompose(ole_criterion_call *call, const double *a, int64_t rows, double *norm);
int64_t ole_criterion_rank(const ole_criterion_call *call, int64_t rows);

/* to[rows, dim] += factor U1 V1ᵀ of the first `rank` directions of that SVD. */
void ole_criterion_add_polar(ole_criterion_call *call, int64_t rows, int64_t rank, double factor,
                             double *to);

/* cosines = those of features and class vectors; then dx and dw for their gradient, in dlogits. */
void ole_criterion_class_cosines(ole_criterion_call *call);
void ole_criterion_class_cosines_backward(ole_criterion_call *call);

/* Counts rows whose largest logit is their label's into call->correct. */
void ole_criterion_count(ole_criterion_call *call);

/* The mean softmax cross-entropy of `logits`, whose gradient goes to `dlogits`. */
double ole_criterion_cross_entropy(ole_criterion_call *call);

#endif
