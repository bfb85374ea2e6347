/*
 * src/device/cuda/ops/reduce.cu - sums over the pixels of each channel: the gradient of a bias.
 *
 * Few pixels, as in linear layers, are summed by one block per chunk of channels; more by several
 * blocks, whose partial sums a second kernel adds up (chunk.cuh).
 */
#include "device/cuda/ops/chunk.cuh"

namespace {

/* Pixels that one block sums in about the time a second launch takes. */
const int64_t alone = 8 * CHUNK_ROWS;

/* All threads: the chunk's sums from its blocks' partial sums. */
__device__ void finish(const float *partials, int blocks, int pitch, float *sums) {
    double total = chunk_total(partials, blocks);
    int c = chunk_channel(pitch);
    if (c >= 0) sums[c] = (float)total;
}

/* sums: NULL where there are several blocks. */
template <class T>
__global__ void __launch_bounds__(CHUNK_THREADS)
    sum_columns(const void *dy, int pixels, int pitch, float *partials, float *sums) {
    chunk_place at = chunk_place_of(pitch, pixels);
    plain_column<T> column = plain_view{pitch}.column<T>(at.group);
    float total[16];
    chunk_clear(total);
#pragma unroll 4
    for (int s = 0; s < at.steps; s++) {
        float value[8];
        widen(column.load(dy, at.pixel(s)), value);
#pragma unroll
        for (int k = 0; k < 8; k++)
            total[k] += value[k];
    }
    chunk_partial(total, chunk_own(partials));
    __syncthreads();
    if (sums) finish(partials, 1, pitch, sums);
}

__global__ void __launch_bounds__(CHUNK_THREADS)
    finish_columns(const float *partials, int blocks, int pitch, float *sums) {
    finish(partials, blocks, pitch, sums);
}

} // namespace

extern "C" void cuda_column_sums(ole_device_context *context, const cuda_layout *layout,
                                 const void *dy, float *sums) {
    int pitch = layout->part[0].pitch, chunks = chunks_of(pitch), pixels = (int)layout->pixels;
    float *partials = static_cast<float *>(context->workspace[0]);
    int blocks = layout->pixels <= alone
                     ? 1
                     : chunk_blocks_for(pixels, chunks, 2 * context->multiprocessors);
    dim3 grid((unsigned)blocks, (unsigned)chunks);
    for_type(layout->type, [&](auto element) {
        sum_columns<decltype(element)><<<grid, CHUNK_THREADS, 0, context->stream>>>(
            dy, pixels, pitch, partials, blocks == 1 ? sums : NULL);
    });
    cuda_launched(context, "sum_columns");
    if (blocks == 1) return;
    finish_columns<<<dim3(1, (unsigned)chunks), CHUNK_THREADS, 0, context->stream>>>(
        partials, blocks, pitch, sums);
    cuda_launched(context, "finish_columns");
}
