/*
 * src/device/cuda/conv/narrow.h - our own kernels for convolutions to few channels, in bfloat16.
 *
 * The libraries compute tiles of at least 64 output channels; a convolution to 12 or 32 uses a
 * fraction of each.  These kernels have tiles of exactly 16 or 32: 3 x 3, stride 1, pad 1, from any
 * number of channels, on images of any size.  Their variants differ in how pixels and channels are
 * divided among warps; tune.c measures which is fastest.  Used like dnn.h.
 *
 * All repeat bit for bit: the shape and the variant fix the order of every sum.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_NARROW_H
#define OLE_SRC_DEVICE_CUDA_CONV_NARROW_H

#include "device/cuda/conv/algorithm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct narrow_variant {
    const char *name;
    int out;      /* channels of y, with padding: 16 or 32 */
    int columns;  /* of an image that a tile spans: 16, or 8 of two images */
    int channels; /* of x that a thread block works on at a time */
    /* Bytes of workspace; NULL: none. */
    size_t (*workspace)(const ole_device_context *context, const cuda_problem *problem);
    /* Enqueues it; false, with nothing enqueued, if the GPU refuses. */
    bool (*run)(ole_device_context *context, const cuda_problem *problem,
                const cuda_arrays *arrays);
} narrow_variant;

typedef struct narrow_table {
    const narrow_variant *variant;
    int count;
} narrow_table;

extern const narrow_table narrow_forward; /* narrow_forward.cu */
extern const narrow_table narrow_data;    /* narrow_data.cu */
extern const narrow_table narrow_weight;  /* narrow_weight.cu */

int cuda_narrow_algorithms(const ole_device_context *context, const cuda_problem *problem,
                           cuda_algorithm *algorithms, int room);
bool cuda_narrow_named(const ole_device_context *context, const cuda_problem *problem,
                       const char *name, cuda_algorithm *algorithm);
bool cuda_narrow_run(ole_device_context *context, const cuda_problem *problem,
                     const cuda_algorithm *algorithm, const cuda_arrays *arrays);

#ifdef __cplusplus
}
#endif
#endif
