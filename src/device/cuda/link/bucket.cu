/*
 * src/device/cuda/link/bucket.cu - packs the gradients of several parameters into one array of
 * floats, which ranks sum in one call, and unpacks them.
 *
 * A block handles CUDA_UPDATE_TILE elements of one gradient.
 */
#include "device/cuda/link/link.h"
#include "device/cuda/ops/kernels.cuh"

namespace {

enum { THREADS = 256 };

/* The vectors of eight that a block works on. */
struct tile_place {
    cuda_bucket_item item;
    int64_t first, end;
};

__device__ tile_place place_of(const cuda_bucket_item *items, const int32_t *tiles) {
    tile_place at = {items[tiles[2 * blockIdx.x]], 0, 0};
    at.first = (int64_t)tiles[2 * blockIdx.x + 1] * (CUDA_UPDATE_TILE / 8);
    at.end = min(at.first + CUDA_UPDATE_TILE / 8, at.item.size / 8);
    return at;
}

__global__ void pack_bucket(const cuda_bucket_item *items, const int32_t *tiles, float *floats) {
    tile_place at = place_of(items, tiles);
    float *to = floats + at.item.first;
    for (int64_t i = at.first + threadIdx.x; i < at.end; i += THREADS) {
        float g[8];
        if (at.item.type == CUDA_FLOAT)
            load8<float>(at.item.gradient, i, g);
        else
            load8<bfloat16>(at.item.gradient, i, g);
        store8<float>(to, i, g);
    }
}

__global__ void unpack_bucket(const cuda_bucket_item *items, const int32_t *tiles,
                              const float *floats) {
    tile_place at = place_of(items, tiles);
    const float *from = floats + at.item.first;
    for (int64_t i = at.first + threadIdx.x; i < at.end; i += THREADS) {
        float g[8];
        load8<float>(from, i, g);
        if (at.item.type == CUDA_FLOAT)
            store8<float>(at.item.gradient, i, g);
        else
            store8<bfloat16>(at.item.gradient, i, g);
    }
}

} // namespace

extern "C" void cuda_bucket_pack(ole_device_context *context, const cuda_bucket_item *items,
                                 const int32_t *tiles, int tile_count, float *floats,
                                 cudaStream_t stream) {
    pack_bucket<<<tile_count, THREADS, 0, stream>>>(items, tiles, floats);
    cuda_launched(context, "pack_bucket");
}

extern "C" void cuda_bucket_unpack(ole_device_context *context, const cuda_bucket_item *items,
                                   const int32_t *tiles, int tile_count, const float *floats,
                                   cudaStream_t stream) {
    unpack_bucket<<<tile_count, THREADS, 0, stream>>>(items, tiles, floats);
    cuda_launched(context, "unpack_bucket");
}
