/*
 * src/loss/ranks/ranks_loss.h - the OLÉ loss of a batch whose rows lie on several ranks.
 *
 * Every rank holds consecutive rows of one batch, in rank order, and gets the loss of the whole
 * batch and its gradient for the rank's own rows: the numbers of ole_loss_eval() on all rows in one
 * place, with the accuracy of ole/loss.h.
 *
 *     ole_ranks_loss *loss;
 *     ole_ranks_loss_create(&loss, ranks, 32, 512, NULL, OLE_RANKS_LOSS_AUTO, &error);
 *     ole_loss_batch mine = {.rows = n, .features = x, .labels = y, .label_type = OLE_I32};
 *     ole_loss_gradient gradient = {.data = g, .upstream = 1.0};
 *     ole_loss_result result = {0};
 *     ole_ranks_loss_eval(loss, &mine, &gradient, &result, &error);
 *     ole_ranks_loss_destroy(loss);
 *
 * All functions but destroy are collective: every rank makes the same calls, and an error on one
 * rank is the same error on all.  docs/maths.md derives the routes and their cost.
 */
#ifndef OLE_SRC_LOSS_RANKS_RANKS_LOSS_H
#define OLE_SRC_LOSS_RANKS_RANKS_LOSS_H

#include "base/export.h"

#include "ole/loss.h"
#include "ole/ranks.h"

typedef struct ole_ranks_loss ole_ranks_loss;

/* Different ways to the same numbers. */
typedef enum ole_ranks_loss_route {
    OLE_RANKS_LOSS_AUTO,       /* the cheapest of those below for the batch at hand */
    OLE_RANKS_LOSS_EVERYWHERE, /* all rows to every rank; each solves everything */
    OLE_RANKS_LOSS_SPLIT,      /* all rows to every rank; each solves some of the matrices */
    OLE_RANKS_LOSS_GRAM, /* matrices of more than dim rows by reduced Gram matrices, the rest split
                          */
} ole_ranks_loss_route;

/*
 * Plans batches of up to `max_rows` rows (0 or more) on this rank, of `dim` float32 features in
 * host memory.  dim, options (NULL: the defaults; of them device must be OLE_DEVICE_CPU) and route
 * are the same on every rank, max_rows and threads need not be.  ranks may be NULL: alone.
 */
OLE_INTERNAL ole_status ole_ranks_loss_create(ole_ranks_loss **loss, ole_ranks *ranks,
                                              int64_t max_rows, int64_t dim,
                                              const ole_loss_options *options,
                                              ole_ranks_loss_route route, ole_error *error);

/* NULL is allowed. */
OLE_INTERNAL void ole_ranks_loss_destroy(ole_ranks_loss *loss);

/*
 * As ole_loss_eval(), with these differences: mine->rows may be 0, `result` is of the whole batch
 * and the same on every rank, `gradient` (NULL on all ranks or on none) is of this rank's rows, and
 * rows in messages are counted over all ranks.  Nothing is allocated.
 */
OLE_INTERNAL ole_status ole_ranks_loss_eval(ole_ranks_loss *loss, const ole_loss_batch *mine,
                                            const ole_loss_gradient *gradient,
                                            ole_loss_result *result, ole_error *error);

/* The memory held on this rank in bytes, and the route of the last batch. */
size_t ole_ranks_loss_bytes(const ole_ranks_loss *loss);
OLE_INTERNAL ole_ranks_loss_route ole_ranks_loss_taken(const ole_ranks_loss *loss);

#endif
