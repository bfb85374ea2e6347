/*
 * src/device/cuda/conv/linear.c - the linear layer: matrix products by cuBLASLt, the best found by
 * tune.c.
 *
 *     y[n, o] = bias[o] + sum over i of weight[o, i] * x[n, i]
 */
#include "base/error.h"
#include "device/cuda/conv/layer.h"

static cuda_problem problem_of(const cuda_request *r) {
    return (cuda_problem){.type = r->context->type,
                          .precision = r->context->options.precision,
                          .n = r->n,
                          .in = cuda_pitch(r->node->in.c),
                          .in_h = 1,
                          .in_w = 1,
                          .out = cuda_pitch(r->node->out.c),
                          .out_h = 1,
                          .out_w = 1,
                          .kernel = 1,
                          .stride = 1};
}

static ole_status plan_linear(const cuda_request *r, ole_op_plan *plan, ole_error *error) {
    const ole_node *node = r->node;
    if (node->in.h * node->in.w != 1)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "layer %s: a linear layer takes vectors, its input is %lld x %lld; put a "
                        "flatten before it",
                        node->name, (long long)node->in.h, (long long)node->in.w);
    cuda_problem problem = problem_of(r);
    return cuda_layer_plan(r, &problem, plan, error);
}

/* ---- running ------------------------------------------------------------------------------ */

/* All that passes have in common; each sets the one of x, w and y that it writes. */
static cuda_arrays arrays_of(const cuda_call *c) {
    const cuda_layer *state = c->state;
    return (cuda_arrays){.x = (void *)c->call->x[0],
                         .w =
                             (void *)cuda_weight(c->context, c->call->param[0], state->weight_size),
                         .y = (void *)c->call->dy,
                         .scratch = c->call->scratch,
                         .workspace = c->context->workspace[0],
                         .stream = c->context->stream};
}

static void forward(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cuda_arrays arrays = arrays_of(c);
    arrays.y = c->call->y;
    arrays.bias = c->node->bias ? c->call->param[1] : NULL;
    cuda_solver_run(c->context, state->forward, &arrays);
}

static void backward_weight(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cuda_arrays arrays = arrays_of(c);
    arrays.w = c->call->dparam[0];
    cuda_solver_run(c->context, state->weight, &arrays);
}

static void backward_data(const cuda_call *c) {
    const cuda_layer *state = c->state;
    cuda_arrays arrays = arrays_of(c);
    arrays.x = c->call->dx[0];
    cuda_solver_run(c->context, c->call->accumulate[0] ? state->data_add : state->data, &arrays);
}

static void backward(const cuda_call *c) {
    const cuda_layer *state = c->state;
    if (c->call->dparam[0]) backward_weight(c);
    if (c->call->dx[0]) backward_data(c);
    if (c->node->bias && c->call->dparam[1])
        cuda_column_sums(c->context, &state->base.y, c->call->dy, c->call->dparam[1]);
}

const cuda_op cuda_linear = {.plan = plan_linear, .forward = forward, .backward = backward};
