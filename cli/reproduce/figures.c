/*
 * cli/reproduce/figures.c - figures of trained runs, softmax beside OLÉ: their features (the
 * paper's Figs. 1, 2 and 7) and their learning curves (Fig. 3).
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "pages/run_view.h"
#include "report/drawing.h"
#include <ole/analyze.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Features ----------------------------------------------------------------------------- */

static bool analyze(const row *r, const run_view *view, int threads, ole_analysis *analysis,
                    ole_error *error) {
    progress line = progress_start();
    int64_t *labels = malloc((size_t)view->view.count * sizeof *labels);
    if (!labels) snprintf(error->message, sizeof error->message, "out of memory");
    for (int64_t i = 0; labels && i < view->view.count; i++)
        labels[i] = view->labels[i];
    const ole_embedding e = {view->view.count, view->view.dim, OLE_F32, view->features, labels};
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = recipe_draws(&r->asked, "map");
    options.threads = threads;
    options.progress = progress_share;
    options.context = &line;
    options.names = view->view.class_names;
    options.name_count = view->view.classes;
    bool good = labels && ole_analyze(analysis, &e, &options, error) == OLE_OK;
    progress_clear(&line);
    free(labels);
    return good;
}

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

/* Features at the end of training: figures and numbers of one run. */
static bool add_features(const row *r, made *m, int64_t run, int threads, figure_output *p) {
    progress line = progress_start();
    const feature_options options = {.threads = threads, .line = &line};
    const ole_run_mark *mark = &m->marks[run];
    ole_error error;
    ole_analysis a;
    run_view view = {0};
    char folder[ROW_PATH], last[ROW_PATH];
    join_path(folder, r->runs_folder, m->study.runs[run].folder);
    join_path(last, folder, "last.safetensors");
    bool good = run_view_open(&view, folder, &error);
    view.weights = last;
    view.options.data = r->train.data; /* which may have been moved since */
    good = good && run_view_measure(&view, &options, &error);
    progress_clear(&line);
    if (good && view.without[0]) {
        snprintf(error.message, sizeof error.message, "%.500s", view.without);
        good = false;
    }
    good = good && analyze(r, &view, threads, &a, &error);
    if (good) {
        ole_measures *to = &m->measures;
        good = draw_features(r, &a, mark->side, p, &error);
        ole_measures_add_number(to, mark, "angle inside classes, median", a.angles.within.median);
        ole_measures_add_number(to, mark, "angle between classes, median", a.angles.between.median);
        ole_measures_add_number(to, mark, "effective rank of all features",
                                a.spectra.all.effective_rank);
        ole_measures_add_number(to, mark, "OLE loss of the test features", a.spectra.loss);
        ole_analysis_free(&a);
    }
    if (!good && !interrupted()) fail_command("reproduce", "%s: %s", folder, error.message);
    run_view_close(&view);
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
    char page[ROW_PATH], folder[ROW_PATH];
    join_path(page, r->folder, "figures.html");
    join_path(folder, r->folder, "figures");
    const figure_options options = {.folder = folder, .page = page};
    figure_output p;
    if (figure_output_open(&p, "reproduce", &options, r->asked.title, r->asked.shows) != EXIT_DONE)
        return false;
    bool good = true;
    ole_measures_remove(&m->measures, NULL);
    for (int side = 0; side < SIDES && good; side++)
        good = runs[side] < 0 || add_features(r, m, runs[side], threads, &p);
    if (runs[SIDES + SOFTMAX] >= 0 || runs[SIDES + WITH_OLE] >= 0)
        good = good && add_curves(r, m, runs + SIDES, &p);
    p.failed |= !good;
    good = figure_output_close(&p) == EXIT_DONE;
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
