/*
 * cli/reproduce/made.c - what a row's folder holds: its runs, what was measured on them, and the
 * paper's numbers beside ours.
 *
 * Errors come from the study; what training does not measure comes from numbers.csv.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/model_and_data.h"
#include <ole/train/history.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Runs and measures -------------------------------------------------------------------- */

void made_free(made *m) {
    ole_measures_free(&m->measures);
    free(m->marks);
    ole_study_result_free(&m->study);
    *m = (made){0};
}

static bool read_from(made *m, const row *r, const char *folder, ole_error *error) {
    *m = (made){0};
    if (!row_look(r, &m->study, error)) return false;
    m->marks = calloc((size_t)m->study.run_count + 1, sizeof *m->marks);
    if (!m->marks) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return false;
    }
    for (int64_t i = 0; i < m->study.run_count; i++)
        m->marks[i] = ole_run_mark_of(&m->study, i, r->runs_folder);
    if (ole_measures_read(&m->measures, folder, m->marks, m->study.run_count, error) == OLE_OK)
        return true;
    made_free(m); /* NOLINT(clang-analyzer-unix.Malloc): it frees the marks */
    return false;
}

bool made_read(made *m, const row *r, ole_error *error) {
    return read_from(m, r, r->folder, error);
}

bool made_write(const made *m, const char *folder) {
    ole_error error;
    if (ole_measures_write(&m->measures, folder, &error) == OLE_OK) return true;
    fail_command("reproduce", "%s", error.message);
    return false;
}

int64_t made_first(const made *m, int side) {
    for (int64_t i = 0; i < m->study.run_count; i++)
        if (m->marks[i].side == side && m->study.runs[i].state == OLE_STUDY_FINISHED) return i;
    return -1;
}

bool made_has_side(const made *m, const row *r, int side) {
    bool diverged = false;
    if (made_first(m, side) >= 0) return true;
    for (int64_t i = 0; i < m->study.run_count; i++)
        diverged |= m->marks[i].side == side && m->study.runs[i].state == OLE_STUDY_DIVERGED;
    tell_command("reproduce", "%s: %s of %s: nothing to show", r->asked.name,
                 diverged ? "all runs diverged" : "no run is finished", side_name(r, side));
    return false;
}

bool made_shows(const made *m, const row *r, const int64_t *runs, int count) {
    const char *draw = r->asked.draw ? r->asked.draw : "";
    int at = 0;
    if (!ole_run_has(r->folder, "figures.html")) return false;
    for (int i = 0; i < m->measures.count; i++) {
        const ole_measure *note = &m->measures.items[i];
        if (strcmp(note->name, OLE_MEASURE_FIGURES) != 0) continue;
        while (at < count && runs[at] < 0)
            at++;
        if (at == count || note->stale ||
            strcmp(note->run.digest, m->marks[runs[at]].digest) != 0 ||
            strncmp(note->value, draw, sizeof note->value - 1) != 0)
            return false;
        at++;
    }
    while (at < count && runs[at] < 0)
        at++;
    return at == count;
}

void made_note_shown(made *m, const row *r, const int64_t *runs, int count) {
    ole_measures_remove(&m->measures, OLE_MEASURE_FIGURES);
    for (int i = 0; i < count; i++)
        if (runs[i] >= 0)
            ole_measures_add(&m->measures, &m->marks[runs[i]], OLE_MEASURE_FIGURES,
                             r->asked.draw ? r->asked.draw : "");
}

bool row_note_samples(const row *r, int threads) {
    made m;
    ole_error error;
    ole_dataset *set;
    ole_train_options largest = r->train;
    for (int i = 0; i < r->runs->sample_count; i++) /* a sweep's last point */
        if (r->runs->samples[i] > largest.samples_per_class)
            largest.samples_per_class = r->runs->samples[i];
    const ole_dataset_options options = run_dataset_options(&largest, threads);
    bool good = read_from(&m, r, r->runs_folder, &error);
    bool noted = good && ole_measures_find(&m.measures, NULL, OLE_MEASURE_TRAINING);
    if (good && !noted) good = ole_dataset_open(&set, r->train.data, &options, &error) == OLE_OK;
    if (!good) fail_command("reproduce", "%s", error.message);
    if (good && !noted) {
        const int64_t *count = ole_dataset_get_info(set)->count;
        char part[PART_ROOM];
        row_part(r, part);
        ole_measures_add_number(&m.measures, NULL, OLE_MEASURE_TRAINING,
                                (double)count[OLE_SPLIT_TRAIN]);
        ole_measures_add_number(&m.measures, NULL, OLE_MEASURE_TEST, (double)count[OLE_SPLIT_TEST]);
        ole_measures_add(&m.measures, NULL, OLE_MEASURE_PART, part);
        ole_dataset_close(set);
        good = made_write(&m, r->runs_folder);
    }
    made_free(&m);
    return good;
}

/* ---- The paper and ours ------------------------------------------------------------------- */

static outcome *add_outcome(outcomes *o, const char *measure, const char *unit) {
    const ole_study_error nothing = {NAN, NAN};
    if (o->count == MOST_OUTCOMES) return NULL;
    outcome *out = &o->item[o->count++];
    *out = (outcome){.unit = unit, .paper = {nothing, nothing}, .ours = {nothing, nothing}};
    snprintf(out->measure, sizeof out->measure, "%s", measure);
    return out;
}

/* Ours of a point's side. */
static void set_ours(outcome *out, const ole_study_point *point, ole_study_error error) {
    int side = point->lambda > 0.0 ? WITH_OLE : SOFTMAX;
    out->ours[side] = error;
    out->runs[side] = point->finished;
    out->diverged[side] = point->diverged;
}

static ole_study_error as_accuracy(ole_study_error e) {
    return (ole_study_error){100.0 - e.mean, e.std};
}

/* Without a classifier 1-NN counts. */
static bool is_alone(const row *r) {
    return r->train.loss == OLE_LOSS_OLE;
}

/* A comparison: the errors at the end of training; of OLÉ alone also the best run, as the paper
 * reports it. */
static void add_comparison(const row *r, const ole_study_result *s, outcomes *o) {
    bool alone = is_alone(r);
    outcome *first = add_outcome(o, alone ? "accuracy of 1-NN, best run" : "test error", "%"),
            *second = add_outcome(
                o, alone ? "accuracy of 1-NN, all runs, last epoch" : "error of 1-NN", "%");
    if (!first || !second) return;
    memcpy(first->paper, r->asked.reported, sizeof first->paper);
    for (int64_t p = 0; p < s->point_count; p++) {
        const ole_study_point *point = &s->points[p];
        ole_study_error best = {NAN, NAN};
        for (int64_t i = p * s->seeds; i < (p + 1) * s->seeds; i++)
            best.mean = fmax(best.mean, 100.0 - s->runs[i].knn1_error); /* NaNs lose */
        set_ours(first, point, alone ? best : point->test);
        set_ours(second, point, alone ? as_accuracy(point->knn1) : point->knn1);
    }
}

static void add_tuning(const row *r, const ole_study_result *s, outcomes *o) {
    if (s->picked < 0) return;
    outcome *validation = add_outcome(o, "validation error", "%"),
            *test = add_outcome(o, is_alone(r) ? "error of 1-NN" : "test error", "%");
    o->chosen = s->points[s->picked].lambda;
    for (int64_t p = 0; p < s->point_count; p++) {
        const ole_study_point *point = &s->points[p];
        if (point->lambda > 0.0 && point->lambda != o->chosen) continue;
        if (point->part == OLE_STUDY_GRID)
            set_ours(validation, point, point->validation);
        else
            set_ours(test, point, is_alone(r) ? point->knn1 : point->test);
    }
}

static void add_sweep(const row *r, const ole_study_result *s, outcomes *o) {
    for (int64_t p = 0; p < s->point_count; p++) {
        const ole_study_point *point = &s->points[p];
        char name[80];
        snprintf(name, sizeof name, "accuracy%s, %" PRId64 " samples per class",
                 is_alone(r) ? " of 1-NN" : "", point->samples);
        outcome *out = o->count > 0 ? &o->item[o->count - 1] : NULL;
        if (!out || strcmp(out->measure, name) != 0) out = add_outcome(o, name, "%");
        if (!out) return;
        set_ours(out, point, as_accuracy(is_alone(r) ? point->knn1 : point->test));
    }
}

/* A line for each measure of runs, in the order of the file. */
static void add_measures(const row *r, const ole_measures *m, outcomes *o) {
    for (int i = 0; i < m->count; i++) {
        const char *name = m->items[i].name;
        bool known = m->items[i].stale || m->items[i].run.side == OLE_SIDE_NONE ||
                     strcmp(name, OLE_MEASURE_FIGURES) == 0;
        for (int k = 0; k < o->count; k++)
            known |= strcmp(o->item[k].measure, name) == 0;
        if (known) continue;
        bool bare = strstr(name, "rank") || strstr(name, "loss");
        outcome *out = add_outcome(o, name, strncmp(name, "angle", 5) == 0 ? "°" : bare ? "" : "%");
        if (!out) return;
        for (int side = 0; side < SIDES; side++) {
            ole_spread spread = ole_measures_spread(m, side, name);
            out->runs[side] = spread.count;
            out->ours[side] =
                (ole_study_error){ole_spread_mean(&spread), ole_spread_deviation(&spread)};
        }
        if (r->asked.kind == RECIPE_NOVELTY) /* measured for every seed, like the errors */
            memcpy(out->diverged, o->item[0].diverged, sizeof out->diverged);
    }
}

/* ---- Where, when and on what -------------------------------------------------------------- */

/* Device and date of a run that did not record them: the device it was given, and the time of its
 * last metric. */
static void fill_in(const char *folder, ole_history *h) {
    char path[ROW_PATH];
    ole_train_options o;
    ole_recipe *config;
    struct stat about;
    struct tm parts;
    ole_train_options_init(&o);
    join_path(path, folder, "config.yaml");
    if (!h->device[0] && ole_recipe_read(&config, path, &o, NULL) == OLE_OK) {
        bool known = o.device && strcmp(o.device, "auto") != 0;
        snprintf(h->device, sizeof h->device, "%.*s", known ? (int)strcspn(o.device, ":") : 12,
                 known ? o.device : "not recorded");
        ole_recipe_free(config);
    }
    join_path(path, folder, "metrics.jsonl");
    if (!h->date[0] && stat(path, &about) == 0)
        strftime(h->date, sizeof h->date, "%Y-%m-%dT%H:%M:%SZ",
                 gmtime_r(&about.st_mtim.tv_sec, &parts));
}

static void read_places(const row *r, const ole_study_result *s, outcomes *o) {
    for (int64_t i = 0; i < s->run_count; i++) {
        char folder[ROW_PATH];
        ole_history h;
        join_path(folder, r->runs_folder, s->runs[i].folder);
        if (s->runs[i].state != OLE_STUDY_FINISHED || ole_history_read(&h, folder, NULL) != OLE_OK)
            continue;
        fill_in(folder, &h);
        size_t used = strlen(o->devices);
        if (h.device[0] && !strstr(o->devices, h.device))
            snprintf(o->devices + used, DEVICES_ROOM - used, "%s%s", used ? " and " : "", h.device);
        if (strcmp(h.date, o->date) > 0) snprintf(o->date, DATE_ROOM, "%s", h.date);
        ole_history_free(&h);
    }
}

static void read_samples(const row *r, const ole_measures *m, outcomes *o) {
    const ole_measure *train = ole_measures_find(m, NULL, OLE_MEASURE_TRAINING),
                      *test = ole_measures_find(m, NULL, OLE_MEASURE_TEST),
                      *part = ole_measures_find(m, NULL, OLE_MEASURE_PART);
    if (train && test) {
        o->samples[0] = strtoll(train->value, NULL, 10);
        o->samples[1] = strtoll(test->value, NULL, 10);
    }
    if (part)
        snprintf(o->part, sizeof o->part, "%s", part->value);
    else
        row_part_of_test(r, o->samples[1], o->part);
}

/* --quick alone takes other samples than the recipe. */
static bool is_quick(const row *r, const ole_study_result *s) {
    const recipe *p = r->runs;
    bool quick = r->train.samples_per_class != p->train.samples_per_class;
    for (int64_t i = 0; i < s->point_count && p->sample_count > 0; i++) {
        bool known = false;
        for (int k = 0; k < p->sample_count; k++)
            known |= p->samples[k] == s->points[i].samples;
        quick |= !known;
    }
    return quick;
}

static figures_state look_at_figures(const row *r, const ole_measures *m) {
    bool any = false, stale = false;
    if (!ole_run_has(r->folder, "figures.html")) return FIGURES_NONE;
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->items[i].name, OLE_MEASURE_FIGURES) == 0) {
            any = true;
            stale |= m->items[i].stale;
        }
    return any && !stale ? FIGURES_CURRENT : FIGURES_OLD;
}

bool row_outcomes(const row *r, outcomes *o, ole_error *error) {
    made m;
    ole_measures data = {0}; /* of the folder with the runs */
    *o = (outcomes){.chosen = NAN};
    bool good = made_read(&m, r, error) &&
                ole_measures_read(&data, r->runs_folder, NULL, 0, error) == OLE_OK;
    if (good) {
        const ole_study_result *s = &m.study;
        o->ended = s->ended;
        o->total = s->total;
        for (int64_t i = 0; i < s->run_count; i++) {
            o->diverged += s->runs[i].state == OLE_STUDY_DIVERGED;
            if (isfinite(s->runs[i].seconds)) o->seconds += s->runs[i].seconds;
        }
        o->quick = is_quick(r, s);
        o->figures = look_at_figures(r, &m.measures);
        read_places(r, s, o);
        read_samples(r, &data, o);
        if (r->asked.kind == RECIPE_TUNE)
            add_tuning(r, s, o);
        else if (r->asked.kind == RECIPE_SWEEP)
            add_sweep(r, s, o);
        else if (is_alone(r) || !recipe_borrows(&r->asked))
            add_comparison(r, s, o);
        add_measures(r, &m.measures, o);
    }
    ole_measures_free(&data);
    made_free(&m);
    return good;
}
