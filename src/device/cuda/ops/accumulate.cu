/* src/device/cuda/ops/accumulate.cu - to += from, for gradients that meet in one tensor. */
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
