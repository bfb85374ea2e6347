/* src/device/cuda/layout.c - how tensors lie, and what every op's state begins with. */
#include "device/cuda/cuda.h"

#include <stdlib.h>

static size_t round_up(size_t bytes) {
    return (bytes + CUDA_ALIGNMENT - 1) / CUDA_ALIGNMENT * CUDA_ALIGNMENT;
}

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
    layout.bytes = round_up((size_t)layout.pixels * (size_t)pitch * cuda_element(layout.type));
    return layout;
}

void *cuda_state_create(const cuda_request *request, size_t bytes, ole_op_plan *plan) {
    cuda_state *state = calloc(1, bytes);
    if (!state) return NULL;
    state->n = request->n;
    state->train = request->train;
    state->needs_dx = request->needs_dx;
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        if (request->x[k]) state->x[k] = *request->x[k];
    state->y = cuda_layout_of(request->context, request->n, request->node->out);
    *plan = (ole_op_plan){.state = state, .y_layout = &state->y, .y_bytes = state->y.bytes};
    return state;
}
