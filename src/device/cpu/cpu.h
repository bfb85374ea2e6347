/*
 * src/device/cpu/cpu.h - declarations shared by the files of the CPU backend: the context, layouts,
 * threads, and how an op is planned and run.
 *
 * Layouts.  Activations are plain [N, C, H, W] or blocked [N, C/b, H, W, b], where b is the number
 * of floats in a vector register (16 or 8): the layout in which oneDNN's convolutions are fastest.
 * Channels beyond C in the last block are always zero.  A convolution's output is blocked, and
 * every op but FLATTEN and LINEAR keeps the layout of its input, so nothing is reordered in
 * between.  Where both layouts have the same order (H = W = 1, C a multiple of b), the tensor
 * counts as plain.
 *
 * Elements.  With --precision bf16, blocked and stacked tensors hold bfloat16.  Plain ones (images,
 * and vectors from flattening on: features, logits) always hold float.
 *
 * A concatenation's output is stacked: [C/b, N, H, W, b], each block followed by its channels'
 * means and sums of squared distances to them, [2, b] doubles.  In a dense block every output is
 * the previous one plus a few channels, so the previous one is a prefix of the same memory: its
 * gradient is computed in place, and batch norm, which reads such tensors again and again, does not
 * recompute their statistics.  Concatenation and norm read this layout; for any other op the input
 * is converted to the blocked one (backend.c).
 */
#ifndef OLE_SRC_DEVICE_CPU_CPU_H
#define OLE_SRC_DEVICE_CPU_CPU_H

#include "base/pool.h"
#include "device/backend.h"
#include "device/cpu/amx.h"
#include "device/cpu/kernels.h"
#include "device/cpu/onednn.h"

struct ole_device_context {
    ole_device_options options;
    const cpu_kernels *kernels;
    const cpu_kernels *bf16; /* for bfloat16 tensors; NULL: all tensors are float */
    const amx_kernels *amx;  /* for bfloat16 on AMX tiles; NULL: no AMX */
    int block;               /* channels per block of the blocked layout */
    ole_pool *pool;          /* NULL if oneDNN runs on OpenMP, whose threads we share */
    cpu_dnn *dnn;
};

/* `bytes` rounded up to whole cache lines. */
static inline size_t cpu_whole_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* The blocked and stacked layouts; plain is NULL. */
extern const char cpu_blocked, cpu_stacked;

/* ---- tensors (layout.c) ------------------------------------------------------------------- */

/*
 * How the elements of a tensor are addressed: `groups` groups of `width` channels (the last may
 * hold fewer), with `rows` pixels per image.  Element (image n, channel c, pixel p) is at
 *     n * image_stride + c / width * group_stride + p * row_stride + c % width.
 * A batch of plain vectors is one image of n rows.
 */
typedef struct cpu_view {
    int64_t images, groups, rows;
    int64_t image_stride, group_stride, row_stride;
    int64_t channels;
    int width;
    bool padded;  /* the last group is padded to `width` channels */
    int64_t size; /* elements of the tensor, including padding */
    size_t item;  /* bytes per element: 4 (float) or 2 (bfloat16) */
} cpu_view;

/* The address of element `offset`. */
static inline void *cpu_at(const cpu_view *view, const void *tensor, int64_t offset) {
    return (char *)tensor + offset * (int64_t)view->item;
}

/* Bytes per element of a layout, and the inner loops for it. */
static inline size_t cpu_item(const ole_device_context *context, ole_layout layout) {
    return layout && context->bf16 ? sizeof(uint16_t) : sizeof(float);
}
static inline const cpu_kernels *cpu_kernels_of(const ole_device_context *context,
                                                ole_layout layout) {
    return layout && context->bf16 ? context->bf16 : context->kernels;
}

cpu_view cpu_view_of(const ole_device_context *context, ole_layout layout, int64_t n,
                     ole_shape shape);

/* The same, but n plain vectors stay n images of one pixel; for ops on single pixels. */
cpu_view cpu_view_images(const ole_device_context *context, ole_layout layout, int64_t n,
                         ole_shape shape);

/* The moments stored after a group of a stacked tensor: [2, block] doubles. */
double *cpu_stacked_moments(const cpu_view *view, const void *tensor, int64_t group);

/* The run of rows of one image and group. */
cpu_run cpu_view_run(const cpu_view *view, int64_t group);

/* The layout of an output whose op has the choice. */
ole_layout cpu_best_layout(const ole_device_context *context, ole_shape shape);

/*
 * Copies or adds `channels` channels, from channel `from_first` of one tensor to channel
 * `to_first` of another with the same images and pixels.  pad: zeroes what follows the last
 * channel in its group.
 */
typedef struct cpu_copy {
    cpu_view from, to;
    int64_t from_first, to_first, channels;
    bool accumulate, pad;
} cpu_copy;
void cpu_copy_channels(ole_device_context *context, const cpu_copy *copy, const void *from,
                       void *to);

/* Converts a whole tensor from one layout to another. */
void cpu_convert(ole_device_context *context, ole_layout from_layout, ole_layout to_layout,
                 int64_t n, ole_shape shape, const void *from, bool accumulate, void *to);

/* ---- threads (parallel.c) ----------------------------------------------------------------- */

/* Runs tasks 0 to count - 1 on the context's threads.  A loop is divided into tasks by its shape
 * alone, so results do not depend on the threads.  Consecutive tasks run on the same thread. */
typedef void cpu_task(void *argument, int64_t task);
void cpu_parallel(const ole_device_context *context, int64_t count, cpu_task *task, void *argument);

/* The same tasks on the same threads, each thread's last one first: a second pass over an array
 * then starts with what the first one left in the cache. */
void cpu_parallel_backwards(const ole_device_context *context, int64_t count, cpu_task *task,
                            void *argument);

/* Whether oneDNN runs on OpenMP; if so, its threads run our loops too. */
bool cpu_parallel_on_openmp(void);

/* Sets the calling thread's OpenMP thread count before oneDNN is called, and restores it after. */
int cpu_threads_enter(const ole_device_context *context);
void cpu_threads_leave(int before);

/* Tasks of a loop over `count` elements, and the range of one; ranges start on whole vectors. */
int64_t cpu_slices(int64_t count);
void cpu_slice(int64_t count, int64_t task, int64_t *first, int64_t *length);

/* ---- products (gemm.c) -------------------------------------------------------------------- */

/* C[m, n] = A B, or C += A B, in row-major order; A and B may be transposed. */
typedef struct cpu_gemm {
    bool transpose_a, transpose_b, add;
    int64_t m, n, k;
    const float *a, *b;
    int64_t lda, ldb;
    float *c;
    int64_t ldc;
    float *scratch; /* cpu_gemm_scratch() bytes */
} cpu_gemm;
size_t cpu_gemm_scratch(const ole_device_context *context, int64_t m, int64_t k);
void cpu_gemm_run(const ole_device_context *context, const cpu_gemm *gemm);

/* ---- ops ---------------------------------------------------------------------------------- */

/* Inputs that were converted in scratch because the op cannot read their layout (backend.c): the
 * original layout, and the offsets in scratch of the converted input and its gradient. */
typedef struct cpu_adapted {
    ole_layout given[OLE_MAX_INPUTS];
    size_t x[OLE_MAX_INPUTS], dx[OLE_MAX_INPUTS];
    bool is[OLE_MAX_INPUTS];
} cpu_adapted;

typedef struct cpu_plan_request {
    ole_device_context *context;
    const ole_node *node;
    int64_t n;
    bool train, needs_dx;
    ole_layout x_layout[OLE_MAX_INPUTS];
    ole_shape x_shape[OLE_MAX_INPUTS];
} cpu_plan_request;

/* State common to all ops; an op's own state begins with it. */
typedef struct cpu_state {
    int64_t n;
    bool train;
    ole_layout x_layout[OLE_MAX_INPUTS], y_layout;
    ole_shape x_shape[OLE_MAX_INPUTS], y_shape;
    int64_t y_size;               /* elements */
    size_t y_item;                /* bytes per element */
    void (*release)(void *state); /* frees what else the op owns, or NULL */
    cpu_adapted adapted;
} cpu_state;

/* Allocates and fills a state of `bytes` and the plan's y_layout, y_bytes. NULL: out of memory. */
void *cpu_state_create(const cpu_plan_request *request, ole_layout y_layout, size_t bytes,
                       ole_op_plan *plan);

typedef struct cpu_call {
    ole_device_context *context;
    const ole_node *node;
    const void *state;
    const ole_op_call *call;
} cpu_call;

typedef struct cpu_op {
    ole_status (*plan)(const cpu_plan_request *request, ole_op_plan *plan, ole_error *error);
    void (*forward)(const cpu_call *call);
    void (*backward)(const cpu_call *call);
} cpu_op;

extern const cpu_op cpu_op_conv, cpu_op_linear, cpu_op_norm, cpu_op_maxpool, cpu_op_avgpool,
    cpu_op_relu, cpu_op_add, cpu_op_concat, cpu_op_pad, cpu_op_flatten, cpu_op_dropout;

/* Copies a convolution's weights, stored -> plain [out, in, k, k] if `to_plain`, else back. */
void cpu_weight_copy(const ole_device_context *context, const ole_node *node, const float *from,
                     float *to, bool to_plain);

void cpu_softmax_loss(ole_device_context *context, int64_t n, int64_t classes, const void *logits,
                      const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                      void *dlogits, float *scores, double *loss, int64_t *correct);
void cpu_clip(ole_device_context *context, double largest, const ole_update_item *items, int count);
void cpu_average(ole_device_context *context, const ole_update *update,
                 const ole_update_item *items, int count);
void cpu_update(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                const void *gradient, void *state[2]);

#endif
