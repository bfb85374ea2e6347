/*
 * src/net/graph.h - a network as a list of ops, each after those it reads: what the notation is
 * parsed into, and what backends plan from.  Plain data; owns nothing but its two arrays.
 *
 * The last node is the classifier; its input (node `features`) is where OLÉ acts by default.
 */
#ifndef OLE_SRC_NET_GRAPH_H
#define OLE_SRC_NET_GRAPH_H

#include "device/op.h"

typedef struct ole_graph {
    int nodes, params;
    ole_node *node;
    ole_param *param;
    int features;   /* the node whose output the classifier reads (plain, [N, D]) */
    int classifier; /* the last node */
    int classes;
    int tokens;      /* of the notation */
    int *token_node; /* [tokens + 1] the node that gives each token's output; [0] the input */
} ole_graph;

void ole_graph_free(ole_graph *graph);

/*
 * Parses a net (a name of zoo.c or a string of the notation) for images of that shape, with a
 * classifier for `classes` classes behind it.  An error points at the column; *graph is NULL then.
 */
ole_status ole_graph_parse(ole_graph **graph, const char *net, ole_shape input, int classes,
                           ole_error *error);

/*
 * Merges each ReLU that alone reads a NORM or ADD node of the same token into it (node.relu), and
 * drops the nodes that nobody reads any more.  Names and parameters stay, and so does the output of
 * every token: in "BN-ReLU", two tokens, nothing is merged.  With `norm_add`, an ADD that alone
 * reads a NORM of the same token becomes that NORM, with the other summand as its second input.
 */
ole_status ole_graph_fuse(ole_graph *graph, bool norm_add, ole_error *error);

#endif
