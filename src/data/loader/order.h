/*
 * src/data/loader/order.h - which samples an epoch's batches have, and in which order.
 *
 * In order, shuffled, or balanced: C classes per batch with K samples each.  The order depends on
 * (seed, epoch) alone.
 */
#ifndef OLE_SRC_DATA_LOADER_ORDER_H
#define OLE_SRC_DATA_LOADER_ORDER_H

#include "ole/train/data.h"

enum { OLE_RANDOM_SHUFFLE = 1 }; /* a = epoch, b = position */

typedef struct ole_order {
    uint64_t seed;
    bool shuffle;
    int64_t samples;    /* of the split */
    int64_t batch_size; /* the last batch may be smaller */
    int64_t batches;
    int64_t *list; /* the samples of `epoch`, batch after batch */
    int64_t epoch; /* -1: none yet */
    /* balanced batches only */
    int classes_per_batch, samples_per_class; /* 0: not balanced */
    int classes;
    const int32_t *labels; /* [samples] */
    int64_t *members;      /* [samples]: by class */
    int64_t *start;        /* [classes + 1]: where a class begins among the members */
    int64_t *used;         /* [classes]: members dealt since the class was shuffled */
    int64_t *deck;         /* [classes] */
    int64_t *dealt;        /* [classes_per_batch]: scratch */
} ole_order;

/* `labels` [samples] of a split with `classes` classes stays in use. */
ole_status ole_order_create(ole_order *order, const ole_loader_options *options,
                            const int32_t *labels, int64_t samples, int classes, ole_error *error);
void ole_order_destroy(ole_order *order);

/* The sample numbers of a batch; *count is how many. Valid until the next call. */
const int64_t *ole_order_get(ole_order *order, int64_t epoch, int64_t batch, int64_t *count);

#endif
