/*
 * src/net/notation.h - parses the paper's network notation into a list of tokens.
 *
 *     net      = token ("-" token)...
 *     token    = name [number ["/" number]] ["[" modifier ("," modifier)... "]"] ["(x" count ")"]
 *     modifier = "k5" | "s2" | "p0" | "d0.5" | "nobn" | "norelu" | "nobias" | "noaffine" | "noproj"
 *
 * Each token is checked by itself here; graph.c checks that it fits the tokens before it.
 */
#ifndef OLE_SRC_NET_NOTATION_H
#define OLE_SRC_NET_NOTATION_H

#include "base/error.h"

#include <stdbool.h>

typedef enum ole_token_kind {
    OLE_TOKEN_C,   /* convolution, batch norm, ReLU */
    OLE_TOKEN_CO,  /* convolution alone */
    OLE_TOKEN_MP,  /* max pool */
    OLE_TOKEN_AP,  /* average pool: of the whole image unless a kernel is given */
    OLE_TOKEN_FC,  /* linear, batch norm, ReLU */
    OLE_TOKEN_FCD, /* linear, ReLU, dropout */
    OLE_TOKEN_R,   /* bottlenecks, activation after the addition */
    OLE_TOKEN_PR,  /* bottlenecks, activation before each convolution */
    OLE_TOKEN_B,   /* basic residual blocks, activation after the addition */
    OLE_TOKEN_PB,  /* basic residual blocks, activation before each convolution */
    OLE_TOKEN_D,   /* dense block */
    OLE_TOKEN_CR,  /* transition: batch norm, ReLU, convolution 1x1, average pool 2x2 */
    OLE_TOKEN_BN,
    OLE_TOKEN_RELU,
    OLE_TOKEN_ID, /* nothing: the network is a classifier on its input */
} ole_token_kind;

enum {
    OLE_STRIDE_OF_STAGE = 0, /* of blocks: 1 in the first stage, 2 in later ones */
    OLE_MAX_WIDTH = 65536,   /* channels */
    OLE_MAX_NODES = 4096,
};

typedef struct ole_token {
    ole_token_kind kind;
    const char *text; /* points into the parsed string */
    int length;
    int column;         /* from 1 */
    int width;          /* first number: output channels; 0: none */
    int inner;          /* second number: bottleneck width or dense block growth; 0: none */
    int repeat;         /* N of (xN), or 1 */
    int kernel, stride; /* kernel 0: the whole image */
    int pad;
    bool norm, relu, bias, affine;
    bool proj;  /* B, PB: a changed shape is projected on the shortcut; else padded with zeros */
    float drop; /* 0: no dropout */
} ole_token;

typedef struct ole_notation {
    const char *name; /* of a named net, for messages; NULL for a plain string */
    int tokens;
    ole_token *token;
} ole_notation;

/* Both strings must outlive the notation; `name` may be NULL. */
ole_status ole_notation_parse(ole_notation *notation, const char *name, const char *text,
                              ole_error *error);
void ole_notation_free(ole_notation *notation);

/* Fails with OLE_ERROR_ARGUMENT and "net: column 9: 'MP' " followed by the message. */
ole_status ole_notation_fail(const ole_notation *notation, const ole_token *token, ole_error *error,
                             const char *format, ...) OLE_PRINTF(4, 5);

#endif
