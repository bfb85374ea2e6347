/*
 * ole/train/train.h - training a network with softmax, OLÉ, or both.
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
#ifndef OLE_TRAIN_TRAIN_H
#define OLE_TRAIN_TRAIN_H

#include "ole/base.h"
#include "ole/ranks.h"
#include "ole/train/data.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ole_loss_kind {
    OLE_LOSS_SOFTMAX = 1,
    OLE_LOSS_OLE = 2,
    OLE_LOSS_BOTH = 3,
} ole_loss_kind;

/* What a callback sees while training. Errors are in %; NaN where not measured. */
typedef struct ole_train_progress {
    int64_t run, runs;                          /* of several seeds, from 1 */
    int64_t epoch, epochs;                      /* from 1 */
    int64_t step, steps;                        /* of the epoch, from 1 */
    double softmax_loss, ole_loss, train_error; /* means over the epoch so far */
    double lr;
    double images_per_second;
    double seconds;      /* of this run so far, what it had before a resume included */
    double seconds_left; /* of all runs */
    bool epoch_done;     /* the errors below hold only then */
    double test_error, validation_error, knn1_error;
    double comm_seconds; /* of the epoch so far, in which this rank waited for others */
} ole_train_progress;

/* Return true to stop: the step is finished, the run saved, the status OLE_OK, interrupted set. */
typedef bool ole_train_callback(void *context, const ole_train_progress *progress);

/* Takes a sentence that is worth showing: a warning, or what was loaded. The library never prints.
 */
typedef void ole_train_message(void *context, const char *text);

struct ole_model;

/* Every field has the name of its recipe key and flag. Fill with ole_train_options_init(). */
typedef struct ole_train_options {
    size_t struct_size;
    const char *data;       /* NAME[:PATH] of ole/train/data.h */
    const char *net;        /* name or notation of ole/train/net.h; NULL: ole_net_suggest() */
    const char *out;        /* run folder; NULL: nothing is written */
    const char *init_from;  /* safetensors or .caffemodel; NULL: none */
    const char *freeze;     /* prefixes of parameter names, comma-separated; NULL: none */
    const char *classes;    /* as in ole_dataset_options */
    const char *milestones; /* "50%,75%" or "81,122" or "cosine" or "none"; default "50%,75%" */
    const char *augment;    /* "crop:4,flip"; default "" */
    const char *normalize;  /* "auto" (default), "none", "half", "cifar", or "m,m,m/s,s,s" */
    const char *ole_at;  /* "" (classifier's input), or tokens "3:0.1,5:0.5"; without :weight λ */
    const char *sampler; /* "" (shuffle) or "balanced:CxK" */
    const char *init;    /* "xavier" (default) or "msra" */
    const char *opt;     /* "sgd" (default) or "adam" */
    const char *device;  /* "auto" (default: a GPU where there is one), "cpu", "cuda[:i]", "ref" */
    const char *precision;     /* "fp32" (default), "tf32" (GPU), "bf16" */
    const char *conv;          /* "auto" (default) or "direct" */
    ole_loss_kind loss;        /* default OLE_LOSS_BOTH */
    double lambda;             /* default 0.25 */
    int64_t epochs;            /* default 20; 0: chosen, see below */
    int64_t batch_size;        /* default 64 */
    double lr;                 /* default 0.1 for sgd, 1e-3 for adam (given as 0) */
    double gamma;              /* factor at milestones; default 0.1 */
    double warmup;             /* epochs of linear warm-up; default 0 */
    double momentum;           /* default 0.9 */
    bool nesterov;             /* default true */
    double weight_decay;       /* default 1e-4 */
    uint64_t seed;             /* default 0 */
    int64_t seeds;             /* runs with seed, seed + 1, ..., in out/seed-N; default 1 */
    int64_t samples_per_class; /* of the training set; default 0: all */
    double val_split;          /* share held out of the training set; default 0 */
    double test_share;         /* as in ole_dataset_options, like the next three; default 0.2 */
    int resize;                /* folder; default 0: chosen where need be, see below */
    int channels;              /* folder; default 0 */
    bool skip_bad;             /* default false */
    int threads;               /* 0: all cores */
    int workers;               /* loader threads; default 1 */
    int64_t eval_every;        /* epochs; default 1; the last is always evaluated */
    bool resume;               /* go on from out/last.safetensors */
    ole_train_callback *callback;
    ole_train_message *message;
    void *callback_context; /* of both */
    /*
     * NULL, or where the trained model of ole/train/model.h goes.  It keeps what the last
     * evaluation made of the test split (without one: of the validation split), for
     * ole/train/report.h.
     */
    struct ole_model **model;
    bool skip_test; /* the test split is not looked at; default false */
    /*
     * Several processes that train one network, each on its part of every batch; NULL: alone. All
     * call ole_train() with the same options, but for data's path, out, device, threads and
     * workers.  Rank 0 writes the run folder and calls `message`; `callback` is called on all, and
     * any of them can stop the run.  What goes wrong when a run is opened, evaluated or saved is an
     * error on all ranks; what goes wrong between cards or within a step may be one rank's alone:
     * the others wait until that one calls ole_ranks_fail().
     */
    ole_ranks *ranks;
    const char *bn;        /* statistics of batch norm: "sync" (default: of the whole batch) or */
                           /* "local" (of a rank's part of it) */
    const char *ole_scope; /* OLÉ of the whole batch: "global" (default), or "local": the mean of */
                           /* the losses of the ranks' parts, which do not see each other */
    const ole_ranks *beside; /* ranks at other runs: this one takes its share of the host's */
                             /* threads and cards, no more; NULL: all of them */
    int64_t save_every;      /* epochs between checkpoints; default 0: each, or fewer where they */
                             /* would take over a twentieth of the time. The end is always saved */
    double delta_floor;      /* OLÉ's thresholds, as in ole_loss_options; default 1, */
    double delta_abs;        /* 1e-6 */
    double delta_rel;        /* and OLE_DELTA_REL_AUTO */
} ole_train_options;

OLE_API void ole_train_options_init(ole_train_options *options);

/* The samples that a run takes, and those that it holds out: the options to open its data with. */
OLE_API void ole_train_dataset_options(const ole_train_options *options, ole_dataset_options *data);

/* Whether a device of such a name runs steps by itself once they are recorded, as a GPU does: then
 * several runs can share it. */
OLE_API bool ole_device_queues(const char *device);

/*
 * What the data decide.  Without `net`, ole_net_suggest() names one.  Without `resize`, the images
 * of a folder that differ in size are scaled to 32, 64 or 96 pixels, whichever is nearest to the
 * median of their shorter sides; without `net` also those of one size over 128 pixels.  Without
 * `channels`, images of which some are grey and some coloured all become coloured.  With `epochs` 0
 * there are 20, and of few samples, from a folder or .npy files, as many as make 200 steps, 100 at
 * most.  Each choice is told by `message`, and stored in config.yaml and checkpoints as if it had
 * been given.
 */

/* One option by name, for command lines and recipes. */
typedef struct ole_train_option {
    const char *name;  /* of the field; the flag is the same with '-' for '_' */
    const char *value; /* what it takes: "N", "sgd|adam"; NULL: it is on or off */
    const char *help;  /* one line */
} ole_train_option;

OLE_API size_t ole_train_option_count(void);
OLE_API ole_train_option ole_train_option_get(size_t i);

/* Sets an option from text, which must outlive `options`. '-' in the name counts as '_'. */
OLE_API ole_status ole_train_options_set(ole_train_options *options, const char *name,
                                         const char *text, ole_error *error);

/*
 * Option i as text: the string itself, or a number printed into `room`; NULL: not set.
 * ole_train_options_set() reads it back to the same value.
 */
enum { OLE_TRAIN_OPTION_TEXT = 48 };
OLE_API const char *ole_train_option_text(const ole_train_options *options, size_t i,
                                          char room[OLE_TRAIN_OPTION_TEXT]);

/*
 * Sets what a YAML file gives: a map from option to value, lists for what is comma-separated.
 * The recipe owns the strings: free it after the last use of `options`.
 */
typedef struct ole_recipe ole_recipe;

OLE_API ole_status ole_recipe_read(ole_recipe **recipe, const char *path,
                                   ole_train_options *options, ole_error *error);
OLE_API void ole_recipe_free(ole_recipe *recipe);

/* The same from memory; `name` is what messages call the text. */
OLE_API ole_status ole_recipe_parse(ole_recipe **recipe, const char *text, size_t length,
                                    const char *name, ole_train_options *options, ole_error *error);

/*
 * One key of a recipe, `paper`, holds a map of its own: what is known about the experiment.
 * Training passes over it; `ole reproduce` reads it.  The notes are the recipe's, in their order.
 */
typedef struct ole_recipe_note {
    const char *key, *value; /* lists with commas between */
} ole_recipe_note;

OLE_API const ole_recipe_note *ole_recipe_notes(const ole_recipe *recipe, size_t *count);

/* Writes all options but out and resume. */
OLE_API ole_status ole_recipe_write(const char *path, const ole_train_options *options,
                                    ole_error *error);

/* Of several seeds: means, and standard deviations (n - 1) over the runs that were finished. */
typedef struct ole_train_summary {
    int64_t runs;            /* finished */
    int64_t epochs;          /* done, in the last run */
    double test_error;       /* % at the end (NaN for OLE_LOSS_OLE or without a test split) */
    double validation_error; /* % (of 1-NN for OLE_LOSS_OLE; NaN without a validation split) */
    double knn1_error;       /* % of 1-NN with cosine distance on the features */
    double test_error_std, validation_error_std, knn1_error_std; /* NaN for fewer than 2 runs */
    int64_t best_epoch; /* whose model is best.safetensors, which has the least validation error;
                           0 without a validation split, and of several runs */
    double best_error;  /* % of the validation split there */
    double seconds;
    bool interrupted;
} ole_train_summary;

/*
 * Trains.  A NaN or Inf loss is OLE_ERROR_NUMERIC with step, layer and advice; checkpoints written
 * before it stay.  On an error the summary is not filled.
 */
OLE_API ole_status ole_train(const ole_train_options *options, ole_train_summary *summary,
                             ole_error *error);

/* What this build of liboletrain holds, as ole_info() tells it of libole; used in the same way. */
OLE_API size_t ole_train_info(ole_info_row *rows, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
