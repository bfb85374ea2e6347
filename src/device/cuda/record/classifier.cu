/*
 * src/device/cuda/record/classifier.cu - the classifier's parameters for a loss in recorded steps
 * that reads and trains it: plain floats in device memory from and to their padded layout (cuda.h),
 * and rows of length 1.
 */
#include "device/cuda/ops/kernels.cuh"

namespace {

enum { THREADS = 256, LANES = 32 };

/* A parameter as rows of `in` elements, `pitch` apart: a bias is one row. */
struct rows_of_param {
    int64_t count, in, pitch;

    __device__ int64_t place(int64_t e) const {
        return e / in * pitch + e % in;
    }
};

rows_of_param rows_of(const ole_param *param) {
    int64_t in = cuda_param_is_weight(param) ? param->shape[1] : param->count;
    return {param->count, in, cuda_pitch(in)};
}

__global__ void read_rows(rows_of_param rows, const float *from, float *plain) {
    for (int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x; e < rows.count;
         e += (int64_t)gridDim.x * THREADS)
        plain[e] = from[rows.place(e)];
}

template <class T>
__global__ void write_rows(rows_of_param rows, const float *plain, T *to) {
    for (int64_t e = (int64_t)blockIdx.x * THREADS + threadIdx.x; e < rows.count;
         e += (int64_t)gridDim.x * THREADS)
        to[rows.place(e)] = T(plain[e]);
}

/* A warp per row, of the master and, unless NULL, of its copy: as ole_criterion_step_updated(). */
__global__ void unit_rows(rows_of_param rows, float *master, bfloat16 *copy) {
    const double close = 1e-6; /* a second time changes nothing */
    int64_t row = (int64_t)blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    if (row >= rows.count / rows.in) return;
    float *weight = master + row * rows.pitch;
    double sum = 0.0;
    for (int64_t d = threadIdx.x % LANES; d < rows.in; d += LANES)
        sum += (double)weight[d] * (double)weight[d];
    for (int offset = LANES / 2; offset; offset >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    double length = sqrt(sum);
    if (!(length > 0.0 && fabs(length - 1.0) > close)) return;
    for (int64_t d = threadIdx.x % LANES; d < rows.in; d += LANES) {
        weight[d] = (float)((double)weight[d] / length);
        if (copy) copy[row * rows.pitch + d] = __float2bfloat16_rn(weight[d]);
    }
}

} // namespace

extern "C" void cuda_param_read(ole_device_context *context, const ole_param *param,
                                const void *from, float *plain) {
    read_rows<<<blocks_for(context, param->count, THREADS), THREADS, 0, context->stream>>>(
        rows_of(param), static_cast<const float *>(from), plain);
    cuda_launched(context, "reading the classifier");
}

extern "C" void cuda_gradient_write(ole_device_context *context, const ole_param *param,
                                    const float *plain, void *gradient) {
    cuda_type type = cuda_param_is_weight(param) ? context->type : CUDA_FLOAT;
    for_type(type, [&](auto element) {
        typedef decltype(element) T;
        write_rows<<<blocks_for(context, param->count, THREADS), THREADS, 0, context->stream>>>(
            rows_of(param), plain, static_cast<T *>(gradient));
    });
    cuda_launched(context, "the classifier's gradient");
}

extern "C" void cuda_unit_rows(ole_device_context *context, const ole_param *param, void *weight) {
    float *master = static_cast<float *>(weight);
    bool narrow = context->type == CUDA_BFLOAT16;
    bfloat16 *copy =
        narrow ? reinterpret_cast<bfloat16 *>(master + cuda_param_size(param)) : nullptr;
    int64_t warps = THREADS / LANES;
    unit_rows<<<(unsigned)((param->shape[0] + warps - 1) / warps), THREADS, 0, context->stream>>>(
        rows_of(param), master, copy);
    cuda_launched(context, "unit rows");
}
