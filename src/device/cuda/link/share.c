/*
 * src/device/cuda/link/share.c - sums over the ranks that have parts of a batch, in the middle of a
 * layer: queued where the share knows how, else by way of host memory.
 */
#include "device/cuda/cuda.h"

#include <stdlib.h>

/* Waits for the card; cannot be recorded. */
static void sum_through_host(ole_device_context *context, const ole_share *share, double *data,
                             int64_t count) {
    size_t bytes = (size_t)count * sizeof *data;
    double *host = calloc((size_t)count, sizeof *host);
    if (!host) {
        cuda_failed(context, cudaErrorMemoryAllocation, "adding up the ranks' statistics");
        return;
    }
    /* A rank whose card has failed still takes its part: the others wait for it. */
    cuda_copy(context, host, data, bytes, cudaMemcpyDeviceToHost, "reading statistics");
    share->sum(share->argument, host, count);
    cuda_copy(context, data, host, bytes, cudaMemcpyHostToDevice, "writing statistics");
    free(host);
}

void cuda_share_sum(ole_device_context *context, const ole_share *share, double *data,
                    int64_t count) {
    if (share->queue_sum)
        share->queue_sum(share->argument, data, count, context->stream);
    else
        sum_through_host(context, share, data, count);
}
