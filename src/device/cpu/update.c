/*
 * src/device/cpu/update.c - one optimiser step on one parameter, as in torch.optim.SGD and Adam,
 * with weight decay as the gradient of an L2 penalty.  Blocked weights have no padding, so every
 * parameter is a plain array here.
 */
#include "device/cpu/cpu.h"

typedef struct arrays {
    const cpu_kernels *kernels;
    const ole_update *update;
    int64_t count;
    float *param;
    const float *gradient;
    float *state[2];
} arrays;

static void update_slice(void *argument, int64_t task) {
    const arrays *a = argument;
    int64_t first, length;
    cpu_slice(a->count, task, &first, &length);
    float *param = a->param + first;
    const float *gradient = a->gradient + first;
    if (a->update->kind == OLE_UPDATE_SGD)
        a->kernels->sgd(length, a->update, param, gradient, a->state[0] + first);
    else
        a->kernels->adam(length, a->update, param, gradient, a->state[0] + first,
                         a->state[1] + first);
}

void cpu_update(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                const void *gradient, void *state[2]) {
    arrays a = {.kernels = context->kernels,
                .update = update,
                .count = (int64_t)(bytes / sizeof(float)),
                .param = param,
                .gradient = gradient,
                .state = {state[0], state[1]}};
    cpu_parallel(context, cpu_slices(a.count), update_slice, &a);
}
