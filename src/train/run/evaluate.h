/*
 * src/train/run/evaluate.h - the errors of a network that is being trained: by its classifier, and
 * by nearest neighbours of its features.
 */
#ifndef OLE_SRC_TRAIN_RUN_EVALUATE_H
#define OLE_SRC_TRAIN_RUN_EVALUATE_H

#include "model/model.h"
#include "model/split_runner.h"
#include "train/recorded/recorded.h"

/* Errors in %, NaN where not measured. */
typedef struct ole_errors {
    double test, validation, knn1;
} ole_errors;

/* What to measure, and how. */
typedef struct ole_evaluation_request {
    ole_split_runner runner;
    ole_recorded *recorded; /* replays recorded batches instead of the runner; or NULL */
    const ole_dataset *set;
    bool classifier; /* false: it is not trained; validation error by 1-NN, test NaN */
    bool knn;       /* 1-NN by cosine from the training split to the test split (or, without one, */
                    /* to the validation split) */
    bool validates; /* measure the validation split in any case; false: only with `knn` */
    double best;    /* the lowest validation error so far: only a lower one, or `knn`, sets the */
                    /* threshold, since models of other epochs are not kept */
    ole_outputs *outputs; /* NULL, or receives that split's outputs; free it */
    ole_card *card;       /* NULL, or whose threshold to set (model/threshold.h), or to clear */
    bool *no_memory;      /* is set where there was none for what the threshold comes from */
} ole_evaluation_request;

/* With ranks the errors are those of the whole splits, the same on all ranks. */
ole_status ole_errors_measure(ole_errors *errors, const ole_evaluation_request *measure,
                              ole_error *error);

#endif
