/*
 * src/loss/criteria/cuda.h - the criteria on a GPU, from libole_cuda.so (base/cuda_module.h, table
 * "ole_cuda_criterion").  The code is in loss/criteria/cuda/.
 *
 * Features, weights and labels come from device memory as float and int32; all arithmetic is in
 * float64 and in an order that depends on the shape alone, as on the CPU.  What the CPU refuses is
 * a value here: NaN or Inf in the features gives the value NaN and the number of the row.
 */
#ifndef OLE_SRC_LOSS_CRITERIA_CUDA_H
#define OLE_SRC_LOSS_CRITERIA_CUDA_H

#include "ole/base.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The result of a queued evaluation, in device memory. */
typedef struct ole_criterion_outcome {
    double value;    /* without weight; NaN after a bad row */
    int64_t correct; /* rows that a HEAD's classifier had right */
    int64_t bad_row; /* the first row, not ignored, that holds NaN or Inf; -1: none */
} ole_criterion_outcome;

/* What a queued evaluation reads: device memory. */
typedef struct ole_criterion_queued {
    int64_t rows;          /* at least 1 */
    const uint64_t *step;  /* counts from 1 */
    const float *x;        /* [rows, dim] */
    const int32_t *labels; /* [rows] */
    const float *w, *b;    /* [classes, dim], [classes], for a HEAD; b NULL: zeros */
    double *centers;       /* [classes, dim], read and moved; a bad row leaves them as they are */
} ole_criterion_queued;

/* Where its gradients go: device memory, filled. */
typedef struct ole_criterion_slopes {
    ole_dtype dtype; /* OLE_F32 or OLE_F64 */
    double weight;   /* a factor of them */
    void *dx;        /* [rows, dim] */
    void *dw, *db;   /* [classes, dim], [classes], for a HEAD; without `weight` */
} ole_criterion_slopes;

/* A plan's memory on the GPU, and its shape. */
typedef struct ole_cuda_criterion ole_cuda_criterion;

struct ole_criterion_plan_options;

typedef struct ole_cuda_criterion_table {
    /* Whether the criterion of that name has a device version; the others here are for those. */
    bool (*has)(const char *name);
    ole_status (*create)(ole_cuda_criterion **criterion,
                         const struct ole_criterion_plan_options *options, int gpu,
                         ole_error *error);
    void (*destroy)(ole_cuda_criterion *criterion);

    /* Queues an evaluation on `stream` (a cudaStream_t): no synchronisation, no allocation, safe to
     * capture. */
    ole_status (*queue)(ole_cuda_criterion *criterion, const ole_criterion_queued *batch,
                        const ole_criterion_slopes *slopes, ole_criterion_outcome *outcome,
                        void *stream, ole_error *error);
} ole_cuda_criterion_table;

#ifdef __cplusplus
}
#endif
#endif
