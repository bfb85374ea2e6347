/*
 * src/device/cuda/ops/chunk.cuh - sums over all pixels of each channel, the same bits each time.
 *
 * A thread block takes 16 channels, a chunk (32 bytes of bfloat16 a pixel: a whole sector of the
 * cache), and every gridDim.x-th run of 256 pixels; blockIdx.y is the chunk.  A thread takes eight
 * channels of one pixel at a time and sums two things of each in float.  Those of a block are added
 * up in a fixed order and become 32 floats, [2, 16], its partial sums; whoever needs the totals
 * adds up the blocks' in a fixed order, in double.
 */
#ifndef OLE_SRC_DEVICE_CUDA_OPS_CHUNK_CUH
#define OLE_SRC_DEVICE_CUDA_OPS_CHUNK_CUH

#include "device/cuda/ops/kernels.cuh"

enum {
    CHUNK_THREADS = 512,
    CHUNK_WARPS = CHUNK_THREADS / 32,
    CHUNK_ROWS = CHUNK_THREADS / 2, /* pixels at a time */
    CHUNK_CHANNELS = 16,
    CHUNK_SUMS = 32,
};

/* The elements that a thread works on. */
struct chunk_place {
    int group;  /* eight channels of the tensor; there may be none: then steps is 0 */
    int first;  /* pixel */
    int stride; /* pixels */
    int steps;

    __device__ int pixel(int step) const {
        return first + step * stride;
    }
};

__device__ inline chunk_place chunk_place_of(int pitch, int pixels) {
    chunk_place at;
    at.group = (int)blockIdx.y * 2 + (int)(threadIdx.x & 1);
    at.first = (int)blockIdx.x * CHUNK_ROWS + (int)(threadIdx.x >> 1);
    at.stride = (int)gridDim.x * CHUNK_ROWS;
    bool works = at.group < pitch / 8 && at.first < pixels;
    at.steps = works ? (pixels - 1 - at.first) / at.stride + 1 : 0;
    return at;
}

/* The channel that one of the block's first 16 threads finishes, or -1. */
__device__ inline int chunk_channel(int pitch) {
    int channel = (int)blockIdx.y * CHUNK_CHANNELS + (int)threadIdx.x;
    return threadIdx.x < CHUNK_CHANNELS && channel < pitch ? channel : -1;
}

/* This block's place among the partial sums, [chunks, blocks, 32]. */
__device__ inline float *chunk_own(float *partials) {
    return partials + ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * CHUNK_SUMS;
}

/* Of 2 HALF values a thread keeps one half, and gives the other to the thread that keeps that. */
template <int HALF>
__device__ inline void chunk_exchange(float (&v)[16], int lane) {
    bool upper = (lane & 2 * HALF) != 0;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float low = v[i], high = v[i + HALF];
        float other = __shfl_xor_sync(0xffffffffu, upper ? low : high, 2 * HALF);
        v[i] = (upper ? high : low) + other;
    }
}

/*
 * to[32] = the block's sums of the threads' v: eight channels' first, then their second thing.  All
 * threads call it, once a kernel.
 *
 * In a warp 16 threads share their channels: each exchange leaves a thread half of the values, and
 * sums of twice as many pixels, until one value is left of 16.
 */
__device__ inline void chunk_partial(float (&v)[16], float *to) {
    __shared__ float part[CHUNK_WARPS][CHUNK_SUMS];
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    chunk_exchange<8>(v, lane);
    chunk_exchange<4>(v, lane);
    chunk_exchange<2>(v, lane);
    chunk_exchange<1>(v, lane);
    int value = lane >> 1, channel = (lane & 1) * 8 + (value & 7);
    part[warp][(value >> 3) * CHUNK_CHANNELS + channel] = v[0];
    __syncthreads();
    if (warp > 0) return;
    double sum = 0.0;
    for (int w = 0; w < CHUNK_WARPS; w++)
        sum += (double)part[w][lane];
    to[lane] = (float)sum;
}

/*
 * The chunk's total of its blocks' partial sums, [chunks, blocks, 32]: thread i < 32 gets the i-th,
 * what others get is of no use.  All threads call it, once a kernel.
 */
__device__ inline double chunk_total(const float *partials, int blocks) {
    __shared__ double slice[CHUNK_WARPS][CHUNK_SUMS];
    const float *own = partials + (size_t)blockIdx.y * (size_t)blocks * CHUNK_SUMS;
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    double sum = 0.0, total = 0.0;
#pragma unroll 4
    for (int b = warp; b < blocks; b += CHUNK_WARPS)
        sum += (double)__ldcg(own + b * CHUNK_SUMS + lane);
    slice[warp][lane] = sum;
    __syncthreads();
    if (warp == 0)
        for (int w = 0; w < CHUNK_WARPS; w++)
            total += slice[w][lane];
    return total;
}

/* Moments from sums of x - first and its square: the mean, and squared distances to it added up. */
struct chunk_moments {
    double mean, squares;
};

/* All of the first warp call it; threads below 16 get their channel's. */
__device__ inline chunk_moments chunk_moments_of(double total, double inverse_count, float first) {
    double squares = __shfl_down_sync(0xffffffffu, total, CHUNK_CHANNELS);
    double rest = squares - total * total * inverse_count;
    return {(double)first + total * inverse_count, rest < 0.0 ? 0.0 : rest}; /* NaN stays */
}

/* Adds a pixel to the sums of chunk_moments_of(). */
__device__ inline void chunk_add_moments(float (&sums)[16], const float (&x)[8],
                                         const float (&first)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float distance = x[k] - first[k];
        sums[k] += distance;
        sums[k + 8] = fmaf(distance, distance, sums[k + 8]);
    }
}

__device__ inline void chunk_clear(float (&sums)[16]) {
#pragma unroll
    for (int k = 0; k < 16; k++)
        sums[k] = 0.0f;
}

/* Chunks of a tensor, and blocks of pixels there is work for. */
inline int chunks_of(int pitch) {
    return (pitch + CHUNK_CHANNELS - 1) / CHUNK_CHANNELS;
}

inline int chunk_blocks(int64_t pixels) {
    return (int)((pixels + CHUNK_ROWS - 1) / CHUNK_ROWS);
}

/* Blocks of pixels for about `wanted` thread blocks in all. */
inline int chunk_blocks_for(int64_t pixels, int chunks, int wanted) {
    int most = chunk_blocks(pixels), blocks = wanted / chunks;
    return blocks < 1 ? 1 : blocks < most ? blocks : most;
}

#endif
