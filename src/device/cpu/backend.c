/*
 * src/device/cpu/backend.c - the CPU backend on oneDNN: its function table, its context, and the
 * table of its ops.
 */
#include "base/arena.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/min_max.h"
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern const cpu_kernels ole_cpu_kernels_generic;
#if OLE_X86_DISPATCH
extern const cpu_kernels ole_cpu_kernels_avx2;
extern const cpu_kernels ole_cpu_kernels_avx512;
#endif
#if defined(OLE_HAVE_CPU_BF16)
extern const cpu_kernels ole_cpu_kernels_avx512bf16;
#endif

/* ---- the context -------------------------------------------------------------------------- */

/* The best table for this CPU among those that match oneDNN's block size. */
static const cpu_kernels *choose_kernels(int block) {
#if OLE_X86_DISPATCH
    if (block == ole_cpu_kernels_avx512.block) return &ole_cpu_kernels_avx512;
    if (ole_cpu_allowed() >= OLE_CPU_AVX2) return &ole_cpu_kernels_avx2;
#endif
    (void)block;
    return &ole_cpu_kernels_generic;
}

static void close_context(ole_device_context *context) {
    if (!context) return;
    ole_pool_destroy(context->pool);
    cpu_dnn_destroy(context->dnn);
    free(context);
}

static ole_status check_precision(const ole_device_options *options, ole_error *error) {
    if (options->precision == OLE_PRECISION_FP32) return OLE_OK;
    if (options->precision != OLE_PRECISION_BF16)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "the cpu backend has no tf32; use --precision fp32 or bf16");
#if defined(OLE_HAVE_CPU_BF16)
    if (ole_cpu_allowed() >= OLE_CPU_AVX512_BF16) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "--precision bf16 needs a CPU with AVX512_BF16 (avx512_bf16 among the flags of "
                    "/proc/cpuinfo), which this one lacks; choose --precision fp32");
#else
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "this build has no bf16 on the cpu: its compiler does not know AVX512_BF16; "
                    "choose --precision fp32");
#endif
}

static const cpu_kernels *bf16_kernels(const ole_device_options *options) {
#if defined(OLE_HAVE_CPU_BF16)
    if (options->precision == OLE_PRECISION_BF16) return &ole_cpu_kernels_avx512bf16;
#endif
    (void)options;
    return NULL;
}

static const amx_kernels *amx_of(const cpu_kernels *bf16) {
#if defined(OLE_HAVE_CPU_BF16)
    if (bf16 && cpu_has_amx()) return &ole_amx_kernels;
#endif
    (void)bf16;
    return NULL;
}

static ole_status open_context(ole_device_context **result, const ole_device_options *options,
                               ole_error *error) {
    ole_status status = ole_cpu_describe(NULL, error);
    if (status == OLE_OK) status = check_precision(options, error);
    if (status != OLE_OK) return status;
    if (options->threads < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%d threads: must be at least 1",
                        options->threads);
    ole_device_context *context = calloc(1, sizeof *context);
    if (!context) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    context->options = *options;
    context->bf16 = bf16_kernels(options);
    context->amx = amx_of(context->bf16);
    status = cpu_dnn_create(&context->dnn, context->bf16 != NULL, error);
    context->kernels = choose_kernels(cpu_dnn_block());
    context->block = context->kernels->block;
    if (status == OLE_OK && !cpu_parallel_on_openmp())
        status = ole_pool_create(&context->pool, options->threads, error);
    if (status != OLE_OK) {
        close_context(context);
        return status;
    }
    *result = context;
    return OLE_OK;
}

/* Large allocations start on a huge page and request huge pages: a step walks through hundreds of
 * megabytes, and with small pages much of its time would go into address translation. */
static void *allocate_memory(ole_device_context *context, size_t bytes) {
    enum { HUGE_PAGE = 1 << 21 };
    (void)context;
    size_t line = bytes < HUGE_PAGE ? (size_t)OLE_ALIGNMENT : (size_t)HUGE_PAGE;
    if (bytes > PTRDIFF_MAX - line) return NULL;
    size_t whole = bytes ? (bytes + line - 1) / line * line : line;
    void *memory = aligned_alloc(line, whole);
    if (!memory) return NULL;
#ifdef MADV_HUGEPAGE
    if (line == HUGE_PAGE) madvise(memory, whole, MADV_HUGEPAGE);
#endif
    memset(memory, 0, whole);
    return memory;
}

static void free_memory(ole_device_context *context, void *memory) {
    (void)context;
    free(memory);
}

static const char *kernels_of(const ole_device_context *context) {
    return context->kernels->name;
}

/* ---- conversion --------------------------------------------------------------------------- */

static bool is_filter(const ole_node *node, const ole_param *param) {
    return node->op == OLE_OP_CONV && param->kind == OLE_PARAM_WEIGHT;
}

static size_t param_bytes(ole_device_context *context, const ole_node *node,
                          const ole_param *param) {
    (void)context, (void)node; /* only whole blocks of weights are blocked: there is no padding */
    return (size_t)param->count * sizeof(float);
}

static void param_from_plain(ole_device_context *context, const ole_node *node,
                             const ole_param *param, const float *plain, void *to) {
    if (is_filter(node, param))
        cpu_weight_copy(context, node, plain, to, false);
    else
        memcpy(to, plain, (size_t)param->count * sizeof(float));
}

static void param_to_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const void *from, float *plain) {
    if (is_filter(node, param))
        cpu_weight_copy(context, node, from, plain, true);
    else
        memcpy(plain, from, (size_t)param->count * sizeof(float));
}

static void to_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                     const void *from, float *plain) {
    cpu_convert(context, layout, NULL, n, shape, from, false, plain);
}

static void from_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                       const float *plain, bool accumulate, void *to) {
    cpu_convert(context, NULL, layout, n, shape, plain, accumulate, to);
}

/* ---- stacked inputs -------------------------------------------------------------------------- */

/* Ops that cannot read stacked inputs get blocked copies in scratch.  The paper's networks do not
 * need it: there, a norm follows every concatenation. */

/* Replaces layouts that the op cannot read. */
static void adapt_request(cpu_plan_request *r, cpu_adapted *adapted) {
    *adapted = (cpu_adapted){0};
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        adapted->given[i] = r->x_layout[i];
        bool stacked = r->x_layout[i] == &cpu_stacked;
        adapted->is[i] = stacked && r->node->op != OLE_OP_NORM && r->node->op != OLE_OP_CONCAT;
        if (adapted->is[i]) r->x_layout[i] = cpu_best_layout(r->context, r->x_shape[i]);
    }
}

/* Reserves `bytes` of scratch, aligned to a cache line; returns their offset. */
static size_t take_scratch(ole_op_plan *plan, size_t bytes) {
    size_t first = cpu_whole_lines(plan->scratch_bytes);
    plan->scratch_bytes = first + bytes;
    return first;
}

/* Adds the scratch that this takes. */
static void adapt_plan(const cpu_plan_request *r, cpu_adapted *adapted, ole_op_plan *plan) {
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (!adapted->is[i]) continue;
        cpu_view x = cpu_view_images(r->context, r->x_layout[i], r->n, r->x_shape[i]);
        adapted->x[i] = take_scratch(plan, (size_t)x.size * x.item);
        if (r->train) adapted->dx[i] = take_scratch(plan, (size_t)x.size * x.item);
        plan->in_place = plan->dx_in_place = false;
    }
    ((cpu_state *)plan->state)->adapted = *adapted;
}

/* Converts the inputs of a call. */
static void adapt_call(const cpu_call *given, ole_op_call *adapted) {
    const cpu_state *s = given->state;
    char *scratch = given->call->scratch;
    *adapted = *given->call;
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (!s->adapted.is[i]) continue;
        void *x = scratch + s->adapted.x[i];
        if (given->call->x[i])
            cpu_convert(given->context, s->adapted.given[i], s->x_layout[i], s->n, s->x_shape[i],
                        given->call->x[i], false, x);
        adapted->x[i] = x;
        if (adapted->dx[i]) adapted->dx[i] = scratch + s->adapted.dx[i];
        adapted->accumulate[i] = false;
    }
}

/* Converts its gradients back. */
static void adapt_gradients(const cpu_call *given, const ole_op_call *adapted) {
    const cpu_state *s = given->state;
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        if (s->adapted.is[i] && given->call->dx[i])
            cpu_convert(given->context, s->x_layout[i], s->adapted.given[i], s->n, s->x_shape[i],
                        adapted->dx[i], given->call->accumulate[i], given->call->dx[i]);
}

/* ---- ops ---------------------------------------------------------------------------------- */

static ole_status plan_input(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (!cpu_state_create(r, NULL, sizeof(cpu_state), plan))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    return OLE_OK;
}

static void do_nothing(const cpu_call *call) {
    (void)call;
}

static const cpu_op cpu_op_input = {plan_input, do_nothing, do_nothing};

static const cpu_op *const ops[] = {
    [OLE_OP_INPUT] = &cpu_op_input,     [OLE_OP_CONV] = &cpu_op_conv,
    [OLE_OP_NORM] = &cpu_op_norm,       [OLE_OP_RELU] = &cpu_op_relu,
    [OLE_OP_MAXPOOL] = &cpu_op_maxpool, [OLE_OP_AVGPOOL] = &cpu_op_avgpool,
    [OLE_OP_FLATTEN] = &cpu_op_flatten, [OLE_OP_LINEAR] = &cpu_op_linear,
    [OLE_OP_DROPOUT] = &cpu_op_dropout, [OLE_OP_ADD] = &cpu_op_add,
    [OLE_OP_CONCAT] = &cpu_op_concat,   [OLE_OP_PAD] = &cpu_op_pad,
};

void *cpu_state_create(const cpu_plan_request *r, ole_layout y_layout, size_t bytes,
                       ole_op_plan *plan) {
    cpu_state *state = calloc(1, bytes);
    if (!state) return NULL;
    cpu_view y = cpu_view_images(r->context, y_layout, r->n, r->node->out);
    *state = (cpu_state){.n = r->n,
                         .train = r->train,
                         .y_layout = y_layout,
                         .y_shape = r->node->out,
                         .y_size = y.size,
                         .y_item = y.item};
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        state->x_layout[i] = r->x_layout[i];
        state->x_shape[i] = r->x_shape[i];
    }
    *plan = (ole_op_plan){
        .state = state, .y_layout = y_layout, .y_bytes = (size_t)state->y_size * y.item};
    return state;
}

/* Whether sizes in bytes of n inputs or outputs fit in 64 bits, with a wide margin. */
static bool is_countable(const ole_node *node, int64_t n) {
    int64_t pixels = ole_max(node->in.h * node->in.w, node->out.h * node->out.w);
    int64_t channels = ole_max(node->in.c, node->out.c) + CPU_MAX_BLOCK;
    int64_t total;
    return !__builtin_mul_overflow(pixels, channels, &total) &&
           !__builtin_mul_overflow(total, n, &total) && !__builtin_mul_overflow(total, 64, &total);
}

static ole_status plan_op(ole_device_context *context, const ole_node *node, int64_t n, bool train,
                          bool needs_dx, const ole_layout x_layout[OLE_MAX_INPUTS],
                          ole_op_plan *plan, ole_error *error) {
    if (!is_countable(node, n))
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: a batch of %lld does not fit in memory",
                        node->name, (long long)n);
    cpu_plan_request request = {.context = context,
                                .node = node,
                                .n = n,
                                .train = train,
                                .needs_dx = needs_dx,
                                .x_layout = {x_layout[0], x_layout[1]},
                                .x_shape = {node->in, node->in}};
    if (node->op == OLE_OP_CONCAT) request.x_shape[1].c = node->out.c - node->in.c;
    cpu_adapted adapted;
    adapt_request(&request, &adapted);
    int before = cpu_threads_enter(context);
    ole_status status = ops[node->op]->plan(&request, plan, error);
    cpu_threads_leave(before);
    if (status == OLE_OK) adapt_plan(&request, &adapted, plan);
    return status;
}

static void release_op(ole_device_context *context, ole_op_plan *plan) {
    (void)context;
    const cpu_state *state = plan->state;
    if (state && state->release) state->release(plan->state);
    free(plan->state);
    *plan = (ole_op_plan){0};
}

static void run(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                const ole_op_call *call, void (*function)(const cpu_call *call)) {
    int before = cpu_threads_enter(context);
    cpu_call given = {context, node, plan->state, call};
    ole_op_call adapted;
    adapt_call(&given, &adapted);
    function(&(cpu_call){context, node, plan->state, &adapted});
    adapt_gradients(&given, &adapted);
    cpu_threads_leave(before);
}

static void forward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call) {
    run(context, node, plan, call, ops[node->op]->forward);
}

static void backward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                     const ole_op_call *call) {
    run(context, node, plan, call, ops[node->op]->backward);
}

const ole_backend ole_backend_cpu = {
    .name = "cpu",
    .element_size = sizeof(float),
    .open = open_context,
    .close = close_context,
    .allocate = allocate_memory,
    .free = free_memory,
    .kernels = kernels_of,
    .param_bytes = param_bytes,
    .param_from_plain = param_from_plain,
    .param_to_plain = param_to_plain,
    .plan_op = plan_op,
    .release_op = release_op,
    .forward = forward,
    .backward = backward,
    .to_plain = to_plain,
    .from_plain = from_plain,
    .softmax_loss = cpu_softmax_loss,
    .clip = cpu_clip,
    .average = cpu_average,
    .update = cpu_update,
};
