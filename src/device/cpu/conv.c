/*
 * src/device/cpu/conv.c - convolution by oneDNN.
 *
 * Weights whose input and output channels are whole blocks are blocked, in the order that forward,
 * Winograd and the weight gradient use; the direct input gradient needs them transposed and
 * reorders them, which is cheap compared to the activations.  Other weights are plain and reordered
 * for each pass.
 *
 * Winograd.  F(4x4, 3x3) does 2.25 times less work than a direct convolution but has to transform
 * tiles of 4 x 4 outputs.  A rule on the shape alone selects it, so that runs repeat: 3 x 3, stride
 * 1, at least 32 channels on both sides (below, the transforms eat the gain), and tiles that waste
 * at most 40 % of the output plane (on 2 x 2 and 6 x 6 planes direct is faster, except for the
 * weight gradient, where the weights themselves dominate the traffic).  Measured on one core with
 * AVX-512: 1.7 to 2.7 times as fast as direct on VGG's shapes, 1.2 to 1.5 with 32 channels, 0.8
 * with 16.
 *
 * In bfloat16, AMX tiles are used where available (conv_tiles.c).
 */
#include "base/error.h"
#include "device/cpu/conv_tiles.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_state {
    cpu_state base;
    int64_t x_size;             /* elements */
    size_t x_item;              /* bytes per element */
    cpu_tiles *tiles;           /* computes all passes, or NULL */
    cpu_conv *pass[CPU_PASSES]; /* by oneDNN; NULL if not needed or not available */
} conv_state;

/* ---- weights ------------------------------------------------------------------------------ */

static cpu_format weight_format(const ole_device_context *context, const ole_node *node) {
    bool whole = node->in.c % context->block == 0 && node->out.c % context->block == 0;
    return whole ? CPU_BLOCKED : CPU_PLAIN;
}

static size_t weight_bytes(const ole_node *node) {
    return (size_t)(node->out.c * node->in.c * node->kernel * node->kernel) * sizeof(float);
}

void cpu_weight_copy(const ole_device_context *context, const ole_node *node, const float *from,
                     float *to, bool to_plain) {
    int64_t b = context->block, taps = (int64_t)node->kernel * node->kernel, plain = 0;
    if (weight_format(context, node) == CPU_PLAIN) {
        memcpy(to, from, weight_bytes(node));
        return;
    }
    for (int64_t o = 0; o < node->out.c; o++)
        for (int64_t i = 0; i < node->in.c; i++)
            for (int64_t t = 0; t < taps; t++, plain++) {
                int64_t block = (o / b * (node->in.c / b) + i / b) * taps + t;
                int64_t blocked = (block * b + i % b) * b + o % b;
                to[to_plain ? plain : blocked] = from[to_plain ? blocked : plain];
            }
}

/* ---- planning ----------------------------------------------------------------------------- */

static bool winograd_pays(const ole_device_context *context, const ole_node *node, cpu_pass pass) {
    if (context->bf16 || context->options.conv == OLE_CONV_DIRECT || node->kernel != 3 ||
        node->stride != 1 || node->in.c < 32 || node->out.c < 32 ||
        weight_format(context, node) != CPU_BLOCKED)
        return false;
    if (pass == CPU_BACKWARD_WEIGHTS) return true;
    ole_shape plane = pass == CPU_BACKWARD_DATA ? node->in : node->out;
    int64_t covered = (plane.h + 3) / 4 * 4 * ((plane.w + 3) / 4 * 4);
    return (double)(plane.h * plane.w) >= 0.6 * (double)covered;
}

static ole_status plan_pass(const cpu_plan_request *r, cpu_pass pass, ole_layout y_layout,
                            cpu_conv **conv, ole_error *error) {
    const ole_node *node = r->node;
    cpu_conv_spec spec = {.pass = pass,
                          .train = r->train,
                          .bias = node->bias,
                          .winograd = winograd_pays(r->context, node, pass),
                          .bf16 = r->context->bf16 != NULL,
                          .n = r->n,
                          .in = node->in.c,
                          .in_h = node->in.h,
                          .in_w = node->in.w,
                          .out = node->out.c,
                          .out_h = node->out.h,
                          .out_w = node->out.w,
                          .kernel = node->kernel,
                          .stride = node->stride,
                          .pad = node->pad,
                          .x = r->x_layout[0] ? CPU_BLOCKED : CPU_PLAIN,
                          .y = y_layout ? CPU_BLOCKED : CPU_PLAIN,
                          .weight = weight_format(r->context, node)};
    ole_status status = OLE_OK;
    if (spec.winograd) status = cpu_conv_create(conv, r->context->dnn, &spec, error);
    if (status != OLE_OK || *conv) return status;
    spec.winograd = false;
    return cpu_conv_create(conv, r->context->dnn, &spec, error);
}

static void release_passes(void *state) {
    conv_state *s = state;
    cpu_tiles_destroy(s->tiles);
    for (int pass = 0; pass < CPU_PASSES; pass++)
        cpu_conv_destroy(s->pass[pass]);
}

/* Bytes for a gradient of x that has to be added to another in a second step. */
static size_t sum_bytes(const conv_state *s) {
    bool needed = s->pass[CPU_BACKWARD_DATA] && !s->pass[CPU_BACKWARD_ADD];
    return needed ? cpu_whole_lines((size_t)s->x_size * s->x_item) : 0;
}

/* Bytes for the gradient of the weight or bias when only the other one is needed. */
static size_t spare_bytes(const ole_node *node) {
    return node->bias ? cpu_whole_lines(weight_bytes(node)) : 0;
}

static size_t scratch_bytes(const conv_state *s, const ole_node *node) {
    size_t most = cpu_tiles_scratch(s->tiles);
    for (int pass = 0; pass < CPU_PASSES; pass++) {
        size_t bytes = cpu_conv_scratch(s->pass[pass]);
        if (pass == CPU_BACKWARD_DATA) bytes += sum_bytes(s);
        if (pass == CPU_BACKWARD_WEIGHTS && s->pass[pass]) bytes += spare_bytes(node);
        if (bytes > most) most = bytes;
    }
    return most;
}

static ole_status plan_conv(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    ole_layout y_layout = cpu_best_layout(r->context, r->node->out);
    conv_state *state = cpu_state_create(r, y_layout, sizeof *state, plan);
    if (!state) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    cpu_view x = cpu_view_images(r->context, r->x_layout[0], r->n, r->node->in);
    state->x_size = x.size;
    state->x_item = x.item;
    state->base.release = release_passes;
    bool pointwise = r->node->kernel == 1 && r->node->stride == 1 && r->node->pad == 0;
    bool needed[CPU_PASSES] = {[CPU_FORWARD] = true,
                               [CPU_BACKWARD_DATA] = r->train && r->needs_dx,
                               [CPU_BACKWARD_WEIGHTS] = r->train,
                               [CPU_BACKWARD_ADD] =
                                   r->train && r->needs_dx && pointwise && !r->context->bf16};
    ole_status status =
        cpu_tiles_create(&state->tiles, r, y_layout, weight_format(r->context, r->node), error);
    for (int pass = 0; pass < CPU_PASSES && status == OLE_OK; pass++)
        if (needed[pass] && !state->tiles)
            status = plan_pass(r, pass, y_layout, &state->pass[pass], error);
    if (status != OLE_OK) {
        release_passes(state);
        free(state);
        plan->state = NULL;
        return status;
    }
    plan->scratch_bytes = scratch_bytes(state, r->node);
    plan->backward_reads_x = true;
    return OLE_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static void forward(const cpu_call *c) {
    const conv_state *state = c->state;
    if (state->tiles) {
        cpu_tiles_forward(state->tiles, c);
        return;
    }
    cpu_conv_run(state->pass[CPU_FORWARD], &(cpu_conv_arrays){.x = (void *)c->call->x[0],
                                                              .weight = c->call->param[0],
                                                              .bias = c->call->param[1],
                                                              .y = c->call->y,
                                                              .scratch = c->call->scratch});
}

typedef struct sum_loop {
    const cpu_call *call;
    const conv_state *state;
    const char *part;
} sum_loop;

static void add_slice(void *argument, int64_t task) {
    const sum_loop *l = argument;
    const conv_state *s = l->state;
    int64_t first, length;
    cpu_slice(s->x_size, task, &first, &length);
    first *= (int64_t)s->x_item;
    cpu_kernels_of(l->call->context, s->base.x_layout[0])
        ->pass(length, l->part + first, NULL, true, (char *)l->call->call->dx[0] + first);
}

static void backward_data(const cpu_call *c) {
    const conv_state *state = c->state;
    if (state->tiles) {
        cpu_tiles_backward_data(state->tiles, c);
        return;
    }
    bool add = c->call->accumulate[0], at_once = add && state->pass[CPU_BACKWARD_ADD];
    size_t bytes = sum_bytes(state);
    cpu_conv_arrays arrays = {.x = add && !at_once ? c->call->scratch : c->call->dx[0],
                              .weight = c->call->param[0],
                              .y = (void *)c->call->dy,
                              .scratch = (char *)c->call->scratch + bytes};
    cpu_conv_run(state->pass[at_once ? CPU_BACKWARD_ADD : CPU_BACKWARD_DATA], &arrays);
    if (!add || at_once) return;
    sum_loop loop = {c, state, c->call->scratch};
    cpu_parallel(c->context, cpu_slices(state->x_size), add_slice, &loop);
}

static void backward_weights(const cpu_call *c) {
    const conv_state *state = c->state;
    if (state->tiles) {
        cpu_tiles_backward_weights(state->tiles, c);
        return;
    }
    char *spare = c->call->scratch;
    float *weight = c->call->dparam[0], *bias = c->call->dparam[1];
    cpu_conv_run(state->pass[CPU_BACKWARD_WEIGHTS],
                 &(cpu_conv_arrays){.x = (void *)c->call->x[0],
                                    .weight = weight ? (void *)weight : spare,
                                    .bias = bias ? (void *)bias : spare,
                                    .y = (void *)c->call->dy,
                                    .scratch = spare + spare_bytes(c->node)});
}

static void backward(const cpu_call *c) {
    if (c->call->dparam[0] || (c->node->bias && c->call->dparam[1])) backward_weights(c);
    if (c->call->dx[0]) backward_data(c);
}

const cpu_op cpu_op_conv = {plan_conv, forward, backward};
