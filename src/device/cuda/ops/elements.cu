/*
 * src/device/cuda/ops/elements.cu - one operation per element: to += from, for gradients that meet
 * in one tensor, and pseudo-random numbers to measure with (multiplying zeros can be faster than
 * multiplying the values of a training run).
 */
#include "device/cuda/cuda.h"

#include <cuda_bf16.h>

namespace {

enum { THREADS = 256 };

__device__ void add_to(float4 *to, float4 from) {
    float4 sum = *to;
    sum.x += from.x;
    sum.y += from.y;
    sum.z += from.z;
    sum.w += from.w;
    *to = sum;
}

/* Eight bfloat16: each sum is made in float and rounded once. */
__device__ void add_to(uint4 *to, uint4 from) {
    uint4 sum = *to;
    __nv_bfloat162 *s = reinterpret_cast<__nv_bfloat162 *>(&sum);
    const __nv_bfloat162 *f = reinterpret_cast<const __nv_bfloat162 *>(&from);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 a = __bfloat1622float2(s[i]), b = __bfloat1622float2(f[i]);
        s[i] = __floats2bfloat162_rn(a.x + b.x, a.y + b.y);
    }
    *to = sum;
}

/* V: 16 bytes of elements. */
template <typename V>
__global__ void accumulate(const V *__restrict__ from, V *__restrict__ to, int64_t count) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) add_to(&to[i], from[i]);
}

} // namespace

extern "C" void cuda_accumulate(ole_device_context *context, cuda_type type, int64_t count,
                                const void *from, void *to) {
    int64_t vectors = count * (int64_t)cuda_element(type) / 16;
    unsigned blocks = (unsigned)((vectors + THREADS - 1) / THREADS);
    if (type == CUDA_FLOAT)
        accumulate<<<blocks, THREADS, 0, context->stream>>>(static_cast<const float4 *>(from),
                                                            static_cast<float4 *>(to), vectors);
    else
        accumulate<<<blocks, THREADS, 0, context->stream>>>(static_cast<const uint4 *>(from),
                                                            static_cast<uint4 *>(to), vectors);
    cuda_launched(context, "accumulate");
}

namespace {

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
