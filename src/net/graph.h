/*
 * src/net/graph.h - a network as a list of ops in topological order: what the notation is parsed
 * into and what backends plan from.  Plain data.
 *
 * The last node is the classifier; its input, node `features`, is where OLÉ acts by default.
 */
#ifndef OLE_SRC_NET_GRAPH_H
#define OLE_SRC_NET_GRAPH_H

#include "device/op.h"

typedef struct ole_graph {
    int nodes, params;
    ole_node *node;
    ole_param *param;
    int features;   /* the node the classifier reads: plain, [N, D] */
    int classifier; /* always the last node */
    int classes;
    int tokens;      /* in the notation */
    int *token_node; /* [tokens + 1] the node that holds each token's output; [0] is the input */
} ole_graph;

void ole_graph_free(ole_graph *graph);

/*
 * Parses a net, either a name from zoo.c or a string in the notation, for images of shape `input`,
 * and appends a classifier for `classes` classes.  An error names the column and leaves *graph
 * NULL.
 */
ole_status ole_graph_parse(ole_graph **graph, const char *net, ole_shape input, int classes,
                           ole_error *error);

/*
 * Fuses ops that one kernel can do.  A ReLU that is the only reader of a NORM or ADD of the same
 * token becomes that node's `relu` flag.  With `norm_add`, an ADD that is the only reader of a NORM
 * of the same token becomes that NORM, with the other summand as its second input.
 *
 * Names, parameters and the output of every token survive: "BN-ReLU" is two tokens, so nothing is
 * fused there.
 */
ole_status ole_graph_fuse(ole_graph *graph, bool norm_add, ole_error *error);

#endif
