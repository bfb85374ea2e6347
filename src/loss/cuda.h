/*
 * src/loss/cuda.h - the loss on a GPU, from libole_cuda.so (base/cuda_module.h, table
 * "ole_cuda_loss").  Its code is in loss/cuda/.
 */
#ifndef OLE_SRC_LOSS_CUDA_H
#define OLE_SRC_LOSS_CUDA_H

#include "ole/loss.h"

/* A plan's memory on the GPU, and its shape. */
typedef struct ole_cuda_loss ole_cuda_loss;

typedef struct ole_cuda_loss_table {
    /* The caller has checked the arguments; the GPU is the current one or options.gpu. */
    ole_status (*create)(ole_cuda_loss **loss, int64_t max_rows, int64_t dim, ole_dtype dtype,
                         const ole_loss_options *options, ole_error *error);
    void (*destroy)(ole_cuda_loss *loss);
    size_t (*bytes)(const ole_cuda_loss *loss);

    /*
     * Queues the evaluation on `stream` (a cudaStream_t): no synchronisation, no allocation, safe
     * to capture.  Features, labels, gradient and outcome are device memory; gradient and outcome
     * may be NULL.
     */
    ole_status (*queue)(ole_cuda_loss *loss, const ole_loss_batch *batch,
                        const ole_loss_gradient *gradient, ole_loss_outcome *outcome, void *stream,
                        ole_error *error);

    /* The same, but waits; the result is in host memory (NULL result fields as on the CPU). */
    ole_status (*eval)(ole_cuda_loss *loss, const ole_loss_batch *batch,
                       const ole_loss_gradient *gradient, ole_loss_result *result,
                       ole_error *error);
} ole_cuda_loss_table;

#endif
