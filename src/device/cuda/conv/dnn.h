/*
 * src/device/cuda/conv/dnn.h - one pass of a convolution by cuDNN: its description, the plans that
 * cuDNN has for it, and running one.
 *
 *     dnn_graph *graph = dnn_graph_create(handle, &problem);
 *     int count = dnn_graph_algorithms(graph, workspace_bytes, deadline, algorithms, room);
 *     dnn_algorithm_run(handle, &algorithms[i], &arrays);
 *     dnn_algorithm_release(&algorithms[i]);
 *     dnn_graph_destroy(graph);
 *
 * Plans obey the problem: they repeat bit for bit, sum in float, round inputs only for tf32, and
 * are neither Winograd nor FFT if it is `direct`.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_DNN_H
#define OLE_SRC_DEVICE_CUDA_CONV_DNN_H

#include "device/cuda/conv/algorithm.h"

typedef struct dnn_graph dnn_graph;

/* NULL: no memory, or cuDNN cannot describe it. `problem` is copied. */
dnn_graph *dnn_graph_create(cudnnHandle_t handle, const cuda_problem *problem);
void dnn_graph_destroy(dnn_graph *graph);

/* Fills up to `room` algorithms, in the order of cuDNN's estimates, and returns how many. Making
 * one may take long (some are compiled): none but the first starts after `deadline` (ole_clock). */
int dnn_graph_algorithms(const dnn_graph *graph, size_t workspace, double deadline,
                         cuda_algorithm *algorithms, int room);

/* The algorithm of that name; false if it does not exist any more or needs more workspace. */
bool dnn_graph_named(const dnn_graph *graph, size_t workspace, const char *name,
                     cuda_algorithm *algorithm);

cudnnStatus_t dnn_algorithm_run(cudnnHandle_t handle, const cuda_algorithm *algorithm,
                                const cuda_arrays *arrays);
void dnn_algorithm_release(cuda_algorithm *algorithm);

#endif
