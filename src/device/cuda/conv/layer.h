/*
 * src/device/cuda/conv/layer.h - what layers with weights have in common: convolutions and linear
 * ones.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_LAYER_H
#define OLE_SRC_DEVICE_CUDA_CONV_LAYER_H

#include "device/cuda/conv/tune.h"

/* The passes of a layer, each with the way that was chosen; NULL where it is not needed. */
typedef struct cuda_layer {
    cuda_state base;
    int64_t weight_size; /* elements */
    const cuda_solver *forward, *data, *data_add, *weight;
} cuda_layer;

/* Plans a node whose passes are those of `problem` (pass, add and bias aside). */
ole_status cuda_layer_plan(const cuda_request *request, const cuda_problem *problem,
                           ole_op_plan *plan, ole_error *error);

#endif
