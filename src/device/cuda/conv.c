/*
 * src/device/cuda/conv.c - convolution: by cuDNN, where it is one as a matrix product, or to few
 * channels by kernels of our own.
 *
 * A convolution has up to four passes: forward, the gradient of its input (written, or added to
 * what is there), and the gradient of its weight.  Each is a problem of which tune.c knows the best
 * way.  The weight's gradient is queued first and on the side stream, where it runs beside the
 * input's; who reads it waits for the end of backward (side.c).
 *
 * Padding channels need no care: inputs, weights and gradients hold zeros there, so that sums over
 * them add nothing, and what comes out for them is zero.
 */
#include "base/error.h"
#include "device/cuda/tune.h"

#include <stdlib.h>

typedef struct conv_state {
    cuda_state base;
    int64_t weight_size; /* elements */
    const cuda_solver *forward, *data, *data_add, *weight;
} conv_state;

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

static ole_status find(const cuda_request *r, cuda_pass pass, bool add, const cuda_solver **solver,
                       ole_error *error) {
    cuda_problem problem = problem_of(r);
    problem.pass = pass;
    problem.add = add;
    problem.bias = pass == CUDA_PASS_FORWARD && r->node->bias;
    return cuda_solver_find(r->context, &problem, r->node->name, solver, error);
}

static ole_status find_all(const cuda_request *r, conv_state *state, ole_error *error) {
    ole_status status = find(r, CUDA_PASS_FORWARD, false, &state->forward, error);
    if (status != OLE_OK || !r->train) return status;
    status = find(r, CUDA_PASS_WEIGHT, false, &state->weight, error);
    if (status != OLE_OK || !r->needs_dx) return status;
    status = find(r, CUDA_PASS_DATA, false, &state->data, error);
    if (status != OLE_OK) return status;
    return find(r, CUDA_PASS_DATA, true, &state->data_add, error);
}

static ole_status plan_conv(const cuda_request *r, ole_op_plan *plan, ole_error *error) {
    conv_state *state = cuda_state_create(r, sizeof *state, plan);
    if (!state) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    cuda_problem problem = problem_of(r);
    state->weight_size = cuda_problem_w(&problem);
    ole_status status = find_all(r, state, error);
    if (status != OLE_OK) {
        free(state);
        plan->state = NULL;
        return status;
    }
    plan->backward_reads_x = true;
    if (state->data_add) plan->scratch_bytes = cuda_solver_scratch(state->data_add);
    return OLE_OK;
}

/* ---- running ------------------------------------------------------------------------------ */

static void *weight_of(const cuda_call *c) {
    const conv_state *state = c->state;
    return (void *)cuda_weight(c->context, c->call->param[0], state->weight_size);
}

static void forward(const cuda_call *c) {
    const conv_state *state = c->state;
    cuda_solver_run(c->context, state->forward,
                    &(cuda_arrays){.x = (void *)c->call->x[0],
                                   .w = weight_of(c),
                                   .y = c->call->y,
                                   .bias = c->node->bias ? c->call->param[1] : NULL,
                                   .workspace = c->context->workspace[0],
                                   .stream = c->context->stream});
}

static void backward_weight(const cuda_call *c) {
    const conv_state *state = c->state;
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
    const conv_state *state = c->state;
    cuda_solver_run(c->context, c->call->accumulate[0] ? state->data_add : state->data,
                    &(cuda_arrays){.x = c->call->dx[0],
                                   .w = weight_of(c),
                                   .y = (void *)c->call->dy,
                                   .scratch = c->call->scratch,
                                   .workspace = c->context->workspace[0],
                                   .stream = c->context->stream});
}

static void backward(const cuda_call *c) {
    const conv_state *state = c->state;
    if (c->call->dparam[0]) backward_weight(c);
    if (c->call->dx[0]) backward_data(c);
    if (c->node->bias && c->call->dparam[1])
        cuda_column_sums(c->context, &state->base.y, c->call->dy, c->call->dparam[1]);
}

const cuda_op cuda_conv = {.plan = plan_conv, .forward = forward, .backward = backward};
