/*
 * src/train/ranks/reduce.h - sums over the ranks of a training step: gradients, batch norm's sums
 * and a few numbers that every rank needs.
 *
 * Gradients are summed in buckets, pieces of the block of all gradients (net/params.h).  A bucket
 * starts as soon as backward has computed everything in it, while backward continues with earlier
 * nodes.  The first bucket is small so that communication starts early; the others have about 1
 * MiB, or more if there would be too many.  Gradients in device memory go from GPU to GPU if
 * possible, concurrently with the device's other work, and through host memory otherwise (link.h).
 * If a batch has fewer rows than there are ranks, ranks without rows add zeros and copy from rank 0
 * whatever else the step changed.
 *
 * A step on every rank:
 *
 *     forward and losses, or nothing without rows
 *     ole_reduce_start(reduce, numbers, count);
 *     for each node, from the last to 0:
 *         ole_plan_backward(plan, node);
 *         ole_reduce_advance(reduce, node);
 *     ole_reduce_finish(reduce, k);             gradients and numbers are now the sums
 *     update
 */
#ifndef OLE_SRC_TRAIN_RANKS_REDUCE_H
#define OLE_SRC_TRAIN_RANKS_REDUCE_H

#include "model/network.h"
#include "ranks/ranks.h"
#include "train/ranks/link.h"

enum { OLE_MOST_BUCKETS = OLE_RANKS_SLOTS - 1 };

typedef struct ole_reduce ole_reduce;

/* A piece of the block of gradients. */
typedef struct ole_reduce_bucket {
    size_t offset, bytes;
    int node;           /* the last whose backward writes into it */
    int first, count;   /* of all gradients in the order of backward */
    ole_bucket *device; /* if gradients are in device memory */
    float *host;        /* [floats of `device`]: for sums on the host, unless GPUs are linked */
} ole_reduce_bucket;

/* Batches of one size. */
typedef struct ole_reduce_batch {
    ole_share share; /* the other ranks' rows, which a plan must know */
    int64_t rows;    /* ours */
    bool absent;     /* some rank has no rows: the others are a group of their own */
} ole_reduce_batch;

/* Fields other than link, ranks, batch and seconds are private to reduce.c. */
struct ole_reduce {
    ole_network *network;
    ole_ranks *ranks;
    ole_link link; /* how tensors reach other ranks */
    bool sync_norm;
    ole_reduce_batch batch[2]; /* whole batches, and the last of an epoch */
    ole_reduce_bucket bucket[OLE_MOST_BUCKETS];
    int buckets, started;
    unsigned char *marks; /* [params]: whether backward reached them */
    float *plain;         /* room for the largest parameter */
    double seconds;       /* in which this rank waited for others, in all */
};

/*
 * For batches of rows[0] and, unless 0, rows[1] rows on all ranks; sync_norm: batch norm is over
 * the whole batch.  Collective; fails on all ranks or none.  Freeze parameters first.  Network and
 * ranks must outlive it.
 */
ole_status ole_reduce_create(ole_reduce **reduce, ole_network *network, ole_ranks *ranks,
                             const int64_t rows[2], bool sync_norm, ole_error *error);
void ole_reduce_free(ole_reduce *reduce);

/* Starts a step, and the sums of numbers[count] (a few), which are there after
 * ole_reduce_finish(). */
void ole_reduce_start(ole_reduce *reduce, double *numbers, int count);

/* Starts the sums of the gradients that are complete once backward has passed `node`. */
void ole_reduce_advance(ole_reduce *reduce, int node);

/* The same for all nodes at once, on a rank without rows: its gradients are zero. */
void ole_reduce_advance_empty(ole_reduce *reduce);

/* Waits for everything that was started. */
void ole_reduce_finish(ole_reduce *reduce, int k);

/* With batch norm per rank: the running statistics become their means over the ranks. */
void ole_reduce_statistics(ole_reduce *reduce);

#endif
