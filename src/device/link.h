/*
 * src/device/link.h - ranks whose tensors lie in a backend's own memory: sums and gathers between
 * their cards, queued like any other work, and gradients in buckets.
 *
 * Backends with memory of their own have this table (ole_backend.linker).  A context is linked by
 * open(), which all ranks call; what is marked "linked" needs that, the rest does not.  Everything
 * between cards is queued in one order, the same on every rank, and may be recorded.
 *
 *     linker->card(context, name); ... no two ranks of a host have the same ...
 *     rank 0: linker->make_id(id, error); all: open(context, id, rank, size, error);
 */
#ifndef OLE_SRC_DEVICE_LINK_H
#define OLE_SRC_DEVICE_LINK_H

#include "device/backend.h"

enum { OLE_LINK_ID = 128, OLE_LINK_CARD = 32 };

/* Gradients of some parameters as one array of floats. */
typedef struct ole_bucket ole_bucket;

typedef struct ole_linker {
    /* The card of a context, as its host knows it: equal texts are one card. */
    void (*card)(ole_device_context *context, char name[OLE_LINK_CARD]);

    /* Whether cards can be linked from here; if not, the reason. */
    ole_status (*check)(ole_error *error);
    /* What the ranks of a group find each other by; one makes it and tells the others. */
    ole_status (*make_id)(unsigned char id[OLE_LINK_ID], ole_error *error);
    /* Waits for all ranks. Undone by closing the context, on all ranks. */
    ole_status (*open)(ole_device_context *context, const unsigned char id[OLE_LINK_ID], int rank,
                       int size, ole_error *error);

    /* data[count] of type OLE_F32 or OLE_F64 becomes the sum over all ranks. (linked) */
    void (*sum)(ole_device_context *context, void *data, int64_t count, ole_dtype type);
    /* bytes[r] bytes of each rank r, one after the other, on every rank. (linked) */
    void (*gather)(ole_device_context *context, const void *mine, const int64_t *bytes, void *all);

    /* The gradients of `items` must stay where they are. */
    ole_status (*bucket_create)(ole_device_context *context, const ole_update_item *items,
                                int count, ole_bucket **bucket, ole_error *error);
    void (*bucket_free)(ole_device_context *context, ole_bucket *bucket);
    int64_t (*bucket_size)(const ole_bucket *bucket); /* floats */

    /* Gradients that are complete, or queued, become the sum over all ranks, beside what is queued
     * from now on. (linked) */
    void (*bucket_sum)(ole_device_context *context, ole_bucket *bucket);
    /* What is queued from now on follows all those sums. (linked) */
    void (*bucket_join)(ole_device_context *context);

    /* While it is on, nothing marked "linked" does anything: to measure what that costs. */
    void (*mute)(ole_device_context *context, bool on);

    /* Zeroes memory of the backend, queued. */
    void (*clear)(ole_device_context *context, void *memory, size_t bytes);

    /* Gradients to host memory, [bucket_size], and back; both wait. */
    void (*bucket_read)(ole_device_context *context, ole_bucket *bucket, float *to);
    void (*bucket_write)(ole_device_context *context, ole_bucket *bucket, const float *from);
} ole_linker;

#endif
