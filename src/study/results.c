/*
 * src/study/results.c - the results so far: means, the choice of λ, results.json and results.csv.
 */
#include "base/error.h"
#include "base/memory_file.h"
#include "base/spread.h"
#include "formats/json.h"
#include "report/text_table.h"
#include "study/study.h"
#include "train/options/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

const char *ole_study_kind_name(ole_study_kind kind) {
    static const char *const names[] = {"", "tune", "sweep", "compare"};
    return names[kind];
}

static const char *part_name(ole_study_part part) {
    return part == OLE_STUDY_RETRAIN ? "retrain" : "grid";
}

static const char *state_name(ole_study_state state) {
    static const char *const names[] = {"waiting", "finished", "diverged"};
    return names[state];
}

/* ---- Means -------------------------------------------------------------------------------- */

static ole_study_error error_of(const ole_spread *spread) {
    return (ole_study_error){ole_spread_mean(spread), ole_spread_deviation(spread)};
}

static void sum_up_point(ole_study_result *r, int64_t number) {
    ole_study_point *point = &r->points[number];
    ole_spread test = {0}, validation = {0}, knn1 = {0};
    point->finished = point->diverged = 0;
    for (int64_t i = number * r->seeds; i < (number + 1) * r->seeds; i++) {
        const ole_study_run *run = &r->runs[i];
        point->diverged += run->state == OLE_STUDY_DIVERGED;
        if (run->state != OLE_STUDY_FINISHED) continue;
        point->finished++;
        ole_spread_add(&test, run->test_error);
        ole_spread_add(&validation, run->validation_error);
        ole_spread_add(&knn1, run->knn1_error);
    }
    r->ended += point->finished + point->diverged;
    point->test = error_of(&test);
    point->validation = error_of(&validation);
    point->knn1 = error_of(&knn1);
}

void ole_study_sum_up(ole_study *study) {
    study->result.ended = 0;
    for (int64_t p = 0; p < study->result.point_count; p++)
        sum_up_point(&study->result, p);
}

/* Means of the same errors in another order differ by rounding. */
static const double SAME = 1e-9;

ole_status ole_study_pick(const ole_study *study, int64_t *picked, ole_error *error) {
    const ole_study_result *r = &study->result;
    int64_t best = -1;
    bool blind = false; /* a point has no validation error */
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        if (point->part != OLE_STUDY_GRID || point->finished < r->seeds) continue;
        if (isnan(point->validation.mean))
            blind = true;
        else if (best < 0 || point->validation.mean < r->points[best].validation.mean - SAME)
            best = p;
    }
    if (best < 0 && blind)
        return ole_fail(error, OLE_ERROR_DATA,
                        "no validation samples to choose lambda with: no class has enough for "
                        "val_split %g; raise it, or add samples",
                        study->train.val_split);
    if (best < 0)
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "runs with every lambda diverged; lower lr, and start in another folder");
    *picked = best;
    return OLE_OK;
}

const ole_study_point *ole_study_find(const ole_study_result *result, ole_study_part part,
                                      double lambda) {
    for (int64_t p = 0; p < result->point_count; p++)
        if (result->points[p].part == part && result->points[p].lambda == lambda)
            return &result->points[p];
    return NULL;
}

/* ---- results.json ------------------------------------------------------------------------- */

static void put_error(ole_json *w, const char *key, ole_study_error e) {
    ole_json_number(w, key, e.mean);
    ole_json_number(w, ole_printed("%s_std", key).text, e.std);
}

static void put_run(ole_json *w, const ole_study_run *run) {
    ole_json_object(w, NULL, J("seed", run->seed), J("folder", run->folder),
                    J("state", state_name(run->state)),
                    J("validation_error", run->validation_error), J("test_error", run->test_error),
                    J("knn1_error", run->knn1_error), J("seconds", run->seconds));
}

static void put_point(ole_json *w, const ole_study_result *r, int64_t number) {
    const ole_study_point *point = &r->points[number];
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("part", part_name(point->part)), J("lambda", point->lambda),
                 J("samples_per_class", point->samples > 0 ? (double)point->samples : NAN),
                 J("finished", point->finished), J("diverged", point->diverged));
    put_error(w, "validation_error", point->validation);
    put_error(w, "test_error", point->test);
    put_error(w, "knn1_error", point->knn1);
    ole_json_open(w, "runs", '[');
    for (int64_t i = number * r->seeds; i < (number + 1) * r->seeds; i++)
        put_run(w, &r->runs[i]);
    ole_json_close(w);
    ole_json_close(w);
}

/* The choice, and its test error. */
static void put_choice(ole_json *w, const ole_study_result *r) {
    const ole_study_point *picked = r->picked < 0 ? NULL : &r->points[r->picked];
    const ole_study_point *tested =
        picked ? ole_study_find(r, OLE_STUDY_RETRAIN, picked->lambda) : NULL;
    ole_json_number(w, "lambda", picked ? picked->lambda : NAN);
    put_error(w, "validation_error", picked ? picked->validation : (ole_study_error){NAN, NAN});
    put_error(w, "test_error", tested ? tested->test : (ole_study_error){NAN, NAN});
    put_error(w, "knn1_error", tested ? tested->knn1 : (ole_study_error){NAN, NAN});
}

static bool print_json(const ole_study *study, FILE *file) {
    const ole_study_result *r = &study->result;
    ole_json w = ole_json_begin(file, 2, '{');
    ole_json_put(&w, J("study", ole_study_kind_name(study->kind)), J("data", study->train.data),
                 J("net", study->train.net), J("epochs", study->train.epochs), J("seeds", r->seeds),
                 J("val_split", study->train.val_split), J("runs", r->total), J("ended", r->ended),
                 J("complete", (bool)(r->ended == r->total)));
    if (study->vary) ole_json_string(&w, "vary", study->vary);
    if (study->kind == OLE_STUDY_TUNE) put_choice(&w, r);
    ole_json_open(&w, "points", '[');
    for (int64_t p = 0; p < r->point_count; p++)
        put_point(&w, r, p);
    ole_json_close(&w);
    ole_json_close(&w);
    return ole_json_good(&w);
}

/* ---- results.csv -------------------------------------------------------------------------- */

/* A number, or nothing for NaN. */
static const char *number_text(double value, char text[OLE_OPTION_VALUE]) {
    return isfinite(value) ? ole_option_number(value, text) : "";
}

static bool print_csv(const ole_study *study, FILE *file) {
    static const char *const names[] = {
        "part",       "lambda",     "samples_per_class", "seed",  "state", "validation_error",
        "test_error", "knn1_error", "seconds",           "folder"};
    const ole_study_result *r = &study->result;
    ole_text_table table = {.columns = 10, .names = names};
    for (const ole_study_run *run = r->runs; run < r->runs + r->run_count; run++) {
        const ole_study_point *point = &r->points[run->point];
        char text[6][OLE_OPTION_VALUE];
        ole_text_table_row(
            &table, "%s|%s|%s|%" PRIu64 "|%s|%s|%s|%s|%s|%s", part_name(point->part),
            number_text(point->lambda, text[0]),
            number_text(point->samples > 0 ? (double)point->samples : NAN, text[1]), run->seed,
            state_name(run->state), number_text(run->validation_error, text[2]),
            number_text(run->test_error, text[3]), number_text(run->knn1_error, text[4]),
            number_text(run->seconds, text[5]), run->folder);
    }
    ole_text_table_print_csv(&table, file);
    ole_text_table_free(&table);
    return !table.out_of_memory;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static ole_status write_file(const ole_study *study, const char *name,
                             bool (*print)(const ole_study *, FILE *), ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) memory.failed |= !print(study, memory.file);
    return ole_run_put_memory(study->train.out, name, &memory, error);
}

ole_status ole_study_write_results(const ole_study *study, ole_error *error) {
    ole_status status = write_file(study, "results.json", print_json, error);
    return status == OLE_OK ? write_file(study, "results.csv", print_csv, error) : status;
}
