/*
 * src/model/checkpoint.h - models and runs as safetensors files.
 *
 * A model file holds the weights under their names and the model card as metadata.  A checkpoint
 * also holds the optimiser's state ("optimizer.0.NAME", for Adam "optimizer.1.NAME"), the
 * average of the weights if one is kept ("average.NAME"), the state of
 * the run ("train.counters", "train.sums"), what a loss keeps from step to step
 * ("train.loss_state") and the recipe (metadata "config").
 */
#ifndef OLE_SRC_MODEL_CHECKPOINT_H
#define OLE_SRC_MODEL_CHECKPOINT_H

#include "model/model_card.h"
#include "model/network.h"

/* Sums over the steps of the current epoch; divide by `steps` or `images` for the means. */
typedef struct ole_sums {
    double loss, softmax_loss, ole_loss, feature_loss;
    double seconds, ole_seconds;
    double comm_seconds; /* waiting for other ranks */
    int64_t steps, images, correct;
} ole_sums;

/* The state of a run. */
typedef struct ole_state {
    int64_t epoch;         /* finished */
    int64_t step;          /* batches of the current epoch */
    int64_t updates;       /* of the weights, since the start */
    int64_t metrics_bytes; /* length of metrics.jsonl */
    int64_t best_epoch;    /* from 1; 0: none */
    double best_error;     /* of that epoch */
    int64_t schedule;      /* epochs that the learning rate's schedule spans; 0: all of the run */
    double seconds;        /* in all */
    ole_sums sums;
    double *loss_state; /* [loss_state_count], the caller's: what a loss keeps; NULL: nothing */
    int64_t loss_state_count;
} ole_state;

/* What else a model file holds: tensors, and a text (value NULL: none). */
typedef struct ole_extra {
    const ole_tensor *tensors; /* [count] */
    size_t count;
    ole_metadata text;
} ole_extra;

/* Writes the weights, the model card and `extra`, which may be NULL. NaN or Inf in the weights is
 * OLE_ERROR_NUMERIC. */
ole_status ole_weights_save(const char *path, const ole_network *network, const ole_card *card,
                            const ole_extra *extra, ole_error *error);

/* The same, with all that resuming needs. `moments`: 1 for SGD, 2 for Adam. */
ole_status ole_checkpoint_save(const char *path, const ole_network *network, const ole_card *card,
                               int moments, const char *config, const ole_state *state,
                               ole_error *error);

/* The graph of a file's model card, after checking that the file has every weight: a few bytes of
 * notation must not allocate a network that the file cannot fill. `path` is for messages. */
ole_status ole_stored_graph(ole_graph **graph, const ole_card *card, const ole_safetensors *file,
                            const char *path, ole_error *error);

/* Reads parameter i of a file as plain floats; it must be there with its shape, under our name or a
 * published one. */
ole_status ole_weight_read(const ole_safetensors *file, const char *path, const ole_graph *graph,
                           int i, float *plain, ole_error *error);

/* Loads the weights of a file; every parameter must be there with its shape. */
ole_status ole_weights_load(const ole_safetensors *file, const char *path, ole_network *network,
                            ole_error *error);

/* Loads weights, optimiser and state of a checkpoint. */
ole_status ole_checkpoint_load(const ole_safetensors *file, const char *path, ole_network *network,
                               int moments, ole_state *state, ole_error *error);

#endif
