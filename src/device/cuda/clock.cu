/*
 * src/device/cuda/clock.cu - the counters and sums that recorded steps read and move on: a kernel
 * of one thread each.
 */
#include "device/cuda/kernels.cuh"

#include "ole/loss.h"

namespace {

__global__ void tick(cuda_clock *clock, const double *rates) {
    clock->step++;
    clock->lr = rates[clock->batch];
    clock->step_loss = 0.0;
}

__global__ void check(cuda_clock *clock, cuda_ole_terms terms) {
    for (int i = 0; i < terms.count; i++) {
        const ole_loss_outcome *outcome = static_cast<const ole_loss_outcome *>(terms.outcome[i]);
        clock->step_loss += terms.weight[i] * outcome->value;
        clock->ole_loss += outcome->value;
        if (outcome->bad_row >= 0 && clock->bad_step == 0) clock->bad_row = outcome->bad_row;
    }
    if (!isfinite(clock->step_loss) && clock->bad_step == 0) clock->bad_step = (int64_t)clock->step;
}

__global__ void tock(cuda_clock *clock) {
    if (clock->bad_step == 0) clock->loss += clock->step_loss;
    if (++clock->batch == clock->batches) clock->batch = 0;
}

__global__ void set_clock(cuda_clock *clock, uint64_t step, double lr) {
    clock->step = step;
    clock->lr = lr;
    clock->bad_step = 0;
}

} // namespace

extern "C" void cuda_tick(ole_device_context *context, const double *rates) {
    tick<<<1, 1, 0, context->stream>>>(context->clock, rates);
    cuda_launched(context, "tick");
}

extern "C" void cuda_check(ole_device_context *context) {
    check<<<1, 1, 0, context->stream>>>(context->clock, context->ole);
    context->ole.count = 0;
    cuda_launched(context, "check");
}

extern "C" void cuda_tock(ole_device_context *context) {
    tock<<<1, 1, 0, context->stream>>>(context->clock);
    cuda_launched(context, "tock");
}

extern "C" void cuda_set_clock(ole_device_context *context, uint64_t step, double lr) {
    set_clock<<<1, 1, 0, context->stream>>>(context->clock, step, lr);
    cuda_launched(context, "set_clock");
}

extern "C" void cuda_add_ole(ole_device_context *context, const void *outcome, double weight) {
    cuda_ole_terms *terms = &context->ole;
    terms->outcome[terms->count] = outcome;
    terms->weight[terms->count++] = weight;
}
