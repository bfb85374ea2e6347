/*
 * src/train/ranks/reduce.h - what the ranks of a training step add up: gradients, batch norm's
 * sums, and the few numbers that they all need to know.
 *
 * Gradients go in buckets: pieces of the block of all gradients (net/params.h), each started as
 * soon as backward has finished what lies in it, while it goes on with the nodes before.  The first
 * bucket is small, so that something is under way early; the others have about 1 MiB, or more where
 * there would be too many.  Gradients in the memory of a device go from card to card where that can
 * be, beside the device's other work, else through host memory (link.h).  Where a batch has fewer
 * rows than there are ranks, those without rows add zeros and take over what else the step changed
 * from rank 0.
 *
 * A step on every rank:
 *
 *     forward and losses, or nothing without rows
 *     ole_reduce_start(reduce, numbers, count);
 *     ole_reduce_backward(reduce, plan);
 *     ole_reduce_finish(reduce, k);             gradients and numbers are those of all
 *     update
 */
#ifndef OLE_SRC_TRAIN_RANKS_REDUCE_H
#define OLE_SRC_TRAIN_RANKS_REDUCE_H

#include "model/network.h"
#include "ranks/ranks.h"
#include "train/ranks/link.h"

typedef struct ole_reduce ole_reduce;

/*
 * For batches of rows[0] and, unless 0, rows[1] rows on all ranks; sync_norm: batch norm is of the
 * whole batch.  Collective, and fails on all ranks or none.  Freeze parameters before.  Network and
 * ranks must outlive it.
 */
ole_status ole_reduce_create(ole_reduce **reduce, ole_network *network, ole_ranks *ranks,
                             const int64_t rows[2], bool sync_norm, ole_error *error);
void ole_reduce_free(ole_reduce *reduce);

ole_ranks *ole_reduce_ranks(const ole_reduce *reduce);

/* Our rows of the batches of size k, and what their plan has to know of the others'. */
int64_t ole_reduce_rows(const ole_reduce *reduce, int k);
const ole_share *ole_reduce_share(const ole_reduce *reduce, int k);

/* Starts adding up numbers[count] (a few); they are there after ole_reduce_finish(). */
void ole_reduce_start(ole_reduce *reduce, double *numbers, int count);

/* Backward, its gradients started on their way. `plan` NULL: we have no rows. */
void ole_reduce_backward(ole_reduce *reduce, ole_plan *plan);

/* Waits for what was started. */
void ole_reduce_finish(ole_reduce *reduce, int k);

/* How tensors reach other ranks. */
const ole_link *ole_reduce_link(const ole_reduce *reduce);

/* Backward and the sums of its gradients, queued; a direct link is needed, and rows on all ranks.
 */
void ole_reduce_queue_backward(ole_reduce *reduce, ole_plan *plan);

/* Where batch norm is each rank's own: the running statistics become the means over the ranks. */
ole_status ole_reduce_statistics(ole_reduce *reduce, ole_error *error);

/* Seconds in which this rank waited for others, in all. */
double ole_reduce_seconds(const ole_reduce *reduce);

/* Buckets, and bytes of the largest: for tests and benchmarks. */
int ole_reduce_buckets(const ole_reduce *reduce, size_t *largest);

#endif
