/*
 * ole/train/model.h - a trained model: load it, predict, compute features.
 *
 * Example: the class of one image file.
 *
 *     ole_model *model;
 *     if (ole_model_load(&model, "run", 1, &error) != OLE_OK) return puts(error.message), 1;
 *     ole_prediction p;
 *     if (ole_model_predict_file(model, "cat.png", &p, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     const char *const *names = ole_model_get_info(model)->class_names;
 *     printf("%s %.3f\n", p.label < 0 ? "unknown" : names[p.label], p.score);
 *     ole_model_free(model);
 *
 * Use a model from one thread at a time: a call that runs it during another one fails with
 * OLE_ERROR_ARGUMENT.  A model with 1 thread runs in the caller's.  More threads are OpenMP's: they
 * outlive the model, and a child of fork() does not have them, so predicting there would hang.  A
 * program that predicts and forks should load its models with 1 thread.
 */
#ifndef OLE_TRAIN_MODEL_H
#define OLE_TRAIN_MODEL_H

#include "ole/novelty.h"
#include "ole/train/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

typedef struct ole_model ole_model;

/*
 * `path`: a .safetensors file, a run folder (its best model, or else its last), or hf:OWNER/MODEL,
 * a model on a hub (ole_model_fetch()).  `threads`: 0 for all processors.
 */
OLE_API ole_status ole_model_load(ole_model **model, const char *path, int threads,
                                  ole_error *error);
OLE_API void ole_model_free(ole_model *model);

/*
 * Writes the model to a safetensors file: to a temporary file next to `path`, then renamed.
 * ole_model_load() reads it back with the same bits.
 */
OLE_API ole_status ole_model_save(const ole_model *model, const char *path, ole_error *error);

/* How a stored threshold was found. */
typedef enum ole_threshold_source {
    OLE_THRESHOLD_UNSAID = 0,   /* there is none, or its source is not recorded */
    OLE_THRESHOLD_HELD_OUT = 1, /* 95 % of the held-out samples reach it */
    OLE_THRESHOLD_CROSS_FITTED =
        2,                     /* 99 % of the training samples do, scored by classifiers that */
                               /* were fitted without them to features that have seen them */
    OLE_THRESHOLD_NOVELTY = 3, /* ole_novelty_store() has set it */
} ole_threshold_source;

typedef struct ole_model_info {
    const char *net;
    int channels, height, width;
    int64_t features;
    int classes;
    const char *const *class_names;
    double threshold;          /* samples that score less are unknown (ole/train/novelty.h) */
    ole_score threshold_score; /* the score it applies to; OLE_SCORE_NONE: none stored */
    double temperature;        /* divides the logits for the scores of predictions */
    bool classifier; /* false: trained with OLE_LOSS_OLE, which leaves the classifier at */
                     /* its initial weights: use features, not logits and scores */
    ole_threshold_source threshold_from;
    int64_t threshold_samples; /* it was found on; 0: not recorded */
} ole_model_info;

OLE_API const ole_model_info *ole_model_get_info(const ole_model *model);

enum { OLE_RUNNERS_UP = 4 };

typedef struct ole_prediction {
    int label;                     /* -1: unknown, known_score is under the threshold */
    int best;                      /* the class with the highest score, known or not */
    double score;                  /* its softmax score, at the model's temperature */
    int runner_up[OLE_RUNNERS_UP]; /* the next classes, -1 where there are no more */
    double runner_up_score[OLE_RUNNERS_UP];
    double known_score; /* the score that the threshold applies to; NaN without a threshold */
} ole_prediction;

/* Predicts one image file (see docs/photos.md), resized to the model's input. Errors as below. */
OLE_API ole_status ole_model_predict_file(ole_model *model, const char *path,
                                          ole_prediction *prediction, ole_error *error);

/* ---- Arrays and data sets ------------------------------------------------------------------- */

/*
 * Predicts images as ole_model_run() takes them.  OLE_ERROR_UNSUPPORTED: the classifier was not
 * trained; compare the features of ole_model_run() instead, as ole/classify.h does.  OLE_ERROR_DATA
 * as in ole_model_run().  OLE_ERROR_NUMERIC: the logits of an image overflow; predictions of images
 * before it may have been written.
 */
OLE_API ole_status ole_model_predict(ole_model *model, const float *images, int64_t count,
                                     ole_prediction *predictions, ole_error *error);

/*
 * `images` is [count, channels, height, width] floats in [0, 1] (bytes / 255), not normalised: the
 * model normalises as in training.  Either output may be NULL.  Logits are computed even if the
 * classifier was not trained; check ole_model_info.classifier.  OLE_ERROR_DATA: NaN or Inf in an
 * image, which the message names.
 */
OLE_API ole_status ole_model_run(ole_model *model, const float *images, int64_t count,
                                 float *features /* [count, features] */,
                                 float *logits /* [count, classes] */, ole_error *error);

/*
 * The same for a split of a data set, whose images must have the model's shape.  If the callback of
 * ole_model_watch() stops it: OLE_OK, and the outputs of the remaining samples are unchanged.
 */
OLE_API ole_status ole_model_run_split(ole_model *model, const ole_dataset *set, ole_split split,
                                       float *features, float *logits, ole_error *error);

/*
 * From now on ole_model_run_split() and ole_evaluate() report progress after each batch.  NULL ends
 * that.
 */
OLE_API void ole_model_watch(ole_model *model, ole_part_callback *callback, void *context);

/*
 * Reads an image file as ole_model_run() takes it, resized to the model's input: [channels, height,
 * width] floats into `sample`.  OLE_ERROR_ARGUMENT: the model takes vectors.
 */
OLE_API ole_status ole_model_read_file(const ole_model *model, const char *path, float *sample,
                                       ole_error *error);

/*
 * Reads the samples of a .npy file as ole_model_run() and ole_model_predict() take them, [*count,
 * channels, height, width]; free() them.  The file holds vectors (N, D) or images (N, H, W),
 * (N, C, H, W) or (N, H, W, C), as uint8 (scaled to 0 to 1) or floats.  OLE_ERROR_DATA: not the
 * model's shape, or NaN or Inf; *samples is then NULL.
 */
OLE_API ole_status ole_model_read_npy(const ole_model *model, const char *path, float **samples,
                                      int64_t *count, ole_error *error);

/* ---- May still change ----------------------------------------------------------------------- */

/*
 * Whether the training split of a set has the mean and deviation that the model normalises with.
 * For a model trained with `normalize` "auto": whether it was trained on these samples.
 */
OLE_API bool ole_model_trained_on(const ole_model *model, const ole_dataset *set);

/*
 * Whether a map of ole_embed_fit() was fitted on rows that a split has, in whatever file or order,
 * as far as hashes of a few of its rows tell.  False for other models.
 */
OLE_API bool ole_model_fitted_on(const ole_model *model, const ole_dataset *set, ole_split split);

/*
 * The file of a model.  "hf:OWNER/MODEL" or "hf:OWNER/MODEL@REVISION" (a branch, tag or commit;
 * default main) is the model.safetensors of a model hub at $HF_ENDPOINT (https://huggingface.co):
 * it is downloaded into the cache unless the cache has the hub's version, resumed where an earlier
 * call broke off, and compared with the sha256 that the hub gives.  If the hub does not answer, or
 * HF_HUB_OFFLINE is set, the cached version serves.  Any other name is copied to `path` as it is.
 * `options` may be NULL for the defaults; its folder replaces the cache, its source $HF_ENDPOINT;
 * checksum and max_files are not used.
 */
OLE_API ole_status ole_model_fetch(const char *name, const ole_download_options *options,
                                   char *path, size_t capacity, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
