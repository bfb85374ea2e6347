/*
 * src/train/ranks/reduce_device.h - buckets of gradients that lie in device memory, for reduce.c:
 * from card to card, or by way of the host.
 */
#ifndef OLE_SRC_TRAIN_RANKS_REDUCE_DEVICE_H
#define OLE_SRC_TRAIN_RANKS_REDUCE_DEVICE_H

#include "train/ranks/link.h"

typedef struct ole_device_buckets ole_device_buckets;

/* A piece of the block of gradients. */
typedef struct ole_bucket_range {
    size_t offset, bytes;
} ole_bucket_range;

/* All arguments but the ranges must outlive it. Nothing collective. */
ole_status ole_device_buckets_create(ole_device_buckets **buckets, const ole_link *link,
                                     ole_ranks *ranks, ole_params *params, const ole_graph *graph,
                                     const ole_bucket_range *range, int count, ole_error *error);
void ole_device_buckets_free(ole_device_buckets *buckets);

/* Starts the sum of bucket `i`, whose gradients are queued; in slot `i` where the host does it. */
void ole_device_buckets_start(ole_device_buckets *buckets, int i);

/* All sums are there, or what is queued from now on follows them. */
void ole_device_buckets_finish(ole_device_buckets *buckets);

/* Parameter `i` becomes that of rank 0. */
void ole_device_take_over(ole_device_buckets *buckets, int i);

#endif
