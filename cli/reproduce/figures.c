/*
 * cli/reproduce/figures.c - figures of trained runs, softmax beside OLÉ: their features (the
 * paper's Figs. 1, 2 and 7) and their learning curves (Fig. 3).
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "report/drawing.h"
#include <ole/analyze.h>
#include <ole/train/history.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FEATURES = 10000 };

/* ---- Features ----------------------------------------------------------------------------- */

static bool draw_features(const row *r, const ole_analysis *analysis, int side, figure_output *p,
                          ole_error *error) {
    figure_output_section(p, side_name(r, side));
    for (int kind = 0; kind < OLE_DRAWINGS && !p->failed; kind++) {
        ole_drawing *drawing;
        if (ole_analysis_draw(&drawing, analysis, (ole_drawing_kind)kind, error) != OLE_OK)
            return false;
        if (drawing && recipe_draws(&r->asked, ole_drawing_name(drawing))) {
            char name[96], caption[400];
            snprintf(name, sizeof name, "%s-%s", ole_side_name(side), ole_drawing_name(drawing));
            snprintf(caption, sizeof caption, "%s. %.300s", side_name(r, side),
                     ole_drawing_caption(drawing));
            figure_output_add(p, ole_drawing_figure(drawing), name, caption);
        }
        ole_drawing_free(drawing);
    }
    return true;
}

/* At most MOST_FEATURES rows, evenly taken. */
static int64_t thin_out(float *features, int64_t *labels, int64_t count, int64_t dim) {
    int64_t keep = count < MOST_FEATURES ? count : MOST_FEATURES;
    for (int64_t k = 0; k < keep; k++) {
        int64_t from = k * count / keep;
        memmove(features + k * dim, features + from * dim, (size_t)dim * sizeof *features);
        labels[k] = labels[from];
    }
    return keep;
}

static bool analyze(const row *r, const trained_run *t, int threads, progress *line,
                    ole_analysis *analysis, ole_error *error) {
    const ole_model_info *info = ole_model_get_info(t->model);
    bool tested = ole_dataset_get_info(t->set)->count[OLE_SPLIT_TEST] > 0;
    ole_embedding e = {.dim = info->features, .dtype = OLE_F32};
    float *features;
    int64_t *labels;
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = recipe_draws(&r->asked, "map");
    options.threads = threads;
    options.progress = progress_share;
    options.context = line;
    options.names = info->class_names;
    options.name_count = info->classes;
    bool good =
        trained_features(t->model, t->set, 1u << (tested ? OLE_SPLIT_TEST : OLE_SPLIT_VALIDATION),
                         &features, &labels, &e.rows, error);
    if (good && e.rows == 0) {
        snprintf(error->message, sizeof error->message, "%.400s has no test part", r->train.data);
        good = false;
    }
    if (good) {
        e.rows = thin_out(features, labels, e.rows, e.dim);
        e.features = features;
        e.labels = labels;
        good = ole_analyze(analysis, &e, &options, error) == OLE_OK;
    }
    free(features);
    free(labels);
    return good;
}

/* Features at the end of training: figures and numbers of one run. */
static bool add_features(const row *r, made *m, int64_t run, int threads, figure_output *p) {
    const ole_run_mark *mark = &m->marks[run];
    ole_measures *to = &m->measures;
    progress line = progress_start();
    ole_error error;
    ole_analysis a;
    trained_run t;
    bool good = trained_open(&t, r, m, run, threads, &line, &error) &&
                analyze(r, &t, threads, &line, &a, &error);
    progress_clear(&line);
    if (good) {
        good = draw_features(r, &a, mark->side, p, &error);
        ole_measures_add_number(to, mark, "angle inside classes, median", a.angles.within.median);
        ole_measures_add_number(to, mark, "angle between classes, median", a.angles.between.median);
        ole_measures_add_number(to, mark, "effective rank of all features",
                                a.spectra.all.effective_rank);
        ole_measures_add_number(to, mark, "OLE loss of the test features", a.spectra.loss);
        ole_analysis_free(&a);
    }
    if (!good && !interrupted())
        fail_command("reproduce", "%s: %s: %s", r->asked.name, m->study.runs[run].folder,
                     error.message);
    trained_close(&t);
    return good && !p->failed && !interrupted();
}

/* ---- Learning curves ---------------------------------------------------------------------- */

/* A number of each epoch of both sides, as one figure. */
static void add_curve(figure_output *p, const row *r, const ole_history history[SIDES],
                      const char *caption, size_t offset, const char *name, const char *y_label,
                      bool accuracy) {
    ole_series series[SIDES];
    int64_t room = history[SOFTMAX].count + history[WITH_OLE].count, used = 0;
    double *x = malloc((2 * (size_t)room + 1) * sizeof *x), *y = x ? x + room : NULL;
    ole_figure f;
    ole_figure_init(&f);
    f.x_label = "epoch";
    f.y_label = y_label;
    f.series = series;
    for (int side = 0; side < SIDES && x; side++) {
        int64_t first = used;
        for (int64_t i = 0; i < history[side].count; i++) {
            double value;
            memcpy(&value, (const char *)&history[side].epochs[i] + offset, sizeof value);
            if (!isfinite(value)) continue;
            x[used] = (double)history[side].epochs[i].epoch;
            y[used++] = accuracy ? 100.0 - value : value;
        }
        if (used > first)
            series[f.series_count++] = (ole_series){
                .name = side_name(r, side), .count = used - first, .x = x + first, .y = y + first};
    }
    if (!x) p->failed = fail_command(p->command, "out of memory") != EXIT_DONE;
    if (f.series_count > 0) figure_output_add(p, &f, name, caption);
    free(x);
}

/* A side may have no run. */
static bool add_curves(const row *r, const made *m, const int64_t runs[SIDES], figure_output *p) {
    ole_history h[SIDES] = {{0}};
    char caption[120] = "After each epoch", folder[ROW_PATH];
    bool good = true;
    for (int side = 0; side < SIDES && good; side++) {
        ole_error error;
        size_t used = strlen(caption);
        if (runs[side] < 0) continue;
        join_path(folder, r->runs_folder, m->study.runs[runs[side]].folder);
        good = ole_history_read(&h[side], folder, &error) == OLE_OK;
        if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
        snprintf(caption + used, sizeof caption - used, "%s seed %" PRIu64 " of %s",
                 used > strlen("After each epoch") ? "," : ":", m->marks[runs[side]].seed,
                 side_name(r, side));
    }
    if (good) {
        snprintf(caption + strlen(caption), sizeof caption - strlen(caption), ".");
        figure_output_section(p, "Learning curves");
        add_curve(p, r, h, caption, offsetof(ole_epoch, ole_loss), "ole-loss", "OLÉ loss", false);
        add_curve(p, r, h, caption, offsetof(ole_epoch, softmax_loss), "softmax-loss",
                  "softmax loss", false);
        add_curve(p, r, h, caption, offsetof(ole_epoch, test_error), "accuracy", "test accuracy, %",
                  true);
        add_curve(p, r, h, caption, offsetof(ole_epoch, train_error), "training-accuracy",
                  "training accuracy, %", true);
    }
    for (int side = 0; side < SIDES; side++)
        ole_history_free(&h[side]);
    return good && !p->failed;
}

/* ---- Both --------------------------------------------------------------------------------- */

/* Runs for the features, then runs for the curves; -1 where a side has none. */
typedef int64_t shown_runs[2 * SIDES];

/* The figures first, then numbers.csv, which says what they show: what it says is true. */
static bool draw(const row *r, made *m, const shown_runs runs, int threads) {
    row_figures f;
    if (!row_figures_open(&f, r)) return false;
    figure_output *p = &f.output;
    bool good = true;
    ole_measures_remove(&m->measures, NULL);
    for (int side = 0; side < SIDES && good; side++)
        good = runs[side] < 0 || add_features(r, m, runs[side], threads, p);
    if (runs[SIDES + SOFTMAX] >= 0 || runs[SIDES + WITH_OLE] >= 0)
        good = good && add_curves(r, m, runs + SIDES, p);
    p->failed |= !good;
    good = figure_output_close(p) == EXIT_DONE;
    if (good) made_note_shown(m, r, runs, 2 * SIDES);
    return good && made_write(m, r->folder);
}

/* Draws what is not drawn yet; a side whose runs all diverged is omitted. */
static bool show(const row *r, bool features, bool curves, int threads) {
    made m;
    ole_error error;
    shown_runs runs = {-1, -1, -1, -1};
    bool any = false, good = made_read(&m, r, &error);
    if (!good) fail_command("reproduce", "%s", error.message);
    for (int side = 0; side < SIDES && good; side++) {
        if (!made_has_side(&m, r, side)) continue;
        int64_t first = made_first(&m, side), best = first;
        /* Of OLÉ alone the best run is shown, as in the paper. */
        for (int64_t i = 0; i < m.study.run_count && r->train.loss == OLE_LOSS_OLE; i++)
            if (m.marks[i].side == side &&
                m.study.runs[i].knn1_error < m.study.runs[best].knn1_error)
                best = i;
        if (features) runs[side] = best;
        if (curves) runs[SIDES + side] = first;
        any = true;
    }
    good = good && (!any || made_shows(&m, r, runs, 2 * SIDES) || draw(r, &m, runs, threads));
    made_free(&m);
    return good;
}

bool show_curves(const row *r) {
    return show(r, false, true, 1);
}

bool show_features(const row *r, int threads) {
    return show(r, true, recipe_draws(&r->asked, "curves"), threads);
}
