/*
 * src/device/link.h - collectives between ranks whose tensors live in a backend's own memory: sums
 * and gathers between GPUs, enqueued like any other work, and gradients in buckets.
 *
 * Backends with own memory have this table (ole_backend.linker).  Every rank calls open() to link
 * its context; functions marked "(linked)" require that.  All communication is enqueued in one
 * order, the same on every rank, and may be recorded.
 *
 *     linker->gpu(context, name); ... no two ranks of a host share a GPU ...
 *     rank 0: linker->make_id(id, error); all: open(context, id, rank, size, error);
 */
#ifndef OLE_SRC_DEVICE_LINK_H
#define OLE_SRC_DEVICE_LINK_H

#include "device/backend.h"

enum { OLE_LINK_ID = 128, OLE_LINK_GPU = 32 };

/* Gradients of several parameters as one array of floats. */
typedef struct ole_bucket ole_bucket;

typedef struct ole_linker {
    /* Identifies a context's GPU on its host: equal texts mean the same GPU. */
    void (*gpu)(ole_device_context *context, char name[OLE_LINK_GPU]);

    /* Whether GPUs can be linked here; if not, the reason. */
    ole_status (*check)(ole_error *error);
    /* Makes the id by which ranks find each other; one rank makes it and sends it to the others. */
    ole_status (*make_id)(unsigned char id[OLE_LINK_ID], ole_error *error);
    /* Waits for all ranks. Closing the context, on all ranks, undoes it. */
    ole_status (*open)(ole_device_context *context, const unsigned char id[OLE_LINK_ID], int rank,
                       int size, ole_error *error);

    /* data[count] (OLE_F32 or OLE_F64) becomes the sum over all ranks. (linked) */
    void (*sum)(ole_device_context *context, void *data, int64_t count, ole_dtype type);
    /* Concatenates bytes[r] bytes from each rank r, in rank order, on every rank. (linked) */
    void (*gather)(ole_device_context *context, const void *mine, const int64_t *bytes, void *all);

    /* The gradients of `items` must not move afterwards. */
    ole_status (*bucket_create)(ole_device_context *context, const ole_update_item *items,
                                int count, ole_bucket **bucket, ole_error *error);
    void (*bucket_free)(ole_device_context *context, ole_bucket *bucket);
    int64_t (*bucket_size)(const ole_bucket *bucket); /* floats */

    /* Sums gradients that are computed or enqueued over all ranks, concurrently with whatever is
     * enqueued next. (linked) */
    void (*bucket_sum)(ole_device_context *context, ole_bucket *bucket);
    /* Work enqueued from now on waits for all those sums. (linked) */
    void (*bucket_join)(ole_device_context *context);

    /* While on, "(linked)" functions do nothing: used to measure what communication costs. */
    void (*mute)(ole_device_context *context, bool on);

    /* Enqueues zeroing of backend memory. */
    void (*clear)(ole_device_context *context, void *memory, size_t bytes);

    /* Copies gradients to host memory [bucket_size] and back; both wait. */
    void (*bucket_read)(ole_device_context *context, ole_bucket *bucket, float *to);
    void (*bucket_write)(ole_device_context *context, ole_bucket *bucket, const float *from);
} ole_linker;

#endif
