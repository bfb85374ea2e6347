/*
 * src/device/cuda/cuda.h - shared by the files of the CUDA backend: the context, layouts, how an
 * op is planned and run, and the kernels' launchers.
 *
 * Host code is C (*.c), kernels and their launchers are CUDA C++ (*.cu) behind `extern "C"`.
 *
 * Layouts.  An activation is [N, H, W, pitch]: channels innermost, `pitch` of them per pixel, which
 * is C rounded up to 8; the channels beyond C are always zero, in outputs and gradients.  Vectors
 * have H = W = 1.  Elements are float (fp32, tf32) or bfloat16 (bf16).  A concatenation's output is
 * stacked: a list of such tensors, its parts, each starting at a multiple of 256 bytes and followed
 * by its channels' means and sums of squared deviations, [2, pitch] doubles.  In a dense block each
 * output is the previous one plus one part, so the previous one is a prefix of the memory, and
 * batch norm need not compute its statistics again.  Concatenation and norm accept stacked tensors;
 * for any other op the input is first packed into one tensor (adapt.c).
 *
 * Parameters.  A convolution's weight is [out, k, k, in] and a linear layer's [out, in], with out
 * and in rounded up to 8 and zeros in the padding.  The float master is trained; if activations are
 * bfloat16, a copy in that type follows it and is refreshed by the update.  Gradients of weights
 * have the type of activations; other parameters, their gradients and all optimiser state are
 * float, [count rounded up to 8].
 *
 * Streams.  Everything is queued on context->stream, except weight gradients of convolutions, which
 * run concurrently on context->side.  They are joined before the memory they read is reused; the
 * plan allows for that (ole_backend.backward_lag).
 *
 * Failures.  A CUDA call that fails leaves its reason in the context (cuda_failed).  Work queued
 * after it is harmless, and whoever waits for the queue gets the error.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CUDA_H
#define OLE_SRC_DEVICE_CUDA_CUDA_H

#include "data/loader/photo.h"
#include "device/backend.h"
#include "loss/criteria/cuda.h"
#include "ole/loss.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_CHANNELS = 8,
    CUDA_ALIGNMENT = 256,
    CUDA_MAX_PARTS = 64,
    CUDA_MAX_ADDED = 16,
    CUDA_ROW_BLOCKS = 64
};

/* Side work ends at most this many backward calls of nodes after the one that queued it. */
enum { CUDA_LAG = 6 };

typedef enum cuda_type { CUDA_FLOAT, CUDA_BFLOAT16 } cuda_type;

/* The sums that a thread block of the softmax leaves for the last block, which adds them up in
 * order. */
typedef struct cuda_row_sums {
    double loss;
    int64_t right;
} cuda_row_sums;

/* The sums of a step: over this rank's rows, then, if ranks are linked, over all rows. */
typedef struct cuda_step_sums {
    double loss; /* softmax + weight * added + weight * feature */
    double softmax, added, feature, right;
} cuda_step_sums;

enum { CUDA_STEP_SUMS = sizeof(cuda_step_sums) / sizeof(double) };

/* What recorded work reads when it is replayed, in device memory. */
typedef struct cuda_clock {
    uint64_t step; /* of dropout and of Adam, from 1 */
    double lr;
    int64_t epoch;
    int64_t batch;    /* of the epoch, from 0 */
    int64_t batches;  /* of it, after which `batch` is 0 again; 0: unknown */
    int64_t bad_step; /* the first step whose loss was NaN or Inf; 0: none. Updates stop there */
    int64_t bad_row;  /* the first bad row of features in that step; -1: none */
    double loss;      /* sums over the epoch */
    double softmax_loss;
    double added_loss;
    double feature_loss;
    int64_t correct;
    cuda_step_sums now; /* of the step at work, summed as it goes */
    uint32_t arrived;   /* thread blocks of the softmax; 0 between calls */
    cuda_row_sums rows[CUDA_ROW_BLOCKS];
} cuda_clock;

/* Losses besides softmax that the next check adds. */
typedef struct cuda_added_losses {
    int count;
    const ole_loss_outcome *outcome[CUDA_MAX_ADDED]; /* device memory */
    double weight[CUDA_MAX_ADDED];
    double share[CUDA_MAX_ADDED];           /* of the value that is this rank's to add */
    const ole_criterion_outcome *criterion; /* device memory; NULL: there is none */
    double criterion_weight;
    bool head; /* it takes softmax's place */
} cuda_added_losses;

typedef struct cuda_tune cuda_tune; /* chosen convolution algorithms, and their file (tune.c) */

struct ole_device_context {
    ole_device_options options;
    int gpu;
    int multiprocessors;
    cuda_type type; /* of activations */
    cudaStream_t stream, side;
    cublasHandle_t blas;
    cudnnHandle_t dnn;
    cuda_tune *tune;
    cuda_clock *clock;  /* device memory */
    void *workspace[2]; /* of what runs on stream and on side: device memory */
    size_t workspace_bytes;
    bool use_side;      /* false: weight gradients run on stream too */
    cudaEvent_t *event; /* where side work may start, then a ring of its ends (side_stream.c) */
    int events, next_event;
    unsigned side_pending;   /* bit i: event[1 + i] ends work that stream has not waited for */
    cuda_added_losses added; /* of the step being queued */
    int64_t launches;        /* own kernels queued since the context was opened */
    void *staging;           /* device memory for copies from and to the host */
    size_t staging_bytes;
    void *bounce; /* page-locked memory of the host that copies go through (backend.c) */
    struct cuda_update_table *updates;  /* what update_all() has on the GPU (update_all.c) */
    struct cuda_update_table *averages; /* ... and average() */
    struct cuda_replays *replays;       /* of recorder.c */
    struct cuda_link *link;             /* to the GPUs of other ranks (link.c), or NULL */
    ole_status failed;
    ole_error failure; /* the first one */
};

/* Notes a failed call: `if (cuda_failed(context, cudaMemcpyAsync(...), "copying")) return;` */
bool cuda_failed(ole_device_context *context, cudaError_t code, const char *doing);
bool cuda_failed_dnn(ole_device_context *context, cudnnStatus_t code, const char *doing);
bool cuda_failed_blas(ole_device_context *context, cublasStatus_t code, const char *doing);

/* The first failure that was noted, or OLE_OK. */
ole_status cuda_failure(const ole_device_context *context, ole_error *error);

/* After a kernel launch: counts it and notes its failure. */
void cuda_launched(ole_device_context *context, const char *kernel);

/* ---- weight gradients beside the stream (side_stream.c) ----------------------------------- */

/* Events of context->side; use_side becomes true. */
ole_status cuda_side_open(ole_device_context *context, ole_error *error);
void cuda_side_close(ole_device_context *context);

/* Lets work start that follows what stream holds by now, and returns the stream to queue it on:
 * side, or stream where use_side is false.  After queueing it: cuda_side_end. */
cudaStream_t cuda_side_begin(ole_device_context *context);
void cuda_side_end(ole_device_context *context);

/* Once per backward of a node: stream waits for side work of CUDA_LAG calls ago.  And at the end of
 * backward, for all of it.  Both may be captured. */
void cuda_side_advance(ole_device_context *context);
void cuda_side_join(ole_device_context *context);

/* Makes later work on `stream` follow all side work that context->stream does not wait
 * for yet. */
void cuda_side_follow(ole_device_context *context, cudaStream_t stream);

/* ---- choosing how convolutions and products are computed (tune.c) ------------------------- */

ole_status cuda_tune_open(ole_device_context *context, ole_error *error);
void cuda_tune_close(ole_device_context *context);

/* One thread at a time measures algorithms, warms up and records (backend.c). */
void cuda_setup_lock(void);
void cuda_setup_unlock(void);

/* ---- tensors (layout.c) ------------------------------------------------------------------- */

typedef struct cuda_part {
    int channels, pitch;
    int first;      /* channel */
    size_t offset;  /* bytes, of its elements from the start of the tensor */
    size_t moments; /* bytes, of its [2, pitch] doubles */
} cuda_part;

/* The layout of a tensor. Kernels take it by value; keep it small. */
typedef struct cuda_layout {
    cuda_type type;
    int parts; /* 1: one tensor, without moments; more, or `stacked`: a concatenation's */
    bool stacked;
    int64_t pixels; /* N * H * W */
    int n, c, h, w;
    size_t bytes;
    cuda_part part[CUDA_MAX_PARTS];
} cuda_layout;

static inline int cuda_pitch(int64_t channels) {
    return (int)((channels + CUDA_CHANNELS - 1) / CUDA_CHANNELS * CUDA_CHANNELS);
}

static inline size_t cuda_element(cuda_type type) {
    return type == CUDA_FLOAT ? 4 : 2;
}

/* `bytes` rounded up to where the next tensor may begin. */
static inline size_t cuda_aligned(size_t bytes) {
    return (bytes + CUDA_ALIGNMENT - 1) / CUDA_ALIGNMENT * CUDA_ALIGNMENT;
}

/* One tensor of the context's type. */
cuda_layout cuda_layout_of(const ole_device_context *context, int64_t n, ole_shape shape);

/* ---- ops ---------------------------------------------------------------------------------- */

typedef struct cuda_request {
    ole_device_context *context;
    const ole_node *node;
    int64_t n;
    bool train, needs_dx;
    const cuda_layout *x[OLE_MAX_INPUTS]; /* NULL if there is no such input */
} cuda_request;

/* Stacked inputs of an op that does not take them: how they lie, and where in scratch they and
 * their gradients are packed. */
typedef struct cuda_adapted {
    bool is[OLE_MAX_INPUTS];
    cuda_layout given[OLE_MAX_INPUTS];
    size_t x[OLE_MAX_INPUTS], dx[OLE_MAX_INPUTS];
} cuda_adapted;

/* The state of every op; ops with more begin their state with it. plan->y_layout = &state->y. */
typedef struct cuda_state {
    bool train;
    cuda_layout x[OLE_MAX_INPUTS];
    cuda_layout y;
    void (*release)(void *state); /* frees what else an op holds, or NULL */
    cuda_adapted adapted;         /* adapt.c's */
} cuda_state;

/* Allocates a state of `bytes` (>= sizeof(cuda_state)), zeroed but for what is in cuda_state (y one
 * tensor of the node's output), and fills plan->state, y_layout, y_bytes. NULL: no memory. */
void *cuda_state_create(const cuda_request *request, size_t bytes, ole_op_plan *plan);

/* The plan() of an op that needs no more. */
ole_status cuda_plan_state(const cuda_request *request, ole_op_plan *plan, ole_error *error);

typedef struct cuda_call {
    ole_device_context *context;
    const ole_node *node;
    void *state;
    const ole_op_call *call;
} cuda_call;

/*
 * An op.  plan() begins with cuda_state_create() and sets what differs in the ole_op_plan;
 * forward() and backward() queue their work.  `takes_stacked`: inputs may be stacked.
 */
typedef struct cuda_op {
    bool takes_stacked;
    ole_status (*plan)(const cuda_request *request, ole_op_plan *plan, ole_error *error);
    void (*forward)(const cuda_call *call);
    void (*backward)(const cuda_call *call);
} cuda_op;

extern const cuda_op cuda_layer; /* conv.c: convolution, linear */
extern const cuda_op cuda_norm;  /* norm.cu */
extern const cuda_op cuda_relu, cuda_add, cuda_dropout, cuda_flatten; /* pointwise.cu */
extern const cuda_op cuda_concat;                                     /* concat.cu */
extern const cuda_op cuda_maxpool, cuda_avgpool;                      /* pool.cu */
extern const cuda_op cuda_pad;                                        /* pad.cu */

/* adapt.c: replaces layouts that the op does not know, adds the scratch this takes, and brings the
 * inputs of a call over and its gradients back. */
void cuda_adapt_request(cuda_request *request, const cuda_op *op, cuda_layout packed[],
                        cuda_adapted *adapted);
void cuda_adapt_plan(const cuda_request *request, const cuda_adapted *adapted, ole_op_plan *plan);
void cuda_adapt_forward(const cuda_call *given, ole_op_call *call);
void cuda_adapt_backward(const cuda_call *given, const ole_op_plan *plan, ole_op_call *call);
void cuda_adapt_gradients(const cuda_call *given, const ole_op_call *call);

/* ---- what other ranks hold of the batch (link.c) ------------------------------------------ */

/* data[count], device memory, becomes the sum over the ranks that have rows: queued on
 * context->stream where the share can, else through the host, waited for. */
void cuda_share_sum(ole_device_context *context, const ole_share *share, double *data,
                    int64_t count);

/* ---- parameters (param.c) ----------------------------------------------------------------- */

size_t cuda_param_bytes(ole_device_context *context, const ole_node *node, const ole_param *param);
size_t cuda_state_bytes(ole_device_context *context, const ole_node *node, const ole_param *param);
void cuda_state_from_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const float *plain, void *to);
void cuda_param_from_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const float *plain, void *to);
void cuda_param_to_plain(ole_device_context *context, const ole_node *node, const ole_param *param,
                         const void *from, float *plain);
void cuda_gradient_from_plain(ole_device_context *context, const ole_node *node,
                              const ole_param *param, const float *plain, void *to);
void cuda_gradient_to_plain(ole_device_context *context, const ole_node *node,
                            const ole_param *param, const void *from, float *plain);

/* update_all.c: ole_backend.update_all, .clip and .average, and their tables. */
void cuda_update_all(ole_device_context *context, const ole_update *update,
                     const ole_update_item *items, int count);
void cuda_clip_all(ole_device_context *context, double largest, const ole_update_item *items,
                   int count);
void cuda_average_all(ole_device_context *context, const ole_update *update,
                      const ole_update_item *items, int count);
void cuda_update_tables_free(ole_device_context *context);

/*
 * Copies between host and GPU on context->stream, and waits.  Plain cudaMemcpy and cudaMemset are
 * ordered with the default stream only, and may still be running when they return: kernels queued
 * here would not see the data.  Copies go through page-locked memory: a copy to or from other
 * memory waits inside the driver, and the runs beside this one cannot launch anything meanwhile.
 */
bool cuda_copy(ole_device_context *context, void *to, const void *from, size_t bytes,
               enum cudaMemcpyKind kind, const char *doing);

/* Device memory of `bytes`, filled from `from` unless that is NULL; NULL where it fails. */
void *cuda_send(ole_device_context *context, const void *from, size_t bytes, const char *doing);

/* Elements of a parameter in memory, padding included. */
int64_t cuda_param_size(const ole_param *param);

/* Whether it is a convolution's or linear layer's weight: kept in two types where they differ. */
bool cuda_param_is_weight(const ole_param *param);

/* What convolutions and products read: the master, or the copy that follows it. */
const void *cuda_weight(const ole_device_context *context, const void *param, int64_t size);

/* ---- helpers of several ops --------------------------------------------------------------- */

/* sums[channels] = sum over pixels of dy, as the gradient of a bias, zero in the padding
 * (reduce.cu).  Uses workspace[0]. */
void cuda_column_sums(ole_device_context *context, const cuda_layout *layout, const void *dy,
                      float *sums);

/* y += bias of each channel (pointwise.cu). */
void cuda_add_bias(ole_device_context *context, const cuda_layout *layout, const float *bias,
                   void *y);

/* to += from: count elements of a type, a multiple of 8 (elements.cu). */
void cuda_accumulate(ole_device_context *context, cuda_type type, int64_t count, const void *from,
                     void *to);

/* Pseudo-random numbers between -1 and 1 for measurements (elements.cu). */
void cuda_fill(ole_device_context *context, cuda_type type, int64_t count, uint32_t seed, void *to);

/* Packs a stacked tensor into one, and adds (or writes) one's gradient to a stacked one
 * (concat.cu). */
void cuda_pack(ole_device_context *context, const cuda_layout *stacked, const void *from,
               const cuda_layout *packed, void *to);
void cuda_unpack(ole_device_context *context, const cuda_layout *packed, const void *from,
                 const cuda_layout *stacked, bool accumulate, void *to);

/* n x [C, H, W] plain floats in device memory from and to a tensor (layout.cu). */
void cuda_from_plain(ole_device_context *context, ole_layout layout, const float *plain,
                     bool accumulate, void *to);
void cuda_to_plain(ole_device_context *context, ole_layout layout, const void *from, float *plain);

/* ---- losses, updates, batches ------------------------------------------------------------- */

/*
 * Softmax cross-entropy of logits (`layout`: vectors) with labels in device memory (softmax.cu),
 * and so is what `mix` (or NULL) points to. Where dlogits is not NULL it becomes scale * gradient
 * of the mean.  Scores (float [n, c], plain) and sums (double: the mean loss; then the right rows
 * as a double) may be NULL.  `count`: right rows and scale * mean loss (for a scale of 0, the mean)
 * are added to clock->now.
 */
void cuda_softmax(ole_device_context *context, const cuda_layout *layout, const void *logits,
                  const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                  void *dlogits, float *scores, double *sums, bool count);

/* One tensor to update, in device memory. */
typedef struct cuda_update_item {
    float *master;
    void *copy; /* bfloat16, or NULL */
    void *gradient;
    float *state[2];
    double rate; /* factor of the clock's */
    int64_t size;
    int64_t gradient_type; /* cuda_type; no padding: tables are compared by their bytes */
} cuda_update_item;

/*
 * One launch for all (update.cu): items in device memory, `tiles` [tile_count, 2] the (item, first
 * element / CUDA_UPDATE_TILE) of each thread block.  Rate and step are the clock's, the rest is
 * `update`'s.  Does nothing while clock->bad_step is set.
 */
enum { CUDA_UPDATE_TILE = 4096 };
int32_t *cuda_make_tiles(const ole_update_item *items, int count, int *tile_count); /* free() it */
void cuda_update(ole_device_context *context, const ole_update *update,
                 const cuda_update_item *items, const int32_t *tiles, int tile_count);

/* Moves state[0] of these tiles towards the parameters. */
void cuda_average(ole_device_context *context, const ole_update *update,
                  const cuda_update_item *items, const int32_t *tiles, int tile_count);

/* Scales the gradients of these tiles so that their norm is at most `largest`.  squares: room for
 * tile_count + 1 doubles. */
void cuda_clip(ole_device_context *context, double largest, const cuda_update_item *items,
               const int32_t *tiles, int tile_count, double *squares);

/* Samples that live on the GPU (record.cu). */
typedef struct cuda_samples {
    const uint8_t *bytes; /* [count, c, h, w], or */
    const float *floats;
    const int64_t *index;  /* [samples of the split]: where each lies */
    const int32_t *labels; /* [samples of the split] */
    int c, h, w;
    uint64_t seed;
    int crop;
    bool flip;
    ole_photo photo;
    bool augments;                                                 /* photo asks for something */
    float mean[OLE_PHOTO_CHANNELS], deviation[OLE_PHOTO_CHANNELS]; /* then: of each channel */
    const float *table;    /* [statistics, 256] bytes normalised (floats: [statistics, 2] mean and
                               deviation) */
    const int32_t *others; /* [epoch] sample that each of the order is blended with, or -1; NULL,
                              like the next: none */
    const float *shares;   /* [batches] */
    int statistics; /* channels normalised apart: c, or 1 for vectors, whose c values share it */
} cuda_samples;

/*
 * Batch clock->batch of the epoch: samples order[batch * stride + i], i < n, cropped, mirrored and
 * normalised as data/loader/augment.c does from the same Philox counters, into the input tensor and
 * labels[n].  With samples->others the rows are blended, and *mix says with what.  Rows from
 * `valid` on (order entries < 0) are zero, labels -1.
 */
void cuda_assemble(ole_device_context *context, const cuda_samples *samples, const int32_t *order,
                   int64_t stride, int64_t n, const cuda_layout *layout, void *images,
                   int32_t *labels, const ole_mix *mix);

/*
 * Kernels around a recorded step (record.cu).  tick: the step is counted, its rate is rates[batch],
 * clock->now is zero.  check, after the losses: added ones go to clock->now, which becomes the
 * sum over ranks where they are linked; a loss that is NaN or Inf sets bad_step, so that the update
 * does nothing.  tock: clock->now is added to the epoch's sums, the batch is counted.
 */
void cuda_tick(ole_device_context *context, const double *rates);
void cuda_check(ole_device_context *context);
void cuda_tock(ole_device_context *context);

/* Step and learning rate of work that is not recorded. */
void cuda_set_clock(ole_device_context *context, uint64_t step, double lr);

/* Lets the next check first add share * value of a loss, and weight times that to the whole loss,
 * and note a bad row; `outcome` is in device memory. */
void cuda_add_loss(ole_device_context *context, const ole_loss_outcome *outcome, double weight,
                   double share);

/* The same of a criterion. `head`: it counts as softmax's loss, its correct rows as those right. */
void cuda_add_criterion(ole_device_context *context, const ole_criterion_outcome *outcome,
                        double weight, bool head);

/* A parameter, or the gradient of one, from and to plain floats in device memory; and the rows of a
 * linear layer's weight brought to length 1, unless they have it (classifier.cu). */
void cuda_param_read(ole_device_context *context, const ole_param *param, const void *from,
                     float *plain);
void cuda_gradient_write(ole_device_context *context, const ole_param *param, const float *plain,
                         void *gradient);
void cuda_unit_rows(ole_device_context *context, const ole_param *param, void *weight);

/* Plain floats of a tensor's rows to all + clock->batch * n rows (record.cu). */
void cuda_keep(ole_device_context *context, ole_layout layout, const void *from, float *all);

/* ---- the table's parts that have files of their own --------------------------------------- */

struct ole_linker;
extern const struct ole_linker cuda_linker; /* link.c */
void cuda_link_close(ole_device_context *context);

struct ole_recorder;
extern const struct ole_recorder cuda_recorder; /* recorder.c */
void cuda_replays_free(ole_device_context *context);

#ifdef __cplusplus
}
#endif
#endif
