/*
 * src/study/plan.c - the grid of a study, its points and runs, and the options of each run.
 */
#include "base/error.h"
#include "base/sort.h"
#include "study/study.h"
#include "train/options/options.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 1000, MOST_RUNS = 1000000, FOLDER_ROOM = 160 };

/* ---- What is tuned ------------------------------------------------------------------------ */

static const char in_options[] = "loss_options:";

static bool is_in_options(const ole_study *study) {
    return strncmp(study->vary, in_options, sizeof in_options - 1) == 0;
}

/* "margin=0.3" after what loss_options has; a later value counts. */
static void write_varied(ole_study *study, int64_t point) {
    char number[OLE_OPTION_VALUE];
    const char *given = study->train.loss_options;
    if (!study->vary || !is_in_options(study)) return;
    snprintf(study->texts[point], sizeof *study->texts, "%s%s%s=%s", given, *given ? "," : "",
             study->vary + sizeof in_options - 1,
             ole_option_number(study->result.points[point].lambda, number));
}

static void set_varied(const ole_study *study, int64_t point, ole_train_options *o) {
    const ole_option *row = ole_option_find(ole_train_table, study->vary, strlen(study->vary));
    if (is_in_options(study))
        o->loss_options = study->texts[point];
    else if (row && (row->kind == OLE_NUMBER || row->kind == OLE_SHARE))
        memcpy((char *)o + row->offset, &study->result.points[point].lambda, sizeof(double));
}

/* ---- Grids -------------------------------------------------------------------------------- */

ole_status ole_values_set(ole_values *list, const double *values, int64_t count, ole_error *error) {
    if (count < 1 || count > MOST_VALUES)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: expected 1 to %d values, not %" PRId64,
                        list->name, MOST_VALUES, count);
    for (int64_t i = 0; i < count; i++)
        if (!(values[i] >= list->min && values[i] <= list->max))
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            list->max < DBL_MAX ? "%s %.10g: expected numbers from %g to %.10g"
                                                : "%s %.10g: expected numbers of at least %g",
                            list->name, values[i], list->min, list->max);
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the grid");
    for (int64_t i = 0; i < count; i++)
        sorted[i] = values[i] + 0.0; /* -0 is 0 */
    qsort(sorted, (size_t)count, sizeof *sorted, ole_by_rising_double);
    for (int64_t i = 1; i < count; i++)
        if (sorted[i] == sorted[i - 1]) {
            ole_status status = ole_fail(error, OLE_ERROR_ARGUMENT, "%s: %.10g is given twice",
                                         list->name, sorted[i]);
            free(sorted);
            return status;
        }
    free(list->items);
    list->items = sorted;
    list->count = count;
    return OLE_OK;
}

/* Whether the option that is tuned instead of λ exists and takes every value. */
static ole_status check_varied(const ole_study *study, ole_error *error) {
    const ole_study_run run = {.point = 0};
    ole_study one = *study;
    char text[sizeof *study->texts];
    ole_study_point point = {0};
    one.result.points = &point;
    one.texts = &text;
    for (int64_t i = 0; i < study->lambdas.count; i++) {
        ole_train_options o, checked;
        point.lambda = study->lambdas.items[i];
        write_varied(&one, 0);
        o = ole_study_run_options(&one, &run);
        ole_status status = ole_train_options_check(&o, &checked, error);
        if (status != OLE_OK) return status;
    }
    return OLE_OK;
}

/* Mistakes that no single value shows. */
static ole_status check_grid(const ole_study *study, ole_error *error) {
    const ole_values *lambdas = &study->lambdas;
    double first = lambdas->items[0], last = lambdas->items[lambdas->count - 1];
    if (study->vary) return check_varied(study, error);
    if (!(study->train.loss & OLE_LOSS_OLE))
        return ole_fail(
            error, OLE_ERROR_ARGUMENT,
            "this loss has no lambda; add +ole to it: 0 among the lambdas leaves OLE out");
    if (study->train.loss == OLE_LOSS_OLE && first == 0.0 && study->kind != OLE_STUDY_COMPARE)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "lambdas: with loss ole, 0 leaves nothing to learn from; use others");
    if (study->kind == OLE_STUDY_TUNE && (lambdas->count < 2 || last == 0.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "lambdas: a choice needs at least two, such as 0,0.25");
    return OLE_OK;
}

/* ---- Points and runs ---------------------------------------------------------------------- */

/* The folder of a run, in the study's. */
static char *folder_of(const ole_study *study, const ole_study_point *point, uint64_t seed) {
    char *folder = malloc(FOLDER_ROOM), samples[40] = "", lambda[OLE_OPTION_VALUE];
    if (!folder) return NULL;
    ole_option_number(point->lambda, lambda);
    if (study->kind == OLE_STUDY_SWEEP)
        snprintf(samples, sizeof samples, "samples-%" PRId64 "/", point->samples);
    const char *name = !study->vary           ? "lambda"
                       : is_in_options(study) ? study->vary + sizeof in_options - 1
                                              : study->vary;
    snprintf(folder, FOLDER_ROOM, "%s%s%s-%s/seed-%" PRIu64, samples,
             point->part == OLE_STUDY_RETRAIN ? "retrain-" : "", name, lambda, seed);
    return folder;
}

static ole_status add_point(ole_study *study, ole_study_part part, double lambda, int64_t samples,
                            ole_error *error) {
    ole_study_result *r = &study->result;
    int64_t number = r->point_count;
    ole_study_point *point = &r->points[number];
    *point = (ole_study_point){.part = part, .lambda = lambda, .samples = samples};
    write_varied(study, number);
    for (int64_t k = 0; k < r->seeds; k++) {
        ole_study_run *run = &r->runs[r->run_count];
        *run = (ole_study_run){.point = number,
                               .seed = study->train.seed + (uint64_t)k,
                               .test_error = NAN,
                               .validation_error = NAN,
                               .knn1_error = NAN,
                               .seconds = NAN};
        run->folder = folder_of(study, point, run->seed);
        if (!run->folder) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
        r->run_count++;
    }
    r->point_count++;
    return OLE_OK;
}

static ole_status make_room(ole_study *study, ole_error *error) {
    ole_study_result *r = &study->result;
    int64_t again = study->kind != OLE_STUDY_TUNE ? 0 : study->baseline ? 2 : 1; /* λ chosen */
    int64_t points = study->lambdas.count * study->samples.count + again;
    if (r->seeds > MOST_RUNS / points)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%" PRId64 " points with %" PRId64
                        " seeds each are more than %d runs; use fewer",
                        points, r->seeds, MOST_RUNS);
    r->total = points * r->seeds;
    r->points = calloc((size_t)points, sizeof *r->points);
    r->runs = calloc((size_t)r->total, sizeof *r->runs);
    study->shares = calloc((size_t)r->total, sizeof *study->shares);
    study->texts = calloc((size_t)points, sizeof *study->texts);
    if (r->points && r->runs && study->shares && study->texts) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " runs", r->total);
}

ole_status ole_study_plan(ole_study *study, ole_error *error) {
    study->result.seeds = study->train.seeds;
    ole_status status = check_grid(study, error);
    if (status == OLE_OK) status = make_room(study, error);
    for (int64_t s = 0; s < study->samples.count; s++)
        for (int64_t l = 0; l < study->lambdas.count && status == OLE_OK; l++)
            status = add_point(study, OLE_STUDY_GRID, study->lambdas.items[l],
                               (int64_t)study->samples.items[s], error);
    return status;
}

ole_status ole_study_plan_retraining(ole_study *study, ole_error *error) {
    ole_study_result *r = &study->result;
    double lambda = r->points[r->picked].lambda;
    int64_t samples = (int64_t)study->samples.items[0];
    ole_status status = OLE_OK;
    if (study->baseline && lambda > 0.0)
        status = add_point(study, OLE_STUDY_RETRAIN, 0.0, samples, error);
    if (status == OLE_OK) status = add_point(study, OLE_STUDY_RETRAIN, lambda, samples, error);
    r->total = r->run_count;
    return status;
}

/* ---- A run -------------------------------------------------------------------------------- */

/* λ = 0 beside OLÉ alone is softmax. */
static ole_loss_kind without_ole(ole_loss_kind loss) {
    return loss == OLE_LOSS_OLE ? OLE_LOSS_SOFTMAX : (ole_loss_kind)(loss - OLE_LOSS_OLE);
}

ole_train_options ole_study_run_options(const ole_study *study, const ole_study_run *run) {
    const ole_study_point *point = &study->result.points[run->point];
    ole_train_options o = study->train;
    o.seed = run->seed;
    o.seeds = 1;
    if (study->vary) {
        set_varied(study, run->point, &o);
    } else {
        o.lambda = point->lambda;
        if (point->lambda == 0.0) o.loss = without_ole(o.loss);
    }
    o.samples_per_class = point->samples;
    o.skip_test = study->kind == OLE_STUDY_TUNE && point->part == OLE_STUDY_GRID;
    if (point->part == OLE_STUDY_RETRAIN) {
        o.val_split = 0.0;
        o.eval_every = o.epochs; /* tested once */
    }
    return o;
}

double ole_study_cost(const ole_study *study, const ole_study_point *point) {
    if (study->kind == OLE_STUDY_SWEEP) return (double)point->samples;
    return point->part == OLE_STUDY_RETRAIN ? 1.0 : 1.0 - study->train.val_split;
}
