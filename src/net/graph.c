/*
 * src/net/graph.c - builds a graph from tokens, and fuses ReLUs and additions into the ops before
 * them.
 *
 * Each kind of token has one function that appends its ops; layers.c knows their shapes and
 * parameters.  Names count tokens as written: the second convolution of token 3, "C64(x4)", is
 * "3.conv2", and the second one in the fifth bottleneck of token 7 is "7.block5.conv2".
 */
#include "net/graph.h"

#include "base/nearest_name.h"
#include "base/quote.h"
#include "net/layers.h"
#include "net/notation.h"
#include "net/zoo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 1 << 20, MAX_PIXELS = 1 << 24, MAX_CLASSES = 1 << 20 };

static const ole_window one_by_one = {.kernel = 1, .stride = 1};
static const ole_window three_by_three = {.kernel = 3, .stride = 1, .pad = 1};

/* State carried from token to token. */
typedef struct progress {
    ole_builder builder;
    bool flat;  /* the image has become a vector */
    int stages; /* number of tokens of residual blocks so far */
} progress;

static ole_shape shape_of(const ole_builder *b, int node) {
    return node >= 0 ? b->graph->node[node].out : (ole_shape){0};
}

static ole_window window_of(const ole_token *t) {
    return (ole_window){.kernel = t->kernel, .stride = t->stride, .pad = t->pad};
}

/* ---- Plain tokens ------------------------------------------------------------------------- */

/* What may follow a convolution or linear layer. */
static void add_activation(ole_builder *b, const ole_token *t) {
    if (t->norm) ole_add_norm(b, "norm", b->last, t->affine);
    if (t->relu) ole_add_relu(b, "relu", b->last);
    if (t->drop > 0.0f) ole_add_dropout(b, "dropout", b->last, t->drop);
}

static void add_convolution(progress *p, const ole_token *t) {
    ole_add_conv(&p->builder, "conv", p->builder.last, t->width, window_of(t), t->bias);
    add_activation(&p->builder, t);
}

static void add_pool(progress *p, const ole_token *t) {
    if (2 * t->pad > t->kernel)
        ole_builder_fail(&p->builder, "pads by %d, which is more than half of its window of %d",
                         t->pad, t->kernel);
    ole_op op = t->kind == OLE_TOKEN_MP ? OLE_OP_MAXPOOL : OLE_OP_AVGPOOL;
    ole_add_pool(&p->builder, "pool", p->builder.last, op, window_of(t));
}

static void flatten(progress *p) {
    if (!p->flat) ole_add_flatten(&p->builder, p->builder.last);
    p->flat = true;
}

static void add_linear(progress *p, const ole_token *t) {
    flatten(p);
    ole_add_linear(&p->builder, "linear", p->builder.last, t->width, t->bias);
    add_activation(&p->builder, t);
}

static void add_norm_or_relu(progress *p, const ole_token *t) {
    int64_t channels = shape_of(&p->builder, p->builder.last).c;
    if (t->width && t->width != channels)
        ole_builder_fail(&p->builder, "does not fit the %" PRId64 " channels before it", channels);
    add_activation(&p->builder, t);
}

static void add_nothing(progress *p, const ole_token *t) {
    (void)p;
    (void)t;
}

/* ---- Blocks ------------------------------------------------------------------------------- */

/*
 * The block's input as a summand of its output: unchanged, or, where the shape changes, convolved,
 * or with every stride-th pixel and channels of zeros around its own.
 */
static int add_shortcut(ole_builder *b, int input, const ole_token *t, int stride, bool norm) {
    ole_window window = {.kernel = 1, .stride = stride};
    if (stride == 1 && shape_of(b, input).c == t->width) return input;
    if (t->proj) {
        int node = ole_add_conv(b, "shortcut.conv", input, t->width, window, false);
        return norm ? ole_add_norm(b, "shortcut.norm", node, true) : node;
    }
    if (shape_of(b, input).c > t->width)
        ole_builder_fail(b, "cannot narrow %" PRId64 " channels without a projection (noproj)",
                         shape_of(b, input).c);
    if (stride > 1) input = ole_add_pool(b, "shortcut.pool", input, OLE_OP_AVGPOOL, window);
    if (shape_of(b, input).c == t->width) return input;
    return ole_add_padding(b, "shortcut.pad", input, t->width);
}

/*
 * A residual block. Bottlenecks convolve 1x1, 3x3, 1x1; basic blocks 3x3 twice; the first 3x3 has
 * the stride. R and B: conv-BN-ReLU but for the last ReLU, add, ReLU. PR and PB: BN-ReLU-conv each,
 * add; where the shape changes, PB's shortcut reads what its first convolution reads.
 */
static void add_block(ole_builder *b, const ole_token *t, int stride) {
    bool basic = t->kind == OLE_TOKEN_B || t->kind == OLE_TOKEN_PB;
    bool before = t->kind == OLE_TOKEN_PR || t->kind == OLE_TOKEN_PB;
    int convolutions = basic ? 2 : 3, strided = basic ? 1 : 2;
    int input = b->last, source = input;
    bool reshapes = stride > 1 || shape_of(b, input).c != t->width;
    for (int k = 1; k <= convolutions; k++) {
        char conv[8], norm[8], relu[8];
        snprintf(conv, sizeof conv, "conv%d", k);
        snprintf(norm, sizeof norm, "norm%d", k);
        snprintf(relu, sizeof relu, "relu%d", k);
        if (before) {
            ole_add_norm(b, norm, b->last, true);
            ole_add_relu(b, relu, b->last);
            if (k == 1 && basic && reshapes) source = b->last;
        }
        ole_window window = basic || k == 2 ? three_by_three : one_by_one;
        if (k == strided) window.stride = stride;
        ole_add_conv(b, conv, b->last, basic || k == 3 ? t->width : t->inner, window, false);
        if (!before) ole_add_norm(b, norm, b->last, true);
        if (!before && k < convolutions) ole_add_relu(b, relu, b->last);
    }
    int main_path = b->last, shortcut = add_shortcut(b, source, t, stride, !before);
    ole_add_sum(b, "add", main_path, shortcut);
    if (!before) ole_add_relu(b, "relu", b->last);
}

/* A stage of residual blocks. The first one halves the image, except in the net's first stage. */
static void add_stage(progress *p, const ole_token *t) {
    ole_builder *b = &p->builder;
    if (t->inner > t->width)
        ole_builder_fail(b, "is not a bottleneck: its inner width %d exceeds its outer width %d",
                         t->inner, t->width);
    int stride = t->stride != OLE_STRIDE_OF_STAGE ? t->stride : p->stages == 0 ? 1 : 2;
    for (int block = 1; block <= t->repeat && b->status == OLE_OK; block++) {
        snprintf(b->prefix, sizeof b->prefix, "%d.block%d.", b->index, block);
        add_block(b, t, block == 1 ? stride : 1);
    }
    p->stages++;
}

/* Layers of BN-ReLU-conv, each reading the outputs of all layers before it. */
static void add_dense_block(progress *p, const ole_token *t) {
    ole_builder *b = &p->builder;
    int64_t channels = shape_of(b, b->last).c, missing = t->width - channels;
    if (missing <= 0 || missing % t->inner != 0)
        ole_builder_fail(b, "cannot grow from %" PRId64 " to %d channels in steps of %d", channels,
                         t->width, t->inner);
    for (int64_t layer = 1; layer <= missing / t->inner && b->status == OLE_OK; layer++) {
        snprintf(b->prefix, sizeof b->prefix, "%d.layer%d.", b->index, (int)layer);
        int input = b->last;
        ole_add_norm(b, "norm", input, true);
        ole_add_relu(b, "relu", b->last);
        ole_add_conv(b, "conv", b->last, t->inner, three_by_three, false);
        if (t->drop > 0.0f) ole_add_dropout(b, "dropout", b->last, t->drop);
        ole_add_concat(b, "concat", input, b->last);
    }
}

/* The transition between dense blocks; halves the image. */
static void add_transition(progress *p, const ole_token *t) {
    ole_builder *b = &p->builder;
    ole_add_norm(b, "norm", b->last, true);
    ole_add_relu(b, "relu", b->last);
    ole_add_conv(b, "conv", b->last, t->width, one_by_one, false);
    if (t->drop > 0.0f) ole_add_dropout(b, "dropout", b->last, t->drop);
    ole_add_pool(b, "pool", b->last, OLE_OP_AVGPOOL, window_of(t));
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static const struct {
    void (*add)(progress *p, const ole_token *t);
    bool image;   /* needs an image, so it cannot follow an FC */
    bool repeats; /* `add` handles (xN) itself */
} builders[] = {
    [OLE_TOKEN_C] = {.add = add_convolution, .image = true},
    [OLE_TOKEN_CO] = {.add = add_convolution, .image = true},
    [OLE_TOKEN_MP] = {.add = add_pool, .image = true},
    [OLE_TOKEN_AP] = {.add = add_pool, .image = true},
    [OLE_TOKEN_FC] = {.add = add_linear},
    [OLE_TOKEN_FCD] = {.add = add_linear},
    [OLE_TOKEN_R] = {.add = add_stage, .image = true, .repeats = true},
    [OLE_TOKEN_PR] = {.add = add_stage, .image = true, .repeats = true},
    [OLE_TOKEN_B] = {.add = add_stage, .image = true, .repeats = true},
    [OLE_TOKEN_PB] = {.add = add_stage, .image = true, .repeats = true},
    [OLE_TOKEN_D] = {.add = add_dense_block, .image = true},
    [OLE_TOKEN_CR] = {.add = add_transition, .image = true},
    [OLE_TOKEN_BN] = {.add = add_norm_or_relu},
    [OLE_TOKEN_RELU] = {.add = add_norm_or_relu},
    [OLE_TOKEN_ID] = {.add = add_nothing},
};

static void add_token(progress *p, const ole_token *t) {
    ole_builder *b = &p->builder;
    if (p->flat && builders[t->kind].image)
        ole_builder_fail(b, "needs an image, but the FC before it outputs a vector");
    int times = builders[t->kind].repeats ? 1 : t->repeat;
    for (int i = 1; i <= times && b->status == OLE_OK; i++) {
        snprintf(b->prefix, sizeof b->prefix, "%d.", b->index);
        if (times > 1) snprintf(b->suffix, sizeof b->suffix, "%d", i);
        builders[t->kind].add(p, t);
    }
    b->suffix[0] = '\0';
}

static ole_status build(ole_graph *graph, const ole_notation *notation, ole_shape input,
                        ole_error *error) {
    progress p = {.builder = {.graph = graph, .notation = notation, .error = error}};
    ole_builder *b = &p.builder;
    graph->token_node[0] = ole_add_input(b, input);
    for (int i = 0; i < notation->tokens && b->status == OLE_OK; i++) {
        b->token = &notation->token[i];
        b->index = i + 1;
        add_token(&p, b->token);
        graph->token_node[i + 1] = b->last;
    }
    b->token = NULL;
    b->index = 0;
    b->prefix[0] = '\0';
    flatten(&p);
    graph->features = b->last;
    graph->classifier = ole_add_linear(b, "classifier", b->last, graph->classes, true);
    return b->status;
}

/* ---- Graphs ------------------------------------------------------------------------------- */

void ole_graph_free(ole_graph *graph) {
    if (!graph) return;
    free(graph->node);
    free(graph->param);
    free(graph->token_node);
    free(graph);
}

static ole_status check_input(ole_shape s, int classes, ole_error *error) {
    const int64_t sides[] = {s.c, s.h, s.w};
    for (int i = 0; i < 3; i++)
        if (sides[i] < 1 || sides[i] > MAX_SIDE || s.h * s.w > MAX_PIXELS ||
            ole_shape_size(s) > INT32_MAX)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "net: images of %" PRId64 "x%" PRId64 "x%" PRId64
                            " (channels x height x width) are too small or too large",
                            s.c, s.h, s.w);
    if (classes < 1 || classes > MAX_CLASSES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "net: %d classes: use 1 to %d", classes,
                        MAX_CLASSES);
    return OLE_OK;
}

static ole_status create_graph(ole_graph **result, const ole_notation *notation, ole_shape input,
                               int classes, ole_error *error) {
    ole_graph *graph = calloc(1, sizeof *graph);
    if (graph) graph->token_node = calloc((size_t)notation->tokens + 1, sizeof(int));
    if (!graph || !graph->token_node) {
        ole_graph_free(graph);
        return ole_fail(error, OLE_ERROR_MEMORY, "net: out of memory");
    }
    graph->classes = classes;
    graph->tokens = notation->tokens;
    ole_status status = build(graph, notation, input, error);
    if (status == OLE_OK)
        *result = graph;
    else
        ole_graph_free(graph);
    return status;
}

/* Whether `net` is `name` except for capitals and dashes, as VGG-16 is vgg16. */
static bool matches_loosely(const char *net, const char *name) {
    for (;; net++, name++) {
        net += strspn(net, "-");
        name += strspn(name, "-");
        char c = *net >= 'A' && *net <= 'Z' ? (char)(*net - 'A' + 'a') : *net;
        if (c != *name || !c) return c == *name;
    }
}

/*
 * Whether `net` was meant as a name: every token starts with a capital, so a lower-case start means
 * a name, as do the paper's spellings such as VGG-16.
 */
static bool is_name(const char *net) {
    bool named = net[0] >= 'a' && net[0] <= 'z';
    for (size_t i = 0; ole_zoo_names[i] && !named; i++)
        named = matches_loosely(net, ole_zoo_names[i]);
    return named;
}

static ole_status unknown_name(const char *net, ole_error *error) {
    size_t count = 0;
    while (ole_zoo_names[count])
        count++;
    const char *nearest = ole_nearest_name(net, ole_zoo_names, count);
    for (size_t i = 0; i < count; i++)
        if (matches_loosely(net, ole_zoo_names[i])) nearest = ole_zoo_names[i];
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "net: column 1: '%s' is neither a named net nor a token; %s%s%s",
                    ole_quote_string(net).text, nearest ? "did you mean '" : "'ole net' lists ",
                    nearest ? nearest : "the names", nearest ? "'?" : "");
}

ole_status ole_graph_parse(ole_graph **graph, const char *net, ole_shape input, int classes,
                           ole_error *error) {
    *graph = NULL;
    if (!net) return ole_fail(error, OLE_ERROR_ARGUMENT, "net: is NULL");
    ole_status status = check_input(input, classes, error);
    if (status != OLE_OK) return status;
    const ole_zoo_entry *entry = ole_zoo_find(net);
    if (!entry && is_name(net)) return unknown_name(net, error);
    ole_notation notation;
    status = ole_notation_parse(&notation, entry ? entry->name : NULL,
                                entry ? entry->notation : net, error);
    if (status != OLE_OK) return status;
    status = create_graph(graph, &notation, input, classes, error);
    ole_notation_free(&notation);
    return status;
}

/* ---- Fusion ------------------------------------------------------------------------------- */

/* readers[i]: how many nodes read node i. */
static void count_readers(const ole_graph *g, int *readers) {
    memset(readers, 0, (size_t)g->nodes * sizeof *readers);
    for (int i = 0; i < g->nodes; i++)
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            if (g->node[i].input[k] >= 0) readers[g->node[i].input[k]]++;
}

/* Removes the nodes that have a replacement (others have -1), and renumbers all that refers to
 * nodes; `moved` is scratch. */
static void compact(ole_graph *g, const int *replacement, int *moved) {
    int kept = 0;
    for (int i = 0; i < g->nodes; i++)
        if (replacement[i] < 0) moved[i] = kept++;
    for (int i = 0; i < g->nodes; i++)
        if (replacement[i] >= 0) moved[i] = moved[replacement[i]];
    for (int i = 0; i < g->nodes; i++) {
        ole_node node = g->node[i];
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            if (node.input[k] >= 0) node.input[k] = moved[node.input[k]];
        if (replacement[i] < 0) g->node[moved[i]] = node;
    }
    g->nodes = kept;
    for (int i = 0; i < g->params; i++)
        g->param[i].node = moved[g->param[i].node];
    for (int i = 0; i <= g->tokens; i++)
        g->token_node[i] = moved[g->token_node[i]];
    g->features = moved[g->features];
    g->classifier = moved[g->classifier];
}

/* Whether a ReLU can be fused into `source`, the node it reads, which has `readers` readers. */
static bool can_fuse(const ole_node *relu, const ole_node *source, int readers) {
    return relu->op == OLE_OP_RELU && (source->op == OLE_OP_NORM || source->op == OLE_OP_ADD) &&
           !source->relu && readers == 1 && source->token == relu->token;
}

static void fuse_relus(ole_graph *g, const int *readers, int *replacement) {
    for (int i = 0; i < g->nodes; i++) {
        int source = g->node[i].input[0];
        replacement[i] = -1;
        if (source < 0 || !can_fuse(&g->node[i], &g->node[source], readers[source])) continue;
        g->node[source].relu = true;
        replacement[i] = source;
    }
}

/* Which summand of an ADD is a NORM that has no other reader, or -1. */
static int norm_of_add(const ole_graph *g, const int *readers, int i) {
    const ole_node *add = &g->node[i];
    for (int k = 0; add->op == OLE_OP_ADD && k < 2; k++) {
        int source = add->input[k];
        const ole_node *norm = &g->node[source];
        if (norm->op == OLE_OP_NORM && !norm->relu && norm->input[1] < 0 && readers[source] == 1 &&
            norm->token == add->token)
            return k;
    }
    return -1;
}

/* Turns each such ADD's node into the NORM, whose own node nothing reads now. */
static void fuse_adds(ole_graph *g, const int *readers, int *replacement) {
    for (int i = 0; i < g->nodes; i++) {
        replacement[i] = -1;
        int k = norm_of_add(g, readers, i);
        if (k < 0) continue;
        int source = g->node[i].input[k], other = g->node[i].input[1 - k];
        ole_node norm = g->node[source];
        norm.input[1] = other;
        norm.relu = g->node[i].relu;
        g->node[i] = norm;
        replacement[source] = i;
    }
}

ole_status ole_graph_fuse(ole_graph *g, bool norm_add, ole_error *error) {
    int *readers = calloc((size_t)g->nodes, 3 * sizeof *readers);
    if (!readers) return ole_fail(error, OLE_ERROR_MEMORY, "net: out of memory");
    int *replacement = readers + g->nodes, *moved = replacement + g->nodes;
    for (int pass = 0; pass <= norm_add; pass++) {
        count_readers(g, readers);
        (pass == 0 ? fuse_relus : fuse_adds)(g, readers, replacement);
        compact(g, replacement, moved);
    }
    free(readers);
    return OLE_OK;
}
