/*
 * src/device/cuda/record/batch.cu - a batch from samples that live on the card: cropped, mirrored and
 * normalised, the same values as data/augment.c gives.
 */
#include "device/cuda/ops/kernels.cuh"

#include "base/philox.h"

namespace {

enum { THREADS = 256 };

/* Where output pixel (y, x) comes from: (y + top, x + left), x counted from the right if mirrored.
 */
struct window {
    int top, left;
    bool mirror;
};

__device__ window draw_window(const cuda_samples &s, int64_t epoch, int64_t sample) {
    if (s.crop == 0 && !s.flip) return {0, 0, false};
    uint32_t word[4], places = 2 * (uint32_t)s.crop + 1;
    ole_philox(s.seed, s.stream, (uint64_t)epoch, (uint64_t)sample, word);
    return {(int)ole_below(word[0], places) - s.crop, (int)ole_below(word[1], places) - s.crop,
            s.flip && word[2] >> 31};
}

/* Element `at` of the samples, of a channel, normalised; at < 0: black. */
__device__ float value_of(const cuda_samples &s, int channel, int64_t at) {
    int row = s.statistics == 1 ? 0 : channel;
    if (!s.floats) return s.table[row * 256 + (at < 0 ? 0 : (int)s.bytes[at])];
    float x = at < 0 ? 0.0f : s.floats[at];
    return __fdiv_rn(x - s.table[row * 2], s.table[row * 2 + 1]);
}

/* blockIdx.y is the image; a thread takes eight channels of a pixel. */
template <class T>
__global__ void assemble(cuda_samples s, const int32_t *order, int64_t stride,
                         const cuda_clock *clock, int groups, void *images, int32_t *labels) {
    int64_t image = blockIdx.y, area = (int64_t)s.h * s.w;
    int64_t sample = order[clock->batch * stride + image];
    int64_t start = sample < 0 ? 0 : s.index[sample] * s.c * area;
    window from = draw_window(s, clock->epoch, sample);
    if (blockIdx.x == 0 && threadIdx.x == 0) labels[image] = sample < 0 ? -1 : s.labels[sample];
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < area * groups;
         i += (int64_t)gridDim.x * THREADS) {
        int pixel = (int)(i / groups), first = (int)(i % groups) * 8;
        int x = pixel % s.w, row = pixel / s.w + from.top;
        int column = (from.mirror ? s.w - 1 - x : x) + from.left;
        bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
        float value[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int64_t at = start + (first + k) * area + (int64_t)row * s.w + column;
            bool exists = first + k < s.c && sample >= 0;
            value[k] = exists ? value_of(s, first + k, inside ? at : -1) : 0.0f;
        }
        store8<T>(images, image * area * groups + i, value);
    }
}

} // namespace

extern "C" void cuda_assemble(ole_device_context *context, const cuda_samples *samples,
                              const int32_t *order, int64_t stride, int64_t n,
                              const cuda_layout *layout, void *images, int32_t *labels) {
    int groups = layout->part[0].pitch / 8;
    int64_t work = (int64_t)layout->h * layout->w * groups;
    dim3 grid((unsigned)((work + THREADS - 1) / THREADS), (unsigned)n);
    for_type(layout->type, [&](auto element) {
        assemble<decltype(element)><<<grid, THREADS, 0, context->stream>>>(
            *samples, order, stride, context->clock, groups, images, labels);
    });
    cuda_launched(context, "assemble");
}
