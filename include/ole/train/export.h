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
 * graph includes the normalisation of training.  A model of vectors takes "x", float32 [N, D],
 * instead.  Its outputs are "features" [N, D], the
 * classifier's input, and "logits" [N, classes], before softmax and temperature.  A model with
 * a threshold also has "known_score" [N]: samples that score less than the threshold are unknown.
 * The metadata has the model card (net, class_names, threshold, temperature, ...).  If the
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

/* ---- For a model hub ------------------------------------------------------------------------ */

/* What was written. */
typedef struct ole_hub_summary {
    ole_onnx_summary onnx;
    char name[128];    /* of the model, in the card */
    int64_t samples;   /* the model was measured on; 0: none, see `without` */
    double error;      /* in %, of these samples or recorded by the run; NaN: neither */
    char without[512]; /* why nothing was measured; "" */
} ole_hub_summary;

/* Fill with ole_hub_options_init(). */
typedef struct ole_hub_options {
    size_t struct_size;     /* set by init; see "Versions" in ole/base.h */
    const char *name;       /* of the model; NULL (default): the last part of the folder */
    int64_t threads;        /* that run the model; 0 (default): all processors */
    ole_progress *progress; /* NULL (default): none */
    void *context;
} ole_hub_options;

OLE_API void ole_hub_options_init_sized(ole_hub_options *options, size_t struct_size);
static inline void ole_hub_options_init(ole_hub_options *options) {
    ole_hub_options_init_sized(options, sizeof *options);
}

/*
 * Writes what a model hub expects into a folder: model.safetensors (no optimiser state, no paths),
 * model.onnx, config.json, load_in_torch.py, and a model card, README.md: classes, data, errors,
 * calibration, threshold, recipe, and how to load the model.  `model` as for ole_export_onnx().  A
 * run folder's model is measured on the test split of its data (without one, the validation split);
 * if they cannot be opened, the card has the errors that the run recorded.  Existing files are an
 * error.
 */
OLE_API ole_status ole_export_hub(const char *model, const char *folder,
                                  const ole_hub_options *options, ole_hub_summary *summary,
                                  ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
