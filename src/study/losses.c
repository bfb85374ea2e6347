/* src/study/losses.c - the losses of a comparison, what is tuned of each, and their studies. */
#include "study/losses_parts.h"

#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/spread.h"
#include "model/run_folder.h"
#include "study/by_kind.h"
#include "study/study.h"
#include "train/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usual[] =
    "softmax,softmax+smoothing,softmax+ole,softmax+center,arcface,softmax+supcon,softmax+opl,"
    "softmax+mcr2,softmax+ssole";

/* ---- What is tuned ------------------------------------------------------------------------ */

/* What a loss without a weight of its own tunes instead. */
static const double weight_decays[] = {1e-5, 1e-4, 5e-4, 1e-3, 5e-3};
static const double smoothings[] = {0.02, 0.05, 0.1, 0.2, 0.3};
static const double lambdas[] = {1.0 / 64, 1.0 / 16, 1.0 / 4, 1.0 / 2, 1.0};

/* The middle `settings` of a grid, whose middle is the default. */
static void choose_tuned(ole_loss_entry *e, const ole_criterion *c, bool smoothing,
                         int64_t settings) {
    const double *grid = weight_decays;
    const char *tuned = "weight_decay", *of = "";
    if (smoothing) {
        tuned = "label_smoothing";
        grid = smoothings;
    } else if (e->loss & OLE_LOSS_OLE) {
        tuned = "lambda";
        grid = lambdas;
    } else if (c && e->loss & OLE_LOSS_SOFTMAX) {
        tuned = "loss_weight";
        grid = c->weight_grid;
    } else if (c) {
        of = "loss_options:";
        tuned = c->tuned;
        grid = c->grid;
    }
    snprintf(e->tuned, sizeof e->tuned, "%s%s", of, tuned);
    memcpy(e->value, grid + (OLE_LOSS_SETTINGS - settings) / 2, (size_t)settings * sizeof *grid);
}

/* "softmax+smoothing" is softmax with smoothed labels. */
static ole_status read_entry(ole_losses *l, const ole_train_options *train, const char *name,
                             ole_error *error) {
    static const char suffix[] = "+smoothing";
    ole_loss_entry *e = &l->entry[l->count];
    size_t length = strlen(name), cut = sizeof suffix - 1;
    bool smoothing = length > cut && strcmp(name + length - cut, suffix) == 0;
    char loss[OLE_LOSS_NAME];
    for (int64_t i = 0; i < l->count; i++)
        if (strcmp(l->entry[i].name, name) == 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT, "losses: %s is given twice",
                            ole_quote_string(name).text);
    snprintf(loss, sizeof loss, "%.*s", (int)(smoothing ? length - cut : length), name);
    snprintf(e->name, sizeof e->name, "%s", name);
    ole_train_options o = *train;
    const ole_criterion *criterion;
    double param[OLE_CRITERION_PARAMS];
    ole_status status = ole_train_options_set(&o, "loss", loss, error);
    if (status != OLE_OK) return status;
    o.loss_options = "";
    status = ole_train_criterion(&o, &criterion, param, error);
    if (status == OLE_OK && smoothing && !(o.loss & OLE_LOSS_SOFTMAX))
        status = ole_fail(error, OLE_ERROR_ARGUMENT, "losses: %s: smoothing is for softmax",
                          ole_quote_string(name).text);
    if (status != OLE_OK) return status;
    e->loss = o.loss;
    e->picked = NAN;
    e->validation = (ole_study_error){NAN, NAN};
    choose_tuned(e, criterion, smoothing, l->settings);
    e->measured = malloc((size_t)l->seeds * OLE_MEASURES * sizeof *e->measured);
    if (!e->measured) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < l->seeds * OLE_MEASURES; i++)
        e->measured[i] = NAN;
    l->count++;
    return OLE_OK;
}

static ole_status read_losses(ole_losses *l, const ole_train_options *train, const char *text,
                              ole_error *error) {
    for (const char *at = text; at;) {
        size_t length = strcspn(at, ",");
        char name[OLE_LOSS_NAME];
        if (length >= sizeof name || l->count == OLE_LOSSES)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "losses: expected up to %d, with commas between", OLE_LOSSES);
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        ole_status status = read_entry(l, train, name, error);
        if (status != OLE_OK) return status;
        at = at[length] ? at + length + 1 : NULL;
    }
    return OLE_OK;
}

/* ---- Studies ------------------------------------------------------------------------------ */

/* The study of one loss; measures its retrained runs on the rank that leads. */
static ole_status run_entry(ole_losses *l, ole_loss_entry *e, const ole_losses_options *given,
                            const ole_train_options *train, ole_error *error) {
    char out[OLE_RUN_PATH];
    ole_status status = ole_run_output_folder(out, train->out, e->name, error);
    if (status != OLE_OK) return status;
    ole_train_options o = *train;
    o.loss = e->loss;
    o.out = out;
    ole_study_options options;
    ole_study_options_init(&options);
    options.train = &o;
    options.vary = e->tuned;
    options.lambdas = e->value;
    options.lambda_count = l->settings;
    options.jobs = given->jobs;
    options.callback = given->callback;
    options.message = given->message;
    options.callback_context = given->callback_context;
    options.ranks = given->ranks;
    ole_study_result r = {0};
    status = ole_tune(&options, &r, error);
    if (status == OLE_ERROR_NUMERIC) return OLE_OK; /* every setting diverged */
    if (status != OLE_OK) return status;
    l->interrupted = r.interrupted;
    if (r.picked >= 0) {
        e->picked = r.points[r.picked].lambda;
        e->validation = r.points[r.picked].validation;
    }
    for (int64_t i = 0; i < r.run_count && !r.interrupted; i++) {
        const ole_study_run *run = &r.runs[i];
        char folder[OLE_RUN_PATH];
        bool retrained = r.points[run->point].part == OLE_STUDY_RETRAIN;
        if (!retrained || run->state != OLE_STUDY_FINISHED || ole_ranks_rank(given->ranks) != 0)
            continue;
        if (status == OLE_OK) status = ole_run_path(folder, out, run->folder, error);
        if (status == OLE_OK)
            status = ole_losses_measure(e, (int64_t)(run->seed - train->seed), folder, &o,
                                        given->novel, error);
        if (run->seed == train->seed) snprintf(e->folder, sizeof e->folder, "%s", folder);
        e->finished++;
    }
    ole_study_result_free(&r);
    return ole_ranks_agree(given->ranks, status, error);
}

/* Trains on all classes but the novel ones. */
static ole_status exclude_novel(ole_train_options *train, const char *novel, char **known,
                                ole_error *error) {
    ole_dataset_options data;
    ole_dataset *set;
    ole_train_dataset_options(train, &data);
    *known = NULL;
    if (!novel) return OLE_OK;
    if (train->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "novel: cannot be combined with classes; the other classes are known");
    data.classes = novel; /* fails for unknown names */
    ole_status status = ole_dataset_open(&set, train->data, &data, error);
    if (status != OLE_OK) return status;
    const ole_dataset_info *left = ole_dataset_get_info(set);
    ole_dataset *whole;
    data.classes = NULL;
    status = ole_dataset_open(&whole, train->data, &data, error);
    if (status == OLE_OK) {
        const ole_dataset_info *all = ole_dataset_get_info(whole);
        ole_memory_file list;
        bool open = ole_memory_file_open(&list), first = true;
        for (int c = 0; c < all->classes && open; c++) {
            bool is_novel = false;
            for (int n = 0; n < left->classes; n++)
                is_novel |= strcmp(left->class_names[n], all->class_names[c]) == 0;
            if (is_novel) continue;
            fprintf(list.file, "%s%s", first ? "" : ",", all->class_names[c]);
            first = false;
        }
        train->classes = *known = ole_memory_file_close(&list);
        if (!*known) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
        ole_dataset_close(whole);
    }
    ole_dataset_close(set);
    return status;
}

ole_status ole_losses_compare(ole_losses *l, const ole_losses_options *options, ole_error *error) {
    ole_train_options train;
    char *known = NULL;
    *l = (ole_losses){.settings = options->settings};
    ole_status status = ole_train_options_check(options->train, &train, error);
    if (status != OLE_OK) return status;
    l->seeds = train.seeds;
    if (!train.out)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "out is missing: the folder of the comparison");
    if (train.val_split == 0.0) train.val_split = 0.1;
    status = read_losses(l, &train, options->losses ? options->losses : usual, error);
    if (status == OLE_OK) status = exclude_novel(&train, options->novel, &known, error);
    if (status == OLE_OK && ole_ranks_rank(options->ranks) == 0) {
        size_t made;
        status = ole_run_make_folder(train.out, &made, error);
    }
    status = ole_ranks_agree(options->ranks, status, error);
    for (int64_t i = 0; i < l->count && status == OLE_OK && !l->interrupted; i++) {
        if (options->message && ole_ranks_rank(options->ranks) == 0)
            options->message(options->callback_context,
                             ole_printed("loss %" PRId64 " of %" PRId64 ": %s, tuning %s", i + 1,
                                         l->count, l->entry[i].name, ole_losses_tuned(&l->entry[i]))
                                 .text);
        status = run_entry(l, &l->entry[i], options, &train, error);
        if (status == OLE_OK && ole_ranks_rank(options->ranks) == 0)
            status = ole_losses_write(l, &train, error);
        status = ole_ranks_agree(options->ranks, status, error);
    }
    free(known);
    if (status != OLE_OK) ole_losses_free(l);
    return status;
}

void ole_losses_free(ole_losses *l) {
    for (int64_t i = 0; i < OLE_LOSSES; i++)
        free(l->entry[i].measured);
    *l = (ole_losses){0};
}

ole_study_error ole_losses_spread(const ole_losses *l, const ole_loss_entry *e,
                                  const ole_loss_entry *from, int measure) {
    ole_spread spread = {0};
    for (int64_t s = 0; s < l->seeds; s++) {
        double value = e->measured[s * OLE_MEASURES + measure];
        if (from) value -= from->measured[s * OLE_MEASURES + measure];
        if (isfinite(value)) ole_spread_add(&spread, value);
    }
    return (ole_study_error){ole_spread_mean(&spread), ole_spread_deviation(&spread)};
}
