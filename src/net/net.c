/* src/net/net.c - the public ole/train/net.h: a graph as users see it, with the cost of each op. */
#include "net/write_graph.h"

#include "base/error.h"
#include "net/graph.h"
#include "net/zoo.h"

#include <stdio.h>
#include <stdlib.h>

enum { KIND_ROOM = 48 };

struct ole_net {
    ole_graph *graph;
    char (*kind)[KIND_ROOM]; /* [nodes] */
};

/* ---- Kind and cost of an op --------------------------------------------------------------- */

static const char *op_name(ole_op op) {
    static const char *const names[] = {
        [OLE_OP_INPUT] = "input",     [OLE_OP_CONV] = "conv",        [OLE_OP_NORM] = "norm",
        [OLE_OP_RELU] = "relu",       [OLE_OP_MAXPOOL] = "max pool", [OLE_OP_AVGPOOL] = "avg pool",
        [OLE_OP_FLATTEN] = "flatten", [OLE_OP_LINEAR] = "linear",    [OLE_OP_DROPOUT] = "dropout",
        [OLE_OP_ADD] = "add",         [OLE_OP_CONCAT] = "concat",    [OLE_OP_PAD] = "pad channels",
    };
    return names[op];
}

static void format_kind(const ole_node *node, char kind[KIND_ROOM]) {
    const char *name = op_name(node->op);
    if (node->op == OLE_OP_DROPOUT)
        snprintf(kind, KIND_ROOM, "%s %g", name, (double)node->rate);
    else if (node->kernel > 0 && node->stride > 1)
        snprintf(kind, KIND_ROOM, "%s %dx%d /%d", name, node->kernel, node->kernel, node->stride);
    else if (node->kernel > 0)
        snprintf(kind, KIND_ROOM, "%s %dx%d", name, node->kernel, node->kernel);
    else
        snprintf(kind, KIND_ROOM, "%s", name);
}

/* Per image at test time: batch norm is one multiply and one add, dropout is free. */
static int64_t count_flop(const ole_node *node) {
    int64_t in = ole_shape_size(node->in), out = ole_shape_size(node->out);
    int64_t window = (int64_t)node->kernel * node->kernel;
    int64_t bias = node->bias ? out : 0;
    switch (node->op) {
    case OLE_OP_CONV:
        return 2 * out * node->in.c * window + bias;
    case OLE_OP_LINEAR:
        return 2 * out * in + bias;
    case OLE_OP_NORM:
        return 2 * out;
    case OLE_OP_RELU:
    case OLE_OP_ADD:
        return out;
    case OLE_OP_MAXPOOL:
    case OLE_OP_AVGPOOL:
        return window > 0 ? out * window : in;
    default:
        return 0;
    }
}

static int64_t count_weights(const ole_graph *graph, const ole_node *node) {
    int64_t sum = 0;
    for (int i = node->first_param; i < node->first_param + node->params; i++)
        if (graph->param[i].trained) sum += graph->param[i].count;
    return sum;
}

/* ---- Public API --------------------------------------------------------------------------- */

ole_status ole_net_create(ole_net **result, const char *net, int channels, int height, int width,
                          int classes, ole_error *error) {
    if (!result) return ole_fail(error, OLE_ERROR_ARGUMENT, "net: result is NULL");
    *result = NULL;
    ole_graph *graph;
    ole_status status =
        ole_graph_parse(&graph, net, (ole_shape){channels, height, width}, classes, error);
    if (status != OLE_OK) return status;
    ole_net *created = malloc(sizeof *created);
    char(*kind)[KIND_ROOM] = malloc((size_t)graph->nodes * sizeof *kind);
    if (!created || !kind) {
        free(created);
        free(kind);
        ole_graph_free(graph);
        return ole_fail(error, OLE_ERROR_MEMORY, "net: out of memory");
    }
    *created = (ole_net){.graph = graph, .kind = kind};
    for (int i = 0; i < graph->nodes; i++)
        format_kind(&graph->node[i], kind[i]);
    *result = created;
    return OLE_OK;
}

void ole_net_destroy(ole_net *net) {
    if (!net) return;
    ole_graph_free(net->graph);
    free(net->kind);
    free(net);
}

const char *const *ole_net_names(void) {
    return ole_zoo_names;
}

const char *ole_net_notation(const char *name) {
    const ole_zoo_entry *entry = name ? ole_zoo_find(name) : NULL;
    return entry ? entry->notation : NULL;
}

void ole_net_input(const char *net, int *channels, int *height, int *width) {
    const ole_zoo_entry *entry = net ? ole_zoo_find(net) : NULL;
    ole_shape shape = entry ? entry->input : (ole_shape){3, 32, 32};
    *channels = (int)shape.c;
    *height = (int)shape.h;
    *width = (int)shape.w;
}

int ole_net_layers(const ole_net *net) {
    return net->graph->nodes;
}

ole_net_layer ole_net_get_layer(const ole_net *net, int i) {
    if (i < 0 || i >= net->graph->nodes) return (ole_net_layer){0};
    const ole_node *node = &net->graph->node[i];
    return (ole_net_layer){
        .name = node->name,
        .kind = net->kind[i],
        .token = node->token,
        .channels = node->out.c,
        .height = node->out.h,
        .width = node->out.w,
        .weights = count_weights(net->graph, node),
        .flop = count_flop(node),
        .activations = ole_shape_size(node->out),
    };
}

ole_net_sums ole_net_totals(const ole_net *net) {
    const ole_graph *graph = net->graph;
    ole_net_sums sums = {.features = graph->node[graph->features].out.c};
    for (int i = 0; i < graph->nodes; i++) {
        ole_net_layer layer = ole_net_get_layer(net, i);
        sums.weights += layer.weights;
        sums.flop += layer.flop;
        sums.activations += layer.activations;
    }
    return sums;
}

static void write_shape(ole_json *json, const char *key, ole_shape shape) {
    ole_json_integers(json, key, (const int64_t[]){shape.c, shape.h, shape.w}, 3);
}

void ole_net_write_graph(const ole_net *net, ole_json *json, const char *key) {
    ole_json_open(json, key, '[');
    for (int i = 0; i < net->graph->nodes; i++) {
        const ole_node *node = &net->graph->node[i];
        ole_json_open(json, NULL, '{');
        ole_json_put(json, J("op", op_name(node->op)), J("name", node->name));
        ole_json_open(json, "input", '[');
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            if (node->input[k] >= 0) ole_json_integer(json, NULL, node->input[k]);
        ole_json_close(json);
        write_shape(json, "in", node->in);
        write_shape(json, "out", node->out);
        ole_json_put(json, J("kernel", node->kernel), J("stride", node->stride),
                     J("pad", node->pad), J("bias", node->bias), J("affine", node->affine),
                     J("rate", (double)node->rate));
        ole_json_close(json);
    }
    ole_json_close(json);
}
