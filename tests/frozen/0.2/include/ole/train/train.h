/*
 * ole/train/train.h - training a network with softmax, OLÉ, or both.
 *
 * Example: train a small network on the embedded digits.
 *
 *     ole_train_options options;
 *     ole_train_options_init(&options);
 *     options.data = "digits";
 *     options.net = "C32-MP-C64-MP-FC64";
 *     options.out = "run";
 *     ole_train_summary summary;
 *     if (ole_train(&options, &summary, &error) != OLE_OK) return puts(error.message), 1;
 *     printf("test error %.2f %%\n", summary.test_error);
 *
 * The run folder `out` holds config.yaml, metrics.jsonl, last.safetensors and best.safetensors.
 */
#ifndef OLE_TRAIN_TRAIN_H
#define OLE_TRAIN_TRAIN_H

#include "ole/base.h"
#include "ole/ranks.h"
#include "ole/train/data.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

typedef struct ole_train_options ole_train_options; /* below */

/* For several seeds: means, and standard deviations (n - 1) over the finished runs. */
typedef struct ole_train_summary {
    int64_t runs;            /* finished */
    int64_t epochs;          /* completed in the last run */
    double test_error;       /* % of best.safetensors (NaN for OLE_LOSS_OLE or no test split) */
    double validation_error; /* % (of 1-NN for OLE_LOSS_OLE; NaN without a validation split) */
    double knn1_error;       /* % of 1-NN with cosine distance on the features; of the last epoch */
                             /* except for OLE_LOSS_OLE */
    double test_error_std, validation_error_std, knn1_error_std; /* NaN for fewer than 2 runs */
    int64_t best_epoch; /* of best.safetensors, which has the lowest validation error; 0 for */
                        /* several runs and without a validation split */
    double best_error;  /* % of the validation split at that epoch */
    double seconds;
    bool interrupted;
    double last_test_error, last_validation_error; /* % of the last epoch; NaN for several runs */
} ole_train_summary;

/*
 * Trains.  A NaN or Inf loss is OLE_ERROR_NUMERIC, with step, layer and advice; checkpoints written
 * before it stay.  On an error the summary is not filled.
 */
OLE_API ole_status ole_train(const ole_train_options *options, ole_train_summary *summary,
                             ole_error *error);

/* ---- Options -------------------------------------------------------------------------------- */

/*
 * What is minimised, as bits: softmax or a loss in its place, and what is added to it.  One loss
 * besides softmax and OLÉ at a time; center needs softmax.
 */
typedef enum ole_loss_kind {
    OLE_LOSS_SOFTMAX = 1,
    OLE_LOSS_OLE = 2,
    OLE_LOSS_BOTH = 3,
    /* Beside softmax or alone (center: only beside), weighted by loss_weight: */
    OLE_LOSS_CENTER = 1 << 2,
    OLE_LOSS_CONTRASTIVE = 1 << 3,
    OLE_LOSS_TRIPLET = 1 << 4,
    OLE_LOSS_SUPCON = 1 << 9,
    OLE_LOSS_MCR2 = 1 << 10,
    OLE_LOSS_OPL = 1 << 11,
    OLE_LOSS_SSOLE = 1 << 12,
    OLE_LOSS_OLE_UNIT = 1 << 14,
    /* In softmax's place: */
    OLE_LOSS_L_SOFTMAX = 1 << 5,
    OLE_LOSS_A_SOFTMAX = 1 << 6,
    OLE_LOSS_COSFACE = 1 << 7,
    OLE_LOSS_ARCFACE = 1 << 8,
    OLE_LOSS_LOGIT_NORM = 1 << 13,
    /* Any of these trains the classifier: */
    OLE_LOSS_CLASSIFIERS = OLE_LOSS_SOFTMAX | OLE_LOSS_L_SOFTMAX | OLE_LOSS_A_SOFTMAX |
                           OLE_LOSS_COSFACE | OLE_LOSS_ARCFACE | OLE_LOSS_LOGIT_NORM,
} ole_loss_kind;

#define OLE_LOSS_WEIGHT_AUTO (-1.0)

/* Errors are in %; NaN where not measured. */
typedef struct ole_train_progress {
    int64_t run, runs;                          /* with several seeds, from 1 */
    int64_t epoch, epochs;                      /* from 1 */
    int64_t step, steps;                        /* of the epoch, from 1 */
    double softmax_loss, ole_loss, train_error; /* means over the epoch so far */
    double lr;
    double images_per_second;
    double seconds;      /* of this run so far, including the time before a resume */
    double seconds_left; /* of all runs */
    bool epoch_done;     /* only then are the errors below valid */
    double test_error, validation_error, knn1_error;
    double comm_seconds; /* of the epoch so far that this rank waited for others */
    double feature_loss; /* of a loss beside softmax or alone that is not OLÉ, without its weight */
} ole_train_progress;

/* Return true to stop: the step is finished, the run saved, the status OLE_OK, interrupted set. */
typedef bool ole_train_callback(void *context, const ole_train_progress *progress);

/* Receives a sentence to show the user: a warning, or what was loaded. The library never prints. */
typedef void ole_train_message(void *context, const char *text);

struct ole_model;

/*
 * Every field has the name of its recipe key and its flag.  Fill with ole_train_options_init().
 *
 * Defaults that depend on the data.  Without `net`, ole_net_suggest() names one.  Without `resize`,
 * folder images of different sizes are scaled to 32, 64 or 96 pixels, whichever is nearest to the
 * median of their shorter sides; without `net`, so are images of one size over 128 pixels.  Without
 * `channels`, a folder with both grey and colour images is read as colour.  `epochs` 0 means 20;
 * for few samples from a folder or .npy files, as many as make 200 steps, at most 100.  `message`
 * reports each choice, and config.yaml and checkpoints store it as if it had been given.
 */
struct ole_train_options {
    size_t struct_size;     /* set by init; see "Versions" in ole/base.h */
    const char *data;       /* NAME[:PATH] of ole/train/data.h */
    const char *net;        /* name or notation of ole/train/net.h; NULL: chosen, see above */
    const char *out;        /* run folder; NULL: nothing is written */
    const char *init_from;  /* initial weights, safetensors or .caffemodel: a file, URL[#sha256=...]
                             * or hf:OWNER/MODEL, downloaded into the cache; NULL: none */
    const char *freeze;     /* prefixes of parameter names, comma-separated; NULL: none */
    const char *classes;    /* as in ole_dataset_options */
    const char *milestones; /* "50%,75%" or "81,122" or "cosine" or "none"; default "50%,75%" */
    const char *augment;    /* "crop:4,flip"; default "" */
    const char
        *normalize; /* "auto" (default), "none", "half", "cifar", "imagenet", or "m,m,m/s,s,s" */
    const char *ole_at;  /* "" (classifier's input), or tokens "3:0.1,5:0.5"; without :weight λ */
    const char *sampler; /* "" (shuffle), "balanced" or "balanced:CxK" */
    const char *init;    /* "xavier" (default) or "msra" */
    const char *opt;     /* "sgd" (default), "adam" or "adamw" */
    const char *device;  /* "auto" (default: a GPU if there is one), "cpu", "cuda[:i]", "ref" */
    const char *precision;     /* "fp32" (default), "tf32" (GPU), "bf16" */
    const char *conv;          /* "auto" (default) or "direct" */
    ole_loss_kind loss;        /* default OLE_LOSS_BOTH */
    double lambda;             /* default 0.25 */
    int64_t epochs;            /* default 20; 0: chosen, see above */
    int64_t batch_size;        /* default 64 */
    double lr;                 /* 0 (default): 0.1 for sgd, 1e-3 for the others */
    double gamma;              /* factor at milestones; default 0.1 */
    double warmup;             /* epochs of linear warm-up; default 0 */
    double momentum;           /* default 0.9 */
    bool nesterov;             /* default true */
    double weight_decay;       /* default 1e-4 */
    uint64_t seed;             /* default 0 */
    int64_t seeds;             /* runs with seed, seed + 1, ..., in out/seed-N; default 1 */
    int64_t samples_per_class; /* of the training set; default 0: all */
    double val_split;          /* share of the training set to hold out; default 0 */
    double test_share;         /* as in ole_dataset_options, like the next three; default 0.2 */
    int resize;                /* folder; default 0: chosen if needed, see above */
    int channels;              /* folder; default 0 */
    bool skip_bad;             /* default false */
    int threads;               /* 0: all cores */
    int workers;               /* loader threads; default 1 */
    int64_t eval_every;        /* epochs; default 1; the last is always evaluated */
    bool resume;               /* continue from out/last.safetensors */
    ole_train_callback *callback;
    ole_train_message *message;
    void *callback_context; /* of both */
    /*
     * Receives the trained model of ole/train/model.h; or NULL.  It keeps the outputs of the last
     * evaluation on the test split (without one: on the validation split) for ole/train/report.h.
     */
    struct ole_model **model;
    bool skip_test; /* do not read the test split; default false */
    /*
     * Several processes that train one network, each on its part of every batch; NULL: alone.  All
     * call ole_train() with the same options except the path in data, out, device, threads and
     * workers.  Rank 0 writes the run folder and calls `message`; `callback` is called on all, and
     * any rank can stop the run.  A failure to open, evaluate or save a run is an error on all
     * ranks.  A failure between GPUs or within a step may be one rank's alone: the others wait
     * until it calls ole_ranks_fail().
     */
    ole_ranks *ranks;
    const char *bn;        /* batch-norm statistics: "sync" (default: of the whole batch) or */
                           /* "local" (of a rank's part of it) */
    const char *ole_scope; /* OLÉ of the whole batch: "global" (default), or "local": the mean of */
                           /* the losses of the ranks' parts, each computed alone */
    const ole_ranks *beside; /* ranks with runs of their own on these hosts: use only this */
                             /* rank's share of threads and GPUs; NULL: all of them */
    int64_t save_every;      /* epochs between checkpoints; default 0: every epoch, or fewer if */
                             /* saving took over 5 % of the time. The end is always saved */
    double delta_floor;      /* OLÉ's thresholds, as in ole_loss_options; default 1, */
    double delta_abs;        /* 1e-6 */
    double delta_rel;        /* and OLE_DELTA_REL_AUTO */
    bool restart_schedule; /* of a finished run that is resumed with more epochs: milestones and */
                           /* cosine span all epochs; default false: its last learning rate stays */
    bool unknown; /* find the threshold under which ole_model_predict() answers "unknown", from the
                   */
                  /* validation split, else from `calibration`, else from the training split; */
                  /* default true */
    double calibration; /* without val_split: share of the training set to hold out for that */
                        /* threshold alone, as in ole_dataset_options; default 0, while */
                        /* `ole train` holds out 10 % of folder: and npy: */
    double beta1, beta2, eps; /* of adam and adamw; default 0.9, 0.999, 1e-8 */
    double label_smoothing;   /* share of softmax's target spread over all classes; default 0 */
    double clip_norm;         /* the largest norm of all gradients together; default 0: any */
    const char *lr_backbone;  /* of all but the classifier: "0.1x" of lr, or a rate; default "1x" */
    int64_t probe_epochs; /* train only the classifier for so many of `epochs` first; default 0 */
    double
        ema; /* decay per step of a moving average of the weights, which is evaluated and becomes */
             /* the model; default 0: none */
    const char *align;  /* folder: a .csv of landmarks, as in ole_dataset_options; default "" */
    double loss_weight; /* of the loss beside softmax that is not OLÉ; default OLE_LOSS_WEIGHT_AUTO:
                         * its own, docs/maths.md */
    const char *loss_options; /* "margin=0.5,scale=30": of the loss besides softmax and OLÉ */
    const char *keep; /* which model: "best", of the epoch with the lowest error on the samples */
                      /* that val_split or calibration hold out, or "last"; default "auto": best */
                      /* with val_split, else last */
};

OLE_API void ole_train_options_init_sized(ole_train_options *options, size_t struct_size);
static inline void ole_train_options_init(ole_train_options *options) {
    ole_train_options_init_sized(options, sizeof *options);
}

/* Sets one option from text, which must outlive `options`. '-' in the name counts as '_'. */
OLE_API ole_status ole_train_options_set(ole_train_options *options, const char *name,
                                         const char *text, ole_error *error);

/* ---- Recipes -------------------------------------------------------------------------------- */

/*
 * Sets the options that a YAML file gives: a map from option to value, with lists for what is
 * comma-separated.  The recipe owns the strings: free it after the last use of `options`.
 */
typedef struct ole_recipe ole_recipe;

OLE_API ole_status ole_recipe_read(ole_recipe **recipe, const char *path,
                                   ole_train_options *options, ole_error *error);
OLE_API void ole_recipe_free(ole_recipe *recipe);

/* The same from memory; messages call the text `name`. */
OLE_API ole_status ole_recipe_parse(ole_recipe **recipe, const char *text, size_t length,
                                    const char *name, ole_train_options *options, ole_error *error);

/* Writes all options but out, resume and restart_schedule, and where a relative path in data leads:
 * ole_recipe_read() takes that where the path itself is not found. */
OLE_API ole_status ole_recipe_write(const char *path, const ole_train_options *options,
                                    ole_error *error);

/* ---- May still change: build and machine ---------------------------------------------------- */

/* Whether this device runs recorded steps on its own, as a GPU does, so that runs can share it. */
OLE_API bool ole_device_queues(const char *device);

/* Facts about this build of liboletrain; use it as ole_info(). */
OLE_API size_t ole_train_info(ole_info_row *rows, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
