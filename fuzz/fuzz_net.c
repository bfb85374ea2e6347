/*
 * fuzz/fuzz_net.c - a string as a network: a graph that keeps its rules, or an error of one line.
 *
 * The first three bytes choose the image and the classes, the rest is the string.
 */
#include "fuzz.h"
#include "net/graph.h"
#include "ole/train/net.h"

#include <string.h>

enum { MAX_TEXT = 4096 };

static void check_graph(const ole_graph *g) {
    require(g->nodes >= 3 && g->nodes <= 4096, "the number of nodes is out of range");
    require(g->classifier == g->nodes - 1, "the classifier is not the last node");
    require(g->node[g->classifier].input[0] == g->features, "the classifier reads no features");
    for (int i = 0; i < g->nodes; i++) {
        const ole_node *node = &g->node[i];
        require(ole_shape_size(node->out) > 0, "an output is empty");
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            require(node->input[k] < i, "a node reads one behind it");
        for (int k = 0; k < node->params; k++)
            require(g->param[node->first_param + k].node == i, "a parameter has another node");
    }
    for (int i = 0; i <= g->tokens; i++)
        require(g->token_node[i] >= 0 && g->token_node[i] < g->nodes, "a token has no node");
}

static void check_costs(const char *text, ole_shape input, int classes) {
    ole_net *net;
    ole_error error;
    ole_status status =
        ole_net_create(&net, text, (int)input.c, (int)input.h, (int)input.w, classes, &error);
    require(status == OLE_OK, "it is a graph, but no net");
    ole_net_sums sums = ole_net_totals(net);
    require(sums.weights > 0 && sums.flop > 0 && sums.activations > 0 && sums.features > 0,
            "a sum has overflowed");
    ole_net_destroy(net);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    static char text[MAX_TEXT + 1];
    if (size < 3 || size - 3 > MAX_TEXT) return;
    ole_shape input = {1 + bytes[0] % 4, 1 + bytes[1], 1 + bytes[2]};
    int classes = 1 + bytes[0];
    memcpy(text, bytes + 3, size - 3);
    text[size - 3] = '\0';
    ole_graph *graph;
    ole_error error = {0};
    ole_status status = ole_graph_parse(&graph, text, input, classes, &error);
    if (status != OLE_OK) {
        require(graph == NULL, "a graph in spite of an error");
        check_error(status, &error);
        require(strncmp(error.message, "net", 3) == 0, "the message does not begin with the net");
        return;
    }
    check_graph(graph);
    check_costs(text, input, classes);
    require(ole_graph_fuse(graph, false, &error) == OLE_OK, "the ReLUs cannot be merged");
    check_graph(graph);
    ole_graph_free(graph);
}
