/*
 * src/model/pretrained.h - what published weights expect and permit: their network, by the tensors
 * or for a model of ours its card; normalisation and image size of the config.json beside them; the
 * licence of their model card.
 */
#ifndef OLE_SRC_MODEL_PRETRAINED_H
#define OLE_SRC_MODEL_PRETRAINED_H

#include "ole/base.h"

typedef struct ole_pretrained {
    char normalize[200]; /* as in ole_train_options; "": not stated, like the others */
    int channels, side;  /* of the images; 0: not known */
    bool side_stated;    /* in config.json; else it is that of the network */
    char net[1000];      /* a name of our zoo or a notation; "": one was given */
    char architecture[64];
    char licence[64];
    bool has_card;     /* there is a model card */
    char config[200];  /* config.json, for messages */
    char mistake[300]; /* in it, which keeps normalize from being known; "": none */
} ole_pretrained;

/*
 * Reads what is known of the weights at a path, hf:OWNER/MODEL or URL, which are downloaded where
 * needed.  Both files beside them are optional; what they hold otherwise is ignored, except a
 * mistake that would pass for a normalisation.  Without a `net` (NULL), weights of which no network
 * is known are an error.
 */
ole_status ole_pretrained_read(ole_pretrained *pretrained, const char *weights, const char *net,
                               ole_error *error);

#endif
