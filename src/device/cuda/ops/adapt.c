/*
 * src/device/cuda/ops/adapt.c - stacked inputs for ops that do not take them: packed into scratch
 * before the op runs, and their gradients added to the stacked ones after it.
 */
#include "device/cuda/cuda.h"

void cuda_adapt_request(cuda_request *request, const cuda_op *op, cuda_layout packed[],
                        cuda_adapted *adapted) {
    *adapted = (cuda_adapted){0};
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        const cuda_layout *x = request->x[k];
        if (!x || !x->stacked || op->takes_stacked) continue;
        adapted->is[k] = true;
        adapted->given[k] = *x;
        packed[k] = cuda_layout_of(request->context, request->n, (ole_shape){x->c, x->h, x->w});
        request->x[k] = &packed[k];
    }
}

void cuda_adapt_plan(const cuda_request *request, const cuda_adapted *adapted, ole_op_plan *plan) {
    cuda_state *state = plan->state;
    state->adapted = *adapted;
    size_t scratch = cuda_aligned(plan->scratch_bytes);
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        if (!adapted->is[k]) continue;
        state->adapted.x[k] = scratch;
        state->adapted.dx[k] = scratch + request->x[k]->bytes;
        scratch += 2 * request->x[k]->bytes;
        plan->in_place = plan->in_place && k != 0;
        plan->dx_in_place = plan->dx_in_place && k != 0;
        plan->y_extends_x = plan->y_extends_x && k != 0;
    }
    plan->scratch_bytes = scratch;
}

static void pack_input(const cuda_call *given, int k, ole_op_call *call) {
    const cuda_state *state = given->state;
    void *to = (char *)given->call->scratch + state->adapted.x[k];
    cuda_pack(given->context, &state->adapted.given[k], given->call->x[k], &state->x[k], to);
    call->x[k] = to;
}

void cuda_adapt_forward(const cuda_call *given, ole_op_call *call) {
    const cuda_state *state = given->state;
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        if (state->adapted.is[k]) pack_input(given, k, call);
}

void cuda_adapt_backward(const cuda_call *given, const ole_op_plan *plan, ole_op_call *call) {
    const cuda_state *state = given->state;
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        if (!state->adapted.is[k]) continue;
        if (plan->backward_reads_x) pack_input(given, k, call);
        if (!call->dx[k]) continue;
        call->dx[k] = (char *)given->call->scratch + state->adapted.dx[k];
        call->accumulate[k] = false;
    }
}

void cuda_adapt_gradients(const cuda_call *given, const ole_op_call *call) {
    const cuda_state *state = given->state;
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        if (state->adapted.is[k] && given->call->dx[k])
            cuda_unpack(given->context, &state->x[k], call->dx[k], &state->adapted.given[k],
                        given->call->accumulate[k], given->call->dx[k]);
}
