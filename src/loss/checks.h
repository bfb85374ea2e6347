/*
 * src/loss/checks.h - what every route shares, on one rank (ole.c) or several (ranks_loss.c):
 * argument checks before it, and the step from norms and directions to value and gradient after it.
 */
#ifndef OLE_SRC_LOSS_CHECKS_H
#define OLE_SRC_LOSS_CHECKS_H

#include "linalg/cut.h"
#include "loss/group.h"
#include "ole/loss.h"

enum { OLE_MAX_SIDE = 1 << 30 }; /* rows or columns */

/* Copies the caller's options, of whatever version (NULL: the defaults), and checks them. */
ole_status ole_loss_read_options(ole_loss_options *options, const ole_loss_options *given,
                                 ole_error *error);

ole_status ole_loss_check_options(const ole_loss_options *options, ole_error *error);
ole_status ole_loss_check_dim(int64_t dim, ole_error *error);

/* Checks a call except its number of rows. Without rows, data may be NULL. */
ole_status ole_loss_check_call(int64_t dim, const ole_loss_batch *batch,
                               const ole_loss_gradient *gradient, ole_error *error);

/* The thresholds for features of that type. */
ole_cut ole_loss_cut(const ole_loss_options *options, ole_dtype dtype);

/*
 * Fills labels and counts of the classes among `rows` rows.  Errors: every row is ignored, or the
 * caller's per_class (of `capacity` entries) is too short.
 */
ole_status ole_loss_list_classes(const ole_groups *groups, int64_t rows, int64_t capacity,
                                 ole_loss_class *classes, ole_error *error);

/* Entries that the caller has room for: unlimited if it requests none. */
int64_t ole_loss_capacity(const ole_loss_result *result);

/* The error when a route fails. */
ole_status ole_loss_not_solved(int64_t rows, int64_t dim, ole_error *error);

/* What a route found. */
typedef struct ole_loss_found {
    const ole_groups *groups;
    const ole_loss_class *classes;
    double norm;
    int64_t rank;
} ole_loss_found;

/*
 * Fills the result, and *factor with weight/N, which turns directions into gradients.  `upstream`
 * is the largest upstream factor, 0 without a gradient.  OLE_ERROR_NUMERIC: the value or the
 * gradient overflows; the result is then unchanged.
 */
ole_status ole_loss_finish(const ole_loss_options *options, ole_dtype dtype,
                           const ole_loss_found *found, double upstream, ole_loss_result *result,
                           double *factor, ole_error *error);

/* gradient (+)= scale * direction, whose rows are in the order of `groups`. */
void ole_loss_write_gradient(const ole_groups *groups, int64_t dim, ole_dtype dtype,
                             const ole_loss_batch *batch, const ole_loss_gradient *gradient,
                             const double *direction, double scale);

#endif
