/*
 * src/train/evaluate.h - what a network makes of a whole split: errors, features, nearest
 * neighbours.
 */
#ifndef OLE_SRC_TRAIN_EVALUATE_H
#define OLE_SRC_TRAIN_EVALUATE_H

#include "linalg/knn.h"
#include "ranks/ranks.h"
#include "train/card.h"
#include "train/network.h"
#include "train/queue.h"

/* Errors in %, NaN where not measured. */
typedef struct ole_errors {
    double test, validation, knn1;
} ole_errors;

/* What is measured, and with what. */
typedef struct ole_measure {
    ole_inference *inference;
    ole_queue *queue; /* or NULL: batch by batch */
    const ole_card *card;
    const ole_dataset *set;
    ole_ranks *ranks; /* each runs its part of every batch; NULL: alone */
    int64_t batch;    /* samples of a batch on all ranks */
    int workers;
    bool classifier; /* false: it was not trained; validation is judged by 1-NN, test is NaN */
    bool knn; /* 1-NN by cosine from the training split to the test split (or, without one, */
              /* to the validation split) */
} ole_measure;

/* With ranks the errors are those of the whole splits, on all of them. */
ole_status ole_errors_measure(ole_errors *errors, const ole_measure *measure, ole_error *error);

#endif
