/*
 * src/study/study.c - ole_tune(), ole_sweep() and ole_compare(): the course of a study.
 */
#include "study/study.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "study/by_kind.h"
#include "train/options/options.h"
#include "train/run/run.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const ole_study_options defaults = {.struct_size = sizeof(ole_study_options)};

void ole_study_options_init_sized(ole_study_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

void ole_study_result_free(ole_study_result *result) {
    for (int64_t i = 0; i < result->run_count; i++)
        free((char *)result->runs[i].folder);
    free(result->runs);
    free(result->points);
    *result = (ole_study_result){0};
}

void ole_study_say(const ole_study *study, const char *format, ...) {
    if (!study->given->message) return;
    char text[800];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ole_quote_in_place(text);
    study->given->message(study->given->callback_context, text);
}

bool ole_study_leads(const ole_study *study) {
    return ole_ranks_rank(study->ranks) == 0;
}

/* Whether anything is run or written. */
static bool is_run(const ole_study_options *options) {
    return !options->look && !options->check;
}

/* ---- Beginning ---------------------------------------------------------------------------- */

/* Chooses what depends on the data, reported once and not by each run.  Showing finished runs needs
 * no data. */
static ole_status choose_open(ole_study *study, ole_error *error) {
    ole_train_options chosen = study->train;
    chosen.message = is_run(study->given) && ole_study_leads(study) ? study->given->message : NULL;
    chosen.callback_context = study->given->callback_context;
    ole_status status = ole_train_choose(&chosen, error);
    study->train.net = chosen.net;
    study->train.resize = chosen.resize;
    study->train.channels = chosen.channels;
    study->train.epochs = chosen.epochs;
    return study->given->look ? OLE_OK : status;
}

static ole_status check_options(ole_study *study, const ole_study_options *o, ole_error *error) {
    if (o->jobs < 0 || o->jobs > 1024)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "jobs %d: expected a number from 0 to 1024",
                        o->jobs);
    ole_status status = ole_train_options_check(o->train, &study->train, error);
    if (status != OLE_OK) return status;
    if (!study->train.out)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "out is missing: the folder of the study");
    study->train.model = NULL;
    study->train.ranks = NULL;
    study->baseline = o->baseline;
    study->vary = study->kind == OLE_STUDY_TUNE ? o->vary : NULL;
    if (study->kind == OLE_STUDY_TUNE && study->train.val_split == 0.0)
        study->train.val_split = 0.1;
    return choose_open(study, error);
}

/* Finds mistakes before anything is written by opening the run with the most samples.  If all have
 * ended, none is opened: their device may belong to another machine. */
static ole_status try_run(const ole_study *study, ole_error *error) {
    const ole_study_result *r = &study->result;
    if (r->ended == r->total) return OLE_OK;
    ole_train_options options = ole_study_run_options(study, &r->runs[r->run_count - 1]);
    options.beside = study->ranks;
    options.out = NULL;
    options.resume = false;
    options.message = NULL;
    ole_run *run = calloc(1, sizeof *run);
    if (!run) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = ole_run_open(run, &options, error);
    if (status == OLE_OK) ole_run_close(run);
    free(run);
    return status;
}

/* The state of the runs from `first` on.  Rank 0 reads their folders: others may not see them yet.
 */
static ole_status read_runs(ole_study *study, int64_t first, ole_error *error) {
    ole_study_result *r = &study->result;
    ole_status status = OLE_OK;
    for (int64_t i = first; i < r->run_count && status == OLE_OK && ole_study_leads(study); i++)
        status = ole_record_read_run(study, &r->runs[i], error);
    status = ole_ranks_agree(study->ranks, status, error);
    if (status != OLE_OK) return status;
    for (int64_t i = first; i < r->run_count; i++) {
        ole_study_run *run = &r->runs[i];
        const char *folder = run->folder;
        ole_ranks_broadcast(study->ranks, run, (int64_t)sizeof *run, 0);
        run->folder = folder;
    }
    return OLE_OK;
}

/* Adds the runs from `first` on that have ended to the results. */
static ole_status take_up(ole_study *study, int64_t first, ole_error *error) {
    const ole_study_result *r = &study->result;
    ole_status status = read_runs(study, first, error);
    for (int64_t i = first; i < r->run_count && status == OLE_OK; i++)
        if (r->runs[i].state != OLE_STUDY_WAITS) study->shares[i] = (ole_run_share){1.0, 1.0};
    ole_study_sum_up(study);
    return status;
}

/* After the grid of ole_tune() has ended: chooses λ and adds the runs on all training data. */
static ole_status choose(ole_study *study, ole_error *error) {
    ole_study_result *r = &study->result;
    int64_t first = r->run_count;
    if (study->kind != OLE_STUDY_TUNE || r->picked >= 0 || r->ended < first) return OLE_OK;
    ole_status status = ole_study_pick(study, &r->picked, error);
    if (status == OLE_OK) status = ole_study_plan_retraining(study, error);
    return status == OLE_OK ? take_up(study, first, error) : status;
}

/* Opens the record, the same on all ranks. */
static ole_status open_record(ole_study *study, const ole_study_options *options,
                              ole_error *error) {
    ole_status status = check_options(study, options, error);
    if (status == OLE_OK && ole_study_leads(study)) status = ole_record_open(study, error);
    status = ole_ranks_agree(study->ranks, status, error);
    if (status == OLE_OK) status = ole_record_share(study, error);
    if (status == OLE_OK) status = ole_study_plan(study, error);
    return ole_ranks_agree(study->ranks, status, error);
}

static ole_status begin(ole_study *study, const ole_study_options *options, ole_error *error) {
    ole_status status = open_record(study, options, error);
    if (status == OLE_OK) status = take_up(study, 0, error);
    if (status == OLE_OK) status = choose(study, error);
    if (status == OLE_OK && !options->look)
        status = ole_ranks_agree(study->ranks, try_run(study, error), error);
    if (status == OLE_OK && is_run(options)) {
        if (ole_study_leads(study)) status = ole_record_write(study, error);
        status = ole_ranks_agree(study->ranks, status, error);
    }
    if (status == OLE_OK && study->result.ended > 0 && is_run(options) && ole_study_leads(study))
        ole_study_say(study, "%s: resuming after %" PRId64 " of %" PRId64 " runs", study->train.out,
                      study->result.ended, study->result.total);
    return status;
}

/* ---- The course of a study ---------------------------------------------------------------- */

ole_status ole_study_write(const ole_study *study, ole_error *error) {
    if (!ole_study_leads(study)) return OLE_OK;
    ole_status status = ole_study_write_results(study, error);
    return status == OLE_OK ? ole_study_write_report(study, error) : status;
}

/* The runs of the grid, then those that follow from them. */
static ole_status conduct(ole_study *study, ole_error *error) {
    const ole_study_result *r = &study->result;
    int64_t planned;
    ole_status status;
    do {
        planned = r->run_count;
        status = ole_ranks_agree(study->ranks, ole_study_write(study, error), error);
        if (status == OLE_OK) status = ole_study_work(study, error);
        if (status == OLE_OK && !r->interrupted) status = choose(study, error);
    } while (status == OLE_OK && r->run_count > planned);
    return status;
}

ole_study ole_study_make(ole_study_kind kind, const ole_study_options *options) {
    return (ole_study){.kind = kind,
                       .given = options,
                       .ranks = options->look ? NULL : options->ranks,
                       .lambdas = {.name = "lambdas", .max = DBL_MAX},
                       .samples = {.name = "samples", .min = 1.0, .max = 1e9},
                       .result = {.kind = kind, .picked = -1},
                       .lock = -1};
}

/* All but the result. */
static void close_study(ole_study *study) {
    ole_record_close(study);
    free(study->lambdas.items);
    free(study->samples.items);
    free(study->shares);
    free(study->texts);
}

ole_status ole_study_conduct(ole_study_kind kind, const ole_study_options *options,
                             ole_study_result *result, ole_error *error) {
    if (!options)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options is NULL: fill options with ole_study_options_init()");
    ole_study_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_study_options, data_name),
                                        "ole_study_options_init", error);
    if (status != OLE_OK) return status;
    ole_study study = ole_study_make(kind, &o);
    status = begin(&study, &o, error);
    if (status == OLE_OK && is_run(&o)) status = conduct(&study, error);
    close_study(&study);
    if (status == OLE_OK)
        *result = study.result;
    else
        ole_study_result_free(&study.result);
    return status;
}

ole_status ole_tune(const ole_study_options *options, ole_study_result *result, ole_error *error) {
    return ole_study_conduct(OLE_STUDY_TUNE, options, result, error);
}

ole_status ole_sweep(const ole_study_options *options, ole_study_result *result, ole_error *error) {
    return ole_study_conduct(OLE_STUDY_SWEEP, options, result, error);
}

ole_status ole_compare(const ole_study_options *options, ole_study_result *result,
                       ole_error *error) {
    return ole_study_conduct(OLE_STUDY_COMPARE, options, result, error);
}

/* A study to look at; close_study() and free its result either way. */
static ole_status look_at(ole_study *study, ole_study_kind kind, ole_study_options *looking,
                          bool planned, ole_error *error) {
    looking->look = true;
    *study = ole_study_make(kind, looking);
    study->planned = planned;
    return begin(study, looking, error);
}

ole_status ole_study_add_curve(ole_page *page, ole_study_kind kind,
                               const ole_study_options *options, ole_error *error) {
    ole_study_options looking = *options;
    ole_study study;
    ole_status status = look_at(&study, kind, &looking, false, error);
    if (status == OLE_OK) status = ole_study_draw_curve(&study, page, error);
    close_study(&study);
    ole_study_result_free(&study.result);
    return status;
}

ole_study_time ole_study_estimate(ole_study_kind kind, const ole_study_options *options,
                                  double flops, bool (*stopped)(void), ole_error *error) {
    ole_study_options looking = *options;
    ole_study study;
    ole_study_time time = {-1, NAN};
    error->message[0] = '\0';
    if (look_at(&study, kind, &looking, true, error) == OLE_OK) {
        time.runs = study.result.total - study.result.ended;
        time.seconds = ole_study_seconds_left(&study, flops, stopped, error);
    }
    close_study(&study);
    ole_study_result_free(&study.result);
    return time;
}
