/*
 * src/model/model.h - what the rest of the library needs of models beyond ole/train/model.h: making
 * one from a network trained in this process, choosing its device, and collecting its outputs for
 * whole splits.
 */
#ifndef OLE_SRC_MODEL_MODEL_H
#define OLE_SRC_MODEL_MODEL_H

#include "features/subspace.h"
#include "model/confidence.h"
#include "model/model_card.h"
#include "model/network.h"
#include "model/run_folder.h"
#include "ole/train/model.h"

/* The model file at a path: for a run folder its best model or its last, for hf:OWNER/MODEL the
 * downloaded file. */
ole_status ole_model_find(const char *path, char file[OLE_RUN_PATH], ole_error *error);

/* Calls the callback of ole_model_watch(), as an ole_part_callback; true: it asks to stop. */
bool ole_model_report(void *model, const char *part, int64_t done, int64_t total);

/* Samples to run through a model: one split of a data set, or all three. */
typedef struct ole_part {
    const char *name; /* for progress and messages: "novel samples" */
    const ole_dataset *set;
    ole_split split;
    bool all;
    ole_part_callback *callback; /* called after each batch, or NULL */
    void *callback_context;
} ole_part;

/* Their outputs. */
typedef struct ole_outputs {
    int64_t count;
    float *features; /* [count, features] */
    float *logits;   /* [count, classes]; NULL if not requested */
    int32_t *labels; /* [count] */
} ole_outputs;

/* Collects features, labels and, if `logits`, logits. *stopped: the callback asked to stop. NaN or
 * Inf among the outputs is OLE_ERROR_NUMERIC. Nothing to free on failure or if stopped. */
ole_status ole_outputs_collect(ole_outputs *outputs, ole_model *model, const ole_part *part,
                               bool logits, bool *stopped, ole_error *error);
void ole_outputs_free(ole_outputs *outputs);

/* The features, of `dim` numbers, with their labels as int64_t, which the caller frees. */
ole_status ole_outputs_embedding(ole_embedding *embedding, int64_t **labels,
                                 const ole_outputs *outputs, int64_t dim, ole_error *error);

/* What a model predicts of samples with these outputs; the classifier must be trained. */
void ole_model_judge(const ole_model *model, const float *features, const float *logits,
                     int64_t count, ole_prediction *predictions);
ole_status ole_model_check_classifier(const ole_model *model, ole_error *error);

/*
 * The weights and bias of the classifier, [classes, features] and [classes], into *memory, which
 * the caller frees; *classifier points there.
 */
ole_status ole_model_classifier(ole_linear_classifier *classifier, float **memory,
                                const ole_model *model, ole_error *error);

/* The subspaces of the classes, with 95 % of each class's energy; nothing to free on failure. */
ole_status ole_outputs_subspaces(ole_subspaces *subspaces, const ole_outputs *outputs, int64_t dim,
                                 ole_pool *pool, int threads, ole_error *error);

/*
 * A model with the weights of a network and a copy of the card, on `device` ("auto", "cuda:1"); the
 * network may go.  It keeps `outputs`, what the network makes of `split`, which is emptied: a
 * report on the model then need not run the split again.
 */
ole_status ole_model_build(ole_model **model, const ole_network *network, const ole_card *card,
                           const char *device, ole_outputs *outputs, ole_split split,
                           ole_error *error);

/* A model of this card, on a device, with zero weights. Takes the card over, even on failure. */
ole_status ole_model_make(ole_model **model, ole_card *card, const char *device, int threads,
                          ole_error *error);

/* Its network, to set weights. */
ole_network *ole_model_network(ole_model *model);
const ole_row_marks *ole_model_row_marks(const ole_model *model);

/* Takes threshold, score and temperature over from a card. */
ole_status ole_model_set_threshold(ole_model *model, const ole_card *card, ole_error *error);

/* Takes over a scorer and what is known of its threshold, whose choice is copied; ole_model_save()
 * writes both. On failure the scorer stays the caller's. */
ole_status ole_model_set_scorer(ole_model *model, ole_scorer *scorer,
                                const ole_threshold_record *record, ole_error *error);

/* Why its score was chosen, as JSON (ole_choice_read()); NULL: it was not. */
const char *ole_model_choice(const ole_model *model);

/* The model's class of each class of a set, by name, [set->classes]; -1: none.  Returns how many
 * there are; *stranger is the first that the model does not know, or -1. */
int ole_model_find_classes(const ole_model_info *model, const ole_dataset_info *set, int *to,
                           int *stranger);

/* The outputs that a model was built with, if they are those of this split; else NULL. */
const ole_outputs *ole_model_outputs(const ole_model *model, ole_split split);

/* ole_model_load() onto a device. */
ole_status ole_model_load_on(ole_model **model, const char *path, const char *device, int threads,
                             ole_error *error);

#endif
