/*
 * src/model/split_runner.h - takes a split of a data set through a network.
 *
 * Everything that needs the outputs for a whole split runs here: the errors measured while
 * training, ole_evaluate(), `ole features` and novelty.  Batches come from a loader, normalised as
 * the model card says, and run in evaluation mode (a GPU that trains by recorded steps evaluates by
 * recorded batches instead: train/recorded).  With ranks each runs its part of every batch, and all
 * get the outputs of the whole split in the split's order.
 */
#ifndef OLE_SRC_MODEL_SPLIT_RUNNER_H
#define OLE_SRC_MODEL_SPLIT_RUNNER_H

#include "base/in_use.h"
#include "model/model_card.h"
#include "model/network.h"
#include "ranks/ranks.h"

typedef struct ole_split_runner {
    ole_inference *inference;
    const ole_card *card;
    ole_ranks *ranks; /* NULL: one process */
    int64_t batch;    /* samples per batch, on all ranks together */
    int workers;      /* loader threads; 0: batches are assembled in the calling thread */

    /* For models that a caller holds, without ranks; zero otherwise. */
    ole_in_use *in_use; /* taken while a batch runs, free again when the callback is called */
    bool finite;        /* NaN or Inf in the outputs is OLE_ERROR_NUMERIC */
    ole_part_callback *callback; /* called after each batch; true stops the run */
    void *callback_context;
    const char *part;      /* its name, for the callback */
    int64_t before, total; /* samples of that part before this split, and in all */
} ole_split_runner;

/* The outputs for a split. */
typedef struct ole_runner_outputs {
    float *features; /* [count, D], the caller's; NULL: not needed */
    float *logits;   /* [count, classes] likewise */
    int64_t wrong;   /* samples whose class the classifier misses */
    bool stopped;    /* by the callback: the outputs of later samples are not set */
} ole_runner_outputs;

/* An empty split is fine. With ranks this is collective, and fails on all or none. */
ole_status ole_split_run(const ole_split_runner *runner, const ole_dataset *set, ole_split split,
                         ole_runner_outputs *outputs, ole_error *error);

/* "training samples", "test samples", "validation samples". */
const char *ole_split_part(ole_split split);

#endif
