/*
 * src/device/recorder.h - training steps recorded once and replayed for every batch, without a host
 * round trip until their results are read.
 *
 * Backends with a queue (CUDA's streams) have this table beside their ops.  The samples live in the
 * backend's memory (feed.h); a recorded step assembles the next batch, runs forward, losses,
 * backward and update, and moves on a clock that also lives there.  What depends on the step (its
 * number, rate, batch, dropout) is read from that clock, so that the same recording serves every
 * step.
 *
 *     begin(context); tick(...); assemble(...); <forward, losses, backward, update>; tock(...);
 *     end(context, &recording, error);
 *     start(context, feed, &epoch);                      // once per epoch
 *     replay(context, recording) ...                     // once per step
 *     read(context, &sums, error);                       // waits
 */
#ifndef OLE_SRC_DEVICE_RECORDER_H
#define OLE_SRC_DEVICE_RECORDER_H

#include "device/backend.h"
#include "device/feed.h"
#include "loss/criteria/cuda.h"
#include "ole/loss.h"

typedef struct ole_recording ole_recording;

/* What was summed since start(). */
typedef struct ole_step_sums {
    int64_t steps; /* done, bad ones included */
    double loss, softmax_loss;
    double added_loss;   /* of add_loss(), without weights */
    double feature_loss; /* of add_criterion(), unless it took softmax's place */
    int64_t correct;
    int64_t bad_step; /* the first whose loss is NaN or Inf, counted from 1 over the run; 0: none */
    int64_t bad_row;  /* the first row of features in it that add_loss() found so; -1: none */
} ole_step_sums;

/* A node's output as rows of numbers, for a loss on them. */
typedef struct ole_rows {
    bool direct; /* the tensor itself is [n, dim]; else copy it with rows_read, rows_add */
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

    /* Held while steps are rehearsed and recorded: libraries load and are measured then, which
     * threads with contexts of their own must not do at the same time. */
    void (*lock)(void);
    void (*unlock)(void);

    ole_status (*begin)(ole_device_context *context, ole_error *error);
    ole_status (*end)(ole_device_context *context, ole_recording **recording, ole_error *error);
    void (*recording_free)(ole_device_context *context, ole_recording *recording);
    int64_t (*recording_nodes)(const ole_recording *recording); /* number of kernels and copies */

    /* The parts of a recorded step, in this order.  labels: [n] in the backend's memory, and so is
     * what `mix` points to, which assemble() writes; NULL: the feed does not mix. */
    void (*tick)(ole_device_context *context, const ole_feed *feed);
    void (*assemble)(ole_device_context *context, const ole_feed *feed, int64_t n,
                     ole_layout layout, void *images, int32_t *labels, const ole_mix *mix);
    void (*softmax)(ole_device_context *context, ole_layout layout, const void *logits,
                    const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                    void *dlogits);
    /*
     * At most 16 a step; taken in by check(), which lets a bad loss stop the updates.  Linked ranks
     * (device/link.h) add up their losses there: each gives its share, softmax's by `scale`, the
     * added ones by `share`, and the sums that are read are those of the whole batch.
     */
    void (*add_loss)(ole_device_context *context, const ole_loss_outcome *outcome, double weight,
                     double share);
    /* One a step: a criterion beside softmax, or (`head`) in its place. Not with linked ranks. */
    void (*add_criterion)(ole_device_context *context, const ole_criterion_outcome *outcome,
                          double weight, bool head);
    void (*check)(ole_device_context *context);
    void (*tock)(ole_device_context *context);

    /* Evaluation: stores features [n, D] as plain floats at row batch * n of `all`. */
    void (*keep)(ole_device_context *context, ole_layout layout, const void *tensor, float *all);

    ole_rows (*rows)(ole_device_context *context, ole_layout layout, ole_shape shape);
    void (*rows_read)(ole_device_context *context, ole_layout layout, const void *tensor,
                      float *plain);
    void (*rows_add)(ole_device_context *context, ole_layout layout, const float *plain,
                     bool accumulate, void *tensor);
    /* Copies or adds `rows` [n, dim], laid out as `direct` describes, to the tensor. */
    void (*rows_take)(ole_device_context *context, ole_layout layout, const void *rows,
                      bool accumulate, void *tensor);
    /*
     * For a loss that reads and trains the classifier: a parameter to plain floats in the backend's
     * memory, a gradient from there; and the rows of a weight brought to length 1 after the update,
     * unless they have it to 1e-6.
     */
    void (*param_read)(ole_device_context *context, const ole_param *param, const void *data,
                       float *plain);
    void (*gradient_write)(ole_device_context *context, const ole_param *param, const float *plain,
                           void *gradient);
    void (*unit_rows)(ole_device_context *context, const ole_param *param, void *data);
    const uint64_t *(*step)(ole_device_context *context); /* the clock's, in the backend's memory */
    void *(*stream)(ole_device_context *context);         /* for ole_loss_queue() */
    int (*gpu)(ole_device_context *context); /* CUDA device index, for ole_loss_options */

    ole_status (*start)(ole_device_context *context, ole_feed *feed, const ole_feed_epoch *epoch,
                        ole_error *error);
    void (*replay)(ole_device_context *context, ole_recording *recording);
    /* Waits until at most `behind` replays are unfinished. */
    ole_status (*follow)(ole_device_context *context, int behind, ole_error *error);
    /* Waits for all replays and reads the clock. */
    ole_status (*read)(ole_device_context *context, ole_step_sums *sums, ole_error *error);
} ole_recorder;

#endif
