/*
 * cli/reproduce/outcomes.c - what came out of a row's runs so far, and the paper's numbers beside
 * it.
 *
 * Errors come from the study; what training does not measure comes from numbers.csv.
 */
#include "reproduce/reproduce.h"

#include <ole/train/history.h>

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The paper and ours ------------------------------------------------------------------- */

/* The line of a measure, which is added where there is none.  The last line takes what is too much.
 */
static outcome *line_of(outcomes *o, const char *measure, const char *unit) {
    const ole_study_error nothing = {NAN, NAN};
    for (int i = 0; i < o->count; i++)
        if (strcmp(o->item[i].measure, measure) == 0) return &o->item[i];
    if (o->count < MOST_OUTCOMES) o->count++;
    outcome *line = &o->item[o->count - 1];
    *line = (outcome){.unit = unit, .paper = {nothing, nothing}, .ours = {nothing, nothing}};
    snprintf(line->measure, sizeof line->measure, "%s", measure);
    return line;
}

/* Ours of a point's side. */
static void set_ours(outcomes *o, const char *measure, const ole_study_point *point,
                     ole_study_error error) {
    outcome *line = line_of(o, measure, "%");
    int side = point->lambda > 0.0 ? WITH_OLE : SOFTMAX;
    line->ours[side] = error;
    line->runs[side] = point->finished;
    line->diverged[side] = point->diverged;
}

static ole_study_error as_accuracy(ole_study_error e) {
    return (ole_study_error){100.0 - e.mean, e.std};
}

/* A comparison: the errors at the end of training; of OLÉ alone, which has no classifier, those of
 * 1-NN, also of the best run, as the paper reports it. */
static void add_comparison(outcomes *o, const ole_study_result *s, int64_t p) {
    static const char first[] = "accuracy of 1-NN, best run", error[] = "test error";
    const ole_study_point *point = &s->points[p];
    ole_study_error best = {NAN, NAN};
    bool alone = row_is_alone(&o->row);
    for (int64_t i = p * s->seeds; i < (p + 1) * s->seeds; i++)
        best.mean = fmax(best.mean, 100.0 - s->runs[i].knn1_error); /* NaNs lose */
    set_ours(o, alone ? first : error, point, alone ? best : point->test);
    set_ours(o, alone ? "accuracy of 1-NN, all runs, last epoch" : "error of 1-NN", point,
             alone ? as_accuracy(point->knn1) : point->knn1);
    memcpy(o->item[0].paper, o->row.asked.reported, sizeof o->item[0].paper);
}

static void add_tuning(outcomes *o, const ole_study_result *s, const ole_study_point *point) {
    bool alone = row_is_alone(&o->row);
    if (s->picked < 0) return;
    o->chosen = s->points[s->picked].lambda;
    if (point->lambda > 0.0 && point->lambda != o->chosen) return;
    if (point->part == OLE_STUDY_GRID)
        set_ours(o, "validation error", point, point->validation);
    else
        set_ours(o, alone ? "error of 1-NN" : "test error", point,
                 alone ? point->knn1 : point->test);
}

static void add_sweep(outcomes *o, const ole_study_point *point) {
    char name[80];
    bool alone = row_is_alone(&o->row);
    snprintf(name, sizeof name, "accuracy%s, %" PRId64 " samples per class",
             alone ? " of 1-NN" : "", point->samples);
    set_ours(o, name, point, as_accuracy(alone ? point->knn1 : point->test));
}

static void add_points(outcomes *o) {
    const ole_study_result *s = &o->row.study;
    recipe_kind kind = (recipe_kind)o->row.asked.kind;
    for (int64_t p = 0; p < s->point_count; p++)
        if (kind == RECIPE_TUNE)
            add_tuning(o, s, &s->points[p]);
        else if (kind == RECIPE_SWEEP)
            add_sweep(o, &s->points[p]);
        else if (row_is_alone(&o->row) || !o->row.asked.from)
            add_comparison(o, s, p);
}

/* A line for each measure of runs, in the order of the file. */
static void add_measures(outcomes *o) {
    const ole_measures *m = &o->row.measures;
    for (int i = 0; i < m->count; i++) {
        const char *name = m->items[i].name;
        int side = m->items[i].run.side;
        if (side == OLE_SIDE_NONE || strcmp(name, OLE_MEASURE_FIGURES) == 0) continue;
        bool bare = strstr(name, "rank") || strstr(name, "loss");
        outcome *line = line_of(o, name, strncmp(name, "angle", 5) == 0 ? "°" : bare ? "" : "%");
        ole_spread spread = ole_measures_spread(m, side, name);
        line->runs[side] = spread.count;
        line->ours[side] =
            (ole_study_error){ole_spread_mean(&spread), ole_spread_deviation(&spread)};
        if (o->row.asked.kind == RECIPE_NOVELTY) /* measured for every seed, like the errors */
            memcpy(line->diverged, o->item[0].diverged, sizeof line->diverged);
    }
}

static void read_runs(outcomes *o) {
    const ole_study_result *s = &o->row.study;
    for (int64_t i = 0; i < s->run_count; i++) {
        char folder[ROW_PATH];
        ole_history h;
        join_path(folder, o->row.runs_folder, s->runs[i].folder);
        o->diverged += s->runs[i].state == OLE_STUDY_DIVERGED;
        if (isfinite(s->runs[i].seconds)) o->seconds += s->runs[i].seconds;
        if (s->runs[i].state != OLE_STUDY_FINISHED || ole_history_read(&h, folder, NULL) != OLE_OK)
            continue;
        size_t used = strlen(o->devices), room = sizeof o->devices - used;
        if (h.device[0] && !strstr(o->devices, h.device))
            snprintf(o->devices + used, room, "%s%s", used ? " and " : "", h.device);
        if (strcmp(h.date, o->date) > 0) snprintf(o->date, sizeof o->date, "%s", h.date);
        ole_history_free(&h);
    }
}

/* --quick alone takes other samples than the recipe. */
static bool is_quick(const row *r) {
    const recipe *p = r->runs;
    bool quick = r->train.samples_per_class != p->train.samples_per_class;
    for (int64_t i = 0; i < r->study.point_count && p->sample_count > 0; i++) {
        bool known = false;
        for (int k = 0; k < p->sample_count; k++)
            known |= p->samples[k] == r->study.points[i].samples;
        quick |= !known;
    }
    return quick;
}

bool outcomes_read(outcomes *o, const char *name, const char *out) {
    ole_memory_file text;
    row *r = &o->row;
    *o = (outcomes){.chosen = NAN};
    snprintf(o->name, sizeof o->name, "%.*s", RECIPE_NAME - 1, name);
    if (!row_open_made(r, name, out)) return false;
    if (!row_read(r, r->folder, &o->why)) return true;
    read_runs(o);
    row_read_samples(r, o->samples, o->part);
    row_changes(r, o->part, o->changes);
    add_points(o);
    add_measures(o);
    bool shown = false;
    for (int i = 0; i < r->measures.count; i++)
        shown |= strcmp(r->measures.items[i].name, OLE_MEASURE_FIGURES) == 0;
    if (ole_run_has(r->folder, "figures.html"))
        o->figures = shown && !r->measures.old_figures ? FIGURES_CURRENT : FIGURES_OLD;
    if (ole_memory_file_open(&text)) put_command(text.file, r, out, is_quick(r));
    o->command = ole_memory_file_close(&text);
    return o->command != NULL;
}

void outcomes_free(outcomes *o) {
    row_close(&o->row);
    free(o->command);
}
