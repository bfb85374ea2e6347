/*
 * src/device/cuda/conv/conv.c - convolution: by cuDNN, where it is one as a matrix product, or to
 * few channels by kernels of our own.
 *
 * A convolution has up to four passes: forward, the gradient of its input (written, or added to
 * what is there), and the gradient of its weight.  Each is a problem of which tune.c knows the best
 * way.  The weight's gradient is queued first and on the side stream, where it runs beside the
 * input's; who reads it waits for the end of backward (side.c).
 *
 * Padding channels need no care: inputs, weights and gradients hold zeros there, so that sums over
 * them add nothing, and what comes out for them is zero.
 */
#include "device/cuda/conv/layer.h"

static cuda_problem problem_of(const cuda_request *r) {
    const ole_node *node = r->node;
    const ole_device_options *options = &r->context->options;
    return (cuda_problem){.type = r->context->type,
                          .precision = options->precision,
                          .direct = options->conv == OLE_CONV_DIRECT,
                          .n = r->n,
                          .in = cuda_pitch(node->in.c),
                          .in_h = node->in.h,
                          .in_w = node->in.w,
                          .out = cuda_pitch(node->out.c),
                          .out_h = node->out.h,
                          .out_w = node->out.w,
                          .kernel = node->kernel,
                          .stride = node->stride,
                          .pad = node->pad};
}

static ole_status plan_conv(const cuda_request *r, ole_op_plan *plan, ole_error *error) {
    cuda_problem problem = problem_of(r);
    return cuda_layer_plan(r, &problem, plan, error);
}

/* ---- running ------------------------------------------------------------------------------ */

static void *weight_of(const cuda_call *c) {
    const cuda_layer *state = c->state;
    return (void *)cuda_weight(c->context, c->call->param[0], state->weight_size);
}

static void forward(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cuda_solver_run(c->context, state->forward,
                    &(cuda_arrays){.x = (void *)c->call->x[0],
                                   .w = weight_of(c),
                                   .y = c->call->y,
                                   .bias = c->node->bias ? c->call->param[1] : NULL,
                                   .workspace = c->context->workspace[0],
                                   .stream = c->context->stream});
}

static void backward_weight(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cudaStream_t stream = cuda_side_begin(c->context);
    int beside = stream != c->context->stream;
    cuda_solver_run(c->context, state->weight,
                    &(cuda_arrays){.x = (void *)c->call->x[0],
                                   .w = c->call->dparam[0],
                                   .y = (void *)c->call->dy,
                                   .workspace = c->context->workspace[beside],
                                   .stream = stream});
    cuda_side_end(c->context);
}

static void backward_data(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cuda_solver_run(c->context, c->call->accumulate[0] ? state->data_add : state->data,
                    &(cuda_arrays){.x = c->call->dx[0],
                                   .w = weight_of(c),
                                   .y = (void *)c->call->dy,
                                   .scratch = c->call->scratch,
                                   .workspace = c->context->workspace[0],
                                   .stream = c->context->stream});
}

static void backward(const cuda_call *c) {
    const cuda_layer *state = c->state;
    if (c->call->dparam[0]) backward_weight(c);
    if (c->call->dx[0]) backward_data(c);
    if (c->node->bias && c->call->dparam[1])
        cuda_column_sums(c->context, &state->base.y, c->call->dy, c->call->dparam[1]);
}

const cuda_op cuda_conv = {.plan = plan_conv, .forward = forward, .backward = backward};
