/*
 * src/device/cuda/link/link.h - link.c's view of the library that moves data between GPUs (nccl.c)
 * and of packing gradients (bucket.cu).
 */
#ifndef OLE_SRC_DEVICE_CUDA_LINK_LINK_H
#define OLE_SRC_DEVICE_CUDA_LINK_LINK_H

#include "device/cuda/cuda.h"
#include "device/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that return a text return what went wrong, or NULL. */
typedef struct cuda_collectives {
    char version[32]; /* "NCCL 2.28.3" */
    const char *(*make_id)(unsigned char id[OLE_LINK_ID]);
    /* `size` ranks, each on a GPU of its own, this one on the current GPU. */
    const char *(*open)(void **group, const unsigned char id[OLE_LINK_ID], int rank, int size);
    /* `broken`: without waiting for the others. */
    void (*close)(void *group, bool broken);
    const char *(*sum)(void *group, void *data, int64_t count, ole_dtype type, cudaStream_t stream);
    /* bytes[size] */
    const char *(*gather)(void *group, const void *mine, const int64_t *bytes, int size, void *all,
                          cudaStream_t stream);
} cuda_collectives;

/* Loads the library at the first call; NULL with the reason in `error`. */
const cuda_collectives *cuda_collectives_load(ole_error *error);

/* One gradient of a bucket. */
typedef struct cuda_bucket_item {
    void *gradient;
    int64_t size;  /* elements, a multiple of 8 */
    int64_t first; /* of the bucket's floats */
    int64_t type;  /* cuda_type */
} cuda_bucket_item;

/* Copies between gradients and the bucket's floats in one launch on `stream` (bucket.cu): items and
 * tiles [tile_count, 2] in device memory, as for cuda_update(). */
void cuda_bucket_pack(ole_device_context *context, const cuda_bucket_item *items,
                      const int32_t *tiles, int tile_count, float *floats, cudaStream_t stream);
void cuda_bucket_unpack(ole_device_context *context, const cuda_bucket_item *items,
                        const int32_t *tiles, int tile_count, const float *floats,
                        cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
