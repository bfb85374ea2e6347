/*
 * src/loss/checks.h - what surrounds the routes, for a batch in one place (ole.c) and for one on
 * several ranks (ranks_loss.c): checks of what the caller gave, and the way from norms and
 * directions to value and gradient.
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

/* All of a call but the number of rows. Without rows there need be no data. */
ole_status ole_loss_check_call(int64_t dim, const ole_loss_batch *batch,
                               const ole_loss_gradient *gradient, ole_error *error);

/* The thresholds for features of that type. */
ole_cut ole_loss_cut(const ole_loss_options *options, ole_dtype dtype);

/*
 * Fills labels and counts of the classes that were found among `rows` rows.  Errors: no row is
 * left, or the caller's per_class (of `capacity` entries) is too short.
 */
ole_status ole_loss_list_classes(const ole_groups *groups, int64_t rows, int64_t capacity,
                                 ole_loss_class *classes, ole_error *error);

/* Entries that the caller has room for: as many as there are where nothing is asked for. */
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
 * The result of what was found, and *factor, weight/N, by which directions become gradients.
 * `upstream` is the largest that will be asked for, 0 without a gradient.  OLE_ERROR_NUMERIC where
 * the value or such a gradient overflows; the result is untouched then.
 */
ole_status ole_loss_finish(const ole_loss_options *options, ole_dtype dtype,
                           const ole_loss_found *found, double upstream, ole_loss_result *result,
                           double *factor, ole_error *error);

/* gradient (+)= scale * direction, whose rows are in the order of `groups`. */
void ole_loss_write_gradient(const ole_groups *groups, int64_t dim, ole_dtype dtype,
                             const ole_loss_batch *batch, const ole_loss_gradient *gradient,
                             const double *direction, double scale);

#endif
