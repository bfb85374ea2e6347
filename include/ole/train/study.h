/*
 * ole/train/study.h - many runs that answer one question: which λ (ole_tune), how many samples per
 * class (ole_sweep), with or without OLÉ (ole_compare).
 *
 * Example: choose λ with five seeds for each value.
 *
 *     ole_train_options train;
 *     ole_train_options_init(&train);
 *     train.data = "stl10";
 *     train.net = "cnn5";
 *     train.seeds = 5;
 *     train.out = "tuning";
 *     ole_study_options options;
 *     ole_study_options_init(&options);
 *     options.train = &train;
 *     ole_study_result result;
 *     if (ole_tune(&options, &result, &error) != OLE_OK) return puts(error.message), 1;
 *     if (result.picked >= 0) printf("lambda %g\n", result.points[result.picked].lambda);
 *     ole_study_result_free(&result);
 *
 * The folder train.out holds one run folder per run ("lambda-0.25/seed-0") and, rewritten after
 * each run, results.json, results.csv, curve.svg, curve.png (if the build has cairo) and
 * report.html.  The same call on the same folder resumes the study: finished runs stay as they are,
 * and an interrupted one continues from its checkpoint.  It may add values and seeds and change the
 * device; anything else that would change the runs is refused.  Initial weights (init_from) may
 * have moved, but must be the same file by SHA-256.
 *
 * A run is the one that ole_train() would make with the same options.  A run that diverges (NaN or
 * Inf) is recorded in failed.txt in its folder and not repeated; the other runs continue.
 */
#ifndef OLE_TRAIN_STUDY_H
#define OLE_TRAIN_STUDY_H

#include "ole/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results -------------------------------------------------------------------------------- */

typedef enum ole_study_kind {
    OLE_STUDY_TUNE = 1,
    OLE_STUDY_SWEEP = 2,
    OLE_STUDY_COMPARE = 3,
} ole_study_kind;

/* Which part of a study a point belongs to. */
typedef enum ole_study_part {
    OLE_STUDY_GRID = 0,    /* a point of the curve */
    OLE_STUDY_RETRAIN = 1, /* of ole_tune(): on all training data, then tested */
} ole_study_part;

typedef enum ole_study_state {
    OLE_STUDY_WAITS = 0, /* not started, running or interrupted */
    OLE_STUDY_FINISHED = 1,
    OLE_STUDY_DIVERGED = 2,
} ole_study_state;

/* Over the finished runs of a point, in %: NaN if not measured, or for too few runs. */
typedef struct ole_study_error {
    double mean, std;
} ole_study_error;

/* `seeds` runs that differ only in their seed. */
typedef struct ole_study_point {
    ole_study_part part;
    double lambda;              /* 0: softmax alone */
    int64_t samples;            /* per class; 0: all */
    int64_t finished, diverged; /* runs */
    ole_study_error test, validation, knn1;
} ole_study_point;

typedef struct ole_study_run {
    int64_t point; /* number of its point */
    uint64_t seed;
    const char *folder; /* in the study's folder */
    ole_study_state state;
    double test_error, validation_error, knn1_error; /* % at the end; NaN if not measured */
    double seconds;
} ole_study_run;

typedef struct ole_study_result {
    ole_study_kind kind;
    int64_t seeds;
    int64_t point_count;
    ole_study_point *points; /* by samples, then λ; the retrained ones last */
    int64_t run_count;
    ole_study_run *runs;  /* [point_count * seeds], point after point */
    int64_t ended, total; /* runs finished or diverged; all runs, including those not yet listed */
    int64_t picked; /* of ole_tune(): the point with the lowest mean validation error; else -1 */
    bool interrupted;
} ole_study_result;

/* Frees what a result holds; a result that was not filled must be zero. */
OLE_API void ole_study_result_free(ole_study_result *result);

/* ---- Options -------------------------------------------------------------------------------- */

/* Called for one run at a time. */
typedef struct ole_study_progress {
    const ole_study_result *result;  /* so far */
    int64_t run;                     /* number of the run that this is about */
    const ole_train_progress *train; /* of that run; NULL: it has ended */
    double seconds_left;             /* of all runs; NaN while unknown */
} ole_study_progress;

/* Return true to stop: running runs are saved, the status is OLE_OK, `interrupted` set. */
typedef bool ole_study_callback(void *context, const ole_study_progress *progress);

/* Fill with ole_study_options_init(). */
typedef struct ole_study_options {
    size_t struct_size; /* set by init; see "Versions" in ole/base.h */
    /* What all runs have in common.  `out` is the study's folder, `seeds` the runs per point;
     * lambda comes from the grid, and 0 there makes the loss OLE_LOSS_SOFTMAX; `resume` requires
     * the folder to hold a study; callback, message, model and ranks are ignored. */
    const ole_train_options *train;
    /* NULL: those of the study in the folder, or the defaults: 0 and 1/64, 1/32, ... 1 for
     * ole_tune(), 0 and 0.25 for ole_sweep(), 0 and train.lambda for ole_compare(). */
    const double *lambdas;
    int64_t lambda_count;
    const int64_t *samples; /* of ole_sweep(); NULL: likewise, or 50, 100, 200, 300, 400, 500 */
    int64_t sample_count;
    bool baseline; /* of ole_tune(): also retrain and test softmax alone */
    bool look;     /* run and write nothing: the result is what the folder holds */
    bool check;    /* the same, and fail if anything would prevent the study from starting or */
                   /* resuming */
    int jobs;      /* concurrent runs in this process; 0: the seeds of a point on a device that */
                   /* queues its steps, else 1 */
    ole_study_callback *callback;
    ole_train_message *message;
    void *callback_context; /* of both */
    /*
     * Several processes that share the runs, each run done by one of them; NULL: this one does all.
     * All make the same call, with `out` in a shared file system, and get the same result or error.
     * Rank 0 writes the study's files, and its callback is called for every run that ends; the
     * other ranks' callbacks are called for their own runs.  Any of them may stop the study.
     */
    ole_ranks *ranks;
    /* Of a study that a recipe describes; NULL: none.  The recipe's text is kept as recipe.yaml in
     * the folder; data_name is its name for the data, which may be at another path (train.data)
     * when the study resumes. */
    const char *recipe, *data_name;
    /* Of ole_tune(): the training option whose values `lambdas` are, such as "weight_decay" or
     * "loss_options:margin"; points have them as `lambda`, and no value stands for softmax alone.
     * NULL (default): λ. */
    const char *vary;
} ole_study_options;

OLE_API void ole_study_options_init_sized(ole_study_options *options, size_t struct_size);
static inline void ole_study_options_init(ole_study_options *options) {
    ole_study_options_init_sized(options, sizeof *options);
}

/* ---- Studies -------------------------------------------------------------------------------- */

/*
 * Chooses λ as in the paper: trains with each value on the training set without its validation
 * split (val_split; 0: a tenth), picks the λ with the lowest mean validation error at the end of
 * training (in a tie, the smaller), trains with it on the whole training set and tests once.  Until
 * then the test split is not read (skip_test).  A λ with a diverging run is not picked.
 */
OLE_API ole_status ole_tune(const ole_study_options *options, ole_study_result *result,
                            ole_error *error);

/* Trains with each number of samples per class and each λ, and tests: accuracy from few samples. */
OLE_API ole_status ole_sweep(const ole_study_options *options, ole_study_result *result,
                             ole_error *error);

/*
 * Trains with each λ on all training data (except val_split) and tests.  λ = 0 is softmax alone,
 * also with loss OLE_LOSS_OLE, where it is compared with OLÉ alone.
 */
OLE_API ole_status ole_compare(const ole_study_options *options, ole_study_result *result,
                               ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
