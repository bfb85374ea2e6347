/*
 * src/device/op.h - one op of a network and its parameters: what backends plan and run.
 *
 * Activations are [N, C, H, W]; vectors have H = W = 1.
 */
#ifndef OLE_SRC_DEVICE_OP_H
#define OLE_SRC_DEVICE_OP_H

#include "ole/base.h"

#include <stdbool.h>

typedef enum ole_op {
    OLE_OP_INPUT, /* the images */
    OLE_OP_CONV,  /* weight [out, in, k, k], bias [out] where `bias` */
    OLE_OP_NORM,  /* batch norm: gamma, beta [c] where `affine`; running mean, variance [c] */
    OLE_OP_RELU,
    OLE_OP_MAXPOOL,
    OLE_OP_AVGPOOL, /* kernel = 0: the whole image, giving 1 x 1 */
    OLE_OP_FLATTEN, /* [N, C, H, W] to [N, C*H*W], plain layout */
    OLE_OP_LINEAR,  /* weight [out, in], bias [out] where `bias` */
    OLE_OP_DROPOUT, /* in training: zero with probability `rate`, else x / (1 - rate) */
    OLE_OP_ADD,     /* two inputs of the same shape */
    OLE_OP_CONCAT,  /* two inputs along C */
    OLE_OP_PAD,     /* channels of zeros: half of the new ones before the input's, half behind */
} ole_op;

/* Dropout draws for a = step * 2^20 + node, b = element / 4: one word per element. */
enum { OLE_RANDOM_DROPOUT = 3 };

typedef struct ole_shape {
    int64_t c, h, w;
} ole_shape;

static inline int64_t ole_shape_size(ole_shape s) {
    return s.c * s.h * s.w;
}

/* Where the input's channels begin in the output of OLE_OP_PAD. */
static inline int64_t ole_pad_first(ole_shape in, ole_shape out) {
    return (out.c - in.c) / 2;
}

enum { OLE_NODE_NAME = 48, OLE_MAX_INPUTS = 2, OLE_MAX_PARAMS = 4 };

typedef struct ole_node {
    ole_op op;
    int index;                 /* position in the graph; numbers dropout's random draws */
    int input[OLE_MAX_INPUTS]; /* the nodes it reads; -1: none */
    ole_shape in;              /* of input[0] */
    ole_shape out;
    int kernel, stride, pad; /* conv and pooling; square windows */
    bool bias;               /* conv, linear */
    bool affine;             /* norm */
    bool relu;               /* norm, add: apply a ReLU to the output */
    float rate;              /* dropout */
    int token;               /* its token in the notation, from 1; 0: input, classifier */
    int first_param;         /* index of its first parameter; the others follow */
    int params;
    char name[OLE_NODE_NAME]; /* stable: "3.conv1", "classifier"; its parameters are NAME.weight,
                                 ... */
} ole_node;

typedef enum ole_param_kind {
    OLE_PARAM_WEIGHT, /* conv, linear */
    OLE_PARAM_BIAS,
    OLE_PARAM_GAMMA, /* named NAME.weight, as in PyTorch */
    OLE_PARAM_BETA,  /* named NAME.bias */
    OLE_PARAM_MEAN,  /* NAME.running_mean; not trained */
    OLE_PARAM_VAR,   /* NAME.running_var; not trained */
} ole_param_kind;

/* A parameter. A node's parameters are consecutive, in the order of the nodes. */
typedef struct ole_param {
    ole_param_kind kind;
    int node;
    int ndim;
    int64_t shape[4];
    int64_t count;
    bool trained;
    char name[OLE_NODE_NAME + 16];
} ole_param;

#endif
