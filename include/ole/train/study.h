/*
 * ole/train/study.h - many runs that answer one question: which λ (ole_tune), how many samples per
 * class (ole_sweep), with or without OLÉ (ole_compare).
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
 *     if (ole_tune(&options, &result, &error) != OLE_OK) ...
 *     if (result.picked >= 0) printf("lambda %g\n", result.points[result.picked].lambda);
 *     ole_study_result_free(&result);
 *
 * The folder train.out holds a run folder for each run ("lambda-0.25/seed-0") and, rewritten after
 * each of them, results.json, results.csv, curve.svg, curve.png (if the build has cairo) and
 * report.html.  The same call on the same folder resumes where the last one ended: finished runs
 * stay as they are, an interrupted one continues from its checkpoint.  More values, more seeds and
 * another device are allowed then; anything else that would change the runs is refused.  Initial
 * weights (init_from) may have moved, but must be the same, by their SHA-256.
 *
 * A run is the one that ole_train() would make with the same options.  One that diverges (NaN or
 * Inf) is recorded in its folder, failed.txt, and not tried again; the others continue.
 */
#ifndef OLE_TRAIN_STUDY_H
#define OLE_TRAIN_STUDY_H

#include "ole/train/train.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Of the finished runs of a point, in %: NaN where not measured, or of too few runs. */
typedef struct ole_study_error {
    double mean, std;
} ole_study_error;

/* `seeds` runs that differ in nothing else. */
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
    double test_error, validation_error, knn1_error; /* % at the end; NaN where not measured */
    double seconds;
} ole_study_run;

typedef struct ole_study_result {
    ole_study_kind kind;
    int64_t seeds;
    int64_t point_count;
    ole_study_point *points; /* by samples, then λ; the retrained ones last */
    int64_t run_count;
    ole_study_run *runs;  /* [point_count * seeds], point after point */
    int64_t ended, total; /* runs: finished or diverged; in all, those not yet listed included */
    int64_t picked; /* of ole_tune(): the point with the best mean validation error; else -1 */
    bool interrupted;
} ole_study_result;

/* What a callback sees. It is called by one run at a time. */
typedef struct ole_study_progress {
    const ole_study_result *result;  /* so far */
    int64_t run;                     /* number of the run that this is about */
    const ole_train_progress *train; /* of that run; NULL: it has ended */
    double seconds_left;             /* of all runs; NaN while not known */
} ole_study_progress;

/* Return true to stop: running ones are saved, the status is OLE_OK, `interrupted` set. */
typedef bool ole_study_callback(void *context, const ole_study_progress *progress);

/* Fill with ole_study_options_init(). */
typedef struct ole_study_options {
    size_t struct_size;
    /* What all runs have in common.  `out` is the study's folder, `seeds` the runs of each point;
     * lambda comes from the grid, and 0 there makes loss OLE_LOSS_SOFTMAX; `resume` means that the
     * folder must hold a study; callback, message, model and ranks are not used. */
    const ole_train_options *train;
    /* NULL: those of the study in the folder, or the defaults: 0 and 1/64, 1/32, ... 1 for
     * ole_tune(), 0 and 0.25 for ole_sweep(), 0 and train.lambda for ole_compare(). */
    const double *lambdas;
    int64_t lambda_count;
    const int64_t *samples; /* of ole_sweep(); NULL: likewise, or 50, 100, 200, 300, 400, 500 */
    int64_t sample_count;
    bool baseline; /* of ole_tune(): retrain and test softmax alone too */
    bool look;     /* nothing is run or written: the result is what the folder holds */
    bool check;    /* nothing is run or written: the same, and an error for whatever would keep the
                      study from starting or resuming */
    int jobs; /* runs at once in this process; 0: the seeds of a point on a device that queues its
                 steps, else 1 */
    ole_study_callback *callback;
    ole_train_message *message;
    void *callback_context; /* of both */
    /*
     * Several processes that share the runs, each of which one rank trains alone; NULL: this
     * process trains all.  All make the same call, with `out` in a file system that they share, and
     * get the same result or error.  Rank 0 writes the study's files, and its callback hears of
     * every run that ends; the others hear of their own runs, and any of them may stop all.
     */
    ole_ranks *ranks;
    /* Of a study that a recipe describes; NULL: not known.  The recipe's text is kept as
     * recipe.yaml in the folder; data_name is what it calls the data, which may be at another path
     * (train.data) when the study resumes. */
    const char *recipe, *data_name;
} ole_study_options;

OLE_API void ole_study_options_init(ole_study_options *options);

/*
 * Chooses λ as the paper does: splits val_split (0: a tenth) off the training set for validation,
 * trains with each λ on the rest, takes the one with the smallest mean validation error at the end
 * of training (the smaller of equals), trains with it on the whole training set and tests once.
 * Until then the test split is not used (skip_test).  A λ with a diverging run is not taken.
 */
OLE_API ole_status ole_tune(const ole_study_options *options, ole_study_result *result,
                            ole_error *error);

/* Trains with each number of samples per class and each λ, and tests: the accuracy that few samples
 * give. */
OLE_API ole_status ole_sweep(const ole_study_options *options, ole_study_result *result,
                             ole_error *error);

/* Trains with each λ on all training data (but val_split) and tests.  0 is softmax alone, with loss
 * OLE_LOSS_OLE too: there it is compared with OLÉ alone. */
OLE_API ole_status ole_compare(const ole_study_options *options, ole_study_result *result,
                               ole_error *error);

/* Frees what a result holds; one that was not filled must be zero. */
OLE_API void ole_study_result_free(ole_study_result *result);

#ifdef __cplusplus
}
#endif
#endif
