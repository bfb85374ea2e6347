/*
 * src/base/cuda_module.h - libole_cuda.so, the module (base/module.h) that needs CUDA's libraries.
 * Its tables "ole_cuda_device" and "ole_cuda_memory" are declared here, any other where it is used.
 */
#ifndef OLE_SRC_BASE_CUDA_MODULE_H
#define OLE_SRC_BASE_CUDA_MODULE_H

#include "base/export.h"

#include <stdbool.h>

/* A GPU. */
typedef struct ole_cuda_gpu {
    char name[64];
    int major, minor; /* compute capability */
    int multiprocessors;
    size_t memory; /* bytes */
} ole_cuda_gpu;

typedef struct ole_cuda_device_table {
    const char *version;   /* ole_version() of the module */
    const char *libraries; /* "CUDA 13.0, cuDNN 9.14, cuBLAS 13.1" */
    /* The number of GPUs that the module has code for; 0 with the reason in `error`. */
    int (*count)(ole_error *error);
    ole_status (*describe)(int gpu, ole_cuda_gpu *out, ole_error *error);
    /* "NCCL 2.28.3", which links the GPUs of ranks, or why there is none. */
    void (*linking)(char *text, size_t room);
} ole_cuda_device_table;

/*
 * Memory, streams and graphs of the current GPU, for code without CUDA headers: tests, benchmarks,
 * examples.  Functions that can fail return false and leave the reason in `error`.
 */
typedef struct ole_cuda_graph ole_cuda_graph;

typedef struct ole_cuda_memory_table {
    void *(*allocate)(size_t bytes, ole_error *error); /* NULL: it failed */
    void (*release)(void *memory);                     /* NULL is allowed */
    bool (*copy_in)(void *device, const void *host, size_t bytes, ole_error *error);
    bool (*copy_out)(void *host, const void *device, size_t bytes, ole_error *error); /* waits */
    void *(*stream)(ole_error *error); /* a cudaStream_t; NULL: it failed */
    void (*close_stream)(void *stream);
    bool (*wait)(void *stream, ole_error *error);

    /* Records what is queued on the stream between the two calls, to replay it. */
    bool (*capture)(void *stream, ole_error *error);
    ole_cuda_graph *(*captured)(void *stream, ole_error *error); /* NULL: it failed */
    bool (*replay)(ole_cuda_graph *graph, void *stream, ole_error *error);
    void (*close_graph)(ole_cuda_graph *graph);

    /* GPU time, in milliseconds, of what `work` queues on the stream. */
    bool (*time)(void *stream, void (*work)(void *context), void *context, double *milliseconds,
                 ole_error *error);
} ole_cuda_memory_table;

/* ole_module_table() of it. */
OLE_INTERNAL ole_status ole_cuda_module_table(const char *name, const void **table,
                                              ole_error *error);

/* Whether there is a module and a GPU to run it on. */
OLE_INTERNAL ole_status ole_cuda_module_check(ole_error *error);

#endif
