/*
 * src/net/layers.h - a graph under construction: appends ops with their shapes, parameters and
 * names.
 *
 * The builder stores the first error.  After it, nothing is appended and every function returns -1,
 * so callers add a whole block and check `status` once at the end.
 */
#ifndef OLE_SRC_NET_LAYERS_H
#define OLE_SRC_NET_LAYERS_H

#include "net/graph.h"
#include "net/notation.h"

typedef struct ole_builder {
    ole_graph *graph;
    const ole_notation *notation;
    const ole_token *token; /* current token, for messages; NULL for input and classifier */
    int index;              /* its index from 1, or 0 if there is none */
    char prefix[24];        /* of node names: "7.block2." */
    char suffix[12];        /* "2" for the second repetition of a plain token */
    int last;               /* the node appended last */
    int node_room, param_room;
    ole_status status;
    ole_error *error;
} ole_builder;

/* A square convolution or pooling window. */
typedef struct ole_window {
    int kernel, stride, pad;
} ole_window;

/* Each appends one op that reads `input` and returns the new node, which becomes `last`. */
int ole_add_input(ole_builder *builder, ole_shape shape);
int ole_add_conv(ole_builder *builder, const char *name, int input, int64_t width,
                 ole_window window, bool bias);
int ole_add_norm(ole_builder *builder, const char *name, int input, bool affine);
int ole_add_relu(ole_builder *builder, const char *name, int input);
int ole_add_pool(ole_builder *builder, const char *name, int input, ole_op op, ole_window window);
int ole_add_flatten(ole_builder *builder, int input);
int ole_add_linear(ole_builder *builder, const char *name, int input, int64_t width, bool bias);
int ole_add_dropout(ole_builder *builder, const char *name, int input, float rate);
int ole_add_sum(ole_builder *builder, const char *name, int input, int other);
int ole_add_padding(ole_builder *builder, const char *name, int input, int64_t width);
int ole_add_concat(ole_builder *builder, const char *name, int input, int other);

/* Stores an error about the current token, unless there is one already. */
void ole_builder_fail(ole_builder *builder, const char *format, ...) OLE_PRINTF(2, 3);

#endif
