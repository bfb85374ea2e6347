/*
 * src/model/onnx.h - a network as an ONNX graph: the ops as messages, and the tensors they read.
 *
 * Tensors are a list of where their numbers come from; a number is read, or computed, when the file
 * is written, so that the memory is that of the largest tensor, not of all.
 */
#ifndef OLE_SRC_MODEL_ONNX_H
#define OLE_SRC_MODEL_ONNX_H

#include "formats/protobuf.h"
#include "model/confidence.h"
#include "model/model_card.h"
#include "net/graph.h"

/* The field numbers of onnx.proto3 (ONNX 1.12, IR version 8) that are used. */
enum {
    OLE_ONNX_MODEL_IR_VERSION = 1,
    OLE_ONNX_MODEL_PRODUCER_NAME = 2,
    OLE_ONNX_MODEL_PRODUCER_VERSION = 3,
    OLE_ONNX_MODEL_GRAPH = 7,
    OLE_ONNX_MODEL_OPSET = 8,
    OLE_ONNX_MODEL_METADATA = 14,

    OLE_ONNX_OPSET_VERSION = 2,

    OLE_ONNX_ENTRY_KEY = 1,
    OLE_ONNX_ENTRY_VALUE = 2,

    OLE_ONNX_GRAPH_NODE = 1,
    OLE_ONNX_GRAPH_NAME = 2,
    OLE_ONNX_GRAPH_INITIALIZER = 5,
    OLE_ONNX_GRAPH_INPUT = 11,
    OLE_ONNX_GRAPH_OUTPUT = 12,

    OLE_ONNX_NODE_INPUT = 1,
    OLE_ONNX_NODE_OUTPUT = 2,
    OLE_ONNX_NODE_NAME = 3,
    OLE_ONNX_NODE_OP_TYPE = 4,
    OLE_ONNX_NODE_ATTRIBUTE = 5,

    OLE_ONNX_ATTRIBUTE_NAME = 1,
    OLE_ONNX_ATTRIBUTE_F = 2,
    OLE_ONNX_ATTRIBUTE_I = 3,
    OLE_ONNX_ATTRIBUTE_INTS = 8,
    OLE_ONNX_ATTRIBUTE_TYPE = 20,

    OLE_ONNX_TENSOR_DIMS = 1,
    OLE_ONNX_TENSOR_DATA_TYPE = 2,
    OLE_ONNX_TENSOR_NAME = 8,
    OLE_ONNX_TENSOR_RAW_DATA = 9,

    OLE_ONNX_VALUE_NAME = 1,
    OLE_ONNX_VALUE_TYPE = 2,
    OLE_ONNX_TYPE_TENSOR = 1,
    OLE_ONNX_TENSOR_TYPE_ELEMENT = 1,
    OLE_ONNX_TENSOR_TYPE_SHAPE = 2,
    OLE_ONNX_SHAPE_DIM = 1,
    OLE_ONNX_DIM_VALUE = 1,
    OLE_ONNX_DIM_PARAM = 2,
};

/* Values of its enumerations. */
enum {
    OLE_ONNX_FLOAT = 1,          /* TensorProto.DataType */
    OLE_ONNX_ATTRIBUTE_IS_F = 1, /* AttributeProto.AttributeType */
    OLE_ONNX_ATTRIBUTE_IS_I = 2,
    OLE_ONNX_ATTRIBUTE_IS_INTS = 7,
};

/* Added to the variance by every batch norm of this library. */
#define OLE_ONNX_EPSILON 1e-5

/* Where the numbers of a tensor come from. */
typedef enum ole_onnx_source {
    OLE_ONNX_FROM_PARAM,         /* parameter `index` */
    OLE_ONNX_FROM_FOLDED_WEIGHT, /* the weight of node `index`, scaled by its norm */
    OLE_ONNX_FROM_FOLDED_BIAS,   /* the bias of node `index`, with its norm folded in */
    OLE_ONNX_FROM_MEAN,          /* the card's */
    OLE_ONNX_FROM_DEVIATION,     /* the card's */
    OLE_ONNX_FROM_ONES,
    OLE_ONNX_FROM_ZEROS,
    OLE_ONNX_FROM_PADDING, /* [out, in, 1, 1]: puts input channels where node `index` pads them */
    OLE_ONNX_FROM_TEMPERATURE, /* the card's */
    OLE_ONNX_FROM_SMALLEST,    /* the smallest normal number, to divide by instead of 0 */
    OLE_ONNX_FROM_SCORER,      /* tensor `index` of the scorer */
    OLE_ONNX_FROM_MEMBERS,     /* [directions, classes]: 1 where a direction is of a class */
} ole_onnx_source;

typedef struct ole_onnx_tensor {
    char name[OLE_NODE_NAME + 16];
    int ndim;
    int64_t shape[4];
    int64_t count;
    ole_onnx_source source;
    int index;
} ole_onnx_tensor;

typedef struct ole_onnx {
    const ole_graph *graph;
    const ole_card *card;
    const ole_safetensors *file;
    const char *path;                            /* of the file, for messages */
    ole_scorer *scorer;                          /* of the card's threshold; freed with the rest */
    ole_scorer_tensor state[OLE_SCORER_TENSORS]; /* what it has */
    int states;

    int *norm;  /* [nodes] the norm that is folded into a node; -1: none */
    int *value; /* [nodes] the node whose ONNX value stands for its output */
    int ops, folded;
    ole_protobuf nodes; /* fields of a GraphProto */
    ole_onnx_tensor *tensor;
    int tensors, room;
    bool failed; /* out of memory, while building */
} ole_onnx;

/* A model of vectors takes "x" [N, D], one of images "images" [N, C, H, W]. */
static inline bool ole_onnx_takes_vectors(const ole_onnx *onnx) {
    return onnx->card->input.h == 1 && onnx->card->input.w == 1;
}
static inline const char *ole_onnx_input(const ole_onnx *onnx) {
    return ole_onnx_takes_vectors(onnx) ? "x" : "images";
}

/* Fills ops and tensors from graph and card, which the caller has set. */
ole_status ole_onnx_build(ole_onnx *onnx, bool fold, ole_error *error);
void ole_onnx_free(ole_onnx *onnx);

/* The numbers of a tensor: `out` has room for the largest. */
ole_status ole_onnx_fill(const ole_onnx *onnx, const ole_onnx_tensor *tensor, float *out,
                         ole_error *error);

#endif
