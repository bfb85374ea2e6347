/*
 * src/train/run.h - all that one training run consists of, and its folder.
 *
 * The folder: config.yaml; metrics.jsonl; last.safetensors, written after every epoch, or after
 * some where they are short (loop.c), and when the run is stopped; previous.safetensors, the last
 * one before that; best.safetensors, the model with the smallest validation error, or that of
 * last.safetensors where there is no validation split.
 */
#ifndef OLE_SRC_TRAIN_RUN_H
#define OLE_SRC_TRAIN_RUN_H

#include "ole/train.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/metrics.h"
#include "train/queue.h"
#include "train/schedule.h"
#include "train/step.h"

typedef struct ole_run {
    ole_train_options options; /* checked */
    ole_dataset *set;
    ole_card card;
    ole_network network;
    ole_stepper *stepper;
    ole_queue *queue;        /* where the device runs steps by itself; else NULL */
    ole_inference inference; /* on the stepper's plan */
    ole_loader *loader;      /* of the training split */
    int64_t batches;         /* of an epoch */
    ole_schedule schedule;
    ole_metrics metrics;
    ole_state state;
    int moments;   /* of the optimiser */
    char *config;  /* the recipe as text */
    int lock;      /* of the folder, or -1 */
    size_t made;   /* of the folder, by ole_run_make_folder() */
    bool has_last; /* there is a last.safetensors, and it is whole */
} ole_run;

/* Opens everything; with options.resume the state of the checkpoint. Nothing to close on failure.
 */
ole_status ole_run_open(ole_run *run, const ole_train_options *options, ole_error *error);
void ole_run_close(ole_run *run);

/* Writes last.safetensors, and best.safetensors; nothing without a folder. */
ole_status ole_run_save(ole_run *run, ole_error *error);
ole_status ole_run_save_best(const ole_run *run, ole_error *error);

/* A sentence for the caller's message function. */
void ole_run_say(const ole_train_options *options, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The recipe of runs that are there against ours: what may not change has not. */
ole_status ole_run_compare(const ole_train_options *options, const ole_train_options *then,
                           const char *path, ole_error *error);

#endif
