/*
 * src/net/layers.h - a graph under construction: appends ops, with their shapes, parameters and
 * names.
 *
 * An error is kept in the builder: after one, nothing is appended any more and the functions return
 * -1, so that whoever adds a block looks at `status` once, at its end.
 */
#ifndef OLE_SRC_NET_LAYERS_H
#define OLE_SRC_NET_LAYERS_H

#include "net/graph.h"
#include "net/notation.h"

typedef struct ole_builder {
    ole_graph *graph;
    const ole_notation *notation;
    const ole_token *token; /* at work, for messages; NULL for input and classifier */
    int index;              /* of the token, from 1; 0 where there is none */
    char prefix[24];        /* of the names: "7.block2." */
    char suffix[12];        /* "2" for the second repetition of a plain token */
    int last;               /* node appended last: what the next op reads by default */
    int node_room, param_room;
    ole_status status;
    ole_error *error;
} ole_builder;

/* Square window of a convolution or pool. */
typedef struct ole_window {
    int kernel, stride, pad;
} ole_window;

/* Each appends one op that reads `input` and returns its node, which becomes `last`. */
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
int ole_add_concat(ole_builder *builder, const char *name, int input, int other);

/* Keeps an error about the token at work, unless there is one already. */
void ole_builder_fail(ole_builder *builder, const char *format, ...) OLE_PRINTF(2, 3);

#endif
