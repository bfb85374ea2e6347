/*
 * tests/support/op_cases.h - one table of op cases, and running any of them on any backend.
 *
 *     op_data in = op_data_make(&op_cases[i], seed), out = op_data_copy(&in);
 *     op_run(backend, context, &op_cases[i], way, &out, error); // fills y, dx, dparam, param
 *     op_worst worst = op_compare(&out, &expected);
 *
 * The same table serves every check: a fast backend against ref64, ref64 against finite
 * differences.  A new op is a row here.
 */
#ifndef OLE_TESTS_OP_CASES_H
#define OLE_TESTS_OP_CASES_H

#include "device/backend.h"

typedef struct op_case {
    ole_op op;
    int64_t n, c, h, w; /* of the first input */
    int64_t out;        /* conv, linear, pad: channels of the output; concat: of the second input */
    int kernel, stride, pad;
    bool bias, affine, relu;
    bool sum; /* norm: of a second input, added */
    float rate;
} op_case;

extern const op_case op_cases[];
extern const int op_case_count;

/* Sizes as in training: too many numbers for finite differences. */
extern const op_case op_large_cases[];
extern const int op_large_case_count;

/* As small as kernels of each kind allow, for tools that watch every access to memory. */
extern const op_case op_watched_cases[];
extern const int op_watched_case_count;

/* The node that a graph would hold, with `params` of its parameters. */
ole_node op_case_node(const op_case *c, ole_param params[OLE_MAX_PARAMS]);

/* Shape of input `i` (0 or 1); all zero where there is none. */
ole_shape op_case_input(const op_case *c, int i);

/* "conv 2x3x9x9, out 8, kernel 3/2+1, bias". */
typedef struct op_text {
    char text[120];
} op_text;
op_text op_case_text(const op_case *c);

/* ---- the numbers of a case, plain order ------------------------------------------------------ */

typedef struct op_tensor {
    int64_t count; /* 0: there is none */
    double *at;
} op_tensor;

enum {
    OP_X = 0,                           /* given */
    OP_DY = OP_X + OLE_MAX_INPUTS,      /* given */
    OP_PARAM = OP_DY + 1,               /* given, and changed by the op (running statistics) */
    OP_Y = OP_PARAM + OLE_MAX_PARAMS,   /* found */
    OP_DX = OP_Y + 1,                   /* found; what it held before is added to if asked for */
    OP_DPARAM = OP_DX + OLE_MAX_INPUTS, /* found */
    OP_TENSORS = OP_DPARAM + OLE_MAX_PARAMS
};

/* tensor[OP_X + 1] is the second input; a tensor that the case lacks has no elements. */
typedef struct op_data {
    op_tensor tensor[OP_TENSORS];
} op_data;

/* Random numbers that are exact in float; away from ties and kinks where the op has some. */
op_data op_data_make(const op_case *c, uint64_t seed);
op_data op_data_copy(const op_data *from);
void op_data_free(op_data *data);

/* Rounds what is given to bfloat16. */
void op_data_narrow(op_data *data);

/*
 * The largest error of an element in units of its tensor's largest element (at least 0.05: tensors
 * that are all but zero), infinite for NaN; and the tensor's name.
 */
typedef struct op_worst {
    double error;
    const char *tensor;
} op_worst;
op_worst op_compare(const op_data *found, const op_data *expected);

/* ---- running -------------------------------------------------------------------------------- */

typedef struct op_way {
    bool eval;       /* forward as in evaluation, no backward */
    bool accumulate; /* dx is added to */
    bool blocked;    /* inputs lie as a convolution of that backend leaves them (not linear's) */
    bool in_place;   /* y over x[0] and dx[0] over dy where the plan allows */
    bool only_dx, only_dparam;
    /* Another rank has as many rows, with the same sums; three rows come before ours. */
    bool shared;
    uint64_t step;
} op_way;

/* Forward and backward of a case on a backend, from and to `data`. */
ole_status op_run(const ole_backend *backend, ole_device_context *context, const op_case *c,
                  op_way way, op_data *data, ole_error *error);

#endif
