/*
 * src/train/run/run.h - everything a training run consists of, and its folder.
 *
 * The folder holds config.yaml; metrics.jsonl; last.safetensors, written when the run is stopped
 * and after every epoch, or every few if they are short (train_once.c); previous.safetensors, the
 * checkpoint before that; best.safetensors, the model with the lowest validation error, or the last
 * model if there is no validation split.
 */
#ifndef OLE_SRC_TRAIN_RUN_RUN_H
#define OLE_SRC_TRAIN_RUN_RUN_H

#include "model/checkpoint.h"
#include "ole/train/train.h"
#include "train/options/schedule.h"
#include "train/recorded/recorded.h"
#include "train/run/evaluate.h"
#include "train/run/metrics.h"
#include "train/run/step.h"

typedef struct ole_run {
    ole_train_options options; /* checked */
    ole_dataset *set;
    ole_card card;
    ole_network network;
    ole_stepper *stepper;
    ole_recorded *recorded;  /* steps, if the device records them; else NULL */
    ole_inference inference; /* on the stepper's plan */
    ole_loader *loader;      /* of the training split */
    int64_t batches;         /* of an epoch */
    ole_schedule schedule;
    ole_metrics metrics;
    ole_state state;
    int moments;   /* of the optimiser */
    bool probing;  /* only the classifier trains */
    char *config;  /* the recipe as text */
    int lock;      /* of the folder, or -1 */
    size_t made;   /* of the folder, by ole_run_make_folder() */
    bool extends;  /* a finished run that gets more epochs, or a schedule over all of them */
    bool has_last; /* last.safetensors exists and is intact */
} ole_run;

/* Opens everything; with options.resume at the checkpoint.  Nothing to close on failure. */
ole_status ole_run_open(ole_run *run, const ole_train_options *options, ole_error *error);
void ole_run_close(ole_run *run);

/* After the probe's epochs: all layers that are not frozen train, with a fresh optimiser. */
ole_status ole_run_end_probe(ole_run *run, ole_error *error);

/* Writes last.safetensors, and best.safetensors; nothing without a folder. */
ole_status ole_run_save(ole_run *run, ole_error *error);
ole_status ole_run_save_best(const ole_run *run, ole_error *error);

/* With pretrained weights and few images: reports commands that do not train the backbone. */
void ole_run_suggest(const ole_run *run);

/* Passes a message to the caller's function, on rank 0. */
void ole_run_say(const ole_train_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Checks that options which a resumed run may not change are unchanged. */
ole_status ole_run_compare(const ole_train_options *options, const ole_train_options *then,
                           const char *path, ole_error *error);

#endif
