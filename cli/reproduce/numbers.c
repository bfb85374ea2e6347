/*
 * cli/reproduce/numbers.c - what was measured on the runs of a recipe, and the paper beside it.
 *
 * Errors come from the study in the folder; what training does not measure is kept in numbers.csv,
 * a line for each number of a run, with the run's mark.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "common/common.h"
#include "common/model_and_data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers.csv -------------------------------------------------------------------------- */

bool numbers_add(numbers *n, const made_run *run, const char *name, double value) {
    measured *more = realloc(n->item, ((size_t)n->count + 1) * sizeof *more);
    if (!more) {
        fail_command("reproduce", "out of memory");
        return false;
    }
    n->item = more;
    more[n->count] = (measured){.side = run->side, .seed = run->seed, .value = value};
    snprintf(more[n->count].mark, MARK_ROOM, "%s", run->mark);
    snprintf(more[n->count++].name, sizeof more->name, "%s", name);
    return true;
}

bool numbers_have(const numbers *n, const made_run *run, const char *name) {
    for (int i = 0; i < n->count; i++)
        if (n->item[i].side == run->side && n->item[i].seed == run->seed &&
            strcmp(n->item[i].name, name) == 0)
            return true;
    return false;
}

void numbers_free(numbers *n) {
    free(n->item);
    *n = (numbers){0};
}

bool numbers_read(numbers *n, const row *r) {
    char path[ROW_PATH], line[256];
    made_runs runs;
    *n = (numbers){0};
    join_path(path, r->folder, "numbers.csv");
    FILE *file = open_text(path);
    if (!file) return true;
    bool good = runs_read(&runs, r);
    while (good && fgets(line, sizeof line, file)) {
        char side[16], name[48];
        made_run run = {0};
        double value;
        if (sscanf(line, "%15[^,],%" SCNu64 ",\"%47[^\"]\",%lf,%19s", side, &run.seed, name, &value,
                   run.mark) != 5)
            continue;
        run.side = strcmp(side, side_words[WITH_OLE]) == 0 ? WITH_OLE : SOFTMAX;
        if (runs_hold(&runs, run.side, run.seed, run.mark))
            good = numbers_add(n, &run, name, value);
    }
    runs_free(&runs);
    fclose(file);
    return good;
}

bool numbers_write(const numbers *n, const row *r) {
    char path[ROW_PATH];
    join_path(path, r->folder, "numbers.csv");
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return false;
    fprintf(memory.file, "side,seed,measure,value,run\n");
    for (int i = 0; i < n->count; i++)
        fprintf(memory.file, "%s,%" PRIu64 ",\"%s\",%.17g,%s\n", side_words[n->item[i].side],
                n->item[i].seed, n->item[i].name, n->item[i].value, n->item[i].mark);
    char *text = ole_memory_file_close(&memory);
    bool good = text && put_file(path, text, memory.size);
    free(text);
    return good;
}

/* ---- Means -------------------------------------------------------------------------------- */

static const ole_study_error nothing = {NAN, NAN};

static outcome *add_outcome(outcomes *o, const char *measure, const char *unit) {
    if (o->count == MOST_OUTCOMES) return NULL;
    outcome *out = &o->item[o->count++];
    *out = (outcome){.unit = unit};
    snprintf(out->measure, sizeof out->measure, "%s", measure);
    for (int side = 0; side < SIDES; side++)
        out->paper[side] = out->ours[side] = nothing;
    return out;
}

/* Mean and deviation (n - 1) of a measure over the seeds. */
static void sum_up(const numbers *n, int side, const char *name, outcome *out) {
    double sum = 0.0, squares = 0.0;
    int64_t count = 0;
    for (int i = 0; i < n->count; i++)
        if (n->item[i].side == side && strcmp(n->item[i].name, name) == 0) {
            sum += n->item[i].value;
            count++;
        }
    double mean = sum / (double)count;
    for (int i = 0; i < n->count; i++)
        if (n->item[i].side == side && strcmp(n->item[i].name, name) == 0)
            squares += (n->item[i].value - mean) * (n->item[i].value - mean);
    out->runs[side] = count;
    if (count == 0) return;
    out->ours[side].mean = mean;
    if (count > 1) out->ours[side].std = sqrt(squares / (double)(count - 1));
}

static const char *unit_of(const char *measure) {
    if (strncmp(measure, "angle", 5) == 0) return "°";
    return strstr(measure, "rank") || strstr(measure, "loss") ? "" : "%";
}

/* A line for each measure of numbers.csv, in the order of the file. */
static bool add_numbers(const row *r, outcomes *o) {
    numbers n;
    bool good = numbers_read(&n, r);
    for (int i = 0; i < n.count && good; i++) {
        bool known = false;
        for (int k = 0; k < o->count; k++)
            known |= strcmp(o->item[k].measure, n.item[i].name) == 0;
        outcome *out = known ? NULL : add_outcome(o, n.item[i].name, unit_of(n.item[i].name));
        for (int side = 0; side < SIDES && out; side++)
            sum_up(&n, side, n.item[i].name, out);
        if (out && r->asked.kind == PAPER_NOVELTY) /* every seed is measured, as for the errors */
            memcpy(out->diverged, o->item[0].diverged, sizeof out->diverged);
    }
    numbers_free(&n);
    return good;
}

/* ---- Studies ------------------------------------------------------------------------------ */

static int side_of(const ole_study_point *point) {
    return point->lambda > 0.0 ? WITH_OLE : SOFTMAX;
}

static void count_point(outcome *out, const ole_study_point *point) {
    out->runs[side_of(point)] = point->finished;
    out->diverged[side_of(point)] = point->diverged;
}

static ole_study_error as_accuracy(ole_study_error e) {
    return (ole_study_error){100.0 - e.mean, e.std};
}

/* A comparison's row of the table: the error at the end of training. */
static void add_errors(const row *r, const ole_study_result *s, outcomes *o) {
    outcome *test = add_outcome(o, "test error", "%"), *near = add_outcome(o, "error of 1-NN", "%");
    memcpy(test->paper, r->asked.reported, sizeof test->paper);
    for (int64_t p = 0; p < s->point_count; p++) {
        int side = side_of(&s->points[p]);
        test->ours[side] = s->points[p].test;
        near->ours[side] = s->points[p].knn1;
        count_point(test, &s->points[p]);
        count_point(near, &s->points[p]);
    }
}

/* The toy: the best run, as the paper reports it, and what all of them give. */
static void add_toy(const row *r, const ole_study_result *s, outcomes *o) {
    outcome *best = add_outcome(o, "accuracy of 1-NN, best run", "%"),
            *all = add_outcome(o, "accuracy of 1-NN, all runs, last epoch", "%");
    memcpy(best->paper, r->asked.reported, sizeof best->paper);
    for (int64_t p = 0; p < s->point_count; p++) {
        all->ours[side_of(&s->points[p])] = as_accuracy(s->points[p].knn1);
        count_point(all, &s->points[p]);
        count_point(best, &s->points[p]);
    }
    for (int64_t i = 0; i < s->run_count; i++) {
        const ole_study_run *run = &s->runs[i];
        ole_study_error *to = &best->ours[side_of(&s->points[run->point])];
        double accuracy = 100.0 - run->knn1_error;
        if (isfinite(accuracy) && !(to->mean >= accuracy)) to->mean = accuracy;
    }
}

/* Without a classifier 1-NN is what counts. */
static bool is_alone(const row *r) {
    return r->train.loss == OLE_LOSS_OLE;
}

static ole_study_error judged_error(const row *r, const ole_study_point *point) {
    return is_alone(r) ? point->knn1 : point->test;
}

static void add_tuning(const row *r, const ole_study_result *s, outcomes *o) {
    if (s->picked < 0) return;
    outcome *held = add_outcome(o, "validation error", "%"),
            *test = add_outcome(o, is_alone(r) ? "error of 1-NN" : "test error", "%");
    o->chosen = s->points[s->picked].lambda;
    for (int64_t p = 0; p < s->point_count; p++) {
        const ole_study_point *point = &s->points[p];
        bool grid = point->part == OLE_STUDY_GRID;
        outcome *to = grid ? held : test;
        if (point->lambda > 0.0 && point->lambda != o->chosen) continue;
        to->ours[side_of(point)] = grid ? point->validation : judged_error(r, point);
        count_point(to, point);
    }
}

static void add_sweep(const row *r, const ole_study_result *s, outcomes *o) {
    for (int64_t p = 0; p < s->point_count; p++) {
        const ole_study_point *point = &s->points[p];
        char name[80];
        snprintf(name, sizeof name, "accuracy%s, %" PRId64 " samples a class",
                 is_alone(r) ? " of 1-NN" : "", point->samples);
        outcome *out = o->count > 0 ? &o->item[o->count - 1] : NULL;
        if (!out || strcmp(out->measure, name) != 0) out = add_outcome(o, name, "%");
        if (!out) return;
        out->ours[side_of(point)] = as_accuracy(judged_error(r, point));
        count_point(out, point);
    }
}

/* Whether the samples are not the recipe's: --quick alone changes them. */
static bool is_quick(const row *r, const ole_study_result *s) {
    bool quick = r->train.samples_per_class != r->runs->train.samples_per_class;
    for (int64_t p = 0; p < s->point_count && r->runs->sample_count > 0; p++) {
        bool known = false;
        for (int i = 0; i < r->runs->sample_count; i++)
            known |= r->runs->samples[i] == s->points[p].samples;
        quick |= !known;
    }
    return quick;
}

/* ---- Samples ------------------------------------------------------------------------------ */

bool row_note_samples(const row *r, int threads) {
    char path[ROW_PATH], part[PART_ROOM], text[80 + PART_ROOM];
    ole_train_options largest = r->train;
    for (int i = 0; i < r->sample_count; i++) /* of a sweep: its last point */
        if (r->samples[i] > largest.samples_per_class) largest.samples_per_class = r->samples[i];
    const ole_dataset_options options = run_dataset_options(&largest, threads);
    ole_dataset *set;
    ole_error error;
    join_path(path, r->runs_folder, "samples.csv");
    if (is_there(r->runs_folder, "samples.csv")) return true;
    if (ole_dataset_open(&set, r->train.data, &options, &error) != OLE_OK) {
        fail_command("reproduce", "%s", error.message);
        return false;
    }
    const ole_dataset_info *info = ole_dataset_get_info(set);
    row_part(r, part);
    int size = snprintf(text, sizeof text, "train,test,part\n%" PRId64 ",%" PRId64 ",\"%s\"\n",
                        info->count[OLE_SPLIT_TRAIN], info->count[OLE_SPLIT_TEST], part);
    ole_dataset_close(set);
    return put_file(path, text, (size_t)size);
}

static void read_samples(const row *r, outcomes *o) {
    char path[ROW_PATH], line[256] = "";
    join_path(path, r->runs_folder, "samples.csv");
    FILE *file = open_text(path);
    bool notes_part = file && fgets(line, sizeof line, file) && strstr(line, ",part");
    int read = file && fgets(line, sizeof line, file)
                   ? sscanf(line, "%" SCNd64 ",%" SCNd64 ",\"%127[^\"]", &o->samples[0],
                            &o->samples[1], o->part)
                   : 0;
    if (read < 2) o->samples[0] = o->samples[1] = 0;
    if (!notes_part) row_part_of(r, o->samples, o->part);
    if (file) fclose(file);
}

/* ---- All of it ---------------------------------------------------------------------------- */

bool row_outcomes(const row *r, outcomes *o, ole_error *error) {
    ole_study_result s;
    *o = (outcomes){.chosen = NAN};
    read_samples(r, o);
    if (!row_look(r, &s, error)) return false;
    o->ended = s.ended;
    o->total = s.total;
    o->quick = is_quick(r, &s);
    runs_place(r, &s, o->devices, o->date);
    for (int64_t i = 0; i < s.run_count; i++) {
        o->diverged += s.runs[i].state == OLE_STUDY_DIVERGED;
        if (isfinite(s.runs[i].seconds)) o->seconds += s.runs[i].seconds;
    }
    if (r->asked.kind == PAPER_TUNE)
        add_tuning(r, &s, o);
    else if (r->asked.kind == PAPER_SWEEP)
        add_sweep(r, &s, o);
    else if (is_alone(r))
        add_toy(r, &s, o);
    else if (r->asked.kind == PAPER_COMPARE || r->asked.kind == PAPER_NOVELTY)
        add_errors(r, &s, o);
    ole_study_result_free(&s);
    return add_numbers(r, o);
}

const char *number_text(ole_study_error e, char out[NUMBER_ROOM]) {
    out[0] = '\0';
    if (isfinite(e.std))
        snprintf(out, NUMBER_ROOM, "%.2f ± %.2f", e.mean, e.std);
    else if (isfinite(e.mean))
        snprintf(out, NUMBER_ROOM, "%.2f", e.mean);
    return out;
}
