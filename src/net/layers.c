/* src/net/layers.c - appends ops to a graph: output shapes, parameters, names and size limits. */
#include "net/layers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Limits far above any net that can run, yet low enough that sums over all nodes fit in 64 bits:
 * elements per activation, and multiply-adds (hence weights) per op.
 */
static const int64_t max_elements = INT64_C(1) << 31;
static const int64_t max_work = INT64_C(1) << 48;

static void set_status(ole_builder *b, ole_status status) {
    if (b->status == OLE_OK) b->status = status;
}

void ole_builder_fail(ole_builder *b, const char *format, ...) {
    if (b->status != OLE_OK) return;
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (b->token)
        set_status(b, ole_notation_fail(b->notation, b->token, b->error, "%s", message));
    else
        set_status(b, ole_fail(b->error, OLE_ERROR_ARGUMENT, "net: the classifier %s", message));
}

/* ---- Nodes and parameters ----------------------------------------------------------------- */

/* Grows an array of `count` elements of `size` bytes to hold one more; false if out of memory. */
static bool make_room(ole_builder *b, void **array, int count, int *room, size_t size) {
    if (count < *room) return true;
    int more = *room ? 2 * *room : 64;
    void *grown = realloc(*array, (size_t)more * size);
    if (!grown) {
        set_status(b, ole_fail(b->error, OLE_ERROR_MEMORY, "net: out of memory"));
        return false;
    }
    *array = grown;
    *room = more;
    return true;
}

/* Appends a node that reads `input`, whose shape its output has until the caller changes it. */
static ole_node *append(ole_builder *b, ole_op op, const char *name, int input) {
    ole_graph *g = b->graph;
    if (b->status != OLE_OK) return NULL;
    if (g->nodes == OLE_MAX_NODES) {
        ole_builder_fail(b, "exceeds the limit of %d ops", OLE_MAX_NODES);
        return NULL;
    }
    void *array = g->node;
    if (!make_room(b, &array, g->nodes, &b->node_room, sizeof *g->node)) return NULL;
    g->node = array;
    ole_shape in = input >= 0 ? g->node[input].out : (ole_shape){0};
    ole_node *node = &g->node[g->nodes++];
    *node = (ole_node){
        .op = op,
        .index = (int)(node - g->node),
        .input = {input, -1},
        .in = in,
        .out = in,
        .token = b->index,
        .first_param = g->params,
    };
    snprintf(node->name, sizeof node->name, "%s%s%s", b->prefix, name, b->suffix);
    return node;
}

/* Adds a parameter to the node appended last; its shape ends at the first 0. */
static void add_param(ole_builder *b, ole_param_kind kind, int64_t d0, int64_t d1, int64_t d2,
                      int64_t d3) {
    static const char *const names[] = {
        [OLE_PARAM_WEIGHT] = "weight",     [OLE_PARAM_BIAS] = "bias",
        [OLE_PARAM_GAMMA] = "weight",      [OLE_PARAM_BETA] = "bias",
        [OLE_PARAM_MEAN] = "running_mean", [OLE_PARAM_VAR] = "running_var",
    };
    ole_graph *g = b->graph;
    void *array = g->param;
    if (b->status != OLE_OK || !make_room(b, &array, g->params, &b->param_room, sizeof *g->param))
        return;
    g->param = array;
    ole_node *node = &g->node[g->nodes - 1];
    ole_param *param = &g->param[g->params++];
    *param = (ole_param){
        .kind = kind,
        .node = g->nodes - 1,
        .shape = {d0, d1, d2, d3},
        .count = 1,
        .trained = kind != OLE_PARAM_MEAN && kind != OLE_PARAM_VAR,
    };
    while (param->ndim < 4 && param->shape[param->ndim] > 0)
        param->count *= param->shape[param->ndim++];
    snprintf(param->name, sizeof param->name, "%s.%s", node->name, names[kind]);
    node->params++;
}

/* Checks the node appended last and makes it `last`; returns its index or -1. */
static int finish(ole_builder *b, int64_t work) {
    if (b->status != OLE_OK) return -1;
    ole_shape out = b->graph->node[b->graph->nodes - 1].out;
    if (out.c > OLE_MAX_WIDTH && out.h * out.w > 1)
        ole_builder_fail(b, "gives %" PRId64 " channels; at most %d are allowed", out.c,
                         OLE_MAX_WIDTH);
    else if (ole_shape_size(out) > max_elements || work > max_work)
        ole_builder_fail(b, "makes a layer that is too large (%" PRId64 "x%" PRId64 "x%" PRId64 ")",
                         out.c, out.h, out.w);
    if (b->status != OLE_OK) return -1;
    b->last = b->graph->nodes - 1;
    return b->last;
}

/* a * b, saturated at INT64_MAX. */
static int64_t multiply(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* ---- Ops ---------------------------------------------------------------------------------- */

int ole_add_input(ole_builder *b, ole_shape shape) {
    ole_node *node = append(b, OLE_OP_INPUT, "input", -1);
    if (!node) return -1;
    node->in = node->out = shape;
    return finish(b, 0);
}

static int64_t output_size(int64_t size, ole_window w) {
    int64_t range = size + 2 * w.pad - w.kernel;
    return range < 0 ? 0 : range / w.stride + 1;
}

/* Sets the window and the output size it leaves; false with an error if nothing is left. */
static bool set_window(ole_builder *b, ole_node *node, ole_window w) {
    node->kernel = w.kernel;
    node->stride = w.stride;
    node->pad = w.pad;
    node->out.h = output_size(node->in.h, w);
    node->out.w = output_size(node->in.w, w);
    if (node->out.h > 0 && node->out.w > 0) return true;
    ole_builder_fail(b, "leaves nothing of the %" PRId64 "x%" PRId64 " image", node->in.h,
                     node->in.w);
    return false;
}

int ole_add_conv(ole_builder *b, const char *name, int input, int64_t width, ole_window window,
                 bool bias) {
    ole_node *node = append(b, OLE_OP_CONV, name, input);
    if (!node || !set_window(b, node, window)) return -1;
    node->out.c = width;
    node->bias = bias;
    int64_t k = window.kernel;
    int64_t work = multiply(multiply(ole_shape_size(node->out), node->in.c), k * k);
    add_param(b, OLE_PARAM_WEIGHT, width, node->in.c, k, k);
    if (bias) add_param(b, OLE_PARAM_BIAS, width, 0, 0, 0);
    return finish(b, work);
}

int ole_add_norm(ole_builder *b, const char *name, int input, bool affine) {
    ole_node *node = append(b, OLE_OP_NORM, name, input);
    if (!node) return -1;
    node->affine = affine;
    int64_t c = node->out.c;
    if (affine) {
        add_param(b, OLE_PARAM_GAMMA, c, 0, 0, 0);
        add_param(b, OLE_PARAM_BETA, c, 0, 0, 0);
    }
    add_param(b, OLE_PARAM_MEAN, c, 0, 0, 0);
    add_param(b, OLE_PARAM_VAR, c, 0, 0, 0);
    return finish(b, 0);
}

int ole_add_relu(ole_builder *b, const char *name, int input) {
    return append(b, OLE_OP_RELU, name, input) ? finish(b, 0) : -1;
}

int ole_add_pool(ole_builder *b, const char *name, int input, ole_op op, ole_window window) {
    ole_node *node = append(b, op, name, input);
    if (!node) return -1;
    if (window.kernel > 0) return set_window(b, node, window) ? finish(b, 0) : -1;
    node->stride = 1;
    node->out.h = node->out.w = 1;
    return finish(b, 0);
}

int ole_add_flatten(ole_builder *b, int input) {
    ole_node *node = append(b, OLE_OP_FLATTEN, "flatten", input);
    if (!node) return -1;
    node->out = (ole_shape){ole_shape_size(node->in), 1, 1};
    return finish(b, 0);
}

int ole_add_linear(ole_builder *b, const char *name, int input, int64_t width, bool bias) {
    ole_node *node = append(b, OLE_OP_LINEAR, name, input);
    if (!node) return -1;
    node->out = (ole_shape){width, 1, 1};
    node->bias = bias;
    int64_t in = ole_shape_size(node->in);
    add_param(b, OLE_PARAM_WEIGHT, width, in, 0, 0);
    if (bias) add_param(b, OLE_PARAM_BIAS, width, 0, 0, 0);
    return finish(b, multiply(in, width));
}

int ole_add_dropout(ole_builder *b, const char *name, int input, float rate) {
    ole_node *node = append(b, OLE_OP_DROPOUT, name, input);
    if (!node) return -1;
    node->rate = rate;
    return finish(b, 0);
}

int ole_add_sum(ole_builder *b, const char *name, int input, int other) {
    ole_node *node = append(b, OLE_OP_ADD, name, input);
    if (!node) return -1;
    node->input[1] = other;
    return finish(b, 0);
}

int ole_add_padding(ole_builder *b, const char *name, int input, int64_t width) {
    ole_node *node = append(b, OLE_OP_PAD, name, input);
    if (!node) return -1;
    node->out.c = width;
    return finish(b, 0);
}

int ole_add_concat(ole_builder *b, const char *name, int input, int other) {
    ole_node *node = append(b, OLE_OP_CONCAT, name, input);
    if (!node) return -1;
    node->input[1] = other;
    node->out.c += b->graph->node[other].out.c;
    return finish(b, 0);
}
