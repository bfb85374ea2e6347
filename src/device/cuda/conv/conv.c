/*
 * src/device/cuda/conv/conv.c - layers with weights: convolutions, by cuDNN, as matrix products or
 * (with few channels) by our own kernels, and linear layers, by cuBLASLt.
 *
 *     y[n, o] = bias[o] + sum over i of weight[o, i] * x[n, i]
 *
 * A layer has up to four passes: forward, the gradient of its input (written, or added to what is
 * there) and the gradient of its weight.  Each is a problem for which tune.c finds the fastest
 * algorithm.  The weight gradient of a convolution is enqueued first, on the side stream, where it
 * runs concurrently with the input gradient; the end of backward waits for it (side_stream.c).
 *
 * Padding channels need no care: inputs, weights and gradients are zero there, so sums over them
 * add nothing, and their outputs are zero.
 */
#include "base/error.h"
#include "device/cuda/conv/tune.h"

#include <stdlib.h>

/* The passes of a layer, each with the algorithm that was chosen; NULL if it is not needed. */
typedef struct layer {
    cuda_state base;
    int64_t weight_size; /* elements */
    const cuda_solver *forward, *data, *data_add, *weight;
} layer;

/* ---- Planning ----------------------------------------------------------------------------- */

static ole_status find(const cuda_request *r, cuda_problem problem, cuda_pass pass, bool add,
                       const cuda_solver **solver, ole_error *error) {
    problem.pass = pass;
    problem.add = add;
    problem.bias = pass == CUDA_PASS_FORWARD && r->node->bias;
    return cuda_solver_find(r->context, &problem, r->node->name, solver, error);
}

static ole_status plan_layer(const cuda_request *r, ole_op_plan *plan, ole_error *error) {
    const ole_node *node = r->node;
    const ole_device_options *options = &r->context->options;
    bool linear = node->op == OLE_OP_LINEAR;
    if (linear && node->in.h * node->in.w != 1)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "layer %s: a linear layer takes vectors, but its input is %lld x %lld; put "
                        "a flatten before it",
                        node->name, (long long)node->in.h, (long long)node->in.w);
    cuda_problem problem = {.type = r->context->type,
                            .precision = options->precision,
                            .direct = !linear && options->conv == OLE_CONV_DIRECT,
                            .n = r->n,
                            .in = cuda_pitch(node->in.c),
                            .in_h = node->in.h,
                            .in_w = node->in.w,
                            .out = cuda_pitch(node->out.c),
                            .out_h = node->out.h,
                            .out_w = node->out.w,
                            .kernel = linear ? 1 : node->kernel,
                            .stride = linear ? 1 : node->stride,
                            .pad = linear ? 0 : node->pad};
    layer *l = cuda_state_create(r, sizeof *l, plan);
    if (!l) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    l->weight_size = cuda_problem_w(&problem);
    ole_status status = find(r, problem, CUDA_PASS_FORWARD, false, &l->forward, error);
    if (status == OLE_OK && r->train)
        status = find(r, problem, CUDA_PASS_WEIGHT, false, &l->weight, error);
    if (status == OLE_OK && r->train && r->needs_dx)
        status = find(r, problem, CUDA_PASS_DATA, false, &l->data, error);
    if (status == OLE_OK && r->train && r->needs_dx)
        status = find(r, problem, CUDA_PASS_DATA, true, &l->data_add, error);
    if (status != OLE_OK) {
        free(l);
        plan->state = NULL;
        return status;
    }
    plan->backward_reads_x = true;
    if (l->data_add) plan->scratch_bytes = cuda_solver_scratch(l->data_add);
    return OLE_OK;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* Shared by all passes; each sets the one of x, w and y that it writes. */
static cuda_arrays arrays_of(const cuda_call *c) {
    const layer *l = c->state;
    return (cuda_arrays){.x = (void *)c->call->x[0],
                         .w = (void *)cuda_weight(c->context, c->call->param[0], l->weight_size),
                         .y = (void *)c->call->dy,
                         .scratch = c->call->scratch,
                         .workspace = c->context->workspace[0],
                         .stream = c->context->stream};
}

static void forward(const cuda_call *c) {
    const layer *l = c->state;
    cuda_arrays arrays = arrays_of(c);
    arrays.y = c->call->y;
    arrays.bias = c->node->bias ? c->call->param[1] : NULL;
    cuda_solver_run(c->context, l->forward, &arrays);
}

static void backward(const cuda_call *c) {
    const layer *l = c->state;
    bool use_side = c->node->op == OLE_OP_CONV;
    if (c->call->dparam[0]) {
        cuda_arrays arrays = arrays_of(c);
        arrays.w = c->call->dparam[0];
        if (use_side) {
            arrays.stream = cuda_side_begin(c->context);
            arrays.workspace = c->context->workspace[arrays.stream != c->context->stream];
        }
        cuda_solver_run(c->context, l->weight, &arrays);
        if (use_side) cuda_side_end(c->context);
    }
    if (c->call->dx[0]) {
        cuda_arrays arrays = arrays_of(c);
        arrays.x = c->call->dx[0];
        cuda_solver_run(c->context, c->call->accumulate[0] ? l->data_add : l->data, &arrays);
    }
    if (c->node->bias && c->call->dparam[1])
        cuda_column_sums(c->context, &l->base.y, c->call->dy, c->call->dparam[1]);
}

const cuda_op cuda_layer = {.plan = plan_layer, .forward = forward, .backward = backward};
