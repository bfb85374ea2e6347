/*
 * src/device/backend.h - what a backend is: a table of functions that plan and run one op.
 *
 * ref/ is plain C, in float or double, slow and obvious: the truth.  cpu/ is oneDNN.  cuda/ is
 * cuDNN, cuBLAS and kernels of its own, in a module that is loaded when asked for.  A backend
 * chooses how tensors lie in its memory (an ole_layout of its own making); the plan (net/plan.h)
 * decides where: it gives each tensor a place in one block, so that running a step allocates
 * nothing.  Elements of activations and parameters are `element_size` bytes (4: float, 8: double)
 * unless `own_memory` is set.
 *
 * "(optional)" functions may be NULL.
 */
#ifndef OLE_SRC_DEVICE_BACKEND_H
#define OLE_SRC_DEVICE_BACKEND_H

#include "device/op.h"
#include "ole/base.h"

#include <stdbool.h>

typedef enum ole_precision {
    OLE_PRECISION_FP32,
    OLE_PRECISION_TF32,
    OLE_PRECISION_BF16,
} ole_precision;

/* How convolutions are computed where there is a choice: the fastest, or never by Winograd. */
typedef enum ole_conv_choice {
    OLE_CONV_AUTO,
    OLE_CONV_DIRECT,
} ole_conv_choice;

typedef struct ole_device_options {
    int threads;
    ole_precision precision;
    ole_conv_choice conv;
    uint64_t seed; /* of dropout */
    int card;      /* of CUDA: which, or -1 for the first */
} ole_device_options;

/* A backend at work: its engine, stream, threads. */
typedef struct ole_device_context ole_device_context;

/* How a tensor lies in memory; the backend's own, valid as long as its context. NULL: plain. */
typedef const void *ole_layout;

/* One op of a planned net. The backend fills it. */
typedef struct ole_op_plan {
    void *state;         /* the backend's own; freed by release() */
    ole_layout y_layout; /* of the output, and of its gradient */
    size_t y_bytes;
    size_t saved_bytes;   /* kept from forward to backward (masks, statistics, indices) */
    size_t scratch_bytes; /* needed during one call, shared by all ops */
    bool backward_reads_x, backward_reads_y;
    bool in_place;    /* y may be the same memory as x[0] */
    bool dx_in_place; /* dx[0] may be the same memory as dy */
    bool y_extends_x; /* y begins with x[0], which may be the same memory: nothing is lost of either
                       */
} ole_op_plan;

/*
 * What other ranks hold of the batch (ranks/ranks.h); a call without one has all of it.  Dropout
 * numbers its rows from first_row; batch norm, where `norm` is set, takes its sums over all ranks.
 */
typedef struct ole_share {
    int64_t first_row; /* rows of the batch that come before ours */
    int64_t rows;      /* of the whole batch */
    bool norm;
    /* data[count] becomes the sum over the ranks that have rows. */
    void (*sum)(void *argument, double *data, int64_t count);
    /* The same in the backend's memory, queued on its stream. (optional: through sum) */
    void (*queue_sum)(void *argument, double *data, int64_t count, void *stream);
    void *argument;
} ole_share;

/* What one call of an op works on. Pointers are the backend's memory; NULL where there is none. */
typedef struct ole_op_call {
    const void *x[OLE_MAX_INPUTS];
    void *y;
    const void *dy;           /* backward: gradient of y (may be overwritten if dx_in_place) */
    void *dx[OLE_MAX_INPUTS]; /* backward: NULL where no gradient is wanted */
    bool accumulate[OLE_MAX_INPUTS]; /* dx += instead of dx = */
    void *param[OLE_MAX_PARAMS];     /* in the order of the graph's parameters of the node */
    void *dparam[OLE_MAX_PARAMS];    /* gradients, written; NULL for those not trained or frozen */
    void *saved;
    void *scratch;
    bool train;             /* forward: batch statistics and dropout on */
    uint64_t step;          /* of dropout's random numbers */
    const ole_share *share; /* NULL: nobody else has a part of this batch */
} ole_op_call;

/* The number of the call's first row in the whole batch. */
static inline int64_t ole_first_row(const ole_op_call *call) {
    return call->share ? call->share->first_row : 0;
}

/* Whether batch norm's sums run over other ranks too. */
static inline bool ole_norm_shared(const ole_op_call *call) {
    return call->train && call->share && call->share->norm;
}

/* An optimiser step on one parameter, exactly as PyTorch's (coupled L2). */
typedef struct ole_update {
    enum { OLE_UPDATE_SGD, OLE_UPDATE_ADAM } kind;
    double lr, weight_decay;
    double momentum; /* SGD */
    bool nesterov;
    double beta1, beta2, eps; /* Adam */
    int64_t step;             /* from 1 */
} ole_update;

/* One parameter to update. */
typedef struct ole_update_item {
    const ole_node *node;
    const ole_param *param;
    void *data;
    const void *gradient;
    void *state[2]; /* momentum; or Adam's two moments */
} ole_update_item;

struct ole_recorder;
struct ole_linker;

typedef struct ole_backend {
    const char *name; /* "ref", "ref64", "cpu", "cuda" */
    size_t element_size;
    bool own_memory;  /* not the host's: only functions of this table reach it, and the layout of
                         OLE_OP_INPUT's output is the backend's own too */
    bool fuses_add;   /* NORM takes a second input, added before its ReLU: ole_graph_fuse() */
    int backward_lag; /* so many nodes later backward may still read what it was given */

    ole_status (*open)(ole_device_context **context, const ole_device_options *options,
                       ole_error *error);
    void (*close)(ole_device_context *context);

    /* Memory of the backend, aligned, zeroed. */
    void *(*allocate)(ole_device_context *context, size_t bytes);
    void (*free)(ole_device_context *context, void *memory);

    /* Bytes between the host and memory of the backend, waited for. (optional: plain memory) */
    void (*copy_in)(ole_device_context *context, const void *from, size_t bytes, void *to);
    void (*copy_out)(ole_device_context *context, const void *from, size_t bytes, void *to);

    /* Waits for all that was queued; the first failure since the context was opened. (optional) */
    ole_status (*wait)(ole_device_context *context, ole_error *error);

    /* What layouts and the bits of results depend on, by name: ranks that add up their gradients
     * must have the same. (optional: there is nothing to choose) */
    const char *(*kernels)(const ole_device_context *context);

    /* A parameter's layout depends on its node alone, so that plans of any batch size share it. */
    size_t (*param_bytes)(ole_device_context *context, const ole_node *node,
                          const ole_param *param);
    void (*param_from_plain)(ole_device_context *context, const ole_node *node,
                             const ole_param *param, const float *plain, void *to);
    void (*param_to_plain)(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const void *from, float *plain);
    /* The same for a gradient. (optional: it lies as the parameter does) */
    void (*gradient_to_plain)(ole_device_context *context, const ole_node *node,
                              const ole_param *param, const void *from, float *plain);

    /*
     * Plans `node` for a batch of n; `train`: backward will be called.  x_layout: of its inputs;
     * needs_dx: whether a gradient of any input is wanted.  The layout of OLE_OP_INPUT's output is
     * plain (NULL), as is that of FLATTEN and LINEAR, unless `own_memory` is set.
     */
    ole_status (*plan_op)(ole_device_context *context, const ole_node *node, int64_t n, bool train,
                          bool needs_dx, const ole_layout x_layout[OLE_MAX_INPUTS],
                          ole_op_plan *plan, ole_error *error);
    void (*release_op)(ole_device_context *context, ole_op_plan *plan);
    void (*forward)(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call);
    void (*backward)(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                     const ole_op_call *call);
    /* After the last backward of a step. (optional) */
    void (*backward_done)(ole_device_context *context);

    /* n x shape elements between a layout and plain float [N, C, H, W]; `accumulate`: add. */
    void (*to_plain)(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                     const void *from, float *plain);
    void (*from_plain)(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                       const float *plain, bool accumulate, void *to);

    /*
     * Softmax cross-entropy of logits[n, classes]: the mean loss and how many rows are right, and
     * unless NULL dlogits = scale * gradient of the mean.  scores (unless NULL): the softmax.
     */
    void (*softmax_loss)(ole_device_context *context, int64_t n, int64_t classes,
                         const void *logits, const int32_t *labels, double scale, void *dlogits,
                         float *scores, double *loss, int64_t *correct);

    /* One parameter's update: param, gradient, and state[2] (momentum; or Adam's two moments). */
    void (*update)(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                   const void *gradient, void *state[2]);
    /* All of them at once. (optional: one by one) */
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
