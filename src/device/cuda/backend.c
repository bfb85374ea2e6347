/*
 * src/device/cuda/backend.c - the CUDA backend: its table of functions, its context, and the table
 * of its ops.
 */
#include "base/cuda_module.h"
#include "base/error.h"
#include "device/cuda/cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts --------------------------------------------------------------------------------- */

cuda_layout cuda_layout_of(const ole_device_context *context, int64_t n, ole_shape shape) {
    int pitch = cuda_pitch(shape.c);
    cuda_layout layout = {.type = context->type,
                          .parts = 1,
                          .pixels = n * shape.h * shape.w,
                          .n = (int)n,
                          .c = (int)shape.c,
                          .h = (int)shape.h,
                          .w = (int)shape.w};
    layout.part[0] = (cuda_part){.channels = (int)shape.c, .pitch = pitch};
    layout.bytes = cuda_aligned((size_t)layout.pixels * (size_t)pitch * cuda_element(layout.type));
    return layout;
}

void *cuda_state_create(const cuda_request *request, size_t bytes, ole_op_plan *plan) {
    cuda_state *state = calloc(1, bytes);
    if (!state) return NULL;
    state->train = request->train;
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        if (request->x[k]) state->x[k] = *request->x[k];
    state->y = cuda_layout_of(request->context, request->n, request->node->out);
    *plan = (ole_op_plan){.state = state, .y_layout = &state->y, .y_bytes = state->y.bytes};
    return state;
}

ole_status cuda_plan_state(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    if (cuda_state_create(request, sizeof(cuda_state), plan)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
}

enum { WORKSPACE = 64 << 20, BOUNCE = 4 << 20 };

extern const ole_cuda_device_table ole_cuda_device;

/* ---- failures ----------------------------------------------------------------------------- */

static bool note(ole_device_context *context, ole_status status, const char *doing,
                 const char *reason, const char *advice) {
    if (context->failed == OLE_OK)
        context->failed =
            ole_fail(&context->failure, status, "CUDA, %s: %s%s", doing, reason, advice);
    return true;
}

bool cuda_failed(ole_device_context *context, cudaError_t code, const char *doing) {
    if (code == cudaSuccess) return false;
    if (code == cudaErrorMemoryAllocation)
        return note(context, OLE_ERROR_MEMORY, doing, "the GPU memory is full",
                    "; use a smaller batch, or see nvidia-smi for other programs on it");
    return note(
        context, OLE_ERROR_IO, doing, cudaGetErrorString(code),
        "; the last checkpoint is good: continue with --resume once nvidia-smi works again");
}

bool cuda_failed_dnn(ole_device_context *context, cudnnStatus_t code, const char *doing) {
    if (code == CUDNN_STATUS_SUCCESS) return false;
    return note(context, OLE_ERROR_UNSUPPORTED, doing, cudnnGetErrorString(code), " (cuDNN)");
}

bool cuda_failed_blas(ole_device_context *context, cublasStatus_t code, const char *doing) {
    if (code == CUBLAS_STATUS_SUCCESS) return false;
    return note(context, OLE_ERROR_UNSUPPORTED, doing, cublasGetStatusString(code), " (cuBLAS)");
}

ole_status cuda_failure(const ole_device_context *context, ole_error *error) {
    if (context->failed != OLE_OK && error) *error = context->failure;
    return context->failed;
}

void cuda_launched(ole_device_context *context, const char *kernel) {
    context->launches++;
    cuda_failed(context, cudaGetLastError(), kernel);
}

/*
 * Only one thread at a time opens or closes libraries: that synchronises the device, which breaks
 * any recording in progress on it.
 */
static pthread_mutex_t setup = PTHREAD_MUTEX_INITIALIZER;

void cuda_setup_lock(void) {
    pthread_mutex_lock(&setup);
}

void cuda_setup_unlock(void) {
    pthread_mutex_unlock(&setup);
}

static ole_status wait_for_all(ole_device_context *context, ole_error *error) {
    cudaSetDevice(context->gpu);
    cuda_failed(context, cudaStreamSynchronize(context->stream), "running");
    return cuda_failure(context, error);
}

/* ---- the context -------------------------------------------------------------------------- */

static void close_context(ole_device_context *context) {
    if (!context) return;
    cudaSetDevice(context->gpu);
    if (context->stream) cudaStreamSynchronize(context->stream);
    cuda_setup_lock();
    cuda_link_close(context);
    cuda_replays_free(context);
    cuda_update_tables_free(context);
    cuda_tune_close(context);
    if (context->blas) cublasDestroy(context->blas);
    if (context->dnn) cudnnDestroy(context->dnn);
    cuda_side_close(context);
    cudaFree(context->clock);
    cudaFree(context->workspace[0]);
    cudaFree(context->workspace[1]);
    cudaFree(context->staging);
    cudaFreeHost(context->bounce);
    if (context->stream) cudaStreamDestroy(context->stream);
    if (context->side) cudaStreamDestroy(context->side);
    cuda_setup_unlock();
    free(context);
}

static ole_status open_streams(ole_device_context *context, ole_error *error) {
    int least, greatest;
    cudaError_t code = cudaSetDevice(context->gpu);
    if (code != cudaSuccess) /* the first call that needs the GPU: nothing has been trained yet */
        note(context, code == cudaErrorMemoryAllocation ? OLE_ERROR_MEMORY : OLE_ERROR_IO,
             "selecting the GPU", cudaGetErrorString(code),
             "; see nvidia-smi for other programs on it; under MPS run fewer programs at once and "
             "unset CUDA_DEVICE_MAX_CONNECTIONS");
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cuda_failed(context,
                cudaStreamCreateWithPriority(&context->stream, cudaStreamNonBlocking, greatest),
                "opening a stream");
    cuda_failed(context, cudaStreamCreateWithPriority(&context->side, cudaStreamNonBlocking, least),
                "opening a stream");
    cuda_failed(context, cudaMalloc((void **)&context->clock, sizeof *context->clock), "opening");
    for (int i = 0; i < 2; i++)
        cuda_failed(context, cudaMalloc(&context->workspace[i], WORKSPACE), "opening");
    context->workspace_bytes = WORKSPACE;
    if (context->failed == OLE_OK && cudaMallocHost(&context->bounce, BOUNCE) != cudaSuccess)
        note(context, OLE_ERROR_MEMORY, "opening", "the host has no page-locked memory left", "");
    if (context->failed == OLE_OK)
        cuda_failed(context,
                    cudaMemsetAsync(context->clock, 0, sizeof *context->clock, context->stream),
                    "opening");
    return wait_for_all(context, error);
}

static ole_status open_libraries(ole_device_context *context, ole_error *error) {
    cuda_setup_lock();
    cuda_failed_blas(context, cublasCreate(&context->blas), "opening cuBLAS");
    cuda_failed_dnn(context, cudnnCreate(&context->dnn), "opening cuDNN");
    if (context->failed == OLE_OK) {
        cuda_failed_blas(context, cublasSetStream(context->blas, context->stream), "opening");
        cuda_failed_blas(
            context,
            cublasSetWorkspace(context->blas, context->workspace[0], context->workspace_bytes),
            "opening");
        cuda_failed_dnn(context, cudnnSetStream(context->dnn, context->stream), "opening");
    }
    ole_status status = wait_for_all(context, error);
    if (status == OLE_OK) status = cuda_side_open(context, error);
    if (status == OLE_OK) status = cuda_tune_open(context, error);
    cuda_setup_unlock();
    return status;
}

static ole_status open_context(ole_device_context **result, const ole_device_options *options,
                               ole_error *error) {
    ole_cuda_gpu gpu;
    int which = options->gpu < 0 ? 0 : options->gpu;
    ole_status status = ole_cuda_device.describe(which, &gpu, error);
    if (status != OLE_OK) return status;
    ole_device_context *context = calloc(1, sizeof *context);
    if (!context) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    context->options = *options;
    context->gpu = which;
    context->multiprocessors = gpu.multiprocessors;
    context->type = options->precision == OLE_PRECISION_BF16 ? CUDA_BFLOAT16 : CUDA_FLOAT;
    status = open_streams(context, error);
    if (status == OLE_OK) status = open_libraries(context, error);
    if (status != OLE_OK) {
        close_context(context);
        return status;
    }
    *result = context;
    return OLE_OK;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void *allocate(ole_device_context *context, size_t bytes) {
    void *memory = NULL;
    cudaSetDevice(context->gpu);
    if (cudaMalloc(&memory, bytes ? bytes : 1) != cudaSuccess) {
        cudaGetLastError(); /* the caller reports it */
        return NULL;
    }
    if (bytes)
        cuda_failed(context, cudaMemsetAsync(memory, 0, bytes, context->stream), "clearing memory");
    return memory;
}

static void free_memory(ole_device_context *context, void *memory) {
    cudaSetDevice(context->gpu);
    cudaStreamSynchronize(context->stream);
    cudaFree(memory);
}

bool cuda_copy(ole_device_context *context, void *to, const void *from, size_t bytes,
               enum cudaMemcpyKind kind, const char *doing) {
    cudaSetDevice(context->gpu);
    bool in = kind == cudaMemcpyHostToDevice;
    for (size_t done = 0, piece; done < bytes; done += piece) {
        piece = bytes - done < BOUNCE ? bytes - done : BOUNCE;
        char *target = (char *)to + done;
        const char *source = (const char *)from + done;
        if (in) memcpy(context->bounce, source, piece);
        if (cuda_failed(context,
                        cudaMemcpyAsync(in ? target : context->bounce,
                                        in ? context->bounce : source, piece, kind,
                                        context->stream),
                        doing) ||
            cuda_failed(context, cudaStreamSynchronize(context->stream), doing))
            return false;
        if (!in) memcpy(target, context->bounce, piece);
    }
    return true;
}

void *cuda_send(ole_device_context *context, const void *from, size_t bytes, const char *doing) {
    void *to = NULL;
    if (cuda_failed(context, cudaMalloc(&to, bytes ? bytes : 1), doing)) return NULL;
    if (from) cuda_copy(context, to, from, bytes, cudaMemcpyHostToDevice, doing);
    return to;
}

static void copy_in(ole_device_context *context, const void *from, size_t bytes, void *to) {
    cuda_copy(context, to, from, bytes, cudaMemcpyHostToDevice, "copying in");
}

static void copy_out(ole_device_context *context, const void *from, size_t bytes, void *to) {
    cuda_copy(context, to, from, bytes, cudaMemcpyDeviceToHost, "copying out");
}

/* Temporary device memory of at least `bytes`; NULL without memory. */
static void *staging_of(ole_device_context *context, size_t bytes) {
    if (context->staging_bytes >= bytes) return context->staging;
    cudaStreamSynchronize(context->stream);
    cudaFree(context->staging);
    context->staging = NULL;
    context->staging_bytes = 0;
    if (cuda_failed(context, cudaMalloc(&context->staging, bytes), "making room for a transfer"))
        return NULL;
    context->staging_bytes = bytes;
    return context->staging;
}

/* The layout as it was given, or that of one tensor. */
static cuda_layout layout_or_plain(const ole_device_context *context, ole_layout layout, int64_t n,
                                   ole_shape shape) {
    return layout ? *(const cuda_layout *)layout : cuda_layout_of(context, n, shape);
}

static void to_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                     const void *from, float *plain) {
    size_t bytes = (size_t)(n * ole_shape_size(shape)) * sizeof *plain;
    cuda_layout tensor = layout_or_plain(context, layout, n, shape);
    float *staging = staging_of(context, bytes);
    if (!staging) return;
    cuda_to_plain(context, &tensor, from, staging);
    copy_out(context, staging, bytes, plain);
}

static void from_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                       const float *plain, bool accumulate, void *to) {
    size_t bytes = (size_t)(n * ole_shape_size(shape)) * sizeof *plain;
    cuda_layout tensor = layout_or_plain(context, layout, n, shape);
    float *staging = staging_of(context, bytes);
    if (!staging) return;
    copy_in(context, plain, bytes, staging);
    cuda_from_plain(context, &tensor, staging, accumulate, to);
}

/* ---- ops ---------------------------------------------------------------------------------- */

static const cuda_op cuda_input = {.plan = cuda_plan_state};

static const cuda_op *op_of(const ole_node *node) {
    static const cuda_op *const ops[] = {
        [OLE_OP_INPUT] = &cuda_input,     [OLE_OP_CONV] = &cuda_layer,
        [OLE_OP_NORM] = &cuda_norm,       [OLE_OP_RELU] = &cuda_relu,
        [OLE_OP_MAXPOOL] = &cuda_maxpool, [OLE_OP_AVGPOOL] = &cuda_avgpool,
        [OLE_OP_FLATTEN] = &cuda_flatten, [OLE_OP_LINEAR] = &cuda_layer,
        [OLE_OP_DROPOUT] = &cuda_dropout, [OLE_OP_ADD] = &cuda_add,
        [OLE_OP_CONCAT] = &cuda_concat,   [OLE_OP_PAD] = &cuda_pad,
    };
    return ops[node->op];
}

static ole_status plan_op(ole_device_context *context, const ole_node *node, int64_t n, bool train,
                          bool needs_dx, const ole_layout x_layout[OLE_MAX_INPUTS],
                          ole_op_plan *plan, ole_error *error) {
    cuda_layout plain[OLE_MAX_INPUTS], packed[OLE_MAX_INPUTS];
    cuda_adapted adapted;
    cuda_request request = {
        .context = context, .node = node, .n = n, .train = train, .needs_dx = needs_dx};
    cudaSetDevice(context->gpu);
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        if (node->input[k] < 0) continue;
        plain[k] = layout_or_plain(context, x_layout[k], n, node->in);
        request.x[k] = &plain[k];
    }
    const cuda_op *op = op_of(node);
    cuda_adapt_request(&request, op, packed, &adapted);
    ole_status status = op->plan(&request, plan, error);
    if (status == OLE_OK) cuda_adapt_plan(&request, &adapted, plan);
    return status;
}

static void release_op(ole_device_context *context, ole_op_plan *plan) {
    cuda_state *state = plan->state;
    cudaSetDevice(context->gpu);
    if (state && state->release) state->release(state);
    free(state);
    plan->state = NULL;
}

/* Dropout and Adam read the step from the clock, which recorded steps advance by themselves. */
static void set_step(ole_device_context *context, const ole_node *node, const ole_op_call *call) {
    if (node->op == OLE_OP_DROPOUT && call->step) cuda_set_clock(context, call->step, 0.0);
}

/* Whether the context has failed; ranks that wait for its part of a sum get one all the same. */
static bool is_lost(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call) {
    if (context->failed == OLE_OK) return false;
    const cuda_state *state = plan->state;
    if (node->op == OLE_OP_NORM && ole_norm_shared(call) && !call->share->linked)
        cuda_share_sum(context, call->share, call->scratch, 2 * (int64_t)state->y.part[0].pitch);
    return true;
}

static void forward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call) {
    ole_op_call own = *call;
    cuda_call given = {context, node, plan->state, call};
    if (is_lost(context, node, plan, call) || node->op == OLE_OP_INPUT) return;
    set_step(context, node, call);
    cuda_adapt_forward(&given, &own);
    op_of(node)->forward(&(cuda_call){context, node, plan->state, &own});
}

static void backward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                     const ole_op_call *call) {
    ole_op_call own = *call;
    cuda_call given = {context, node, plan->state, call};
    if (is_lost(context, node, plan, call)) return;
    const cuda_adapted *adapted = &((const cuda_state *)plan->state)->adapted;
    bool side = context->use_side;
    if (adapted->is[0] || adapted->is[1]) context->use_side = false; /* scratch is everybody's */
    set_step(context, node, call);
    cuda_adapt_backward(&given, plan, &own);
    op_of(node)->backward(&(cuda_call){context, node, plan->state, &own});
    cuda_adapt_gradients(&given, &own);
    context->use_side = side;
    cuda_side_advance(context);
}

/* ---- losses and updates ------------------------------------------------------------------- */

/* Two sums, a share, labels, other labels and scores lie in staging. */
static void softmax_loss(ole_device_context *context, int64_t n, int64_t classes,
                         const void *logits, const int32_t *labels, const ole_mix *mix,
                         double smoothing, double scale, void *dlogits, float *scores, double *loss,
                         int64_t *correct) {
    cuda_layout layout = cuda_layout_of(context, n, (ole_shape){classes, 1, 1});
    size_t label_bytes = (size_t)n * sizeof *labels, score_bytes = (size_t)(n * classes) * 4;
    size_t share_at = 128, labels_at = 256, room = (label_bytes + 255) / 256 * 256;
    size_t others_at = labels_at + room, scores_at = others_at + room;
    char *staging = staging_of(context, scores_at + score_bytes);
    double sums[2] = {0.0, 0.0};
    *loss = 0.0;
    *correct = 0;
    if (!staging) return;
    copy_in(context, labels, label_bytes, staging + labels_at);
    const ole_mix there = {(int32_t *)(staging + others_at), (float *)(staging + share_at)};
    if (mix) {
        copy_in(context, mix->labels, label_bytes, there.labels);
        copy_in(context, mix->share, sizeof *mix->share, there.share);
    }
    cuda_softmax(context, &layout, logits, (const int32_t *)(staging + labels_at),
                 mix ? &there : NULL, smoothing, scale, dlogits,
                 scores ? (float *)(staging + scores_at) : NULL, (double *)staging, false);
    copy_out(context, staging, sizeof sums, sums);
    if (scores) copy_out(context, staging + scores_at, score_bytes, scores);
    *loss = sums[0];
    *correct = (int64_t)sums[1];
}

/* One parameter of floats, as tests have it. */
static void update_one(ole_device_context *context, const ole_update *update, size_t bytes,
                       void *param, const void *gradient, void *state[2]) {
    const ole_param whole = {.kind = OLE_PARAM_BIAS, .count = (int64_t)(bytes / sizeof(float))};
    const ole_node node = {0};
    const ole_update_item item = {.node = &node,
                                  .param = &whole,
                                  .data = param,
                                  .gradient = (void *)(uintptr_t)gradient, /* only read */
                                  .state = {state[0], state[1]},
                                  .bytes = bytes,
                                  .rate = 1.0};
    cuda_set_clock(context, (uint64_t)update->step, update->lr);
    cuda_update_all(context, update, &item, 1);
}

/* Step and learning rate of `update` if it sets them; recorded steps read them from the clock. */
static void update_all(ole_device_context *context, const ole_update *update,
                       const ole_update_item *items, int count) {
    if (update->step > 0) cuda_set_clock(context, (uint64_t)update->step, update->lr);
    cuda_update_all(context, update, items, count);
}

__attribute__((visibility("default"))) extern const ole_backend ole_cuda_backend;
const ole_backend ole_cuda_backend = {
    .name = "cuda",
    .element_size = sizeof(float),
    .own_memory = true,
    .fuses_add = true,
    .backward_lag = CUDA_LAG,
    .open = open_context,
    .close = close_context,
    .allocate = allocate,
    .free = free_memory,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .wait = wait_for_all,
    .param_bytes = cuda_param_bytes,
    .state_bytes = cuda_state_bytes,
    .state_from_plain = cuda_state_from_plain,
    .param_from_plain = cuda_param_from_plain,
    .param_to_plain = cuda_param_to_plain,
    .gradient_from_plain = cuda_gradient_from_plain,
    .gradient_to_plain = cuda_gradient_to_plain,
    .plan_op = plan_op,
    .release_op = release_op,
    .forward = forward,
    .backward = backward,
    .backward_done = cuda_side_join,
    .to_plain = to_plain,
    .from_plain = from_plain,
    .softmax_loss = softmax_loss,
    .clip = cuda_clip_all,
    .average = cuda_average_all,
    .update = update_one,
    .update_all = update_all,
    .recorder = &cuda_recorder,
    .linker = &cuda_linker,
};
