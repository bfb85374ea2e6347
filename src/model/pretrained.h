/*
 * src/model/pretrained.h - what published weights expect and permit: the normalisation, image size
 * and network of the config.json beside them, and the licence of their model card.
 */
#ifndef OLE_SRC_MODEL_PRETRAINED_H
#define OLE_SRC_MODEL_PRETRAINED_H

#include "ole/base.h"

typedef struct ole_pretrained {
    char normalize[200]; /* as in ole_train_options; "": not stated, like the others */
    int channels, side;  /* of the images; 0: not stated */
    char net[64];        /* a name of our zoo */
    char licence[64];
    bool has_card;     /* there is a model card */
    char config[200];  /* config.json, for messages */
    char mistake[300]; /* in it, which keeps normalize from being known; "": none */
} ole_pretrained;

/*
 * Reads what is stated for the weights at a path, hf:OWNER/MODEL or URL, which are downloaded where
 * needed.  Both files are optional; what they hold otherwise is ignored, except a mistake
 * that would pass for a normalisation.
 */
ole_status ole_pretrained_read(ole_pretrained *pretrained, const char *weights, ole_error *error);

#endif
