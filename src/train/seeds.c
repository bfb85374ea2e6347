/*
 * src/train/seeds.c - several runs with different seeds.
 *
 * On a device that queues its steps one run leaves much of it idle, so all run at once, each in a
 * thread of its own; elsewhere they follow each other, since each uses all cores.
 */
#include "train/seeds.h"

#include "base/error.h"
#include "base/spread.h"
#include "train/folder.h"
#include "train/network.h"
#include "train/recipe.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- One of them -------------------------------------------------------------------------- */

/* What all runs share: one of them at a time talks to the caller. */
typedef struct seeds {
    const ole_train_options *options;
    pthread_mutex_t mutex;
    int64_t speaker; /* the run whose steps are shown: the first that is not done */
    bool *done;      /* [seeds] */
    bool stop;
} seeds;

typedef struct one_run {
    seeds *all;
    int64_t index;
    ole_train_options options;
    char out[OLE_RUN_PATH];
    ole_train_summary summary;
    ole_status status;
    ole_error error;
    bool started;
    pthread_t thread;
} one_run;

/* An ole_train_callback: passes on the steps of one run and the epochs of all. */
static bool pass_progress(void *context, const ole_train_progress *progress) {
    one_run *run = context;
    seeds *all = run->all;
    const ole_train_options *o = all->options;
    pthread_mutex_lock(&all->mutex);
    bool shown = progress->epoch_done || run->index == all->speaker;
    if (shown && o->callback && !all->stop) all->stop = o->callback(o->callback_context, progress);
    bool stop = all->stop;
    pthread_mutex_unlock(&all->mutex);
    return stop;
}

static void pass_message(void *context, const char *text) {
    one_run *run = context;
    pthread_mutex_lock(&run->all->mutex);
    if (run->all->options->message)
        run->all->options->message(run->all->options->callback_context, text);
    pthread_mutex_unlock(&run->all->mutex);
}

/* The options of run k, and its folder. */
static ole_status prepare(one_run *run, seeds *all, int64_t k, ole_error *error) {
    const ole_train_options *o = all->options;
    *run = (one_run){.all = all, .index = k, .options = *o};
    run->options.seed = o->seed + (uint64_t)k;
    run->options.seeds = 1;
    run->options.callback = pass_progress;
    run->options.message = pass_message;
    run->options.callback_context = run;
    if (!o->out) return OLE_OK;
    char name[40];
    snprintf(name, sizeof name, "seed-%llu", (unsigned long long)run->options.seed);
    run->options.out = run->out;
    ole_status status = ole_run_path(run->out, o->out, name, error);
    if (status == OLE_OK && o->resume) status = ole_run_make_folder(run->out, error);
    return status;
}

static void *run_one(void *context) {
    one_run *run = context;
    seeds *all = run->all;
    run->status = ole_train_once(&run->options, run->index + 1, all->options->seeds, &run->summary,
                                 &run->error);
    pthread_mutex_lock(&all->mutex);
    all->done[run->index] = true;
    while (all->speaker < all->options->seeds && all->done[all->speaker])
        all->speaker++;
    if (run->status != OLE_OK) all->stop = true;
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

/* ---- All of them -------------------------------------------------------------------------- */

static void run_after_each_other(one_run *runs, int64_t count) {
    for (int64_t k = 0; k < count; k++) {
        runs[k].started = true;
        run_one(&runs[k]);
        if (runs[k].status != OLE_OK || runs[k].summary.interrupted) break;
    }
}

/* A thread that cannot be had ends the batch; what runs is waited for. */
static ole_status run_side_by_side(one_run *runs, int64_t count, ole_error *error) {
    ole_status status = OLE_OK;
    for (int64_t k = 0; k < count && status == OLE_OK; k++) {
        runs[k].started = pthread_create(&runs[k].thread, NULL, run_one, &runs[k]) == 0;
        if (!runs[k].started)
            status = ole_fail(error, OLE_ERROR_MEMORY,
                              "the system has no thread for run %lld of %lld: take fewer --seeds",
                              (long long)k + 1, (long long)count);
    }
    for (int64_t k = 0; k < count; k++)
        if (runs[k].started) pthread_join(runs[k].thread, NULL);
    return status;
}

static ole_status write_recipe_of_all(const ole_train_options *o, ole_error *error) {
    char path[OLE_RUN_PATH];
    if (!o->out) return OLE_OK;
    ole_status status = o->resume ? OLE_OK : ole_run_refuse_used(o->out, error);
    if (status == OLE_OK) status = ole_run_make_folder(o->out, error);
    if (status == OLE_OK) status = ole_run_path(path, o->out, "config.yaml", error);
    return status == OLE_OK ? ole_recipe_write(path, o, error) : status;
}

/* The first failure, or the means. */
static ole_status sum_up(const one_run *runs, int64_t count, ole_train_summary *summary,
                         ole_error *error) {
    ole_spread test = {0}, validation = {0}, knn1 = {0};
    *summary = (ole_train_summary){0};
    for (int64_t k = 0; k < count; k++) {
        const ole_train_summary *s = &runs[k].summary;
        if (!runs[k].started) continue;
        if (runs[k].status != OLE_OK) {
            if (error) *error = runs[k].error;
            return runs[k].status;
        }
        summary->seconds += s->seconds;
        summary->epochs = s->epochs;
        summary->interrupted |= s->interrupted;
        if (s->runs == 0) continue;
        summary->runs++;
        ole_spread_add(&test, s->test_error);
        ole_spread_add(&validation, s->validation_error);
        ole_spread_add(&knn1, s->knn1_error);
    }
    summary->test_error = ole_spread_mean(&test);
    summary->validation_error = ole_spread_mean(&validation);
    summary->knn1_error = ole_spread_mean(&knn1);
    summary->test_error_std = ole_spread_deviation(&test);
    summary->validation_error_std = ole_spread_deviation(&validation);
    summary->knn1_error_std = ole_spread_deviation(&knn1);
    return OLE_OK;
}

ole_status ole_train_seeds(const ole_train_options *o, ole_train_summary *summary,
                           ole_error *error) {
    seeds all = {.options = o};
    ole_status status = write_recipe_of_all(o, error);
    if (status != OLE_OK) return status;
    one_run *runs = calloc((size_t)o->seeds, sizeof *runs);
    all.done = calloc((size_t)o->seeds, sizeof *all.done);
    if (!runs || !all.done) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t k = 0; k < o->seeds && status == OLE_OK; k++)
        status = prepare(&runs[k], &all, k, error);
    pthread_mutex_init(&all.mutex, NULL);
    if (status == OLE_OK && ole_device_queues(o->device))
        status = run_side_by_side(runs, o->seeds, error);
    else if (status == OLE_OK)
        run_after_each_other(runs, o->seeds);
    pthread_mutex_destroy(&all.mutex);
    if (status == OLE_OK) status = sum_up(runs, o->seeds, summary, error);
    free(runs);
    free(all.done);
    return status;
}
