/*
 * src/loss/cuda/element.cuh - used by all kernels of the loss: elements of any type read as
 * float64, labels, shapes, the scale of float64 input, and how a kernel is launched.
 */
#ifndef OLE_SRC_LOSS_CUDA_ELEMENT_CUH
#define OLE_SRC_LOSS_CUDA_ELEMENT_CUH

#include "loss/cuda/call.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

/* All kernels take one argument, a call. */
static inline cudaError_t launch(void (*kernel)(loss_call), dim3 grid, int threads,
                                 const loss_call *call, cudaStream_t stream, size_t shared = 0) {
    void *arguments[] = {const_cast<loss_call *>(call)};
    return cudaLaunchKernel(reinterpret_cast<const void *>(kernel), grid, dim3((unsigned)threads),
                            arguments, shared, stream);
}

__device__ static inline double read_element(const loss_call &call, int64_t at) {
    switch (call.dtype) {
    case OLE_F64:
        return static_cast<const double *>(call.x)[at];
    case OLE_F32:
        return static_cast<const float *>(call.x)[at];
    case OLE_BF16:
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(call.x)[at]);
    default:
        return __half2float(static_cast<const __half *>(call.x)[at]);
    }
}

__device__ static inline int64_t read_label(const loss_call &call, int row) {
    return call.wide_labels ? static_cast<const int64_t *>(call.labels)[row]
                            : static_cast<const int32_t *>(call.labels)[row];
}

/* Whether any row that counts is unusable; the same for all threads of the block. */
template <int THREADS>
__device__ bool any_bad(const loss_call &call) {
    int bad = 0;
    for (int i = (int)threadIdx.x; i < call.rows; i += THREADS)
        bad |= call.bad[i];
    return __syncthreads_or(bad) != 0;
}

/* The shape of a matrix: its smaller side, and whether that is the columns. */
__device__ static inline int smaller_side(const loss_call &call, int rows) {
    return rows < call.dim ? rows : call.dim;
}

/* Where tile t of a Gram matrix of columns begins: matrix 0 is the whole, 1 + slot / (dim + 1) a
 * class. */
__device__ static inline int64_t column_gram_at(const loss_call &call, int matrix, int t) {
    int64_t tiles = call.column_tiles;
    return (matrix == 0 ? (int64_t)t * call.column_splits
                        : tiles * call.column_splits + (matrix - 1) * tiles + t) *
           GRAM_ENTRIES;
}

/*
 * The power of two that brings the largest |x| of the used rows to [1/2, 1), for float64 input; 1
 * for other types, whose squares fit into float64.  Called by all threads of a block; `shared` has
 * room for one double per warp.
 */
__device__ static inline double block_scale(const loss_call &call, double *shared) {
    if (!call.scaled) return 1.0;
    double most = 0.0;
    for (int i = (int)threadIdx.x; i < call.rows; i += (int)blockDim.x)
        most = fmax(most, call.largest[i]);
    for (int lane = 16; lane; lane >>= 1)
        most = fmax(most, __shfl_xor_sync(0xffffffffu, most, lane));
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < (int)blockDim.x / 32; w++)
        most = fmax(most, shared[w]);
    __syncthreads();
    if (!(most > 0.0) || !isfinite(most)) return 1.0;
    int exponent = ilogb(most) + 1;
    exponent = exponent > 1000 ? 1000 : (exponent < -1000 ? -1000 : exponent);
    return scalbn(1.0, -exponent);
}

/*
 * The largest (or the sum, in one order) of the values of the threads of a block of WARPS warps;
 * the same on all of them.  `shared` has room for one double per warp.
 */
template <bool LARGEST, int WARPS>
__device__ double block_combine(double v, double *shared) {
    for (int offset = 16; offset; offset >>= 1) {
        double other = __shfl_xor_sync(0xffffffffu, v, offset);
        v = LARGEST ? fmax(v, other) : v + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0;
    for (int w = 0; w < WARPS; w++)
        v = LARGEST ? fmax(v, shared[w]) : v + shared[w];
    __syncthreads();
    return v;
}

#endif
