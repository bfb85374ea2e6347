/*
 * src/loss/criteria/cuda/parts.cuh - what the kernels of the criteria share: sums by warps and
 * blocks in a fixed order, and a place's label and class.
 */
#ifndef OLE_SRC_LOSS_CRITERIA_CUDA_PARTS_CUH
#define OLE_SRC_LOSS_CRITERIA_CUDA_PARTS_CUH

#include "loss/criteria/cuda/call.h"

#include <math.h>

enum { LANES = 32, WARPS = 8, THREADS = LANES * WARPS };

__device__ static inline int lane_of() {
    return (int)threadIdx.x % LANES;
}

/* What a kernel of a warp per item works on. */
__device__ static inline int warp_item() {
    return (int)blockIdx.x * WARPS + (int)threadIdx.x / LANES;
}

static inline unsigned blocks_of(int64_t items, int per_block) {
    int64_t blocks = (items + per_block - 1) / per_block;
    return (unsigned)(blocks < 1 ? 1 : blocks);
}

__device__ static inline double warp_sum(double v) {
#pragma unroll
    for (int offset = LANES / 2; offset; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

__device__ static inline double warp_largest(double v) {
#pragma unroll
    for (int offset = LANES / 2; offset; offset >>= 1)
        v = fmax(v, __shfl_xor_sync(0xffffffffu, v, offset));
    return v;
}

/* The sum over the THREADS of a block; the same bits on all of them.  May be called again. */
__device__ static inline double block_sum(double v) {
    __shared__ double part[WARPS];
    v = warp_sum(v);
    __syncthreads(); /* the last call's parts have been read */
    if (lane_of() == 0) part[threadIdx.x / LANES] = v;
    __syncthreads();
    v = 0.0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        v += part[w];
    return v;
}

/* The sum of f(place) over all places, by a block. */
template <class F>
__device__ double sum_places(const criterion_call &c, F f) {
    double sum = 0.0;
    for (int p = (int)threadIdx.x; p < *c.used; p += THREADS)
        sum += f(p);
    return block_sum(sum);
}

__device__ static inline int label_of(const criterion_call &c, int place) {
    return c.in.labels[c.order[place]];
}

__device__ static inline bool is_first(const criterion_call &c, int place) {
    return c.first[place] == place;
}

/* Whether two places are of one class. */
__device__ static inline bool alike(const criterion_call &c, int i, int j) {
    return c.first[i] == c.first[j];
}

/* Whether any row that counts is bad; the same on all threads of the block. */
__device__ static inline bool any_bad(const criterion_call &c) {
    int bad = 0;
    for (int i = (int)threadIdx.x; i < c.rows; i += THREADS)
        bad |= c.bad[i];
    return __syncthreads_or(bad) != 0;
}

#endif
