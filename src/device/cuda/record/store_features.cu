/*
 * src/device/cuda/record/store_features.cu - features of an evaluation, gathered batch by batch into one array.
 */
#include "device/cuda/cuda.h"

#include <cuda_bf16.h>

namespace {

template <typename T>
__global__ void keep_rows(const cuda_clock *clock, int64_t n, int c, int64_t area, int pitch,
                          const T *from, float *all) {
    int64_t dim = c * area, count = n * dim;
    float *to = all + clock->batch * count;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = i / dim, channel = i % dim / area, pixel = i % area;
        to[i] = (float)from[(row * area + pixel) * pitch + channel];
    }
}

} // namespace

extern "C" void cuda_keep(ole_device_context *context, const cuda_layout *layout, const void *from,
                          float *all) {
    enum { THREADS = 256 };
    int64_t area = (int64_t)layout->h * layout->w, count = layout->n * area * layout->c;
    int blocks = (int)((count + THREADS - 1) / THREADS);
    if (blocks > 1024) blocks = 1024;
    if (layout->type == CUDA_FLOAT)
        keep_rows<<<blocks, THREADS, 0, context->stream>>>(context->clock, layout->n, layout->c,
                                                           area, layout->part[0].pitch,
                                                           (const float *)from, all);
    else
        keep_rows<<<blocks, THREADS, 0, context->stream>>>(context->clock, layout->n, layout->c,
                                                           area, layout->part[0].pitch,
                                                           (const __nv_bfloat16 *)from, all);
    cuda_launched(context, "keep");
}
