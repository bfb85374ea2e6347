/*
 * ole/train.h - training a network with softmax, OLÉ, or both.
 *
 *     ole_train_options options;
 *     ole_train_options_init(&options);
 *     options.data = "digits";
 *     options.net = "C32-MP-C64-MP-FC64";
 *     options.out = "run";
 *     ole_train_summary summary;
 *     if (ole_train(&options, &summary, &error) != OLE_OK) ...
 *     printf("test error %.2f %%\n", summary.test_error);
 *
 * The run folder `out` holds config.yaml, metrics.jsonl, last.safetensors and best.safetensors.
 */
#ifndef OLE_TRAIN_H
#define OLE_TRAIN_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ole_loss_kind {
    OLE_LOSS_SOFTMAX = 1,
    OLE_LOSS_OLE = 2,
    OLE_LOSS_BOTH = 3,
} ole_loss_kind;

/* What a callback sees while training. Errors are in %. */
typedef struct ole_train_progress {
    int64_t epoch, epochs;                      /* from 1 */
    int64_t step, steps;                        /* of the epoch, from 1 */
    double softmax_loss, ole_loss, train_error; /* means over the epoch so far */
    double images_per_second;
    double seconds_left;
    bool epoch_done; /* test_error and knn1_error hold only then; NaN where not measured */
    double test_error, validation_error, knn1_error;
} ole_train_progress;

/* Return true to stop: the step is finished, the run saved, the status OLE_OK, interrupted set. */
typedef bool ole_train_callback(void *context, const ole_train_progress *progress);

/* Every field has the name of its recipe key and flag. Fill with ole_train_options_init(). */
typedef struct ole_train_options {
    size_t struct_size;
    const char *data;       /* NAME[:PATH] of ole/data.h */
    const char *net;        /* name or notation of ole/net.h */
    const char *out;        /* run folder; NULL: nothing is written */
    const char *init_from;  /* safetensors or .caffemodel; NULL: none */
    const char *freeze;     /* prefixes of parameter names, comma-separated; NULL: none */
    const char *classes;    /* as in ole_dataset_options */
    const char *milestones; /* "50%,75%" or "81,122" or "cosine"; default "50%,75%" */
    const char *augment;    /* "crop:4,flip"; default "" */
    const char *normalize;  /* "auto" (default), "none", "half", "cifar", or "m,m,m/s,s,s" */
    const char *ole_at;     /* "" (classifier's input), or tokens "3:0.1,5:0.5" with weights */
    const char *sampler;    /* "" (shuffle) or "balanced:CxK" */
    const char *init;       /* "xavier" (default) or "msra" */
    const char *opt;        /* "sgd" (default) or "adam" */
    const char *device;     /* "auto" (default), "cpu", "ref" */
    const char *precision;  /* "fp32" (default), "bf16" */
    const char *conv;       /* "auto" (default) or "direct" */
    ole_loss_kind loss;     /* default OLE_LOSS_BOTH */
    double lambda;          /* default 0.25 */
    int64_t epochs;         /* default 20 */
    int64_t batch_size;     /* default 64 */
    double lr;              /* default 0.1 for sgd, 1e-3 for adam (given as 0) */
    double gamma;           /* factor at milestones; default 0.1 */
    double warmup;          /* epochs of linear warm-up; default 0 */
    double momentum;        /* default 0.9 */
    bool nesterov;          /* default true */
    double weight_decay;    /* default 1e-4 */
    uint64_t seed;          /* default 0 */
    int64_t samples_per_class;
    double val_split;   /* share, default 0 */
    int threads;        /* 0: all cores */
    int workers;        /* loader threads; default 1 */
    int64_t eval_every; /* epochs; default 1; the last is always evaluated */
    bool resume;        /* go on from out/last.safetensors */
    ole_train_callback *callback;
    void *callback_context;
} ole_train_options;

OLE_API void ole_train_options_init(ole_train_options *options);

typedef struct ole_train_summary {
    int64_t epochs;          /* done */
    double test_error;       /* % at the end (NaN for OLE_LOSS_OLE) */
    double validation_error; /* % (NaN without a validation split) */
    double knn1_error;       /* % of 1-NN with cosine distance on the features */
    double seconds;
    bool interrupted;
} ole_train_summary;

/* Trains. A NaN or Inf loss is OLE_ERROR_NUMERIC with step, layer and advice. */
OLE_API ole_status ole_train(const ole_train_options *options, ole_train_summary *summary,
                             ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
