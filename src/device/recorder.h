/*
 * src/device/recorder.h - training steps that a backend queues by itself: recorded once, replayed
 * for every batch, nothing read back until it is asked for.
 *
 * Backends with a queue (CUDA's streams) have this table beside their ops.  The samples live in the
 * backend's memory; a recorded step takes the next batch of the epoch's order, augments it from the
 * same Philox counters as data/augment.c, runs forward, losses, backward and update, and moves a
 * clock on that also lives there.  What depends on the step (its number, rate, batch, dropout) is
 * read from that clock, so that the same recording serves every step.
 *
 *     begin(context); tick(...); assemble(...); <forward, losses, backward, update>; tock(...);
 *     end(context, &recording, error);
 *     start(context, feed, &epoch);                      // once an epoch
 *     replay(context, recording) ...                     // once a step
 *     read(context, &sums, error);                       // waits
 */
#ifndef OLE_SRC_DEVICE_RECORDER_H
#define OLE_SRC_DEVICE_RECORDER_H

#include "device/backend.h"
#include "ole/loss.h"

/* A data set in the backend's memory, and the samples of one split of it. */
typedef struct ole_resident ole_resident;
typedef struct ole_feed ole_feed;
typedef struct ole_recording ole_recording;

typedef struct ole_resident_spec {
    const uint8_t *bytes; /* [count, c, h, w], or */
    const float *floats;
    int64_t count;
    int channels, height, width;
} ole_resident_spec;

typedef struct ole_feed_spec {
    const ole_resident *resident;
    int64_t samples;
    const int64_t *index;  /* [samples] where each lies */
    const int32_t *labels; /* [samples] */
    uint64_t seed;
    int crop;
    bool flip;
    int channels;                  /* normalised apart: table and floats are of so many */
    const float *table;            /* [channels, 256] bytes, normalised */
    const float *mean, *deviation; /* [channels] of floats */
    int64_t batch;                 /* samples of a batch */
    int64_t batches;               /* of an epoch at most */
} ole_feed_spec;

typedef struct ole_epoch {
    int64_t epoch;
    int64_t first;        /* batch to begin with */
    uint64_t step;        /* steps done before it, in all */
    const int64_t *order; /* [batches * batch] samples; beyond `samples` of them: none (-1) */
    const double *rates;  /* [batches] learning rates */
    bool idle;            /* updates are passed over: a rehearsal */
} ole_epoch;

/* What was summed since start(). */
typedef struct ole_queue_sums {
    int64_t steps; /* done, bad ones included */
    double loss, softmax_loss, ole_loss;
    int64_t correct;
    int64_t bad_step; /* the first whose loss is NaN or Inf, counted from 1 over the run; 0: none */
    int64_t bad_row;  /* the first of OLÉ's features in it that is; -1: none */
} ole_queue_sums;

/* How OLÉ sees a node's output: rows of numbers. */
typedef struct ole_rows {
    bool direct; /* the tensor is [n, dim]; else it must be copied: rows_read, rows_add */
    int64_t dim;
    ole_dtype dtype;
} ole_rows;

typedef struct ole_recorder {
    ole_status (*resident_create)(ole_device_context *context, const ole_resident_spec *spec,
                                  ole_resident **resident, ole_error *error);
    void (*resident_free)(ole_device_context *context, ole_resident *resident);
    ole_status (*feed_create)(ole_device_context *context, const ole_feed_spec *spec,
                              ole_feed **feed, ole_error *error);
    void (*feed_free)(ole_device_context *context, ole_feed *feed);

    /*
     * Held while steps are rehearsed and recorded: libraries load and measure then, which other
     * threads with contexts of their own must not do at the same time.
     */
    void (*lock)(ole_device_context *context);
    void (*unlock)(ole_device_context *context);

    ole_status (*begin)(ole_device_context *context, ole_error *error);
    ole_status (*end)(ole_device_context *context, ole_recording **recording, ole_error *error);
    void (*recording_free)(ole_device_context *context, ole_recording *recording);
    int64_t (*recording_nodes)(const ole_recording *recording); /* kernels and copies in it */

    /* Parts of a recorded step, in this order. labels: [n] in the backend's memory. */
    void (*tick)(ole_device_context *context, const ole_feed *feed);
    void (*assemble)(ole_device_context *context, const ole_feed *feed, int64_t n,
                     ole_layout layout, void *images, int32_t *labels);
    void (*softmax)(ole_device_context *context, int64_t n, ole_layout layout, const void *logits,
                    const int32_t *labels, double scale, void *dlogits);
    /*
     * At most 16 a step; taken in by check(), which lets a bad loss stop the updates.  Linked ranks
     * (device/link.h) add up their losses there: each gives its share, softmax's by `scale`, OLÉ's
     * by `share`, and the sums that are read are those of the whole batch.
     */
    void (*add_ole)(ole_device_context *context, const ole_loss_outcome *outcome, double weight,
                    double share);
    void (*check)(ole_device_context *context);
    void (*tock)(ole_device_context *context);

    /* Evaluation: right rows counted, features [n, D] (plain floats) kept from row batch * n on. */
    void (*keep)(ole_device_context *context, int64_t n, ole_layout layout, ole_shape shape,
                 const void *tensor, float *all);

    ole_rows (*rows)(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape);
    void (*rows_read)(ole_device_context *context, ole_layout layout, const void *tensor,
                      float *plain);
    void (*rows_add)(ole_device_context *context, ole_layout layout, const float *plain,
                     bool accumulate, void *tensor);
    /* `rows` are [n, dim] as `direct` says: copied or added to the tensor. */
    void (*rows_take)(ole_device_context *context, ole_layout layout, const void *rows,
                      bool accumulate, void *tensor);
    void *(*stream)(ole_device_context *context); /* for ole_loss_queue() */
    int (*card)(ole_device_context *context);     /* for ole_loss_options */

    ole_status (*start)(ole_device_context *context, ole_feed *feed, const ole_epoch *epoch,
                        ole_error *error);
    void (*replay)(ole_device_context *context, ole_recording *recording);
    /* Waits until at most `behind` replays are not done yet. */
    ole_status (*follow)(ole_device_context *context, int behind, ole_error *error);
    /* Waits for all and reads the clock. */
    ole_status (*read)(ole_device_context *context, ole_queue_sums *sums, ole_error *error);
} ole_recorder;

#endif
