/* tests/support/op_cases.c - the table of op cases, their nodes and their numbers. */
#include "op_cases.h"

#include "random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IMAGES(n_, c_, h_, w_) .n = (n_), .c = (c_), .h = (h_), .w = (w_)
#define WINDOW(kernel_, stride_, pad_) .kernel = (kernel_), .stride = (stride_), .pad = (pad_)
#define CONV .op = OLE_OP_CONV
#define NORM .op = OLE_OP_NORM
#define MAXPOOL .op = OLE_OP_MAXPOOL
#define AVGPOOL .op = OLE_OP_AVGPOOL

const op_case op_cases[] = {
    {CONV, IMAGES(1, 1, 1, 1), .out = 1, WINDOW(1, 1, 0)},
    {CONV, IMAGES(2, 3, 5, 5), .out = 4, WINDOW(1, 1, 0), .bias = true},
    {CONV, IMAGES(2, 5, 6, 7), .out = 3, WINDOW(1, 2, 0)},
    {CONV, IMAGES(1, 3, 8, 8), .out = 16, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(2, 1, 9, 9), .out = 24, WINDOW(3, 1, 1)},
    {CONV, IMAGES(3, 7, 5, 9), .out = 5, WINDOW(3, 1, 0), .bias = true},
    {CONV, IMAGES(2, 16, 8, 8), .out = 16, WINDOW(3, 1, 1)},
    {CONV, IMAGES(2, 32, 6, 6), .out = 32, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(2, 17, 7, 7), .out = 33, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(2, 24, 6, 6), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(2, 16, 8, 8), .out = 32, WINDOW(3, 2, 1)},
    {CONV, IMAGES(2, 3, 7, 7), .out = 8, WINDOW(3, 2, 1), .bias = true},
    {CONV, IMAGES(2, 3, 9, 9), .out = 8, WINDOW(3, 2, 0)},
    {CONV, IMAGES(2, 4, 9, 9), .out = 6, WINDOW(5, 1, 2), .bias = true},
    {CONV, IMAGES(1, 3, 11, 11), .out = 8, WINDOW(5, 2, 2)},
    {CONV, IMAGES(2, 2, 7, 7), .out = 3, WINDOW(5, 1, 0)},
    {CONV, IMAGES(2, 3, 4, 4), .out = 2, WINDOW(3, 1, 2), .bias = true},
    {CONV, IMAGES(4, 20, 1, 1), .out = 9, WINDOW(1, 1, 0), .bias = true},
    {CONV, IMAGES(3, 8, 1, 1), .out = 8, WINDOW(3, 1, 1)},
    {CONV, IMAGES(2, 64, 4, 4), .out = 16, WINDOW(1, 1, 0)},
    {CONV, IMAGES(2, 16, 4, 4), .out = 64, WINDOW(1, 2, 0)},
    {CONV, IMAGES(4, 24, 9, 7), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(3, 36, 9, 7), .out = 12, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(3, 40, 5, 18), .out = 32, WINDOW(3, 1, 1), .bias = true},

    {NORM, IMAGES(4, 3, 5, 5), .affine = true},
    {NORM, IMAGES(4, 3, 5, 5)},
    {NORM, IMAGES(4, 16, 4, 4), .affine = true, .relu = true},
    {NORM, IMAGES(4, 16, 4, 4), .relu = true},
    {NORM, IMAGES(3, 17, 3, 3), .affine = true, .relu = true},
    {NORM, IMAGES(1, 5, 4, 4), .affine = true},
    {NORM, IMAGES(6, 7, 1, 1), .affine = true, .relu = true},
    {NORM, IMAGES(6, 32, 1, 1)},
    {NORM, IMAGES(2, 1, 3, 7), .affine = true},
    {NORM, IMAGES(4, 3, 5, 5), .affine = true, .sum = true},
    {NORM, IMAGES(4, 16, 4, 4), .affine = true, .relu = true, .sum = true},
    {NORM, IMAGES(5, 9, 1, 1), .relu = true, .sum = true},

    {.op = OLE_OP_RELU, IMAGES(3, 5, 4, 4)},
    {.op = OLE_OP_RELU, IMAGES(2, 16, 6, 6)},
    {.op = OLE_OP_RELU, IMAGES(1, 9, 1, 1)},

    {MAXPOOL, IMAGES(2, 3, 6, 6), WINDOW(2, 2, 0)},
    {MAXPOOL, IMAGES(2, 16, 7, 7), WINDOW(2, 2, 0)},
    {MAXPOOL, IMAGES(2, 5, 7, 9), WINDOW(3, 2, 0)},
    {MAXPOOL, IMAGES(2, 5, 8, 8), WINDOW(3, 2, 1)},
    {MAXPOOL, IMAGES(1, 4, 5, 5), WINDOW(3, 1, 1)},
    {MAXPOOL, IMAGES(3, 17, 2, 2), WINDOW(2, 2, 0)},
    {MAXPOOL, IMAGES(2, 32, 1, 1), WINDOW(2, 1, 1)},
    {MAXPOOL, IMAGES(2, 19, 1, 1), WINDOW(4, 1, 2)},
    {AVGPOOL, IMAGES(2, 3, 6, 6), WINDOW(2, 2, 0)},
    {AVGPOOL, IMAGES(2, 16, 7, 7), WINDOW(2, 2, 0)},
    {AVGPOOL, IMAGES(2, 5, 7, 7), WINDOW(3, 2, 1)},
    {AVGPOOL, IMAGES(2, 24, 8, 8)},
    {AVGPOOL, IMAGES(3, 7, 5, 3)},
    {AVGPOOL, IMAGES(3, 7, 1, 1)},

    {.op = OLE_OP_FLATTEN, IMAGES(3, 5, 2, 3)},
    {.op = OLE_OP_FLATTEN, IMAGES(2, 16, 4, 4)},
    {.op = OLE_OP_FLATTEN, IMAGES(2, 6, 1, 1)},

    {.op = OLE_OP_LINEAR, IMAGES(4, 10, 1, 1), .out = 7, .bias = true},
    {.op = OLE_OP_LINEAR, IMAGES(5, 64, 1, 1), .out = 32},
    {.op = OLE_OP_LINEAR, IMAGES(1, 33, 1, 1), .out = 10, .bias = true},
    {.op = OLE_OP_LINEAR, IMAGES(3, 1, 1, 1), .out = 1, .bias = true},

    {.op = OLE_OP_DROPOUT, IMAGES(3, 5, 3, 3), .rate = 0.5f},
    {.op = OLE_OP_DROPOUT, IMAGES(2, 16, 4, 4), .rate = 0.2f},
    {.op = OLE_OP_DROPOUT, IMAGES(7, 13, 1, 1), .rate = 0.5f},

    {.op = OLE_OP_ADD, IMAGES(2, 5, 4, 4)},
    {.op = OLE_OP_ADD, IMAGES(2, 5, 4, 4), .relu = true},
    {.op = OLE_OP_ADD, IMAGES(2, 16, 4, 4), .relu = true},
    {.op = OLE_OP_ADD, IMAGES(1, 17, 1, 1)},

    {.op = OLE_OP_CONCAT, IMAGES(2, 3, 4, 4), .out = 5},
    {.op = OLE_OP_CONCAT, IMAGES(2, 16, 4, 4), .out = 16},
    {.op = OLE_OP_CONCAT, IMAGES(3, 24, 3, 3), .out = 12},
    {.op = OLE_OP_CONCAT, IMAGES(2, 36, 3, 3), .out = 12},
    {.op = OLE_OP_CONCAT, IMAGES(1, 4, 1, 1), .out = 1},

    {.op = OLE_OP_PAD, IMAGES(2, 16, 4, 4), .out = 32},
    {.op = OLE_OP_PAD, IMAGES(3, 32, 3, 5), .out = 64},
    {.op = OLE_OP_PAD, IMAGES(2, 5, 3, 3), .out = 12},
    {.op = OLE_OP_PAD, IMAGES(2, 3, 2, 2), .out = 40},
    {.op = OLE_OP_PAD, IMAGES(4, 7, 1, 1), .out = 9},
};
const int op_case_count = sizeof op_cases / sizeof *op_cases;

const op_case op_large_cases[] = {
    {CONV, IMAGES(8, 64, 16, 16), .out = 64, WINDOW(3, 1, 1)},
    {CONV, IMAGES(8, 64, 16, 16), .out = 16, WINDOW(1, 1, 0)},
    {CONV, IMAGES(8, 64, 16, 16), .out = 32, WINDOW(3, 2, 1), .bias = true},
    {CONV, IMAGES(4, 36, 16, 16), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(4, 168, 16, 16), .out = 12, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(3, 168, 9, 7), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(3, 180, 8, 8), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(4, 16, 32, 32), .out = 16, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(4, 32, 16, 16), .out = 32, WINDOW(3, 1, 1)},
    {CONV, IMAGES(5, 64, 8, 8), .out = 32, WINDOW(3, 1, 1), .bias = true},
    {NORM, IMAGES(64, 16, 32, 32), .affine = true, .relu = true},
    {NORM, IMAGES(16, 64, 32, 32), .affine = true, .relu = true, .sum = true},
    {NORM, IMAGES(32, 256, 8, 8), .affine = true, .relu = true, .sum = true},
    {NORM, IMAGES(16, 168, 16, 16), .affine = true, .relu = true},
    {NORM, IMAGES(8, 32, 96, 96), .relu = true},
    {NORM, IMAGES(256, 512, 1, 1), .affine = true, .relu = true},
    {NORM, IMAGES(64, 4100, 1, 1), .affine = true},
    {NORM, IMAGES(9, 1072, 32, 32), .affine = true, .relu = true}, /* too large for one kernel */
    {MAXPOOL, IMAGES(16, 64, 32, 32), WINDOW(2, 2, 0)},
    {AVGPOOL, IMAGES(64, 256, 8, 8)},
    {AVGPOOL, IMAGES(16, 168, 32, 32), WINDOW(2, 2, 0)},
    {.op = OLE_OP_RELU, IMAGES(16, 64, 16, 16)},
    {.op = OLE_OP_ADD, IMAGES(16, 64, 32, 32), .relu = true},
    {.op = OLE_OP_CONCAT, IMAGES(16, 168, 16, 16), .out = 12},
    {.op = OLE_OP_PAD, IMAGES(16, 64, 16, 16), .out = 160},
    {.op = OLE_OP_FLATTEN, IMAGES(64, 256, 4, 4)},
    {.op = OLE_OP_LINEAR, IMAGES(64, 4096, 1, 1), .out = 256, .bias = true},
    {.op = OLE_OP_DROPOUT, IMAGES(64, 4096, 1, 1), .rate = 0.5f},
};
const int op_large_case_count = sizeof op_large_cases / sizeof *op_large_cases;

const op_case op_watched_cases[] = {
    {CONV, IMAGES(2, 128, 5, 16), .out = 16, WINDOW(3, 1, 1)},
    {CONV, IMAGES(2, 128, 5, 7), .out = 12, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(3, 24, 4, 18), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(1, 16, 5, 16), .out = 16, WINDOW(3, 1, 1)},
    {CONV, IMAGES(1, 64, 5, 16), .out = 32, WINDOW(3, 1, 1), .bias = true},
    {CONV, IMAGES(2, 64, 5, 7), .out = 32, WINDOW(3, 1, 1)},
    {CONV, IMAGES(36, 1024, 1, 9), .out = 16, WINDOW(3, 1, 1)}, /* stages and tiles in turn */
    {CONV, IMAGES(66, 1024, 1, 1), .out = 12, WINDOW(3, 1, 1)},
    {CONV, IMAGES(18, 1024, 1, 9), .out = 32, WINDOW(3, 1, 1)},
    {CONV, IMAGES(36, 1024, 1, 1), .out = 32, WINDOW(3, 1, 1)},
    {CONV, IMAGES(3, 8, 27, 27), .out = 16, WINDOW(3, 1, 1), .bias = true},
    {NORM, IMAGES(2, 24, 8, 8), .affine = true, .relu = true},
    {NORM, IMAGES(4, 24, 16, 16), .affine = true, .relu = true},
    {NORM, IMAGES(4, 24, 16, 16), .affine = true, .relu = true, .sum = true},
    {NORM, IMAGES(16, 16, 32, 32), .affine = true, .relu = true},
    {NORM, IMAGES(600, 40, 1, 1), .relu = true},
    {MAXPOOL, IMAGES(2, 16, 7, 7), WINDOW(2, 2, 0)},
    {AVGPOOL, IMAGES(2, 24, 8, 8)},
    {AVGPOOL, IMAGES(2, 16, 7, 7), WINDOW(2, 2, 0)},
    {.op = OLE_OP_ADD, IMAGES(2, 16, 4, 4), .relu = true},
    {.op = OLE_OP_CONCAT, IMAGES(4, 24, 16, 16), .out = 12},
    {.op = OLE_OP_CONCAT, IMAGES(2, 36, 3, 3), .out = 12},
    {.op = OLE_OP_PAD, IMAGES(2, 5, 3, 3), .out = 12},
    {.op = OLE_OP_DROPOUT, IMAGES(2, 16, 4, 4), .rate = 0.2f},
};
const int op_watched_case_count = sizeof op_watched_cases / sizeof *op_watched_cases;

/* ---- nodes ---------------------------------------------------------------------------------- */

static int64_t pooled(int64_t size, const op_case *c) {
    return (size + 2 * c->pad - c->kernel) / c->stride + 1;
}

static ole_shape output_shape(const op_case *c) {
    ole_shape in = op_case_input(c, 0);
    switch (c->op) {
    case OLE_OP_CONV:
        return (ole_shape){c->out, pooled(c->h, c), pooled(c->w, c)};
    case OLE_OP_MAXPOOL:
    case OLE_OP_AVGPOOL:
        if (c->kernel == 0) return (ole_shape){c->c, 1, 1};
        return (ole_shape){c->c, pooled(c->h, c), pooled(c->w, c)};
    case OLE_OP_FLATTEN:
        return (ole_shape){ole_shape_size(in), 1, 1};
    case OLE_OP_LINEAR:
        return (ole_shape){c->out, 1, 1};
    case OLE_OP_CONCAT:
        return (ole_shape){c->c + c->out, c->h, c->w};
    case OLE_OP_PAD:
        return (ole_shape){c->out, c->h, c->w};
    default:
        return in;
    }
}

ole_shape op_case_input(const op_case *c, int i) {
    ole_shape first = {c->c, c->h, c->w};
    if (i == 0 || c->op == OLE_OP_ADD || c->sum) return first;
    return c->op == OLE_OP_CONCAT ? (ole_shape){c->out, c->h, c->w} : (ole_shape){0};
}

static void add_param(ole_node *node, ole_param *params, ole_param param) {
    param.count = 1;
    for (int d = 0; d < param.ndim; d++)
        param.count *= param.shape[d];
    param.trained = param.kind != OLE_PARAM_MEAN && param.kind != OLE_PARAM_VAR;
    params[node->params++] = param;
}

static void add_vector(ole_node *node, ole_param *params, ole_param_kind kind) {
    add_param(node, params, (ole_param){.kind = kind, .ndim = 1, .shape = {node->out.c}});
}

ole_node op_case_node(const op_case *c, ole_param params[OLE_MAX_PARAMS]) {
    int64_t k = c->kernel;
    ole_node node = {.op = c->op,
                     .index = 7,
                     .input = {0, op_case_input(c, 1).c ? 1 : -1},
                     .in = op_case_input(c, 0),
                     .out = output_shape(c),
                     .kernel = c->kernel,
                     .stride = c->stride,
                     .pad = c->pad,
                     .bias = c->bias,
                     .affine = c->affine,
                     .relu = c->relu,
                     .rate = c->rate,
                     .name = "case"};
    if (c->op == OLE_OP_CONV)
        add_param(&node, params,
                  (ole_param){OLE_PARAM_WEIGHT, .ndim = 4, .shape = {c->out, c->c, k, k}});
    if (c->op == OLE_OP_LINEAR)
        add_param(&node, params, (ole_param){OLE_PARAM_WEIGHT, .ndim = 2, .shape = {c->out, c->c}});
    if (c->bias) add_vector(&node, params, OLE_PARAM_BIAS);
    if (c->affine) {
        add_vector(&node, params, OLE_PARAM_GAMMA);
        add_vector(&node, params, OLE_PARAM_BETA);
    }
    if (c->op == OLE_OP_NORM) {
        add_vector(&node, params, OLE_PARAM_MEAN);
        add_vector(&node, params, OLE_PARAM_VAR);
    }
    return node;
}

op_text op_case_text(const op_case *c) {
    static const char *const names[] = {
        [OLE_OP_INPUT] = "input",     [OLE_OP_CONV] = "conv",       [OLE_OP_NORM] = "norm",
        [OLE_OP_RELU] = "relu",       [OLE_OP_MAXPOOL] = "maxpool", [OLE_OP_AVGPOOL] = "avgpool",
        [OLE_OP_FLATTEN] = "flatten", [OLE_OP_LINEAR] = "linear",   [OLE_OP_DROPOUT] = "dropout",
        [OLE_OP_ADD] = "add",         [OLE_OP_CONCAT] = "concat",   [OLE_OP_PAD] = "pad",
    };
    op_text t;
    snprintf(t.text, sizeof t.text, "%s %dx%dx%dx%d, out %d, kernel %d/%d+%d%s%s%s%s", names[c->op],
             (int)c->n, (int)c->c, (int)c->h, (int)c->w, (int)c->out, c->kernel, c->stride, c->pad,
             c->bias ? ", bias" : "", c->affine ? ", affine" : "", c->relu ? ", relu" : "",
             c->sum ? ", sum" : "");
    return t;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static op_tensor tensor_make(int64_t count) {
    op_tensor t = {count, NULL};
    if (count > 0) t.at = calloc((size_t)count, sizeof *t.at);
    return t;
}

static void fill_normal(op_tensor t, test_random *r) {
    for (int64_t i = 0; i < t.count; i++)
        t.at[i] = (double)(float)random_normal(r);
}

/* Positive, around 1: for gamma and variances. */
static void fill_positive(op_tensor t, test_random *r) {
    for (int64_t i = 0; i < t.count; i++)
        t.at[i] = (double)(float)(0.5 + random_uniform(r));
}

/* Normal, in steps of 1/256: of millions of them none is a rounding away from a norm's ReLU. */
static void fill_steps(op_tensor t, test_random *r) {
    for (int64_t i = 0; i < t.count; i++)
        t.at[i] = nearbyint(256 * random_normal(r)) / 256;
}

/* Each a different multiple of 1/64, half of them negative, none 0: no ties, no kinks nearby. */
static void fill_apart(op_tensor t, test_random *r) {
    for (int64_t i = 0; i < t.count; i++) {
        int64_t j = random_below(r, i + 1);
        t.at[i] = t.at[j];
        t.at[j] = ((double)(i - t.count / 2) + 0.5) / 64;
    }
}

op_data op_data_make(const op_case *c, uint64_t seed) {
    test_random r = {seed};
    ole_param params[OLE_MAX_PARAMS];
    ole_node node = op_case_node(c, params);
    op_data data = {0};
    op_tensor *t = data.tensor;
    t[OP_Y] = tensor_make(c->n * ole_shape_size(node.out));
    t[OP_DY] = tensor_make(c->n * ole_shape_size(node.out));
    fill_normal(t[OP_DY], &r);
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        int64_t count = c->n * ole_shape_size(op_case_input(c, i));
        bool kinks = c->op == OLE_OP_RELU || c->op == OLE_OP_MAXPOOL;
        bool steps = c->op == OLE_OP_NORM && c->relu;
        t[OP_X + i] = tensor_make(count);
        t[OP_DX + i] = tensor_make(count);
        (kinks ? fill_apart : steps ? fill_steps : fill_normal)(t[OP_X + i], &r);
        fill_normal(t[OP_DX + i], &r);
    }
    for (int p = 0; p < node.params; p++) {
        bool positive = params[p].kind == OLE_PARAM_GAMMA || params[p].kind == OLE_PARAM_VAR;
        t[OP_PARAM + p] = tensor_make(params[p].count);
        if (params[p].trained) t[OP_DPARAM + p] = tensor_make(params[p].count);
        (positive ? fill_positive : fill_normal)(t[OP_PARAM + p], &r);
    }
    return data;
}

op_data op_data_copy(const op_data *from) {
    op_data copy;
    for (int i = 0; i < OP_TENSORS; i++) {
        op_tensor old = from->tensor[i];
        copy.tensor[i] = tensor_make(old.count);
        if (old.count) memcpy(copy.tensor[i].at, old.at, (size_t)old.count * sizeof *old.at);
    }
    return copy;
}

void op_data_free(op_data *data) {
    for (int i = 0; i < OP_TENSORS; i++)
        free(data->tensor[i].at);
    *data = (op_data){0};
}

static double to_bfloat16(double x) {
    int exponent;
    double mantissa = frexp(x, &exponent);
    return ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

void op_data_narrow(op_data *data) {
    for (int i = 0; i < OP_TENSORS; i++)
        for (int64_t e = 0; e < data->tensor[i].count; e++)
            data->tensor[i].at[e] = to_bfloat16(data->tensor[i].at[e]);
}

static double tensor_error(op_tensor found, op_tensor expected) {
    double scale = 0.05, worst = 0;
    for (int64_t i = 0; i < expected.count; i++)
        scale = fmax(scale, fabs(expected.at[i]));
    for (int64_t i = 0; i < expected.count; i++) {
        double error = fabs(found.at[i] - expected.at[i]) / scale;
        worst = isnan(error) ? INFINITY : fmax(worst, error);
    }
    return worst;
}

op_worst op_compare(const op_data *found, const op_data *expected) {
    static const char *const names[OP_TENSORS] = {
        "x[0]", "x[1]",  "dy",    "param[0]",  "param[1]",  "param[2]",  "param[3]",
        "y",    "dx[0]", "dx[1]", "dparam[0]", "dparam[1]", "dparam[2]", "dparam[3]",
    };
    op_worst worst = {0, "none"};
    for (int i = 0; i < OP_TENSORS; i++) {
        double error = tensor_error(found->tensor[i], expected->tensor[i]);
        if (error > worst.error) worst = (op_worst){error, names[i]};
    }
    return worst;
}
