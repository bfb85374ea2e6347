/*
 * ole/loss.h - the OLÉ loss: one low-rank subspace per class, orthogonal to the others.
 *
 * X is [N, D], one row per sample: the input of the last linear layer.  X_c are the rows of class
 * c.  With ‖A‖_* the nuclear norm (the sum of the singular values),
 *
 *     loss = weight/N * ( sum_c max(Δ, ‖X_c‖_*) - ‖X‖_* )
 *
 * over the classes present.  It is zero when the classes lie in mutually orthogonal subspaces, and
 * its gradient pulls each class towards few directions and pushes the classes apart:
 *
 *     gradient row i of class c = weight/N * ( [‖X_c‖_* > Δ] polar(X_c)_i - polar(X)_i )
 *
 * where polar(A) = U1 V1^T keeps the singular directions with σ > max(δ_abs, δ_rel * σ_max(A)).
 * docs/maths.md derives this and bounds the error.
 *
 * Example: the loss and its gradient for a batch of 64 features of 256 dimensions.
 *
 *     static float x[64 * 256], g[64 * 256];
 *     static int32_t y[64];
 *     ole_loss_plan *plan;
 *     ole_error error;
 *     if (ole_loss_plan_create(&plan, 64, 256, OLE_F32, NULL, &error) != OLE_OK)
 *         return fprintf(stderr, "%s\n", error.message), 1;
 *     ole_loss_batch batch = {.rows = 64, .features = x, .labels = y, .label_type = OLE_I32};
 *     ole_loss_gradient gradient = {.data = g, .upstream = 1.0};
 *     ole_loss_result result = {0};
 *     if (ole_loss_eval(plan, &batch, &gradient, &result, &error) != OLE_OK)
 *         return fprintf(stderr, "%s\n", error.message), 1;
 *     printf("loss %g\n", result.value);
 *     ole_loss_plan_destroy(plan);
 *
 * Accuracy.  Against a float64 SVD of the same float32 input, before weight/N: the value's error is
 * at most 1e-6 * sum_c ‖X_c‖_*, the gradient's at most 1e-5 * sqrt(N) in Frobenius norm whenever no
 * σ lies within a factor 4 of its threshold and no ‖X_c‖_* within 1e-6 of Δ.  For float64 input:
 * 1e-12 and 1e-9.  docs/maths.md states how far the kept σ may spread: ten orders of magnitude for
 * float32 input, five for float64.  The same build, CPU model and input give the same bits for any
 * number of threads.  Evaluating a plan allocates nothing.
 *
 * Threads.  A plan owns its memory and its worker threads (options.threads - 1 of them, asleep
 * between calls, with all signals blocked).  Use a plan from one thread at a time: a call during
 * another one fails with OLE_ERROR_ARGUMENT.  Different plans are independent.  After fork() the
 * child has no workers; it evaluates and frees its parent's plans in the calling thread.
 */
#ifndef OLE_LOSS_H
#define OLE_LOSS_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

/* The shapes, options and all memory of a loss. Opaque; free it with ole_loss_plan_destroy(). */
typedef struct ole_loss_plan ole_loss_plan;

typedef struct ole_loss_options ole_loss_options; /* below */

/*
 * Plans the loss of up to `max_rows` rows of `dim` features of type OLE_F32 or OLE_F64; on a GPU
 * also OLE_BF16 or OLE_F16 (thresholds as for OLE_F32, gradients of the feature type).  `options`
 * may be NULL for the defaults.  On success *plan is the new plan, else NULL.
 */
OLE_API ole_status ole_loss_plan_create(ole_loss_plan **plan, int64_t max_rows, int64_t dim,
                                        ole_dtype dtype, const ole_loss_options *options,
                                        ole_error *error);

/* Frees the plan and ends its threads. NULL is allowed. */
OLE_API void ole_loss_plan_destroy(ole_loss_plan *plan);

typedef struct ole_loss_batch {
    int64_t rows;         /* N, 1 to max_rows */
    const void *features; /* [rows, dim] of the plan's type */
    int64_t stride;       /* elements from one row to the next, >= dim; 0 means dim */
    const void *labels;   /* [rows]; any values; rows with a label < 0 are ignored */
    ole_dtype label_type; /* OLE_I32 or OLE_I64 */
} ole_loss_batch;

/* The gradient's destination: data = upstream * dloss/dX, or data += that. */
typedef struct ole_loss_gradient {
    void *data;      /* [rows, dim] of the plan's type; must not overlap the features */
    int64_t stride;  /* elements from one row to the next, >= dim; 0 means dim */
    double upstream; /* the factor from the layers above; 1 if the loss is the whole objective */
    bool accumulate; /* false: written, ignored rows zero; true: added, ignored rows untouched */
} ole_loss_gradient;

/* One class of an evaluated batch. */
typedef struct ole_loss_class {
    int64_t label;
    int64_t count; /* rows of the class */
    int64_t rank;  /* singular values over the threshold */
    double norm;   /* ‖X_c‖_*, before the floor Δ */
} ole_loss_class;

/* The caller sets `per_class` and `per_class_capacity`, the call sets the rest. */
typedef struct ole_loss_result {
    double value;               /* weight/N * (class_term - global_norm) */
    double class_term;          /* sum_c max(Δ, ‖X_c‖_*) */
    double global_norm;         /* ‖X‖_* */
    int64_t rows;               /* N: the rows that are not ignored */
    int64_t classes;            /* number of labels present */
    int64_t rank;               /* of X: singular values over the threshold */
    ole_loss_class *per_class;  /* NULL, or room for one entry per class, filled by rising label */
    int64_t per_class_capacity; /* entries in per_class; too few is an error (max_rows suffices) */
} ole_loss_result;

/*
 * Evaluates the loss, and its gradient unless `gradient` is NULL (the value has the same bits
 * either way).  Errors: OLE_ERROR_ARGUMENT (sizes, strides, types, no row with a label >= 0),
 * OLE_ERROR_DATA (NaN or Inf in a row that is not ignored; the message names the first),
 * OLE_ERROR_NUMERIC (features, weight or upstream so large that value or gradient overflows).
 */
OLE_API ole_status ole_loss_eval(ole_loss_plan *plan, const ole_loss_batch *batch,
                                 const ole_loss_gradient *gradient, ole_loss_result *result,
                                 ole_error *error);

/* ---- Options -------------------------------------------------------------------------------- */

/* The factor: 1/N of the rows that are not ignored, or 1. */
typedef enum ole_reduction {
    OLE_REDUCTION_MEAN = 0,
    OLE_REDUCTION_SUM = 1,
} ole_reduction;

/* A delta_rel of 64 × epsilon of float32 for float32 and narrower input, of float64 for float64. */
#define OLE_DELTA_REL_AUTO (-1.0)

/* Fill with ole_loss_options_init(), then change what differs. */
struct ole_loss_options {
    size_t struct_size; /* set by init; see "Versions" in ole/base.h */
    double weight;      /* λ, any finite number; default 1 */
    double delta_floor; /* Δ >= 0, the floor under each class's norm; default 1 */
    double delta_abs;   /* δ_abs >= 0; default 1e-6 */
    double delta_rel;   /* δ_rel >= 0, or OLE_DELTA_REL_AUTO (default); 0: the authors' rule */
    ole_reduction reduction; /* default OLE_REDUCTION_MEAN */
    ole_device device;       /* where features, labels and gradient live; default OLE_DEVICE_CPU */
    int threads;             /* 1 to 1024; default 1 */
    int gpu; /* number of the GPU for OLE_DEVICE_CUDA; default -1: the thread's current one */
};

OLE_API void ole_loss_options_init_sized(ole_loss_options *options, size_t struct_size);
static inline void ole_loss_options_init(ole_loss_options *options) {
    ole_loss_options_init_sized(options, sizeof *options);
}

/* The memory the plan holds, in bytes. */
OLE_API size_t ole_loss_plan_bytes(const ole_loss_plan *plan);

/* ---- May still change: queued evaluation on a GPU ------------------------------------------- */

/* The result of ole_loss_queue(), in device memory. */
typedef struct ole_loss_outcome {
    double value, class_term, global_norm; /* as in ole_loss_result; NaN after a bad row */
    int64_t rows, classes, rank;
    int64_t bad_row; /* the first row, not ignored, that holds NaN or Inf; -1: none */
} ole_loss_outcome;

/*
 * Queues an evaluation of an OLE_DEVICE_CUDA plan on `stream` (a cudaStream_t) and returns at once:
 * nothing is allocated, nothing waits for the device, and a CUDA graph can capture the call.
 * Features, labels, gradient and outcome (the last two may be NULL) are in device memory.  Data
 * cannot make it fail: a bad row gives a NaN value and gradient, and its number in the outcome; if
 * no row has a label >= 0, rows, value and gradient are 0.
 *
 * ole_loss_eval() of such a plan takes device memory too, waits, and reports errors as on the CPU;
 * but by then the gradient may have been written, or added to.
 */
OLE_API ole_status ole_loss_queue(ole_loss_plan *plan, const ole_loss_batch *batch,
                                  const ole_loss_gradient *gradient, ole_loss_outcome *outcome,
                                  void *stream, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
