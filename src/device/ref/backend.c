/*
 * src/device/ref/backend.c - the reference backend: its function table, the needs of each op, and
 * conversion from and to float.  Everything is plain, so layouts are NULL and plans have no state.
 */
#include "base/arena.h"
#include "base/error.h"
#include "device/ref/ref.h"

#include <string.h>

struct ole_device_context {
    uint64_t seed;
};

static ole_status open_context(ole_device_context **context, const ole_device_options *options,
                               ole_error *error) {
    if (options->precision != OLE_PRECISION_FP32)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "the reference backend supports only fp32; use --precision fp32");
    ole_device_context *made = malloc(sizeof *made);
    if (!made) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *made = (ole_device_context){.seed = options->seed};
    *context = made;
    return OLE_OK;
}

static void close_context(ole_device_context *context) {
    free(context);
}

static void *allocate_memory(ole_device_context *context, size_t bytes) {
    (void)context;
    ole_arena size = {0};
    ole_arena_take(&size, (int64_t)bytes, 1);
    void *memory = ole_arena_allocate(size.used);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

static void free_memory(ole_device_context *context, void *memory) {
    (void)context;
    free(memory);
}

/* ---- Conversion --------------------------------------------------------------------------- */

static size_t param_bytes(ole_device_context *context, const ole_node *node,
                          const ole_param *param) {
    (void)context, (void)node;
    return (size_t)param->count * sizeof(real);
}

static void param_from_plain(ole_device_context *context, const ole_node *node,
                             const ole_param *param, const float *plain, void *to) {
    (void)context, (void)node;
    for (int64_t i = 0; i < param->count; i++)
        ((real *)to)[i] = (real)plain[i];
}

static void param_to_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const void *from, float *plain) {
    (void)context, (void)node;
    for (int64_t i = 0; i < param->count; i++)
        plain[i] = (float)((const real *)from)[i];
}

static void to_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                     const void *from, float *plain) {
    (void)context, (void)layout;
    for (int64_t e = 0; e < n * ole_shape_size(shape); e++)
        plain[e] = (float)((const real *)from)[e];
}

static void from_plain(ole_device_context *context, ole_layout layout, int64_t n, ole_shape shape,
                       const float *plain, bool accumulate, void *to) {
    (void)context, (void)layout;
    for (int64_t e = 0; e < n * ole_shape_size(shape); e++)
        ref_put((real *)to + e, accumulate, (double)plain[e]);
}

/* ---- Ops ---------------------------------------------------------------------------------- */

typedef struct ref_row {
    ref_op *forward, *backward;
    bool reads_x, reads_y;        /* read by backward */
    bool in_place, in_place_eval; /* always; only without backward */
    bool dx_in_place;
    size_t saved_element, saved_channel; /* bytes per element of y; per channel of y */
    size_t scratch_channel;
} ref_row;

static void do_nothing(const ref_run *run) {
    (void)run;
}

#define RUN(name) .forward = REF(name##_forward), .backward = REF(name##_backward)
static const ref_row rows[] = {
    [OLE_OP_INPUT] = {.forward = do_nothing, .backward = do_nothing},
    [OLE_OP_CONV] = {RUN(conv), .reads_x = true},
    [OLE_OP_NORM] = {RUN(norm), .reads_x = true, .in_place_eval = true, .dx_in_place = true,
                     .saved_channel = 2 * sizeof(double), .scratch_channel = 2 * sizeof(double)},
    [OLE_OP_RELU] = {RUN(relu), .reads_y = true, .in_place = true, .dx_in_place = true},
    [OLE_OP_MAXPOOL] = {RUN(maxpool), .saved_element = sizeof(int32_t)},
    [OLE_OP_AVGPOOL] = {RUN(avgpool)},
    [OLE_OP_FLATTEN] = {RUN(flatten), .in_place = true, .dx_in_place = true},
    [OLE_OP_LINEAR] = {RUN(linear), .reads_x = true},
    [OLE_OP_DROPOUT] = {RUN(dropout), .in_place = true, .dx_in_place = true, .saved_element = 1},
    [OLE_OP_ADD] = {RUN(add), .in_place = true, .dx_in_place = true},
    [OLE_OP_CONCAT] = {RUN(concat)},
    [OLE_OP_PAD] = {RUN(pad)},
};

static ole_status plan_op(ole_device_context *context, const ole_node *node, int64_t n, bool train,
                          bool needs_dx, const ole_layout x_layout[OLE_MAX_INPUTS],
                          ole_op_plan *plan, ole_error *error) {
    (void)context, (void)needs_dx, (void)x_layout;
    const ref_row *row = &rows[node->op];
    size_t elements, most;
    if (__builtin_mul_overflow((size_t)n, (size_t)ole_shape_size(node->out), &elements) ||
        __builtin_mul_overflow(elements, 2 * sizeof(double), &most))
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: a batch of %lld does not fit in memory",
                        node->name, (long long)n);
    *plan = (ole_op_plan){
        .y_bytes = elements * sizeof(real),
        .saved_bytes =
            train ? elements * row->saved_element + (size_t)node->out.c * row->saved_channel : 0,
        .scratch_bytes = (size_t)node->out.c * row->scratch_channel,
        .backward_reads_x = row->reads_x,
        .backward_reads_y = row->reads_y || node->relu,
        .in_place = row->in_place || (row->in_place_eval && !train),
        .dx_in_place = row->dx_in_place,
    };
    return OLE_OK;
}

static void release_op(ole_device_context *context, ole_op_plan *plan) {
    (void)context;
    *plan = (ole_op_plan){0};
}

static ref_run run_of(const ole_device_context *context, const ole_node *node,
                      const ole_op_plan *plan, const ole_op_call *call) {
    size_t image = (size_t)ole_shape_size(node->out) * sizeof(real);
    return (ref_run){
        .node = node, .call = call, .n = (int64_t)(plan->y_bytes / image), .seed = context->seed};
}

static void forward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                    const ole_op_call *call) {
    ref_run run = run_of(context, node, plan, call);
    rows[node->op].forward(&run);
}

static void backward(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                     const ole_op_call *call) {
    ref_run run = run_of(context, node, plan, call);
    rows[node->op].backward(&run);
}

#define REF_TEXT2(name) #name
#define REF_TEXT(name) REF_TEXT2(name)

const ole_backend REF(backend) = {
    .name = REF_TEXT(OLE_REF),
    .element_size = sizeof(real),
    .fuses_add = true,
    .open = open_context,
    .close = close_context,
    .allocate = allocate_memory,
    .free = free_memory,
    .param_bytes = param_bytes,
    .param_from_plain = param_from_plain,
    .param_to_plain = param_to_plain,
    .plan_op = plan_op,
    .release_op = release_op,
    .forward = forward,
    .backward = backward,
    .to_plain = to_plain,
    .from_plain = from_plain,
    .softmax_loss = REF(softmax_loss),
    .clip = REF(clip),
    .average = REF(average),
    .update = REF(update),
};
