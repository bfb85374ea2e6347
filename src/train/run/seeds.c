/*
 * src/train/run/seeds.c - several runs with different seeds.
 *
 * One run leaves much of a device with recorded steps idle, so there all run at once, each in a
 * thread of its own; elsewhere they run one after the other, since each uses all cores.  Ranks
 * divide the runs among them, one rank per run.
 */
#include "train/run/train_once.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/spread.h"
#include "model/run_folder.h"
#include "train/ranks/job_pool.h"
#include "train/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Shared by all runs, under the pool's lock. */
typedef struct seeds {
    const ole_train_options *options;
    int64_t speaker;              /* the run whose steps are reported: the first that is running */
    bool *working;                /* [seeds]: on this rank */
    ole_train_summary *summaries; /* [seeds]: of runs that ended, or were stopped on this rank */
    bool *ended;                  /* [seeds] */
} seeds;

typedef struct one_run {
    seeds *all;
    ole_job_pool *pool;
    int64_t index;
    ole_train_options options;
    char out[OLE_RUN_PATH];
} one_run;

/* ---- One of them -------------------------------------------------------------------------- */

/* An ole_train_callback: reports the steps of one run and the epochs of all. */
static bool pass_progress(void *context, const ole_train_progress *p) {
    one_run *run = context;
    seeds *all = run->all;
    const ole_train_options *o = all->options;
    /* The run's estimate counts the remaining ones in sequence, but ranks run them concurrently. */
    double step = p->epoch_done ? 1.0 : (double)p->step / (double)p->steps;
    double own = 1.0 - ((double)p->epoch - 1.0 + step) / (double)p->epochs;
    double later = (double)(p->runs - p->run);
    double here = (double)((p->runs - p->run) / ole_ranks_size(o->ranks));
    ole_train_progress shown = *p;
    shown.seconds_left = own + later > 0.0 ? p->seconds_left * (own + here) / (own + later) : 0.0;
    ole_job_pool_lock(run->pool);
    bool said = p->epoch_done || run->index == all->speaker;
    if (said && o->callback && !ole_job_pool_stops(run->pool) &&
        o->callback(o->callback_context, &shown))
        ole_job_pool_stop(run->pool);
    bool stop = ole_job_pool_stops(run->pool);
    ole_job_pool_unlock(run->pool);
    return stop;
}

static void pass_message(void *context, const char *text) {
    one_run *run = context;
    const ole_train_options *o = run->all->options;
    ole_job_pool_lock(run->pool);
    if (o->message) o->message(o->callback_context, text);
    ole_job_pool_unlock(run->pool);
}

/* The folder of run k inside the shared one. */
enum { NAME_ROOM = 40 };
static const char *name_run(const ole_train_options *o, int64_t k, char name[NAME_ROOM]) {
    snprintf(name, NAME_ROOM, "seed-%" PRIu64, o->seed + (uint64_t)k);
    return name;
}

/* Chooses whose steps are reported, whenever a run starts or ends. */
static void set_working(one_run *run, bool working) {
    seeds *all = run->all;
    ole_job_pool_lock(run->pool);
    all->working[run->index] = working;
    all->speaker = 0;
    while (all->speaker < all->options->seeds && !all->working[all->speaker])
        all->speaker++;
    ole_job_pool_unlock(run->pool);
}

/* The run() of an ole_job_plan. */
static ole_status do_run(void *context, ole_job_pool *pool, int64_t number, void *result,
                         bool *stopped, ole_error *error) {
    seeds *all = context;
    const ole_train_options *o = all->options;
    ole_train_summary *summary = result;
    one_run *run = malloc(sizeof *run);
    if (!run) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *run = (one_run){.all = all, .pool = pool, .index = number, .options = *o};
    run->options.seed = o->seed + (uint64_t)number;
    run->options.seeds = 1;
    run->options.ranks = NULL;
    run->options.beside = o->ranks;
    run->options.callback = pass_progress;
    run->options.message = pass_message;
    run->options.callback_context = run;
    ole_status status = OLE_OK;
    if (o->out) {
        char name[NAME_ROOM];
        run->options.out = run->out;
        status = ole_run_output_folder(run->out, o->out, name_run(o, number, name), error);
        if (status == OLE_OK && o->resume) status = ole_run_make_folder(run->out, NULL, error);
    }
    if (status == OLE_OK) {
        set_working(run, true);
        status = ole_train_once(&run->options, number + 1, o->seeds, summary, error);
        set_working(run, false);
        *stopped = status == OLE_OK && summary->interrupted;
        if (*stopped) all->summaries[number] = *summary; /* nobody else writes it */
    }
    free(run);
    return status;
}

/* The ended() of an ole_job_plan. */
static ole_status take_in(void *context, ole_job_pool *pool, int64_t number, int rank,
                          const void *result, ole_error *error) {
    (void)pool;
    (void)error;
    seeds *all = context;
    const ole_train_options *o = all->options;
    memcpy(&all->summaries[number], result, sizeof all->summaries[number]);
    all->ended[number] = true;
    if (rank == ole_ranks_rank(o->ranks) || ole_ranks_rank(o->ranks) != 0 || !o->message)
        return OLE_OK;
    char text[100];
    snprintf(text, sizeof text, "run %" PRId64 " of %" PRId64 " ended, on rank %d", number + 1,
             o->seeds, rank);
    o->message(o->callback_context, text);
    return OLE_OK;
}

/* ---- All of them -------------------------------------------------------------------------- */

/* The folder of all runs. */
typedef struct shared_folder {
    int lock;    /* -1: not locked */
    size_t made; /* by ole_run_make_folder() */
    bool began;  /* this call wrote the recipe in it */
} shared_folder;

/* On rank 0: locks the folder and writes the recipe; that of resumed runs must be as before. */
static ole_status open_folder(const ole_train_options *o, shared_folder *folder, ole_error *error) {
    char path[OLE_RUN_PATH];
    if (!o->out || ole_ranks_rank(o->ranks) != 0) return OLE_OK;
    if (o->resume && !ole_run_has(o->out, ""))
        return ole_fail(error, OLE_ERROR_IO, "%s: no runs to resume",
                        ole_quote_string(o->out).text);
    ole_status status = ole_run_make_folder(o->out, &folder->made, error);
    if (status == OLE_OK) status = ole_run_lock(&folder->lock, o->out, error);
    if (status == OLE_OK) status = ole_run_refuse_used(o->out, o->resume, o->seeds, o->seed, error);
    if (status == OLE_OK) status = ole_run_output(path, o->out, "config.yaml", error);
    if (status == OLE_OK && o->resume && ole_run_has(o->out, "config.yaml")) {
        ole_train_options then;
        ole_recipe *recipe;
        ole_train_options_init(&then);
        status = ole_recipe_read(&recipe, path, &then, error);
        if (status == OLE_OK) status = ole_run_compare(o, &then, path, error);
        ole_recipe_free(recipe);
    }
    if (status != OLE_OK) return status;
    folder->began = !o->resume;
    return ole_recipe_write(path, o, error);
}

/* Removes what this call created if no run has started. */
static void close_folder(const ole_train_options *o, const shared_folder *folder, bool failed) {
    char path[OLE_RUN_PATH], name[NAME_ROOM];
    bool empty = failed && folder->began;
    for (int64_t k = 0; k < o->seeds && empty; k++)
        empty = !ole_run_has(o->out, name_run(o, k, name));
    if (empty && ole_run_path(path, o->out, "config.yaml", NULL) == OLE_OK) unlink(path);
    if (empty) ole_run_remove_folder(o->out, folder->made);
    if (folder->lock >= 0) close(folder->lock);
}

/* Means over the runs that have ended. */
static void sum_up(const seeds *all, ole_train_summary *summary) {
    ole_spread test = {0}, validation = {0}, knn1 = {0};
    *summary = (ole_train_summary){.last_test_error = NAN, .last_validation_error = NAN};
    for (int64_t k = 0; k < all->options->seeds; k++) {
        const ole_train_summary *s = &all->summaries[k];
        summary->seconds += s->seconds;
        if (s->seconds > 0.0) summary->epochs = s->epochs;
        if (!all->ended[k]) continue;
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
}

ole_status ole_train_seeds(const ole_train_options *o, ole_train_summary *summary,
                           ole_error *error) {
    size_t count = (size_t)o->seeds;
    int64_t *order = calloc(count, sizeof *order);
    seeds all = {.options = o,
                 .working = calloc(count, sizeof *all.working),
                 .ended = calloc(count, sizeof *all.ended),
                 .summaries = calloc(count, sizeof *all.summaries)};
    shared_folder folder = {.lock = -1};
    bool stopped = false;
    ole_status status = OLE_OK;
    if (!order || !all.working || !all.ended || !all.summaries)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (status == OLE_OK) status = open_folder(o, &folder, error);
    status = ole_ranks_agree(o->ranks, status, error);
    if (status == OLE_OK) {
        for (int64_t k = 0; k < o->seeds; k++)
            order[k] = k;
        int64_t ranks = ole_ranks_size(o->ranks), each = (o->seeds + ranks - 1) / ranks;
        const ole_job_plan plan = {.ranks = o->ranks,
                                   .order = order,
                                   .count = o->seeds,
                                   .jobs = ole_device_queues(o->device) ? (int)each : 1,
                                   .result_bytes = sizeof *all.summaries,
                                   .run = do_run,
                                   .ended = take_in,
                                   .context = &all};
        status = ole_job_pool_run(&plan, &stopped, error);
    }
    if (status == OLE_OK) {
        sum_up(&all, summary);
        summary->interrupted = stopped;
    }
    free(order);
    free(all.working);
    free(all.ended);
    free(all.summaries);
    close_folder(o, &folder, status != OLE_OK);
    return status;
}
