/*
 * src/device/backend.h - the interface of a backend: a table of functions that plan and run the ops
 * of a network.
 *
 * ref/ is plain C in float or double, slow and obvious: the truth the others are tested against.
 * cpu/ is built on oneDNN.  cuda/ is built on cuDNN, cuBLAS and its own kernels, in a module that
 * is loaded on demand.
 *
 * A backend chooses how tensors lie in its memory (an opaque ole_layout); the plan (net/plan.h)
 * chooses where, so that running a step allocates nothing.  Elements of activations and parameters
 * are `element_size` bytes (4: float, 8: double) unless `own_memory` is set.  Functions marked
 * "(optional)" may be NULL.
 */
#ifndef OLE_SRC_DEVICE_BACKEND_H
#define OLE_SRC_DEVICE_BACKEND_H

#include "data/loader/mixup.h"
#include "device/op.h"
#include "ole/base.h"
#include "ole/ranks.h"

#include <stdbool.h>

typedef enum ole_precision {
    OLE_PRECISION_FP32,
    OLE_PRECISION_TF32,
    OLE_PRECISION_BF16,
} ole_precision;

/* Which convolution algorithms may be used: the fastest, or any but Winograd. */
typedef enum ole_conv_choice {
    OLE_CONV_AUTO,
    OLE_CONV_DIRECT,
} ole_conv_choice;

typedef struct ole_device_options {
    int threads;
    ole_precision precision;
    ole_conv_choice conv;
    uint64_t seed; /* for dropout */
    int gpu;       /* CUDA device index, or -1 for the first */
} ole_device_options;

/* An open backend: its engine, stream, threads. */
typedef struct ole_device_context ole_device_context;

/* How a tensor lies in memory. Opaque, valid as long as its context. NULL: plain [N, C, H, W]. */
typedef const void *ole_layout;

/* One planned op, filled in by the backend. */
typedef struct ole_op_plan {
    void *state;         /* private to the backend; freed by release_op() */
    ole_layout y_layout; /* of the output and of its gradient */
    size_t y_bytes;
    size_t saved_bytes;   /* kept from forward to backward: masks, statistics, indices */
    size_t scratch_bytes; /* needed during one call; all ops share one buffer */
    bool backward_reads_x, backward_reads_y;
    bool in_place;    /* y may be the same memory as x[0] */
    bool dx_in_place; /* dx[0] may be the same memory as dy */
    bool y_extends_x; /* y begins with x[0] and may share its memory; neither is overwritten */
} ole_op_plan;

/* This rank's share of a batch that is spread over ranks.  Dropout numbers its rows from first_row;
 * batch norm sums over all ranks where `norm` is set (device/share.h). */
typedef struct ole_share {
    int64_t first_row; /* rows of the batch on the ranks before this one */
    int64_t rows;      /* in the whole batch */
    bool norm;
    bool linked; /* the ranks' contexts are (device/link.h): sums are enqueued, not waited for */
    ole_ranks *ranks; /* those that have rows */
    double *seconds;  /* grows by the time that sums through host memory take */
} ole_share;

/* The arguments of one call. Pointers are in the backend's memory; NULL where there is none. */
typedef struct ole_op_call {
    const void *x[OLE_MAX_INPUTS];
    void *y;
    const void *dy;           /* backward: gradient of y (may be overwritten if dx_in_place) */
    void *dx[OLE_MAX_INPUTS]; /* backward: NULL where no gradient is needed */
    bool accumulate[OLE_MAX_INPUTS]; /* dx += instead of dx = */
    void *param[OLE_MAX_PARAMS];     /* in the order of the node's parameters */
    void *dparam[OLE_MAX_PARAMS];    /* gradients, overwritten; NULL if frozen or not trained */
    void *saved;
    void *scratch;
    bool train;             /* forward: batch statistics and dropout on */
    uint64_t step;          /* numbers dropout's random draws */
    const ole_share *share; /* NULL: the whole batch is here */
} ole_op_call;

/* The index of the call's first row in the whole batch. */
static inline int64_t ole_first_row(const ole_op_call *call) {
    return call->share ? call->share->first_row : 0;
}

/* Whether batch norm sums over all ranks. */
static inline bool ole_norm_shared(const ole_op_call *call) {
    return call->train && call->share && call->share->norm;
}

/* An optimiser step on one parameter, exactly as in PyTorch: weight decay is added to the gradient,
 * or, `decoupled` (AdamW), shrinks the parameter by lr * weight_decay before the step. */
typedef struct ole_update {
    enum { OLE_UPDATE_SGD, OLE_UPDATE_ADAM } kind;
    double lr, weight_decay;
    double momentum; /* SGD */
    bool nesterov;
    double beta1, beta2, eps; /* Adam */
    bool decoupled;           /* Adam */
    int64_t step;             /* from 1 */
    int64_t begun;            /* the step before the optimiser's first */
    double clip;              /* the largest norm of all gradients together, for clip(); 0: any */
    double average; /* decay of the weights' moving average, for average(); 0: there is none */
} ole_update;

/* The decay of the moving average at this step: it begins low, so that the first weights are soon
 * forgotten. */
static inline double ole_average_decay(double decay, int64_t steps) {
    double least = (1.0 + (double)steps) / (10.0 + (double)steps);
    return decay < least ? decay : least;
}

/* One parameter to update. */
typedef struct ole_update_item {
    const ole_node *node;
    const ole_param *param;
    void *data;
    void *gradient;
    void *state[2]; /* momentum; or Adam's two moments */
    size_t bytes;   /* of the parameter in memory */
    double rate;    /* factor of the learning rate */
} ole_update_item;

struct ole_recorder;
struct ole_linker;

typedef struct ole_backend {
    const char *name; /* "ref", "ref64", "cpu", "cuda" */
    size_t element_size;
    bool own_memory; /* not host memory: only functions of this table can access it, and the input's
                        layout is the backend's choice too */
    bool fuses_add;  /* NORM takes a second input, added before its ReLU: ole_graph_fuse() */
    int backward_lag; /* backward may read its inputs until this many nodes later */

    ole_status (*open)(ole_device_context **context, const ole_device_options *options,
                       ole_error *error);
    void (*close)(ole_device_context *context);

    /* Backend memory, aligned and zeroed. */
    void *(*allocate)(ole_device_context *context, size_t bytes);
    void (*free)(ole_device_context *context, void *memory);

    /* Synchronous copies between the host and the backend's memory. (optional: plain memory) */
    void (*copy_in)(ole_device_context *context, const void *from, size_t bytes, void *to);
    void (*copy_out)(ole_device_context *context, const void *from, size_t bytes, void *to);

    /* Waits for all enqueued work; the first failure since the context was opened. (optional) */
    ole_status (*wait)(ole_device_context *context, ole_error *error);

    /* Name of the kernels that layouts and the bits of results depend on. Ranks that sum their
     * gradients must agree on it. (optional: there is no choice) */
    const char *(*kernels)(const ole_device_context *context);

    /* A parameter's layout depends on its node alone, so plans of any batch size share it. */
    size_t (*param_bytes)(ole_device_context *context, const ole_node *node,
                          const ole_param *param);
    void (*param_from_plain)(ole_device_context *context, const ole_node *node,
                             const ole_param *param, const float *plain, void *to);
    void (*param_to_plain)(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const void *from, float *plain);
    /* The same for an optimiser's state, which param_to_plain reads. (optional: as the parameter)
     */
    size_t (*state_bytes)(ole_device_context *context, const ole_node *node,
                          const ole_param *param);
    void (*state_from_plain)(ole_device_context *context, const ole_node *node,
                             const ole_param *param, const float *plain, void *to);
    /* The same for a gradient. (optional: same layout as the parameter) */
    void (*gradient_from_plain)(ole_device_context *context, const ole_node *node,
                                const ole_param *param, const float *plain, void *to);
    void (*gradient_to_plain)(ole_device_context *context, const ole_node *node,
                              const ole_param *param, const void *from, float *plain);

    /*
     * Plans `node` for a batch of n.  train: backward will be called.  needs_dx: the gradient of
     * some input is needed.  x_layout: of the inputs.  Outputs of OLE_OP_INPUT, FLATTEN and LINEAR
     * are plain (NULL) unless `own_memory` is set.
     */
    ole_status (*plan_op)(ole_device_context *context, const ole_node *node, int64_t n, bool train,
                          bool needs_dx, const ole_layout x_layout[OLE_MAX_INPUTS],
                          ole_op_plan *plan, ole_error *error);
    void (*release_op)(ole_device_context *context, ole_op_plan *plan);
    void (*forward)(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call);
    void (*backward)(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                     const ole_op_call *call);
    /* Called after the last backward of a step. (optional) */
    void (*backward_done)(ole_device_context *context);

    /* Converts between a layout and plain float [N, C, H, W]; `accumulate` adds. */
    void (*to_plain)(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                     const void *from, float *plain);
    void (*from_plain)(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                       const float *plain, bool accumulate, void *to);

    /* Softmax cross-entropy of logits [n, classes]: the mean loss and the number of correct rows.
     * The target is 1 - smoothing for the label, plus smoothing / classes for every class; with
     * `mix` (or NULL) the label and that of mix have their shares of 1 - smoothing.
     * dlogits (unless NULL) = scale * gradient of the mean.  scores (unless NULL) = the softmax. */
    void (*softmax_loss)(ole_device_context *context, int64_t n, int64_t classes,
                         const void *logits, const int32_t *labels, const ole_mix *mix,
                         double smoothing, double scale, void *dlogits, float *scores, double *loss,
                         int64_t *correct);

    /* Before updates: scales the gradients so that their norm, all together, is at most `largest`,
     * as torch.nn.utils.clip_grad_norm_ does. */
    void (*clip)(ole_device_context *context, double largest, const ole_update_item *items,
                 int count);
    /* state[0] += (1 - ole_average_decay()) * (data - state[0]) for each item, whose gradient is
     * not read. */
    void (*average)(ole_device_context *context, const ole_update *update,
                    const ole_update_item *items, int count);
    /* Updates one parameter. state: momentum, or Adam's two moments. */
    void (*update)(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                   const void *gradient, void *state[2]);
    /* Updates all parameters at once, each at its rate. (optional: one by one) */
    void (*update_all)(ole_device_context *context, const ole_update *update,
                       const ole_update_item *items, int count);

    const struct ole_recorder *recorder; /* device/recorder.h (optional) */
    const struct ole_linker *linker;     /* device/link.h (optional; with own_memory) */
} ole_backend;

extern const ole_backend ole_backend_ref;   /* float */
extern const ole_backend ole_backend_ref64; /* double */
#ifdef OLE_HAVE_ONEDNN
extern const ole_backend ole_backend_cpu;
#endif

#endif
