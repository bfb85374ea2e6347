/* src/device/cuda/ops/norm.cuh - shared by the host side of batch norm and its kernels. */
#ifndef OLE_SRC_DEVICE_CUDA_OPS_NORM_CUH
#define OLE_SRC_DEVICE_CUDA_OPS_NORM_CUH

#include "device/cuda/ops/chunk.cuh"

#include <cooperative_groups.h>
#include <cuda_pipeline.h>

/*
 * Sums over all pixels are needed before the first element can be written.  One kernel can keep its
 * share of the tensors in shared memory and wait for the sums of the others; where that does not
 * fit, one kernel sums and a second one reads everything again.
 */
enum norm_way {
    NORM_ALONE,   /* one kernel; a block has all pixels of its channels */
    NORM_CLUSTER, /* one kernel; the blocks of a chunk are a cluster */
    NORM_GRID,    /* one kernel, launched cooperatively: all blocks wait for each other */
    NORM_TWO,     /* two kernels */
};

struct norm_shape {
    norm_way way;
    int blocks, chunks; /* of pixels, of channels */
    size_t tile;        /* bytes of shared memory that hold a block's share */
};

enum norm_source {
    NORM_SUMS,    /* of the batch: partial sums */
    NORM_MOMENTS, /* of the batch: behind the parts of a stacked x */
    NORM_SHARED,  /* of the batch, which other ranks have parts of: `shared` */
    NORM_RUNNING,
};

struct norm_forward {
    const void *x, *residual; /* residual: NULL, or of y's layout */
    void *y;
    const float *gamma, *beta; /* NULL: 1 and 0 */
    float *running_mean, *running_var;
    float *saved; /* [2, pitch]: mean and 1 / deviation, written at training */
    float *partials;
    double *shared; /* [3, pitch]: sums over all ranks of x - shift and its square; the shift */
    int pixels, pitch;
    bool relu;
    norm_source source;
    double inverse_count, inverse_unbiased; /* 1 / n, 1 / max(n - 1, 1); n: pixels of the batch */
};

struct norm_backward {
    const void *x, *dy;
    const void *y; /* shows where the ReLU is active; NULL: recomputed from x */
    void *dx, *dresidual;
    bool add, add_residual; /* instead of overwriting; false if there is no such gradient */
    bool both;              /* dx is the residual's gradient too */
    bool relu;
    const float *gamma, *beta, *saved;
    float *dgamma, *dbeta;
    float *partials;
    double *shared; /* NULL, or [2, pitch]: sums over all ranks of g and g d */
    int pixels, pitch;
    double inverse_count;
};

/* Whether norm_wait() waits for a cluster: GPUs that have them also run code made for older ones,
 * which does not. */
bool norm_knows_clusters(void);

/* Whether a block of the one-kernel way can run with such a tile. */
bool norm_forward_fits(cuda_type type, size_t tile);
bool norm_backward_fits(const cuda_layout &x, size_t tile);

void norm_run_forward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                      const norm_forward &a);
void norm_run_backward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                       const norm_backward &a);

/* What this rank adds to a.shared; backward also leaves dgamma and dbeta of its own rows.  Of the
 * shape only NORM_TWO is known here.  Once the ranks' are summed, the functions above go on from
 * there: forward with NORM_SHARED, backward where a.shared is set. */
void norm_share_forward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                        const norm_forward &a);
void norm_share_backward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                         const norm_backward &a);

/* ---- parts of both kernels ---------------------------------------------------------------- */

/* Before the ReLU, the same bits forward and backward; scale is gamma / deviation. */
__device__ inline float norm_value(float x, float mean, float scale, float beta) {
    return __fmaf_rn(__fsub_rn(x, mean), scale, beta);
}

/* Waits for the blocks of the chunk; their writes are then visible. */
__device__ inline void norm_wait(norm_way way) {
    if (way == NORM_GRID) cooperative_groups::this_grid().sync();
#if __CUDA_ARCH__ >= 900
    else if (way == NORM_CLUSTER)
        cooperative_groups::this_cluster().sync();
#endif
    else
        __syncthreads();
}

/* A thread's own vectors in shared memory: tensor `which` of `held` at a step. */
template <class T>
struct norm_tile {
    enum { WORDS = sizeof(T) / 2 };
    uint4 *base;
    int held;

    __device__ uint4 *slot(int which, int step) const {
        return base + ((size_t)(step * held + which) * WORDS) * CHUNK_THREADS + threadIdx.x;
    }
    __device__ vector8<T> load(int which, int step) const {
        vector8<T> v;
        const uint4 *from = slot(which, step);
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            v.set(k, from[k * CHUNK_THREADS]);
        return v;
    }
    __device__ void store(int which, int step, const vector8<T> &v) const {
        uint4 *to = slot(which, step);
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            to[k * CHUNK_THREADS] = v.get(k);
    }
    /* Begins to copy a vector in; __pipeline_wait_prior(0) after a commit ends it. */
    __device__ void fetch(int which, int step, const plain_column<T> &c, const void *tensor,
                          int pixel) const {
        const uint4 *from =
            static_cast<const uint4 *>(tensor) + (c.first + pixel * c.step) * (int64_t)WORDS;
        uint4 *to = slot(which, step);
#pragma unroll
        for (int k = 0; k < WORDS; k++)
            __pipeline_memcpy_async(to + k * CHUNK_THREADS, from + k, 16);
    }
    template <int GRAIN>
    __device__ void fetch(int which, int step, const stacked_column<T, GRAIN> &c,
                          const void *tensor, int pixel) const {
        store(which, step, c.load(tensor, pixel));
    }
};

/* Steps at a time whose loads are all under way before the first is used; `vectors`: loads a step,
 * as far as registers go. */
template <class T, class Column, int VECTORS>
struct norm_batch {
    enum { STEPS = !Column::CLOSE ? 1 : (VECTORS > 3 ? 4 : 8) / (int)sizeof(T) };
};

/* Launches a kernel of one way or the other. */
template <class... Parameters, class... Arguments>
void norm_launch(ole_device_context *context, const norm_shape &shape,
                 void (*kernel)(Parameters...), const char *name, const Arguments &...arguments) {
    cudaLaunchAttribute attribute[1] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)shape.blocks, (unsigned)shape.chunks);
    config.blockDim = dim3(CHUNK_THREADS);
    config.dynamicSmemBytes = shape.tile;
    config.stream = context->stream;
    config.attrs = attribute;
    config.numAttrs = shape.way == NORM_GRID || shape.way == NORM_CLUSTER;
    if (shape.way == NORM_GRID) {
        attribute[0].id = cudaLaunchAttributeCooperative;
        attribute[0].val.cooperative = 1;
    } else {
        attribute[0].id = cudaLaunchAttributeClusterDimension;
        attribute[0].val.clusterDim.x = (unsigned)shape.blocks;
        attribute[0].val.clusterDim.y = attribute[0].val.clusterDim.z = 1;
    }
    cudaLaunchKernelEx(&config, kernel, arguments...);
    cuda_launched(context, name);
}

/* Whether a kernel can run with so much dynamic shared memory; from now on it may. */
template <class... Parameters>
bool norm_fits(void (*kernel)(Parameters...), size_t tile) {
    int blocks = 0;
    cudaFuncAttributes own;
    cudaError_t code = cudaFuncGetAttributes(&own, kernel);
    if (code == cudaSuccess && tile > (size_t)own.maxDynamicSharedSizeBytes)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)tile);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, CHUNK_THREADS, tile);
    if (code != cudaSuccess) cudaGetLastError(); /* too large: the other way is taken */
    return code == cudaSuccess && blocks > 0;
}

#endif
