/*
 * ole/train/export.h - a trained model for other programs, as an ONNX file.
 *
 *     ole_onnx_summary summary;
 *     if (ole_export_onnx("runs/first", "first.onnx", NULL, &summary, &error) != OLE_OK) ...
 *
 * The file is of IR version 8 and operator set 17 (ONNX 1.12).  Its input "images" is float32
 * [N, channels, height, width] in [0, 1] (bytes / 255), as for ole_model_run(): the normalisation
 * of the training is part of the graph.  N is free.  Its outputs are "features" [N, D], what the
 * classifier reads, and "logits" [N, classes], before the softmax and before the model's
 * temperature.  The model's card (net, class_names, threshold, temperature, ...) is among the
 * metadata.  Of a model whose classifier was not trained (ole/train/model.h) the logits mean
 * nothing: the summary says so, and the card, "classifier: untrained".
 */
#ifndef OLE_TRAIN_EXPORT_H
#define OLE_TRAIN_EXPORT_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_onnx_options {
    size_t struct_size; /* set by init: lets later versions append fields */
    bool fold; /* batch norms go into the layer before them where nothing else reads it; default */
               /* false: the weights are those of the model, bit for bit */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_onnx_options;

OLE_API void ole_onnx_options_init(ole_onnx_options *options);

/* What was written. */
typedef struct ole_onnx_summary {
    int channels, height, width; /* of the input */
    int64_t features;
    int classes;
    int ops;         /* nodes of the ONNX graph */
    int folded;      /* batch norms that went into other layers */
    int64_t weights; /* numbers stored, running means and variances included */
    int64_t bytes;   /* of the file */
    bool classifier; /* was trained */
} ole_onnx_summary;

/*
 * `model`: a .safetensors file or a run folder (then its best, or its last).  The file at `path` is
 * replaced when all of the new one is written.  `options` may be NULL for the defaults, `summary`
 * may be NULL.  OLE_ERROR_UNSUPPORTED: more than the 2 GiB that an ONNX file can hold.
 */
OLE_API ole_status ole_export_onnx(const char *model, const char *path,
                                   const ole_onnx_options *options, ole_onnx_summary *summary,
                                   ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
