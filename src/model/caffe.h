/*
 * src/model/caffe.h - the convolutions and linear layers of a Caffe model (.caffemodel), for
 * networks that start from published weights.
 */
#ifndef OLE_SRC_MODEL_CAFFE_H
#define OLE_SRC_MODEL_CAFFE_H

#include "ole/base.h"

enum { OLE_CAFFE_BLOBS = 2, OLE_CAFFE_NAME = 64 };

typedef struct ole_caffe_layer {
    char name[OLE_CAFFE_NAME];
    int64_t count[OLE_CAFFE_BLOBS]; /* elements of weight and bias; 0: there is none */
    float *data[OLE_CAFFE_BLOBS];   /* [out, in, k, k] or [out, in]; [out] */
} ole_caffe_layer;

typedef struct ole_caffe {
    int layers;
    ole_caffe_layer *layer; /* in the order of the file */
} ole_caffe;

/* Reads both forms of the format, `layers` (V1) and `layer`. Nothing to free on failure. */
ole_status ole_caffe_read(ole_caffe *model, const char *path, ole_error *error);
void ole_caffe_free(ole_caffe *model);

#endif
