/*
 * ole/train/export.h - a trained model for other programs, as an ONNX file.
 *
 * Example: export the best model of a run.
 *
 *     ole_onnx_summary summary;
 *     if (ole_export_onnx("runs/first", "first.onnx", NULL, &summary, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("%d operations, %lld bytes\n", summary.ops, (long long)summary.bytes);
 *
 * The file has IR version 8 and operator set 17 (ONNX 1.12).  Its input "images" is float32
 * [N, channels, height, width] in [0, 1] (bytes / 255) with any N, as for ole_model_run(): the
 * graph includes the normalisation of training.  Its outputs are "features" [N, D], the
 * classifier's input, and "logits" [N, classes], before softmax and temperature.  The metadata
 * includes the model card (net, class_names, temperature, ...), and the threshold unless its score
 * compares features with directions (residual, cosine), which the file does not have.  If the
 * classifier was not trained (ole/train/model.h), the logits are meaningless: see `classifier` of
 * the summary, and "classifier: untrained" in the model card.
 */
#ifndef OLE_TRAIN_EXPORT_H
#define OLE_TRAIN_EXPORT_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was written. */
typedef struct ole_onnx_summary {
    int channels, height, width; /* of the input */
    int64_t features;
    int classes;
    int ops;         /* nodes of the ONNX graph */
    int folded;      /* batch norms folded into other layers */
    int64_t weights; /* numbers stored, including running means and variances */
    int64_t bytes;   /* of the file */
    bool classifier; /* was trained */
} ole_onnx_summary;

/* Fill with ole_onnx_options_init(). */
typedef struct ole_onnx_options {
    size_t struct_size;     /* set by init; see "Versions" in ole/base.h */
    bool fold;              /* fold batch norms into the layer before if nothing else reads it; */
                            /* default false: the weights are the model's, bit for bit */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_onnx_options;

OLE_API void ole_onnx_options_init_sized(ole_onnx_options *options, size_t struct_size);
static inline void ole_onnx_options_init(ole_onnx_options *options) {
    ole_onnx_options_init_sized(options, sizeof *options);
}

/*
 * `model`: a .safetensors file or a run folder (its best model, or else its last).  The file at
 * `path` is replaced once the new one is complete.  `options` may be NULL for the defaults,
 * `summary` may be NULL.  OLE_ERROR_UNSUPPORTED: over 2 GiB, the limit of an ONNX file.
 */
OLE_API ole_status ole_export_onnx(const char *model, const char *path,
                                   const ole_onnx_options *options, ole_onnx_summary *summary,
                                   ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
