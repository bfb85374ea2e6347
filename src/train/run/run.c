/*
 * src/train/run/run.c - opening a run, new or from its checkpoint, and saving it.
 *
 * Each rank opens data and network for itself; only rank 0 touches the run folder and reads
 * --init-from, and sends its weights to the others.
 */
#include "train/run/run.h"

#include "base/error.h"
#include "base/min_max.h"
#include "base/quote.h"
#include "model/init_from.h"
#include "model/option_syntax.h"
#include "model/run_folder.h"
#include "train/options/recipe.h"
#include "train/ranks/rank_agreement.h"
#include "train/ranks/rank_resources.h"
#include "train/ranks/shared_dataset.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_first(const ole_run *run) {
    return ole_ranks_rank(run->options.ranks) == 0;
}

void ole_run_say(const ole_train_options *options, const char *format, ...) {
    if (!options->message || ole_ranks_rank(options->ranks) != 0) return;
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ole_quote_in_place(text);
    options->message(options->callback_context, text);
}

/* The ranks that share this host: the run's own, or those of other runs; or NULL. */
static const ole_ranks *neighbours(const ole_train_options *options) {
    return options->ranks ? options->ranks : options->beside;
}

/* ---- Data --------------------------------------------------------------------------------- */

/* The unreadable images that are skipped: how many, and the names of the first. */
typedef struct skipped_images {
    int count;
    char names[400];
} skipped_images;

static void note_skipped(void *context, const char *path, const char *reason) {
    (void)reason;
    enum { NAMED = 3 };
    skipped_images *s = context;
    size_t used = strlen(s->names);
    if (s->count++ < NAMED)
        snprintf(s->names + used, sizeof s->names - used, "%s%s", used ? ", " : ": ", path);
    else if (s->count == NAMED + 1)
        snprintf(s->names + used, sizeof s->names - used, ", ...");
}

static void report_skipped(const ole_train_options *o, const skipped_images *s) {
    char *data = ole_shell_word(o->data);
    if (s->count == 1)
        ole_run_say(o, "%s: skipped an unreadable image%s", o->data, s->names);
    else if (s->count > 1)
        ole_run_say(o,
                    "%s: skipped %d unreadable images%s (ole data check --skip-bad %s lists them)",
                    o->data, s->count, s->names, data ? data : o->data);
    free(data);
}

static void report_passed_over(const ole_train_options *o, int64_t count) {
    if (count == 0) return;
    char *data = ole_shell_word(o->data);
    ole_run_say(o,
                "%s: skipped %lld file%s: not an image, or not directly inside a class folder "
                "(ole data check %s lists %s)",
                o->data, (long long)count, count == 1 ? "" : "s", data ? data : o->data,
                count == 1 ? "it" : "them");
    free(data);
}

/* Reports the samples that the recipe holds out for the threshold, if any. */
static void describe_calibration(ole_run *run) {
    ole_train_options *o = &run->options;
    long long held_out = ole_dataset_get_info(run->set)->count[OLE_SPLIT_VALIDATION];
    if (o->val_split > 0.0 || o->calibration == 0.0) return;
    if (held_out == 0)
        o->calibration = 0.0;
    else if (!o->resume)
        ole_run_say(o,
                    "held out %lld samples to set the threshold for 'unknown'; --calibration 0 "
                    "trains on them too",
                    held_out);
}

static ole_status describe_data(ole_run *run, ole_error *error) {
    const ole_train_options *o = &run->options;
    const ole_dataset_info *info = ole_dataset_get_info(run->set);
    report_passed_over(o, info->passed_over);
    if (info->classes < 2) return ole_train_fail_single_class(o, error);
    if (o->val_split > 0.0 && info->count[OLE_SPLIT_VALIDATION] == 0)
        ole_run_say(o,
                    "warning: no validation set: no class of %s has enough samples to hold out a "
                    "share of %g (val_split)",
                    o->data, o->val_split);
    if (o->test_share > 0.0 && !o->skip_test && info->count[OLE_SPLIT_TEST] == 0)
        ole_run_say(
            o,
            "warning: no test set: no class of %s has enough samples to hold out a share of "
            "%g (test_share)",
            o->data, o->test_share);
    describe_calibration(run);
    ole_status status = ole_card_make(&run->card, o->net, run->set, o->normalize, error);
    run->card.classifier = o->loss & OLE_LOSS_CLASSIFIERS;
    return status;
}

/* Opens the loader of the training split, and finds the sizes of its batches. */
static ole_status open_loader(ole_run *run, int64_t *batch, int64_t *last, ole_error *error) {
    const ole_train_options *o = &run->options;
    ole_augment_spec augment;
    ole_sampler_spec sampler;
    ole_status status = ole_augment_parse(&augment, o->augment, error);
    if (status == OLE_OK) status = ole_sampler_parse(&sampler, o->sampler, error);
    if (status != OLE_OK) return status;
    const ole_dataset_info *info = ole_dataset_get_info(run->set);
    if (sampler.automatic)
        ole_sampler_choose(&sampler, info->classes,
                           ole_min(o->batch_size, info->count[OLE_SPLIT_TRAIN]));
    if (sampler.classes > info->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "sampler %s: %s has only %d classes",
                        ole_quote_string(o->sampler).text, info->name, info->classes);
    if (augment.jitter > 0 && !info->bytes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "augment %s: jitter applies to images stored as bytes, but %s has floats; "
                        "omit it",
                        ole_quote_string(o->augment).text, info->name);
    if (augment.any && info->height == 1 && info->width == 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "augment %s: applies to images, but %s has vectors; omit it",
                        ole_quote_string(o->augment).text, info->name);
    int64_t count = info->count[OLE_SPLIT_TRAIN];
    bool balanced = sampler.classes > 0;
    *batch = balanced ? (int64_t)sampler.classes * sampler.samples
                      : (o->batch_size < count ? o->batch_size : count);
    *last = balanced ? 0 : count % *batch;
    ole_loader_options options;
    ole_loader_options_init(&options);
    options.batch_size = *batch;
    options.seed = o->seed;
    options.shuffle = true;
    options.drop_last = *last == 1; /* batch norm cannot use a single sample */
    ole_augment_set(&augment, &options);
    options.balanced_classes = sampler.classes;
    options.balanced_samples = sampler.samples;
    options.threads = o->workers;
    memcpy(options.mean, run->card.mean, sizeof options.mean);
    memcpy(options.deviation, run->card.deviation, sizeof options.deviation);
    if (*last == 1) *last = 0;
    options.part = ole_ranks_rank(o->ranks);
    options.parts = ole_ranks_size(o->ranks);
    if (*batch < options.parts)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "a batch of %lld samples is too small for %d ranks; use larger batches or "
                        "fewer ranks",
                        (long long)*batch, options.parts);
    status = ole_loader_create(&run->loader, run->set, OLE_SPLIT_TRAIN, &options, error);
    if (status == OLE_OK && augment.mixup > 0)
        status = ole_loader_mix_up(run->loader, augment.mixup, error);
    if (status == OLE_OK) run->batches = ole_loader_batches(run->loader);
    return status;
}

/* The schedule of all epochs, or of those that the run had before it was extended. */
static ole_status open_schedule(ole_schedule *schedule, const ole_run *run, ole_error *error) {
    ole_train_options options = run->options;
    if (run->state.schedule > 0) options.epochs = run->state.schedule;
    return ole_schedule_init(schedule, &options, run->batches, error);
}

/* ---- Resuming ----------------------------------------------------------------------------- */

ole_status ole_run_compare(const ole_train_options *options, const ole_train_options *then,
                           const char *path, ole_error *error) {
    for (const ole_option *o = ole_train_table; o->name; o++) {
        if (o->flags & (OLE_EXECUTION | OLE_RESUMABLE)) continue;
        if (!ole_option_differs(o, options, then)) continue;
        char a[OLE_OPTION_VALUE], b[OLE_OPTION_VALUE];
        const char *now = ole_option_text(o, options, a), *old = ole_option_text(o, then, b);
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "%s: the run has %s '%s', not '%s'; resume with the same, or start a new run",
            ole_quote_string(path).text, o->name, ole_quote_string(old ? old : "").text,
            ole_quote_string(now ? now : "").text);
    }
    return OLE_OK;
}

/* Also finds how many epochs the run was to have. */
static ole_status check_config(const ole_run *run, const ole_safetensors *file, const char *path,
                               int64_t *epochs, ole_error *error) {
    const char *config = ole_safetensors_metadata(file, "config");
    if (!config) config = "";
    ole_train_options then;
    ole_train_options_init(&then);
    ole_recipe *recipe;
    ole_status status = ole_recipe_parse(&recipe, config, strlen(config), path, &then, error);
    if (status == OLE_OK) status = ole_run_compare(&run->options, &then, path, error);
    if (status == OLE_OK && run->options.init_from && !then.init_from)
        ole_run_say(&run->options, "init_from is ignored: the run resumes from its checkpoint");
    *epochs = then.epochs;
    ole_recipe_free(recipe);
    return status;
}

/*
 * A finished run that gets more epochs keeps its learning rate: shares and cosine stay those of the
 * epochs it had, as in every later resume, unless the schedule is to span all epochs.
 */
static void extend_schedule(ole_run *run, int64_t epochs) {
    const ole_train_options *o = &run->options;
    ole_state *state = &run->state;
    bool finished = epochs > 0 && state->epoch >= epochs;
    bool spans = run->schedule.cosine || strchr(o->milestones, '%'); /* else it is in epochs */
    if (o->epochs <= state->epoch || !spans) return;
    if (o->restart_schedule)
        state->schedule = 0;
    else if (finished && state->schedule == 0)
        state->schedule = epochs;
    run->extends = finished || o->restart_schedule;
}

static void describe_schedule(const ole_run *run) {
    const ole_train_options *o = &run->options;
    double rate = ole_schedule_rate(&run->schedule, run->state.epoch, run->state.step);
    if (o->restart_schedule)
        ole_run_say(o, "the schedule now spans all %lld epochs; learning rate %g",
                    (long long)o->epochs, rate);
    else
        ole_run_say(o,
                    "the run was finished: it resumes at its last learning rate, %g; "
                    "--restart-schedule spreads the schedule over all %lld epochs",
                    rate, (long long)o->epochs);
}

/* Data and checkpoint must have the same sample shape and class names. */
static ole_status compare_data(const ole_card *now, const ole_card *then, const char *path,
                               ole_error *error) {
    static const char advice[] = "resume with the same data, or start a new run";
    const ole_shape *a = &then->input, *b = &now->input;
    const ole_quoted where = ole_quote_string(path);
    if (a->c != b->c || a->h != b->h || a->w != b->w)
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "%s: the run's samples are %lldx%lldx%lld, those of the data %lldx%lldx%lld; %s",
            where.text, (long long)a->c, (long long)a->h, (long long)a->w, (long long)b->c,
            (long long)b->h, (long long)b->w, advice);
    for (int c = 0; c < now->classes || c < then->classes; c++) {
        const char *old = c < then->classes ? then->class_names[c] : "(none)";
        const char *name = c < now->classes ? now->class_names[c] : "(none)";
        if (strcmp(old, name) == 0) continue;
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: class %d of the run is '%s', that of the data '%s'; %s", where.text, c,
                        ole_quote_string(old).text, ole_quote_string(name).text, advice);
    }
    return OLE_OK;
}

static ole_status load_from(ole_run *run, const char *name, ole_error *error) {
    char path[OLE_RUN_PATH];
    int64_t had = 0;
    ole_status status = ole_run_path(path, run->options.out, name, error);
    if (status != OLE_OK) return status;
    ole_safetensors *file;
    status = ole_safetensors_open(&file, path, error);
    if (status == OLE_OK) status = check_config(run, file, path, &had, error);
    ole_card then = {0};
    if (status == OLE_OK) status = ole_card_read(&then, file, path, error);
    if (status == OLE_OK) status = compare_data(&run->card, &then, path, error);
    if (status == OLE_OK && !ole_card_same_samples(&run->card, &then))
        ole_run_say(&run->options,
                    "warning: the training samples of %s have changed since the run began; its "
                    "test samples may include some it was trained on",
                    run->options.data);
    ole_card_free(&then);
    if (status == OLE_OK)
        status = ole_checkpoint_load(file, path, &run->network, run->moments, &run->state, error);
    int64_t begun = run->state.epoch + (run->state.step > 0), epochs = run->options.epochs;
    if (status == OLE_OK && begun > epochs)
        status =
            ole_fail(error, OLE_ERROR_ARGUMENT,
                     "%s: the run is already at epoch %lld; --epochs %lld would end before that",
                     ole_quote_string(path).text, (long long)begun, (long long)epochs);
    if (status == OLE_OK) extend_schedule(run, had);
    ole_safetensors_close(file);
    return status;
}

/* Resumes from last.safetensors or, if that is damaged or gone, from the one before it. */
static ole_status load_state(ole_run *run, ole_error *error) {
    const ole_train_options *o = &run->options;
    ole_status status = load_from(run, "last.safetensors", error);
    run->has_last = status == OLE_OK;
    bool lost = status == OLE_ERROR_FORMAT || !ole_run_has(o->out, "last.safetensors");
    if (status == OLE_OK || !lost || !ole_run_has(o->out, "previous.safetensors")) return status;
    ole_error second;
    if (load_from(run, "previous.safetensors", &second) != OLE_OK) return status;
    ole_run_say(o, "%s; resuming from previous.safetensors", error ? error->message : "damaged");
    return OLE_OK;
}

/* ---- The folder --------------------------------------------------------------------------- */

/* Checks early that the folder exists, belongs to the run, and is not in use. */
static ole_status check_folder(ole_run *run, ole_error *error) {
    ole_train_options *o = &run->options;
    if (!o->out) return OLE_OK;
    ole_status status = o->resume ? OLE_OK : ole_run_make_folder(o->out, &run->made, error);
    if (status == OLE_OK && ole_run_has(o->out, ""))
        status = ole_run_lock(&run->lock, o->out, error);
    if (status == OLE_OK) status = ole_run_refuse_used(o->out, o->resume, 1, o->seed, error);
    if (status != OLE_OK || !o->resume) return status;
    if (ole_run_has(o->out, "last.safetensors") || ole_run_has(o->out, "previous.safetensors"))
        return OLE_OK;
    const ole_quoted quoted = ole_quote_string(o->out);
    if (!ole_run_has(o->out, ""))
        return ole_fail(error, OLE_ERROR_IO, "%s: no run to resume", quoted.text);
    ole_run_say(o, "%s: no checkpoint yet, starting from the beginning", quoted.text);
    o->resume = false;
    return OLE_OK;
}

static ole_status open_folder(ole_run *run, ole_error *error) {
    const ole_train_options *o = &run->options;
    run->config = ole_recipe_text(o);
    if (!run->config) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the recipe");
    if (!o->out) return OLE_OK;
    char path[OLE_RUN_PATH];
    bool others = false;
    ole_status status = ole_run_output(path, o->out, "metrics.jsonl", error);
    if (status == OLE_OK) /* first: it may refuse to resume */
        status = ole_metrics_open(&run->metrics, path, run->state.metrics_bytes, run->state.epoch,
                                  &others, error);
    if (status == OLE_OK && others)
        ole_run_say(o,
                    "warning: %s: removed lines after the last checkpoint, which belong to no run",
                    path);
    if (status == OLE_OK) status = ole_run_output(path, o->out, "config.yaml", error);
    if (status == OLE_OK) status = ole_recipe_write(path, o, error);
    run->metrics.ranks = ole_ranks_size(o->ranks);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* Room for what the loss keeps from step to step; it starts at 0. */
static ole_status make_loss_state(ole_run *run, ole_error *error) {
    ole_state *state = &run->state;
    state->loss_state_count = ole_criterion_state(&run->options, run->network.graph);
    if (state->loss_state_count == 0) return OLE_OK;
    state->loss_state = calloc((size_t)state->loss_state_count, sizeof *state->loss_state);
    if (state->loss_state) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the state of the loss");
}

/* Opens the network with its weights: resumed, from a file, or random. Only rank 0 reads files. */
static ole_status open_network(ole_run *run, ole_error *error) {
    const ole_train_options *o = &run->options;
    char device[OLE_DEVICE_NAME], report[OLE_REPORT_ROOM], warning[OLE_REPORT_ROOM];
    const ole_network_options options = {.net = o->net,
                                         .input = run->card.input,
                                         .classes = run->card.classes,
                                         .device =
                                             ole_rank_device(o->device, neighbours(o), device),
                                         .precision = o->precision,
                                         .conv = o->conv,
                                         .threads = ole_rank_threads(o->threads, neighbours(o)),
                                         .seed = o->seed,
                                         .train = true,
                                         .moments = run->moments};
    ole_status status = ole_network_open(&run->network, &options, error);
    if (status == OLE_OK && o->freeze) status = ole_freeze(&run->network, o->freeze, error);
    if (status == OLE_OK) status = make_loss_state(run, error);
    if (status != OLE_OK) return status;
    if (o->resume && is_first(run)) {
        if (o->ema > 0.0) status = ole_params_average(run->network.params, error);
        return status == OLE_OK ? load_state(run, error) : status;
    }
    status = ole_params_init(run->network.params, o->init, o->seed, error);
    if (status == OLE_OK && o->init_from && is_first(run)) {
        status = ole_init_from(&run->network, o->init_from, report, warning, error);
        if (status == OLE_OK) ole_run_say(o, "%s", report);
        if (status == OLE_OK && *warning) ole_run_say(o, "%s", warning);
    }
    if (status == OLE_OK && o->ema > 0.0) status = ole_params_average(run->network.params, error);
    return status;
}

/* Records the steps if the device can; if the data set does not fit on it, batches are sent one by
 * one. */
static ole_status open_recorded(ole_run *run, ole_error *error) {
    const ole_criterion *criterion = run->stepper->criterion.criterion;
    if (!run->network.backend->recorder) return OLE_OK;
    if (!ole_recorded_has_criterion(run->stepper)) {
        ole_run_say(&run->options,
                    "%s is computed on the CPU%s, so steps are not recorded on the GPU and run "
                    "slower",
                    criterion->title, run->stepper->reduce ? " on multiple ranks" : "");
        return OLE_OK;
    }
    if (run->stepper->reduce) {
        const char *obstacle = ole_recorded_obstacle(run->stepper);
        const char *how = obstacle ? obstacle : run->stepper->reduce->link.how;
        if (how[0]) ole_run_say(&run->options, "%s", how);
        if (obstacle) return OLE_OK;
    }
    ole_error reason;
    ole_status status =
        ole_recorded_create(&run->recorded, run->stepper, run->set, run->loader, &reason);
    if (status == OLE_ERROR_MEMORY && ole_network_wait(&run->network, NULL) == OLE_OK) {
        ole_run_say(&run->options, "%s; sending batches one at a time instead", reason.message);
        return OLE_OK;
    }
    if (status != OLE_OK && error) *error = reason;
    return status;
}

/* Plans the steps of the probe, or of what follows. Collective. */
static ole_status open_steps(ole_run *run, const int64_t batch[2], ole_error *error) {
    const ole_train_options *o = &run->options;
    ole_status status = OLE_OK;
    if (run->probing)
        status = ole_ranks_agree(o->ranks, ole_freeze(&run->network, "backbone", error), error);
    if (status == OLE_OK)
        status = ole_stepper_create(&run->stepper, &run->network, o, batch[0], batch[1], error);
    if (status != OLE_OK) return status;
    ole_criterion_step_use(&run->stepper->criterion, run->state.loss_state);
    run->stepper->update.begun = run->probing ? 0 : o->probe_epochs * run->batches;
    status = ole_inference_open(&run->inference, &run->network, run->stepper->plan[0],
                                run->stepper->rows[0], error);
    status = ole_ranks_agree(o->ranks, status, error);
    if (status == OLE_OK) status = open_recorded(run, error);
    if (status == OLE_OK && !run->recorded) status = ole_stepper_prepare(run->stepper, error);
    return status;
}

static void close_steps(ole_run *run) {
    ole_inference_close(&run->inference);
    ole_recorded_free(run->recorded);
    ole_stepper_free(run->stepper);
    run->recorded = NULL;
    run->stepper = NULL;
}

ole_status ole_run_end_probe(ole_run *run, ole_error *error) {
    const ole_train_options *o = &run->options;
    const int64_t batch[2] = {run->stepper->batch[0], run->stepper->batch[1]};
    close_steps(run);
    for (int i = 0; i < run->network.graph->params; i++)
        ole_params_thaw(run->network.params, i);
    ole_status status = o->freeze ? ole_freeze(&run->network, o->freeze, error) : OLE_OK;
    if (status == OLE_OK) status = ole_params_forget(run->network.params, error);
    status = ole_ranks_agree(o->ranks, status, error);
    run->probing = false;
    return status == OLE_OK ? open_steps(run, batch, error) : status;
}

/* Warns of options that do not do what they seem to. */
static void warn_of_options(const ole_run *run, int64_t batch) {
    const ole_train_options *o = &run->options;
    const ole_schedule *s = &run->schedule;
    const ole_graph *graph = run->network.graph;
    bool norms = false, all_frozen = true;
    for (int n = 0; n < graph->nodes; n++)
        norms |= graph->node[n].op == OLE_OP_NORM;
    for (int i = 0; i < graph->params; i++)
        all_frozen &= ole_params_is_frozen(run->network.params, i);
    if (batch == 1 && norms)
        ole_run_say(o,
                    "warning: batch norm needs more than one sample per batch; use larger batches");
    if (all_frozen)
        ole_run_say(o, "warning: freeze %s: every weight is frozen, so nothing is learned",
                    o->freeze);
    if (s->warmup >= s->epochs)
        ole_run_say(o, "warning: a warm-up of %g in %g epoch%s: the learning rate never reaches lr",
                    s->warmup, s->epochs, s->epochs == 1.0 ? "" : "s");
    if (s->milestones > 0 && s->milestone[0] >= s->epochs)
        ole_run_say(o, "warning: milestones %s: the learning rate does not drop within %g epoch%s",
                    o->milestones, s->epochs, s->epochs == 1.0 ? "" : "s");
    if (strcmp(o->keep, "best") == 0 &&
        ole_dataset_get_info(run->set)->count[OLE_SPLIT_VALIDATION] == 0)
        ole_run_say(o, "warning: keep best: no samples are held out to choose an epoch by, so the "
                       "last is kept; add --val-split 10%%");
}

/* An error on one rank is an error on all; only open_recorded() may fail on one alone. */
ole_status ole_run_open(ole_run *run, const ole_train_options *options, ole_error *error) {
    *run = (ole_run){.options = *options,
                     .metrics = {.fd = -1},
                     .lock = -1,
                     .moments = ole_train_moments(options)};
    const ole_train_options *o = &run->options;
    if (ole_ranks_size(options->ranks) == 1) run->options.ranks = NULL;
    if (!is_first(run)) run->options.out = NULL;

    ole_dataset_options data;
    ole_train_dataset_options(o, &data);
    data.threads = ole_rank_threads(o->threads, neighbours(o));
    data.skip_test = o->skip_test;
    skipped_images skipped = {0};
    if (data.skip_bad) {
        data.bad_image = note_skipped;
        data.bad_image_context = &skipped;
    }
    ole_status status = ole_ranks_agree(o->ranks, check_folder(run, error), error);
    if (status == OLE_OK) status = ole_samples_open(&run->set, o->data, &data, o->ranks, error);
    report_skipped(o, &skipped);

    int64_t batch = 0, last = 0;
    if (status == OLE_OK) { /* each rank for itself */
        status = describe_data(run, error);
        if (status == OLE_OK) status = open_loader(run, &batch, &last, error);
        if (status == OLE_OK) status = open_schedule(&run->schedule, run, error);
        if (status == OLE_OK) status = open_network(run, error);
        if (status == OLE_OK && is_first(run)) {
            warn_of_options(run, batch);
            ole_run_suggest(run);
        }
        status = ole_ranks_agree(o->ranks, status, error);
    }
    if (status == OLE_OK)
        status = ole_agree_on_data(o->ranks, &run->network, run->set, &run->card, error);
    if (status == OLE_OK)
        status = ole_agree_on_weights(o->ranks, &run->network, run->moments, &run->state, error);
    if (status == OLE_OK) status = open_schedule(&run->schedule, run, error); /* rank 0's state */

    run->probing = run->state.epoch < o->probe_epochs ||
                   (o->probe_epochs > 0 && run->state.epoch == o->probe_epochs && !run->state.step);
    if (status == OLE_OK) status = open_steps(run, (const int64_t[]){batch, last}, error);
    if (status == OLE_OK) status = ole_ranks_agree(o->ranks, open_folder(run, error), error);
    if (status == OLE_OK) {
        if (run->extends) describe_schedule(run);
        return OLE_OK;
    }
    if (run->made > 0) ole_run_remove_folder(run->options.out, run->made);
    ole_run_close(run);
    return status;
}

void ole_run_close(ole_run *run) {
    ole_metrics_close(&run->metrics);
    close_steps(run);
    ole_network_close(&run->network);
    ole_loader_destroy(run->loader);
    ole_card_free(&run->card);
    ole_dataset_close(run->set);
    free(run->config);
    free(run->state.loss_state);
    if (run->lock >= 0) close(run->lock);
    *run = (ole_run){.metrics = {.fd = -1}, .lock = -1};
}

/* ---- Saving ------------------------------------------------------------------------------- */

ole_status ole_run_save(ole_run *run, ole_error *error) {
    if (!run->options.out) return OLE_OK;
    char last[OLE_RUN_PATH], previous[OLE_RUN_PATH];
    ole_status status = ole_run_output(last, run->options.out, "last.safetensors", error);
    if (status == OLE_OK)
        status = ole_run_output(previous, run->options.out, "previous.safetensors", error);
    if (status != OLE_OK) return status;
    run->state.metrics_bytes = run->metrics.bytes;
    if (run->has_last) { /* file systems without links have no previous checkpoint */
        unlink(previous);
        int failed = link(last, previous);
        (void)failed;
    }
    status = ole_checkpoint_save(last, &run->network, &run->card, run->moments, run->config,
                                 &run->state, error);
    run->has_last |= status == OLE_OK;
    return status;
}

ole_status ole_run_save_best(const ole_run *run, ole_error *error) {
    if (!run->options.out) return OLE_OK;
    char path[OLE_RUN_PATH];
    ole_status status = ole_run_output(path, run->options.out, "best.safetensors", error);
    return status == OLE_OK ? ole_weights_save(path, &run->network, &run->card, NULL, error)
                            : status;
}
