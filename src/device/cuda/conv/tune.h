/*
 * src/device/cuda/conv/tune.h - solvers: problems, each with the algorithm chosen for it.
 *
 * There is one solver per problem, shared by all layers and plans of a context; it lives as long as
 * the context's cuda_tune.  The algorithm comes from the file of measured ones (cache.h), or from
 * measuring all that the libraries offer, which takes a fraction of a second.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_TUNE_H
#define OLE_SRC_DEVICE_CUDA_CONV_TUNE_H

#include "device/cuda/conv/algorithm.h"

typedef struct cuda_solver cuda_solver;

/* `layer` is for messages. No capture may be in progress. */
ole_status cuda_solver_find(ole_device_context *context, const cuda_problem *problem,
                            const char *layer, const cuda_solver **solver, ole_error *error);

/* Bytes of arrays->scratch that it needs. */
size_t cuda_solver_scratch(const cuda_solver *solver);

/* Enqueues it on arrays->stream (context->stream for problems that `add`). */
void cuda_solver_run(ole_device_context *context, const cuda_solver *solver,
                     const cuda_arrays *arrays);

#endif
