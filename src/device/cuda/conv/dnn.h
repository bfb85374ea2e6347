/*
 * src/device/cuda/conv/dnn.h - one pass of a convolution by cuDNN: its description, the plans that
 * cuDNN has for it, and running one.
 *
 *     dnn_graph *graph = dnn_graph_create(handle, &problem);
 *     int count = dnn_graph_ways(graph, workspace_bytes, deadline, ways, room);
 *     dnn_way_run(handle, &ways[i], &arrays);
 *     dnn_way_release(&ways[i]);
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

/* Fills up to `room` ways, in the order of cuDNN's estimates, and returns how many. Making one may
 * take long (some are compiled): none but the first starts after `deadline` (ole_clock). */
int dnn_graph_ways(const dnn_graph *graph, size_t workspace, double deadline, cuda_way *ways,
                   int room);

/* The way of that name; false if it does not exist any more or needs more workspace. */
bool dnn_graph_named(const dnn_graph *graph, size_t workspace, const char *name, cuda_way *way);

cudnnStatus_t dnn_way_run(cudnnHandle_t handle, const cuda_way *way, const cuda_arrays *arrays);
void dnn_way_release(cuda_way *way);

#endif
