/*
 * ole/train/model.h - a trained model: load, predict, features.
 *
 *     ole_model *model;
 *     if (ole_model_load(&model, "run/best.safetensors", 1, &error) != OLE_OK) ...
 *     ole_prediction p;
 *     if (ole_model_predict_file(model, "cat.png", &p, &error) != OLE_OK) ...
 *     const char *const *names = ole_model_get_info(model)->class_names;
 *     printf("%s %.3f\n", p.label < 0 ? "unknown" : names[p.label], p.score);
 *     ole_model_free(model);
 *
 * Use one model from one thread at a time: a call that runs it while another does is an
 * OLE_ERROR_ARGUMENT.  A model of 1 thread runs in the caller's.  More are
 * OpenMP's: they stay when the model is freed, and a child of fork() that predicts with them waits
 * for ever, for it has none.  A program that predicts and forks loads its models with 1 thread.
 */
#ifndef OLE_TRAIN_MODEL_H
#define OLE_TRAIN_MODEL_H

#include "ole/train/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_model ole_model;

/*
 * How sure a model is that a sample belongs to one of its classes: the larger, the surer.  A
 * threshold on one of these says what is unknown (ole/train/novelty.h).
 */
typedef enum ole_score {
    OLE_SCORE_NONE = 0,
    OLE_SCORE_SOFTMAX = 1,    /* the largest softmax score, as in the paper */
    OLE_SCORE_CALIBRATED = 2, /* the same at the model's temperature: the score of predictions */
    OLE_SCORE_RESIDUAL = 3, /* share of the feature's energy inside the nearest class's subspace: */
                            /* 1 less the residual outside */
    OLE_SCORE_COSINE = 4,   /* of the feature with the mean direction of the nearest class */
    OLE_SCORE_ENERGY = 5,   /* log-sum-exp of the logits */
} ole_score;

/* "softmax", "calibrated", ...; never NULL. */
OLE_API const char *ole_score_name(ole_score score);

typedef struct ole_model_info {
    const char *net;
    int channels, height, width;
    int64_t features;
    int classes;
    const char *const *class_names;
    double threshold;          /* of the score under which a sample is unknown; 0: none stored */
    ole_score threshold_score; /* which score that is; OLE_SCORE_NONE: none stored */
    double temperature;        /* that logits are divided by for the scores of predictions */
    bool classifier;           /* false: trained with OLE_LOSS_OLE, which leaves it as it began: */
                               /* logits and softmax scores mean nothing, features do */
} ole_model_info;

/*
 * `path`: a .safetensors file or a run folder (then its best, or its last).  `threads`: 0 for all
 * processors.
 */
OLE_API ole_status ole_model_load(ole_model **model, const char *path, int threads,
                                  ole_error *error);
OLE_API void ole_model_free(ole_model *model);
OLE_API const ole_model_info *ole_model_get_info(const ole_model *model);

enum { OLE_RUNNERS_UP = 4 };

typedef struct ole_prediction {
    int label;                     /* -1: unknown, known_score is under the threshold */
    int best;                      /* the class with the highest score, known or not */
    double score;                  /* its softmax score, at the model's temperature */
    int runner_up[OLE_RUNNERS_UP]; /* the next classes, -1 where there are no more */
    double runner_up_score[OLE_RUNNERS_UP];
    double known_score; /* the score that the threshold is of; NaN where the model has none */
} ole_prediction;

/*
 * images: [count, channels, height, width] floats in [0, 1] (bytes / 255), not normalised; the
 * model normalises as it was trained.  Either output may be NULL.  Of a model whose classifier was
 * not trained the logits are given all the same; look at ole_model_info.classifier.
 * OLE_ERROR_DATA: NaN or Inf in an image, which the message names.
 */
OLE_API ole_status ole_model_run(ole_model *model, const float *images, int64_t count,
                                 float *features /* [count, features] */,
                                 float *logits /* [count, classes] */, ole_error *error);

/*
 * The same for a split of a data set, whose images must have the model's shape.  Stopped by the
 * callback (below): OLE_OK, and the outputs of samples not yet run are as they were.
 */
OLE_API ole_status ole_model_run_split(ole_model *model, const ole_dataset *set, ole_split split,
                                       float *features, float *logits, ole_error *error);

/*
 * Whether the training split of a set has the mean and deviation that the model normalises with: of
 * a model that was trained with `normalize` "auto" whether these are the samples it was trained on.
 */
OLE_API bool ole_model_trained_on(const ole_model *model, const ole_dataset *set);

/*
 * From now on ole_model_run_split() and ole_evaluate() say how far they are, after each batch.
 * NULL: no longer.
 */
OLE_API void ole_model_watch(ole_model *model, ole_part_callback *callback, void *context);

/*
 * OLE_ERROR_UNSUPPORTED where the classifier was not trained: compare features instead, of
 * ole_model_run(), as ole/classify.h does.  OLE_ERROR_DATA as above; OLE_ERROR_NUMERIC where the
 * logits of an image overflow: predictions of images before it may be there.
 */
OLE_API ole_status ole_model_predict(ole_model *model, const float *images, int64_t count,
                                     ole_prediction *predictions, ole_error *error);

/* The same for one png, jpeg, pgm or ppm file, resized to the model's input. */
OLE_API ole_status ole_model_predict_file(ole_model *model, const char *path,
                                          ole_prediction *prediction, ole_error *error);

/*
 * The samples of a .npy file as ole_model_run() and ole_model_predict() take them, [*count,
 * channels, height, width], to be freed with free(): vectors (N, D), or images (N, H, W), (N, C, H,
 * W) or (N, H, W, C), as uint8 (which become 0 to 1) or floats.  OLE_ERROR_DATA where they do not
 * have the model's shape, or hold NaN or Inf; *samples is NULL then.
 */
OLE_API ole_status ole_model_read_npy(const ole_model *model, const char *path, float **samples,
                                      int64_t *count, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
