/*
 * src/device/cuda/conv/fill.cu - pseudo-random numbers to measure with: multiplying zeros can be
 * faster than multiplying the values of a training run.
 */
#include "device/cuda/cuda.h"

#include <cuda_bf16.h>

namespace {

enum { THREADS = 256 };

/* Mixes the bits of an index; the low-bias hash of Chris Wellons. */
__device__ uint32_t mix(uint32_t x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

template <typename T>
__global__ void fill(T *to, int64_t count, uint32_t seed) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    uint32_t bits = mix((uint32_t)i ^ mix(seed + (uint32_t)(i >> 32)));
    to[i] = T((float)(bits >> 8) * (2.0f / 16777216.0f) - 1.0f);
}

} // namespace

extern "C" void cuda_fill(ole_device_context *context, cuda_type type, int64_t count, uint32_t seed,
                          void *to) {
    unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
    if (type == CUDA_FLOAT)
        fill<<<blocks, THREADS, 0, context->stream>>>(static_cast<float *>(to), count, seed);
    else
        fill<<<blocks, THREADS, 0, context->stream>>>(static_cast<__nv_bfloat16 *>(to), count,
                                                      seed);
    cuda_launched(context, "fill");
}
