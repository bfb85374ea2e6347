/*
 * ole/train/net.h - networks in the notation of the paper, and what they cost.
 *
 * Example: the number of weights of a named network.
 *
 *     ole_net *net;
 *     if (ole_net_create(&net, "cnn5", 3, 96, 96, 10, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("%lld weights\n", (long long)ole_net_totals(net).weights);
 *     ole_net_destroy(net);
 *
 * A network is a name ("vgg16", "resnet110", ...; ole_net_names() lists them) or a string such as
 * "C32-MP-C64-MP-C128-MP-C256-C256-MP"; docs/networks.md describes the notation.  The linear
 * classifier after the last token is implied.
 */
#ifndef OLE_TRAIN_NET_H
#define OLE_TRAIN_NET_H

#include "ole/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_net ole_net;

/* Parses `net` for images of this shape. An error points at the column of the string. */
OLE_API ole_status ole_net_create(ole_net **result, const char *net, int channels, int height,
                                  int width, int classes, ole_error *error);
OLE_API void ole_net_destroy(ole_net *net);

typedef struct ole_net_sums {
    int64_t weights, flop, activations;
    int64_t features; /* D: the classifier's inputs */
} ole_net_sums;

OLE_API ole_net_sums ole_net_totals(const ole_net *net);

/* One operation of the network. */
typedef struct ole_net_layer {
    const char *name;                /* of its weights: "3.conv1" */
    const char *kind;                /* "conv 3x3", "norm", "relu", ... */
    int token;                       /* the token it comes from, from 1; 0: input and classifier */
    int64_t channels, height, width; /* of its output */
    int64_t weights;                 /* trained parameters */
    int64_t flop;                    /* forward pass of one image (a multiply-add counts 2) */
    int64_t activations;             /* elements of its output for one image */
} ole_net_layer;

OLE_API int ole_net_layers(const ole_net *net);
OLE_API ole_net_layer ole_net_get_layer(const ole_net *net, int i); /* all 0 if out of range */

/* ---- Named networks ------------------------------------------------------------------------- */

/* All names, NULL-ended, and the notation behind a name (NULL if it is none). */
OLE_API const char *const *ole_net_names(void);
OLE_API const char *ole_net_notation(const char *name);

/* The image shape that the paper uses with a named network; 3 x 32 x 32 for a notation. */
OLE_API void ole_net_input(const char *net, int *channels, int *height, int *width);

/*
 * The network that training uses by default for samples of this shape (vectors: D, 1, 1): a small
 * one, in notation or by name.  docs/networks.md has the table.
 */
OLE_API const char *ole_net_suggest(int channels, int height, int width);

#ifdef __cplusplus
}
#endif
#endif
