/*
 * src/train/run/train_once.c - one run: epochs and steps, with evaluation and checkpoints between
 * them.
 *
 * Read it from the bottom: ole_train_once() opens a run (run.h), takes it through its epochs and
 * closes it.  Steps run one by one, or the device replays recorded ones (recorded.h).
 *
 * All ranks stop after the same step: in every step each tells the others whether its callback has
 * asked to stop.  With recorded steps they agree whenever they read the device's sums, which they
 * do after the same steps.
 */
#include "train/run/train_once.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/quote.h"
#include "data/loader/loader.h"
#include "model/model.h"
#include "model/threshold.h"
#include "train/ranks/rank_agreement.h"
#include "train/ranks/rank_resources.h"
#include "train/run/history.h"
#include "train/run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run under way. */
typedef struct loop {
    ole_run run;
    int64_t number, runs;  /* which of how many, from 1 */
    double started;        /* when this process began or resumed it */
    double seconds_before; /* spent by earlier processes */
    int64_t steps_here;    /* done by this process */
    double lr;
    ole_errors errors;   /* of the last evaluation */
    ole_errors best;     /* of the best epoch of this process */
    int64_t best_epoch;  /* from 1; 0: none */
    ole_outputs outputs; /* for the caller's model: of the test split or, without one, validation */
    int64_t keeps;       /* ranks whose caller requested the model; they evaluate together */
    bool measured;       /* the last epoch was evaluated */
    double saved_at;     /* when the run was last saved; at first, when it started */
    double save_seconds; /* what that took */
    int64_t saved_epoch; /* after how many epochs */
    bool saved;          /* by this process */
    bool wants_stop;     /* our caller does */
    bool stopped;        /* by our caller or another rank: after the same step on all */
} loop;

/* Whether a step takes the smaller batch at the end of the epoch. */
static bool is_last(const ole_run *run, int64_t step) {
    return run->stepper->batch[1] > 0 && step == run->batches - 1;
}

/* ---- Reporting to the caller -------------------------------------------------------------- */

static double elapsed(const loop *l) {
    return l->seconds_before + ole_clock() - l->started;
}

/* Calls back; true to stop. `sums` are those of the reported epoch. */
static bool tell(loop *l, const ole_sums *sums, int64_t epoch, bool epoch_done) {
    const ole_run *run = &l->run;
    if (!run->options.callback) return false;
    double steps = (double)sums->steps, images = (double)sums->images;
    bool softmax = run->options.loss & OLE_LOSS_CLASSIFIERS;
    int64_t later = run->options.epochs * (l->runs - l->number + 1) - run->state.epoch;
    double left = (double)later * (double)run->batches - (double)run->state.step; /* steps */
    ole_train_progress progress = {
        .run = l->number,
        .runs = l->runs,
        .epoch = epoch,
        .epochs = run->options.epochs,
        .step = epoch_done ? run->batches : run->state.step,
        .steps = run->batches,
        .softmax_loss = sums->softmax_loss / steps,
        .ole_loss = sums->ole_loss / steps,
        .train_error = softmax ? 100.0 * (images - (double)sums->correct) / images : NAN,
        .lr = l->lr,
        .images_per_second = images / sums->seconds,
        .seconds = elapsed(l),
        .seconds_left =
            l->steps_here > 0 ? left * (ole_clock() - l->started) / (double)l->steps_here : NAN,
        .epoch_done = epoch_done,
        .test_error = NAN,
        .validation_error = NAN,
        .knn1_error = NAN,
        .comm_seconds = sums->comm_seconds,
        .feature_loss = sums->feature_loss / steps,
    };
    const ole_criterion *criterion = run->stepper->criterion.criterion;
    if (!criterion || criterion->traits & OLE_CRITERION_HEAD) progress.feature_loss = NAN;
    if (epoch_done && l->measured) {
        progress.test_error = l->errors.test;
        progress.validation_error = l->errors.validation;
        progress.knn1_error = l->errors.knn1;
    }
    return run->options.callback(run->options.callback_context, &progress);
}

/* The loss that compares the samples of a batch with each other, if any. */
static const char *comparing_loss(const ole_run *run) {
    const ole_criterion *c = run->stepper->criterion.criterion;
    if (run->options.loss & OLE_LOSS_OLE) return "OLE";
    return c && !(c->traits & (OLE_CRITERION_HEAD | OLE_CRITERION_CENTERS)) ? c->title : NULL;
}

/* Warns if most classes of a batch have one sample: such a loss learns little from those. */
static void warn_of_single_samples(const loop *l) {
    const ole_run *run = &l->run;
    const char *loss = comparing_loss(run);
    if (!loss || run->state.step >= run->batches) return;
    int classes = ole_dataset_get_info(run->set)->classes, last = is_last(run, run->state.step);
    const int32_t *labels = ole_dataset_labels(run->set, OLE_SPLIT_TRAIN);
    int64_t size = ole_loader_batch_size(run->loader), present = 0, single = 0;
    bool local = run->stepper->reduce && run->stepper->ole && !run->stepper->global;
    /* Rank 0's rows come first. */
    int64_t count = local ? run->stepper->rows[last] : run->stepper->batch[last];
    int64_t *of_class = calloc((size_t)classes, sizeof *of_class);
    int64_t *list = malloc((size_t)(size * run->batches) * sizeof *list);
    if (list && of_class) {
        ole_loader_list(run->loader, run->state.epoch, list);
        for (int64_t i = 0; i < count; i++)
            of_class[labels[list[run->state.step * size + i]]]++;
        for (int c = 0; c < classes; c++) {
            present += of_class[c] > 0;
            single += of_class[c] == 1;
        }
    }
    free(list);
    free(of_class);
    if (2 * single <= present) return;
    ole_run_say(&run->options,
                "warning: %lld of the %lld classes in a batch of %lld have one sample, from which "
                "%s learns little; --sampler balanced:CxK draws K samples of C classes each",
                (long long)single, (long long)present, (long long)count, loss);
}

/* ---- An epoch ----------------------------------------------------------------------------- */

/* Runs the steps of an epoch one by one. */
static ole_status run_steps(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    ole_state *state = &run->state;
    while (state->step < run->batches && !l->stopped) {
        double start = ole_clock();
        ole_batch batch;
        ole_status status = ole_loader_get(run->loader, state->epoch, state->step, &batch, error);
        if (status != OLE_OK) return status;
        l->lr = ole_schedule_rate(&run->schedule, state->epoch, state->step);
        const ole_step step = {.batch = &batch,
                               .mix = ole_loader_mix(run->loader),
                               .last = is_last(run, state->step),
                               .number = state->updates + 1,
                               .lr = l->lr};
        ole_step_result result;
        run->stepper->wants_stop = l->wants_stop;
        status = ole_stepper_run(run->stepper, &step, &result, error);
        if (status != OLE_OK) return status;
        state->updates++;
        state->step++;
        l->steps_here++;
        l->stopped = result.stop;
        state->sums.loss += result.loss;
        state->sums.softmax_loss += result.softmax_loss;
        state->sums.ole_loss += result.ole_loss;
        if (isfinite(result.feature_loss)) state->sums.feature_loss += result.feature_loss;
        state->sums.seconds += ole_clock() - start;
        state->sums.ole_seconds += result.seconds[OLE_STEP_OLE];
        state->sums.comm_seconds += result.comm_seconds;
        state->sums.steps++;
        state->sums.images += run->stepper->batch[step.last];
        state->sums.correct += result.correct;
        if (tell(l, &state->sums, state->epoch + 1, false)) l->wants_stop = true;
        if (!run->options.ranks) l->stopped = l->wants_stop;
    }
    return OLE_OK;
}

/* Whether the samples held out choose the epoch that is kept.  Those for the threshold alone do so
 * on request. */
static bool selects_best(const ole_run *run) {
    return ole_train_keeps_best(&run->options) &&
           ole_dataset_get_info(run->set)->count[OLE_SPLIT_VALIDATION] > 0;
}

/* What an epoch's validation error must be below to be kept.  With keep best, one that ties with an
 * earlier epoch is kept: errors on few samples tie, and later epochs have the lower rate. */
static double best_so_far(const ole_run *run) {
    if (!selects_best(run) || run->state.best_epoch == 0) return INFINITY;
    double best = run->state.best_error;
    return strcmp(run->options.keep, "best") == 0 ? nextafter(best, INFINITY) : best;
}

static ole_status measure(loop *l, bool knn, ole_error *error) {
    ole_run *run = &l->run;
    bool no_memory = false;
    const ole_evaluation_request what = {.runner = {.inference = &run->inference,
                                                    .card = &run->card,
                                                    .ranks = run->options.ranks,
                                                    .batch = run->stepper->batch[0],
                                                    .workers = run->options.workers},
                                         .recorded = run->recorded,
                                         .set = run->set,
                                         .classifier = run->options.loss & OLE_LOSS_CLASSIFIERS,
                                         .knn = knn,
                                         .validates =
                                             run->options.val_split > 0.0 || selects_best(run),
                                         .best = best_so_far(run),
                                         .outputs = l->keeps > 0 ? &l->outputs : NULL,
                                         .card = run->options.unknown ? &run->card : NULL,
                                         .no_memory = &no_memory};
    ole_status status = ole_errors_measure(&l->errors, &what, error);
    if (status == OLE_OK && no_memory)
        ole_run_say(&run->options, "no memory for the logits of the training set: the model is "
                                   "without a threshold for 'unknown', which 'ole novelty' sets");
    return status;
}

/* Evaluates if it is time to, and keeps the model if its validation error is the lowest so far. */
static ole_status measure_epoch(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    const ole_train_options *o = &run->options;
    int64_t epoch = run->state.epoch + 1;
    bool last = epoch == o->epochs;
    l->measured = last || epoch % o->eval_every == 0;
    ole_status status = l->measured ? measure(l, last || !(o->loss & OLE_LOSS_CLASSIFIERS), error)
                                    : ole_card_set_threshold(&run->card, NULL, error);
    if (status != OLE_OK) return status;
    if (!selects_best(run)) return OLE_OK;
    bool better = run->state.best_epoch == 0 || l->errors.validation < best_so_far(run);
    if (!l->measured || !better) return OLE_OK;
    run->state.best_epoch = epoch;
    run->state.best_error = l->errors.validation;
    l->best = l->errors;
    l->best_epoch = epoch;
    double start = ole_clock();
    status = ole_run_save_best(run, error);
    l->save_seconds += ole_clock() - start;
    return status;
}

/* Checks that all ranks have the same weights; local batch-norm statistics become their means. */
static ole_status check_ranks(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    if (!run->stepper->reduce) return OLE_OK;
    ole_reduce_statistics(run->stepper->reduce);
    return ole_verify_weights(run->options.ranks, &run->network, error);
}

/* Exchanges weights and their average, if one is kept: before evaluating or saving the model, and
 * after. */
static void swap_average(const loop *l, bool in) {
    const ole_run *run = &l->run;
    if (run->options.ema == 0.0) return;
    ole_params_swap_average(run->network.params);
    if (in && run->stepper->reduce) ole_reduce_statistics(run->stepper->reduce);
}

/* Rank 0 writes; if it cannot, all ranks end.  Without a validation split the best model is the
 * last. */
static ole_status save(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    double start = ole_clock();
    ole_status status = OLE_OK;
    if (!selects_best(run)) {
        run->state.best_epoch = run->state.epoch;
        swap_average(l, true);
        status = ole_run_save_best(run, error);
        swap_average(l, false);
    }
    if (status == OLE_OK) status = ole_run_save(run, error);
    status = ole_ranks_agree(run->options.ranks, status, error);
    l->saved_at = ole_clock();
    l->save_seconds = l->saved_at - start;
    if (status == OLE_OK) l->saved_epoch = run->state.epoch;
    l->saved = true;
    return status;
}

/* Unless save_every says how often, saving takes at most a twentieth of the time, by rank 0's
 * clock. The first epoch of this process and the last of the run are always saved. */
static bool is_save_due(const loop *l) {
    int64_t epoch = l->run.state.epoch, every = l->run.options.save_every;
    if (epoch == l->run.options.epochs) return true;
    if (every > 0) return epoch % every == 0;
    if (!l->saved) return true;
    int64_t due = ole_clock() - l->saved_at >= 20.0 * l->save_seconds;
    ole_ranks_broadcast(l->run.options.ranks, &due, sizeof due, 0);
    return due;
}

static ole_status finish_epoch(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    bool softmax = run->options.loss & OLE_LOSS_CLASSIFIERS;
    ole_sums sums = run->state.sums;
    l->lr = ole_schedule_rate(&run->schedule, run->state.epoch, run->batches - 1);
    ole_status status = check_ranks(l, error);
    if (status == OLE_OK) {
        swap_average(l, true);
        status = measure_epoch(l, error);
        swap_average(l, false);
    }
    if (status == OLE_OK)
        status = ole_metrics_epoch(&run->metrics, run->state.epoch + 1, l->lr, &sums, softmax,
                                   l->measured ? &l->errors : NULL, error);
    status = ole_ranks_agree(run->options.ranks, status, error);
    if (status != OLE_OK) return status;
    run->state.epoch++;
    run->state.step = 0;
    run->state.sums = (ole_sums){0};
    run->state.seconds = elapsed(l);
    status = is_save_due(l) ? save(l, error) : OLE_OK;
    if (status != OLE_OK) return status;
    int64_t stop = tell(l, &sums, run->state.epoch, true) || l->wants_stop;
    ole_ranks_sum(run->options.ranks, &stop, 1, OLE_I64);
    l->stopped = stop > 0;
    return l->stopped && l->saved_epoch < run->state.epoch ? save(l, error) : OLE_OK;
}

/* ---- An epoch of recorded steps ----------------------------------------------------------- */

/* The state of the epoch when the device took over. */
typedef struct takeover {
    ole_sums sums;
    int64_t step, updates;
    double started;
} takeover;

/* Runs the first step with a bad loss again to find the layer. */
static ole_status fail_recorded(loop *l, const takeover *from, const ole_step_sums *now,
                                ole_error *error) {
    ole_run *run = &l->run;
    ole_batch batch;
    int64_t step = from->step + now->bad_step - from->updates - 1;
    ole_status status = ole_loader_get(run->loader, run->state.epoch, step, &batch, error);
    if (status != OLE_OK) return status;
    bool softmax = (run->options.loss & OLE_LOSS_CLASSIFIERS) && !isfinite(now->softmax_loss);
    const ole_step bad = {.batch = &batch, .last = is_last(run, step), .number = now->bad_step};
    run->stepper->criterion.value = now->feature_loss;
    status = ole_stepper_fail(run->stepper, &bad, softmax, error);
    if (!error || now->bad_row < 0) return status;
    ole_error cause = *error;
    return ole_fail(error, status, "%.400s (the first such row of features is %lld of the batch)",
                    cause.message, (long long)now->bad_row);
}

/* Waits for the device and adds its sums. */
static ole_status catch_up(loop *l, const takeover *from, ole_error *error) {
    ole_run *run = &l->run;
    ole_step_sums now;
    ole_status status = ole_recorded_read(run->recorded, &now, error);
    if (status != OLE_OK) return status;
    if (now.bad_step) return fail_recorded(l, from, &now, error);
    int64_t rows = run->stepper->batch[0], done = from->step + now.steps;
    int64_t images = now.steps * rows;
    if (done == run->batches && run->stepper->batch[1]) images += run->stepper->batch[1] - rows;
    const ole_sums *before = &from->sums;
    run->state.sums = (ole_sums){
        .loss = before->loss + now.loss,
        .softmax_loss = run->stepper->classifier ? before->softmax_loss + now.softmax_loss : NAN,
        .ole_loss = run->stepper->ole ? before->ole_loss + now.added_loss : NAN,
        .feature_loss = before->feature_loss + now.feature_loss,
        .seconds = before->seconds + ole_clock() - from->started,
        .ole_seconds = before->ole_seconds + (double)now.steps * run->recorded->ole_seconds,
        .comm_seconds = before->comm_seconds + (double)now.steps * run->recorded->comm_seconds,
        .steps = before->steps + now.steps,
        .images = before->images + images,
        .correct = before->correct + now.correct};
    l->steps_here += from->updates + now.steps - run->state.updates;
    run->state.step = done;
    run->state.updates = from->updates + now.steps;
    l->lr = ole_schedule_rate(&run->schedule, run->state.epoch, done > 0 ? done - 1 : 0);
    return OLE_OK;
}

/* Lets the device replay the steps, and reads its sums now and then.  Ranks do that after the same
 * steps, which rank 0 chooses by its pace, and then agree whether to stop. */
static ole_status replay_steps(loop *l, ole_error *error) {
    static const double every = 0.2; /* seconds */
    ole_run *run = &l->run;
    ole_ranks *ranks = run->options.ranks;
    takeover from = {run->state.sums, run->state.step, run->state.updates, ole_clock()};
    if (from.step >= run->batches) return OLE_OK; /* stopped just before the epoch's end */
    ole_status status = ole_recorded_start(run->recorded, &run->schedule, run->state.epoch,
                                           from.step, from.updates, error);
    double read_at = from.started;
    int64_t read = from.step, next = from.step + 1; /* steps after which sums are read */
    for (int64_t done = from.step + 1; done <= run->batches && status == OLE_OK && !l->stopped;
         done++) {
        status = ole_recorded_step(run->recorded, error);
        bool due = ranks ? done >= next : ole_clock() - read_at >= every;
        if (status != OLE_OK || (!due && done < run->batches)) continue;
        status = catch_up(l, &from, error);
        if (status != OLE_OK) continue;
        if (tell(l, &run->state.sums, run->state.epoch + 1, false)) l->wants_stop = true;
        double pace = (double)(done - read) / fmax(ole_clock() - read_at, 1e-6);
        int64_t stop = l->wants_stop, ahead = (int64_t)fmax(1.0, pace * every);
        ole_ranks_sum(ranks, &stop, 1, OLE_I64);
        ole_ranks_broadcast(ranks, &ahead, sizeof ahead, 0);
        l->stopped = stop > 0;
        read_at = ole_clock();
        read = done;
        next = done + ahead;
    }
    return status;
}

/* Steps until the epoch is over or the caller stops it, in which case the run is saved. */
static ole_status run_epoch(loop *l, ole_error *error) {
    ole_run *run = &l->run;
    ole_status status = run->recorded ? replay_steps(l, error) : run_steps(l, error);
    if (status != OLE_OK) return status;
    if (!l->stopped) return finish_epoch(l, error);
    run->state.seconds = elapsed(l);
    status = check_ranks(l, error);
    /* The threshold is that of the last measured epoch, the weights are newer. */
    if (status == OLE_OK) status = ole_card_set_threshold(&run->card, NULL, error);
    return status == OLE_OK ? save(l, error) : status;
}

/* ---- A run -------------------------------------------------------------------------------- */

/* The errors of best.safetensors; those of an epoch before a resume are in the run's metrics. */
static ole_errors best_errors(const loop *l) {
    const ole_run *run = &l->run;
    if (!selects_best(run)) return l->errors;
    ole_errors best = l->best;
    if (l->best_epoch == run->state.best_epoch) return best;
    best = (ole_errors){.test = NAN, .validation = run->state.best_error, .knn1 = NAN};
    ole_history history;
    if (run->options.out && ole_history_read(&history, run->options.out, NULL) == OLE_OK) {
        int64_t at = run->state.best_epoch - 1;
        const ole_epoch *epoch = at < history.count ? &history.epochs[at] : NULL;
        if (epoch) best.test = epoch->test_error, best.knn1 = epoch->knn1_error;
        ole_history_free(&history);
    }
    ole_ranks_broadcast(run->options.ranks, &best, sizeof best, 0);
    return best;
}

static ole_status finish_run(loop *l, ole_train_summary *summary, ole_error *error) {
    ole_run *run = &l->run;
    const ole_train_options *o = &run->options;
    ole_status status = OLE_OK;
    swap_average(l, true);
    if (!l->measured) /* resumed with nothing left to do */
        status = measure(l, true, error);
    if (status == OLE_OK)
        status = ole_metrics_end(&run->metrics, &l->errors, elapsed(l), run->network.backend->name,
                                 error);
    if (status == OLE_OK && o->model) {
        char room[OLE_DEVICE_NAME];
        const char *device = ole_rank_device(o->device, o->ranks ? o->ranks : o->beside, room);
        bool no_test = ole_dataset_get_info(run->set)->count[OLE_SPLIT_TEST] == 0;
        status = ole_model_build(o->model, &run->network, &run->card, device, &l->outputs,
                                 no_test ? OLE_SPLIT_VALIDATION : OLE_SPLIT_TEST, error);
    }
    swap_average(l, false);
    status = ole_ranks_agree(o->ranks, status, error);
    summary->runs = 1;
    if (status != OLE_OK) return status;
    const ole_errors best = best_errors(l);
    summary->test_error = best.test;
    summary->validation_error = best.validation;
    summary->knn1_error = !(o->loss & OLE_LOSS_CLASSIFIERS) ? best.knn1 : l->errors.knn1;
    summary->last_test_error = l->errors.test;
    summary->last_validation_error = l->errors.validation;
    if (selects_best(run)) {
        summary->best_epoch = run->state.best_epoch;
        summary->best_error = run->state.best_error;
    }
    return status;
}

ole_status ole_train_once(const ole_train_options *options, int64_t number, int64_t runs,
                          ole_train_summary *summary, ole_error *error) {
    loop *l = calloc(1, sizeof *l);
    if (!l) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *summary = (ole_train_summary){.test_error = NAN,
                                   .validation_error = NAN,
                                   .knn1_error = NAN,
                                   .last_test_error = NAN,
                                   .last_validation_error = NAN};
    ole_status status = ole_run_open(&l->run, options, error);
    if (status == OLE_OK) {
        l->number = number;
        l->runs = runs;
        l->started = l->saved_at = ole_clock();
        l->saved_epoch = l->run.state.epoch;
        l->keeps = options->model != NULL;
        ole_ranks_sum(options->ranks, &l->keeps, 1, OLE_I64);
        l->seconds_before = l->run.state.seconds;
        if (l->run.state.epoch < options->epochs) warn_of_single_samples(l);
        while (l->run.state.epoch < options->epochs && !l->stopped && status == OLE_OK) {
            if (l->run.probing && l->run.state.epoch >= options->probe_epochs)
                status = ole_run_end_probe(&l->run, error);
            if (status == OLE_OK) status = run_epoch(l, error);
        }
        bool finished = l->run.state.epoch >= options->epochs;
        if (status == OLE_OK && finished) status = finish_run(l, summary, error);
        if (error && status == OLE_ERROR_NUMERIC && l->run.has_last) {
            ole_error cause = *error;
            ole_fail(error, status, "%.280s; %s/last.safetensors holds epoch %lld", cause.message,
                     ole_quote_string(l->run.options.out).text, (long long)l->saved_epoch);
        }
        summary->epochs = l->run.state.epoch;
        summary->interrupted = l->stopped && !finished;
        summary->seconds = elapsed(l);
        ole_run_close(&l->run);
    }
    ole_outputs_free(&l->outputs);
    free(l);
    return status;
}
