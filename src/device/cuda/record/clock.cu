/*
 * src/device/cuda/record/clock.cu - the counters and sums that recorded steps read and move on: a kernel
 * of one thread each.
 */
#include "device/cuda/ops/kernels.cuh"
#include "device/cuda/link/link.h"

#include "ole/loss.h"

namespace {

__global__ void tick(cuda_clock *clock, const double *rates) {
    clock->step++;
    clock->lr = rates[clock->batch];
    clock->now = {};
}

/* `judge`: what is there by then is all, and decides. */
__global__ void check(cuda_clock *clock, cuda_ole_terms terms, bool judge) {
    for (int i = 0; i < terms.count; i++) {
        const ole_loss_outcome *outcome = static_cast<const ole_loss_outcome *>(terms.outcome[i]);
        double value = terms.share[i] * outcome->value;
        clock->now.loss += terms.weight[i] * value;
        clock->now.ole += value;
        if (clock->bad_row < 0 && clock->bad_step == 0) clock->bad_row = outcome->bad_row;
    }
    if (judge && !isfinite(clock->now.loss) && clock->bad_step == 0)
        clock->bad_step = (int64_t)clock->step;
}

__global__ void tock(cuda_clock *clock) {
    clock->softmax_loss += clock->now.softmax;
    clock->ole_loss += clock->now.ole;
    clock->correct += (int64_t)clock->now.right;
    if (clock->bad_step == 0) clock->loss += clock->now.loss;
    if (++clock->batch == clock->batches) clock->batch = 0;
}

__global__ void set_clock(cuda_clock *clock, uint64_t step, double lr) {
    clock->step = step;
    clock->lr = lr;
    clock->bad_step = 0;
    clock->bad_row = -1;
}

} // namespace

extern "C" void cuda_tick(ole_device_context *context, const double *rates) {
    tick<<<1, 1, 0, context->stream>>>(context->clock, rates);
    cuda_launched(context, "tick");
}

/* A loss that is NaN or Inf on one rank is so in the sum: all stop at the same step. */
extern "C" void cuda_check(ole_device_context *context) {
    bool linked = context->link != NULL;
    check<<<1, 1, 0, context->stream>>>(context->clock, context->ole, !linked);
    context->ole.count = 0;
    cuda_launched(context, "check");
    if (!linked) return;
    cuda_linker.sum(context, &context->clock->now, CUDA_STEP_SUMS, OLE_F64);
    check<<<1, 1, 0, context->stream>>>(context->clock, context->ole, true);
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

extern "C" void cuda_add_ole(ole_device_context *context, const void *outcome, double weight,
                             double share) {
    cuda_ole_terms *terms = &context->ole;
    terms->outcome[terms->count] = outcome;
    terms->share[terms->count] = share;
    terms->weight[terms->count++] = weight;
}
