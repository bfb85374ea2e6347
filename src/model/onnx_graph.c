/*
 * src/model/onnx_graph.c - the ops of a network as nodes of an ONNX graph, and their tensors.
 *
 * Dropout does nothing at inference and has no node: its readers read its input.  The same goes for
 * a batch norm that is folded into the layer before it.
 */
#include "base/error.h"
#include "model/checkpoint.h"
#include "model/onnx.h"
#include "model/threshold_words.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tensors ------------------------------------------------------------------------------ */

/* Adds a tensor; returns its name for the node that reads it, "" when out of memory. */
static const char *add_tensor(ole_onnx *o, const char *name, ole_onnx_source source, int index,
                              int ndim, const int64_t *shape) {
    if (o->tensors == o->room) {
        int room = o->room ? 2 * o->room : 64;
        ole_onnx_tensor *grown = realloc(o->tensor, (size_t)room * sizeof *grown);
        if (!grown) {
            o->failed = true;
            return "";
        }
        o->tensor = grown;
        o->room = room;
    }
    ole_onnx_tensor *t = &o->tensor[o->tensors++];
    *t = (ole_onnx_tensor){.ndim = ndim, .count = 1, .source = source, .index = index};
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int d = 0; d < ndim; d++) {
        t->shape[d] = shape[d];
        t->count *= shape[d];
    }
    return t->name;
}

/* The node's parameter of that kind, or -1. */
static int find_param(const ole_graph *graph, const ole_node *node, ole_param_kind kind) {
    for (int i = node->first_param; i < node->first_param + node->params; i++)
        if (graph->param[i].kind == kind) return i;
    return -1;
}

static void read_tensor(ole_onnx *o, const char *name) {
    ole_protobuf_string(&o->nodes, OLE_ONNX_NODE_INPUT, name);
}

static void read_param(ole_onnx *o, int i, ole_onnx_source source, int index) {
    const ole_param *p = &o->graph->param[i];
    read_tensor(o, add_tensor(o, p->name, source, index, p->ndim, p->shape));
}

/* Gamma or beta: where a norm has none, ones or zeros. */
static void read_affine(ole_onnx *o, const ole_node *node, ole_param_kind kind) {
    int i = find_param(o->graph, node, kind);
    if (i >= 0) {
        read_param(o, i, OLE_ONNX_FROM_PARAM, i);
        return;
    }
    bool gamma = kind == OLE_PARAM_GAMMA;
    char name[OLE_NODE_NAME + 16];
    snprintf(name, sizeof name, "%s.%s", node->name, gamma ? "ones" : "zeros");
    read_tensor(o, add_tensor(o, name, gamma ? OLE_ONNX_FROM_ONES : OLE_ONNX_FROM_ZEROS, 0, 1,
                              &node->out.c));
}

/* Weight and bias of a conv or linear node. */
static void read_weights(ole_onnx *o, const ole_node *node) {
    int weight = find_param(o->graph, node, OLE_PARAM_WEIGHT);
    int bias = find_param(o->graph, node, OLE_PARAM_BIAS);
    if (o->norm[node->index] < 0) {
        read_param(o, weight, OLE_ONNX_FROM_PARAM, weight);
        if (bias >= 0) read_param(o, bias, OLE_ONNX_FROM_PARAM, bias);
        return;
    }
    read_param(o, weight, OLE_ONNX_FROM_FOLDED_WEIGHT, node->index);
    char name[OLE_NODE_NAME + 16];
    snprintf(name, sizeof name, "%s.bias", node->name);
    read_tensor(o, add_tensor(o, name, OLE_ONNX_FROM_FOLDED_BIAS, node->index, 1, &node->out.c));
}

/* ---- Nodes -------------------------------------------------------------------------------- */

/* The name of node i's output. */
static const char *value_name(const ole_onnx *o, int i) {
    int value = o->value[i];
    if (value == o->value[o->graph->features]) return "features";
    if (value == o->value[o->graph->classifier]) return "logits";
    return value == 0 ? "normalized" : o->graph->node[value].name;
}

static size_t open_node(ole_onnx *o, const char *type, const char *name, const char *output) {
    o->ops++;
    size_t mark = ole_protobuf_open(&o->nodes, OLE_ONNX_GRAPH_NODE);
    ole_protobuf_string(&o->nodes, OLE_ONNX_NODE_OP_TYPE, type);
    ole_protobuf_string(&o->nodes, OLE_ONNX_NODE_NAME, name);
    ole_protobuf_string(&o->nodes, OLE_ONNX_NODE_OUTPUT, output);
    return mark;
}

static size_t open_attribute(ole_onnx *o, const char *name, int type) {
    size_t mark = ole_protobuf_open(&o->nodes, OLE_ONNX_NODE_ATTRIBUTE);
    ole_protobuf_string(&o->nodes, OLE_ONNX_ATTRIBUTE_NAME, name);
    ole_protobuf_integer(&o->nodes, OLE_ONNX_ATTRIBUTE_TYPE, type);
    return mark;
}

static void add_integer(ole_onnx *o, const char *name, int64_t value) {
    size_t mark = open_attribute(o, name, OLE_ONNX_ATTRIBUTE_IS_I);
    ole_protobuf_integer(&o->nodes, OLE_ONNX_ATTRIBUTE_I, value);
    ole_protobuf_close(&o->nodes, mark);
}

static void add_float(ole_onnx *o, const char *name, float value) {
    size_t mark = open_attribute(o, name, OLE_ONNX_ATTRIBUTE_IS_F);
    ole_protobuf_float(&o->nodes, OLE_ONNX_ATTRIBUTE_F, value);
    ole_protobuf_close(&o->nodes, mark);
}

static void add_integers(ole_onnx *o, const char *name, int count, const int64_t *values) {
    size_t mark = open_attribute(o, name, OLE_ONNX_ATTRIBUTE_IS_INTS);
    for (int i = 0; i < count; i++)
        ole_protobuf_integer(&o->nodes, OLE_ONNX_ATTRIBUTE_INTS, values[i]);
    ole_protobuf_close(&o->nodes, mark);
}

static void add_window(ole_onnx *o, const ole_node *node) {
    int64_t kernel = node->kernel, stride = node->stride, pad = node->pad;
    add_integers(o, "kernel_shape", 2, (const int64_t[]){kernel, kernel});
    add_integers(o, "strides", 2, (const int64_t[]){stride, stride});
    add_integers(o, "pads", 4, (const int64_t[]){pad, pad, pad, pad});
}

static const char *op_type(const ole_node *node) {
    static const char *const types[] = {
        [OLE_OP_CONV] = "Conv",       [OLE_OP_NORM] = "BatchNormalization",
        [OLE_OP_RELU] = "Relu",       [OLE_OP_MAXPOOL] = "MaxPool",
        [OLE_OP_FLATTEN] = "Flatten", [OLE_OP_LINEAR] = "Gemm",
        [OLE_OP_ADD] = "Add",         [OLE_OP_CONCAT] = "Concat",
        [OLE_OP_PAD] = "Conv",
    };
    if (node->op == OLE_OP_AVGPOOL) return node->kernel ? "AveragePool" : "GlobalAveragePool";
    return types[node->op];
}

/* What the op reads besides other nodes, and its attributes. */
static void add_details(ole_onnx *o, const ole_node *node) {
    switch (node->op) {
    case OLE_OP_CONV:
        read_weights(o, node);
        add_window(o, node);
        break;
    case OLE_OP_LINEAR:
        read_weights(o, node);
        add_integer(o, "transB", 1);
        break;
    case OLE_OP_NORM: {
        int mean = find_param(o->graph, node, OLE_PARAM_MEAN);
        int variance = find_param(o->graph, node, OLE_PARAM_VAR);
        read_affine(o, node, OLE_PARAM_GAMMA);
        read_affine(o, node, OLE_PARAM_BETA);
        read_param(o, mean, OLE_ONNX_FROM_PARAM, mean);
        read_param(o, variance, OLE_ONNX_FROM_PARAM, variance);
        add_float(o, "epsilon", (float)OLE_ONNX_EPSILON);
        break;
    }
    case OLE_OP_MAXPOOL:
        add_window(o, node);
        break;
    case OLE_OP_AVGPOOL:
        if (node->kernel == 0) break;
        add_window(o, node);
        add_integer(o, "count_include_pad", 1);
        break;
    case OLE_OP_FLATTEN:
    case OLE_OP_CONCAT:
        add_integer(o, "axis", 1);
        break;
    case OLE_OP_PAD: { /* ONNX's Pad takes integers, and all our tensors are floats */
        char name[OLE_NODE_NAME + 16];
        const int64_t shape[4] = {node->out.c, node->in.c, 1, 1};
        snprintf(name, sizeof name, "%s.weight", node->name);
        read_tensor(o, add_tensor(o, name, OLE_ONNX_FROM_PADDING, node->index, 4, shape));
        break;
    }
    default:
        break;
    }
}

static void add_node(ole_onnx *o, const ole_node *node) {
    int norm = o->norm[node->index];
    size_t mark =
        open_node(o, op_type(node), node->name, value_name(o, norm >= 0 ? norm : node->index));
    for (int k = 0; k < OLE_MAX_INPUTS && node->input[k] >= 0; k++)
        read_tensor(o, value_name(o, node->input[k]));
    add_details(o, node);
    ole_protobuf_close(&o->nodes, mark);
}

/* Whether an op reads its input as an image, [N, C, H, W]; the others take vectors [N, D] too. */
static bool reads_image(const ole_node *node) {
    return node->op == OLE_OP_CONV || node->op == OLE_OP_MAXPOOL || node->op == OLE_OP_AVGPOOL ||
           node->op == OLE_OP_PAD;
}

/* [N, D] as [N, D, 1, 1], for a network of vectors that begins with ops of images. */
static void add_reshape(ole_onnx *o) {
    size_t mark = open_node(o, "Constant", "pixels", "pixels");
    add_integers(o, "value_ints", 4, (const int64_t[]){0, o->card->input.c, 1, 1}); /* 0: N */
    ole_protobuf_close(&o->nodes, mark);
    mark = open_node(o, "Reshape", "as_pixels", "normalized");
    read_tensor(o, "normalized_rows");
    read_tensor(o, "pixels");
    ole_protobuf_close(&o->nodes, mark);
}

/* (input - mean) / deviation, with one number per channel, or one for a whole vector. */
static void add_normalisation(ole_onnx *o) {
    const ole_shape input = o->card->input;
    bool vectors = ole_onnx_takes_vectors(o), reshaped = false;
    for (int i = 1; i < o->graph->nodes && vectors; i++)
        reshaped |= reads_image(&o->graph->node[i]);
    const int64_t shape[4] = {1, vectors ? 1 : input.c, 1, 1};
    const int ndim = vectors ? 2 : 4;
    size_t mark = open_node(o, "Sub", "centre", "centred");
    read_tensor(o, ole_onnx_input(o));
    read_tensor(o, add_tensor(o, "mean", OLE_ONNX_FROM_MEAN, 0, ndim, shape));
    ole_protobuf_close(&o->nodes, mark);
    mark = open_node(o, "Div", "normalize", reshaped ? "normalized_rows" : "normalized");
    read_tensor(o, "centred");
    read_tensor(o, add_tensor(o, "deviation", OLE_ONNX_FROM_DEVIATION, 0, ndim, shape));
    ole_protobuf_close(&o->nodes, mark);
    if (reshaped) add_reshape(o);
}

/* ---- The score of the threshold ----------------------------------------------------------- */

/* A node of one or two inputs. */
static void add_op(ole_onnx *o, const char *type, const char *output, const char *input,
                   const char *second) {
    size_t mark = open_node(o, type, output, output);
    read_tensor(o, input);
    if (second) read_tensor(o, second);
    if (strcmp(type, "Softmax") == 0) add_integer(o, "axis", 1);
    if (strcmp(type, "Gemm") == 0) add_integer(o, "transB", 1);
    if (strncmp(type, "Reduce", 6) == 0) {
        add_integers(o, "axes", 1, (const int64_t[]){1});
        add_integer(o, "keepdims", strcmp(output, "known_score") != 0);
    }
    ole_protobuf_close(&o->nodes, mark);
}

/* The scorer's tensor of that name. */
static int find_state(const ole_onnx *o, const char *name) {
    int i = 0;
    while (i < o->states - 1 && strcmp(o->state[i].name, name) != 0)
        i++;
    return i;
}

/* "known_score" [N], so that a reader needs nothing but the threshold of the metadata: as
 * ole_score_samples() computes it. */
static void add_known_score(ole_onnx *o) {
    ole_score score = o->card->threshold_score;
    const int64_t one = 1;
    if (score == OLE_SCORE_ENERGY) {
        add_op(o, "ReduceLogSumExp", "known_score", "logits", NULL);
    } else if (!(ole_score_needs(score) & OLE_NEEDS_FEATURES)) {
        bool scaled = score == OLE_SCORE_CALIBRATED;
        if (scaled)
            add_op(o, "Div", "scaled", "logits",
                   add_tensor(o, "temperature", OLE_ONNX_FROM_TEMPERATURE, 0, 1, &one));
        add_op(o, "Softmax", "scores", scaled ? "scaled" : "logits", NULL);
        add_op(o, "ReduceMax", "known_score", "scores", NULL);
    } else {
        int basis = find_state(o, "directions");
        const int64_t *shape = o->state[basis].shape;
        const int64_t members[2] = {shape[0], o->card->classes};
        bool cosine = score == OLE_SCORE_COSINE;
        add_op(o, "ReduceL2", "length", "features", NULL);
        add_op(o, "Max", "divisor", "length",
               add_tensor(o, "smallest", OLE_ONNX_FROM_SMALLEST, 0, 1, &one));
        add_op(o, "Div", "unit", "features", "divisor");
        add_op(o, "Gemm", "along", "unit",
               add_tensor(o, "directions", OLE_ONNX_FROM_SCORER, basis, 2, shape));
        if (!cosine) {
            add_op(o, "Mul", "squares", "along", "along");
            add_op(o, "MatMul", "inside", "squares",
                   add_tensor(o, "members", OLE_ONNX_FROM_MEMBERS, 0, 2, members));
        }
        add_op(o, "ReduceMax", "known_score", cosine ? "along" : "inside", NULL);
    }
}

/* ---- The graph ---------------------------------------------------------------------------- */

/* Finds the norms to fold into the conv or linear layer before them: its only readers. */
static void choose_folds(ole_onnx *o, const int *readers) {
    for (int i = 0; i < o->graph->nodes; i++) {
        const ole_node *norm = &o->graph->node[i];
        if (norm->op != OLE_OP_NORM) continue;
        int before = norm->input[0];
        ole_op op = o->graph->node[before].op;
        if ((op != OLE_OP_CONV && op != OLE_OP_LINEAR) || readers[before] != 1) continue;
        o->norm[before] = i;
        o->folded++;
    }
}

static void resolve(ole_onnx *o, bool fold, int *readers) {
    const ole_graph *graph = o->graph;
    for (int i = 0; i < graph->nodes; i++) {
        o->norm[i] = -1;
        o->value[i] = graph->node[i].op == OLE_OP_DROPOUT ? o->value[graph->node[i].input[0]] : i;
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            if (graph->node[i].input[k] >= 0) readers[graph->node[i].input[k]]++;
    }
    if (fold) choose_folds(o, readers);
}

/* The scores that add_known_score() knows. */
static ole_status check_score(const ole_onnx *o, ole_error *error) {
    ole_score score = o->card->threshold_score;
    if (score == OLE_SCORE_NONE || ole_score_exports(score)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "the threshold's score '%s' cannot be exported: store that of softmax, "
                    "calibrated, energy, residual or cosine with 'ole novelty --score'",
                    ole_score_name(score));
}

ole_status ole_onnx_build(ole_onnx *o, bool fold, ole_error *error) {
    ole_status status = check_score(o, error);
    if (status != OLE_OK) return status;
    o->states = o->scorer ? ole_scorer_save(o->scorer, o->state) : 0;
    size_t nodes = (size_t)o->graph->nodes;
    o->norm = calloc(nodes, sizeof *o->norm);
    o->value = calloc(nodes, sizeof *o->value);
    int *readers = calloc(nodes, sizeof *readers);
    o->failed = !o->norm || !o->value || !readers;
    if (!o->failed) {
        resolve(o, fold, readers);
        add_normalisation(o);
        for (int i = 1; i < o->graph->nodes; i++) {
            const ole_node *node = &o->graph->node[i];
            bool folded = node->op == OLE_OP_NORM && o->norm[node->input[0]] == i;
            if (node->op != OLE_OP_DROPOUT && !folded) add_node(o, node);
        }
        if (o->card->threshold_score != OLE_SCORE_NONE) add_known_score(o);
    }
    free(readers);
    if (!o->failed && !o->nodes.failed) return OLE_OK;
    ole_onnx_free(o);
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an ONNX graph");
}

void ole_onnx_free(ole_onnx *o) {
    free(o->norm);
    free(o->value);
    free(o->tensor);
    free(o->nodes.bytes);
    ole_scorer_free(o->scorer);
    *o = (ole_onnx){0};
}

/* ---- Values of tensors -------------------------------------------------------------------- */

/*
 * The model's numbers, or those of a layer with the batch norm behind it folded in:
 *
 *     gamma (W x + b - mean) / sqrt(variance + eps) + beta = (s W) x + (b - mean) s + beta,
 *     s = gamma / sqrt(variance + eps)
 */

/* The parameter of a kind, or `otherwise` for every channel where the node has none. */
static ole_status read_vector(const ole_onnx *o, const ole_node *node, ole_param_kind kind,
                              double otherwise, float *out, ole_error *error) {
    int i = find_param(o->graph, node, kind);
    if (i >= 0) return ole_weight_read(o->file, o->path, o->graph, i, out, error);
    for (int64_t c = 0; c < node->out.c; c++)
        out[c] = (float)otherwise;
    return OLE_OK;
}

static ole_status fill_folded(const ole_onnx *o, const ole_onnx_tensor *t, float *out,
                              ole_error *error) {
    static const ole_param_kind kinds[4] = {OLE_PARAM_GAMMA, OLE_PARAM_BETA, OLE_PARAM_MEAN,
                                            OLE_PARAM_VAR};
    const ole_node *node = &o->graph->node[t->index], *norm = &o->graph->node[o->norm[t->index]];
    bool weight = t->source == OLE_ONNX_FROM_FOLDED_WEIGHT;
    int64_t n = norm->out.c, fan = t->count / n;
    float *v = malloc(4 * (size_t)n * sizeof *v);
    if (!v) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a batch norm");
    ole_status status =
        read_vector(o, node, weight ? OLE_PARAM_WEIGHT : OLE_PARAM_BIAS, 0.0, out, error);
    for (int k = 0; k < 4 && status == OLE_OK; k++)
        status = read_vector(o, norm, kinds[k], k == 0 ? 1.0 : 0.0, v + k * n, error);
    for (int64_t i = 0; i < t->count && status == OLE_OK; i++) {
        const float *gamma = v + i / fan;
        double scale = gamma[0] / sqrt(gamma[3 * n] + OLE_ONNX_EPSILON);
        out[i] = (float)(scale * (double)out[i] + (weight ? 0.0 : gamma[n] - gamma[2 * n] * scale));
    }
    free(v);
    return status;
}

static void fill_padding(const ole_node *node, float *out) {
    int64_t first = ole_pad_first(node->in, node->out);
    for (int64_t to = 0; to < node->out.c; to++)
        for (int64_t from = 0; from < node->in.c; from++)
            *out++ = to == first + from;
}

static void fill_members(const ole_onnx *o, float *out) {
    const int64_t *size = o->state[find_state(o, "sizes")].data;
    for (int c = 0; c < o->card->classes; c++)
        for (int64_t i = 0; i < size[c]; i++)
            for (int k = 0; k < o->card->classes; k++)
                *out++ = k == c;
}

ole_status ole_onnx_fill(const ole_onnx *o, const ole_onnx_tensor *t, float *out,
                         ole_error *error) {
    float value = 0.0f;
    switch (t->source) {
    case OLE_ONNX_FROM_PARAM:
        return ole_weight_read(o->file, o->path, o->graph, t->index, out, error);
    case OLE_ONNX_FROM_FOLDED_WEIGHT:
    case OLE_ONNX_FROM_FOLDED_BIAS:
        return fill_folded(o, t, out, error);
    case OLE_ONNX_FROM_MEAN:
        memcpy(out, o->card->mean, (size_t)t->count * sizeof *out);
        return OLE_OK;
    case OLE_ONNX_FROM_DEVIATION:
        memcpy(out, o->card->deviation, (size_t)t->count * sizeof *out);
        return OLE_OK;
    case OLE_ONNX_FROM_PADDING:
        fill_padding(&o->graph->node[t->index], out);
        return OLE_OK;
    case OLE_ONNX_FROM_SCORER:
        memcpy(out, o->state[t->index].data, (size_t)t->count * sizeof *out);
        return OLE_OK;
    case OLE_ONNX_FROM_MEMBERS:
        fill_members(o, out);
        return OLE_OK;
    case OLE_ONNX_FROM_TEMPERATURE:
        value = (float)o->card->temperature;
        break;
    case OLE_ONNX_FROM_SMALLEST:
        value = FLT_MIN;
        break;
    case OLE_ONNX_FROM_ONES:
        value = 1.0f;
        break;
    case OLE_ONNX_FROM_ZEROS:
        break;
    }
    for (int64_t i = 0; i < t->count; i++)
        out[i] = value;
    return OLE_OK;
}
