/*
 * cli/reproduce/figures.c - figures of trained runs, softmax beside OLÉ: their features (the
 * paper's Figs. 1, 2 and 7) and their learning curves (Fig. 3).
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/figure_output.h"
#include "common/progress.h"

#include "report/drawing.h"
#include "report/run_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OUT/NAME/figures.html and OUT/NAME/figures. */
typedef struct album {
    char page[ROW_PATH], folder[ROW_PATH];
    figure_options options;
    figure_output pictures;
} album;

static bool open_album(album *a, const row *r) {
    join_path(a->page, r->folder, "figures.html");
    join_path(a->folder, r->folder, "figures");
    a->options = (figure_options){.folder = a->folder, .page = a->page};
    return figure_output_open(&a->pictures, "reproduce", &a->options, r->asked.title,
                              r->asked.shows) == EXIT_DONE;
}

/* The run of a side that is shown: of a toy the best, else the first that finished; or NULL. */
static const made_run *shown_run(const row *r, const made_runs *runs, int side) {
    const made_run *best = runs_first(runs, side);
    for (int i = 0; i < runs->count && best && r->train.loss == OLE_LOSS_OLE; i++)
        if (runs->item[i].side == side && runs->item[i].knn1_error < best->knn1_error)
            best = &runs->item[i];
    return best;
}

/* ---- Features ----------------------------------------------------------------------------- */

static void draw_kinds(const row *r, const ole_analysis *analysis, int side, figure_output *p) {
    static const char *const prefixes[SIDES] = {"softmax", "ole"};
    for (int kind = 0; kind < OLE_DRAWINGS && !p->failed; kind++) {
        ole_drawing *drawing;
        ole_error error;
        if (ole_analysis_draw(&drawing, analysis, (ole_drawing_kind)kind, &error) != OLE_OK) {
            fail_command("reproduce", "%s", error.message);
            p->failed = true;
            return;
        }
        if (drawing && paper_draws(&r->asked, ole_drawing_name(drawing))) {
            char name[96], caption[400];
            snprintf(name, sizeof name, "%s-%s", prefixes[side], ole_drawing_name(drawing));
            snprintf(caption, sizeof caption, "%s. %.300s", side_name(r, side),
                     ole_drawing_caption(drawing));
            figure_output_add(p, ole_drawing_figure(drawing), name, caption);
        }
        ole_drawing_free(drawing);
    }
}

static bool add_numbers(const ole_analysis *a, const made_run *run, numbers *n) {
    return numbers_add(n, run, "angle inside classes, median", a->angles.within.median) &&
           numbers_add(n, run, "angle between classes, median", a->angles.between.median) &&
           numbers_add(n, run, "effective rank of all features", a->spectra.all.effective_rank) &&
           numbers_add(n, run, "OLE loss of the test features", a->spectra.loss);
}

/* The features of one side's run at the end of training: its figures and numbers. */
static bool add_features(const row *r, const made_run *run, int threads, figure_output *p,
                         numbers *n) {
    progress line = progress_start();
    ole_report_options options;
    ole_report_options_init(&options);
    options.threads = threads;
    options.callback = progress_stoppable;
    options.callback_context = &line;
    ole_analyze_options analyze;
    ole_analyze_options_init(&analyze);
    analyze.map = paper_draws(&r->asked, "map");
    ole_error error;
    ole_run_view view;
    char last[ROW_PATH];
    join_path(last, run->folder, "last.safetensors");
    bool good = ole_run_view_open(&view, run->folder, &error) == OLE_OK;
    view.weights = last;
    view.options.data = r->train.data; /* which may have been moved since */
    good = good && ole_run_view_measure(&view, &options, &analyze, &error) == OLE_OK;
    progress_clear(&line);
    if (good && view.measured) {
        figure_output_section(p, side_name(r, run->side));
        draw_kinds(r, &view.analysis, run->side, p);
        good = !p->failed && add_numbers(&view.analysis, run, n);
    } else if (!interrupted()) {
        fail_command("reproduce", "%s: %s", run->folder, good ? view.without : error.message);
        good = false;
    }
    ole_run_view_close(&view);
    return good && !interrupted();
}

/* ---- Learning curves ---------------------------------------------------------------------- */

/* The learning of both sides, and what a figure of it says below. */
typedef struct learning {
    ole_history of[SIDES];
    char caption[120];
} learning;

/* A number of each epoch of both sides, as one figure. */
static void add_curve(figure_output *p, const learning *l, const row *r, size_t offset,
                      const char *name, const char *y_label, bool accuracy) {
    const ole_history *h = l->of;
    ole_series series[SIDES];
    double *values[SIDES];
    int count = 0;
    for (int side = 0; side < SIDES; side++) {
        int64_t points = 0;
        values[side] = malloc((2 * (size_t)h[side].count + 1) * sizeof *values[side]);
        if (!values[side]) {
            fail_command(p->command, "out of memory");
            p->failed = true;
        }
        for (int64_t i = 0; values[side] && i < h[side].count; i++) {
            double value;
            memcpy(&value, (const char *)&h[side].epochs[i] + offset, sizeof value);
            if (!isfinite(value)) continue;
            values[side][points] = (double)h[side].epochs[i].epoch;
            values[side][h[side].count + points++] = accuracy ? 100.0 - value : value;
        }
        if (points > 0)
            series[count++] = (ole_series){.name = side_name(r, side),
                                           .count = points,
                                           .x = values[side],
                                           .y = values[side] + h[side].count};
    }
    ole_figure f;
    ole_figure_init(&f);
    f.x_label = "epoch";
    f.y_label = y_label;
    f.series = series;
    f.series_count = count;
    if (count > 0 && !p->failed) figure_output_add(p, &f, name, l->caption);
    for (int side = 0; side < SIDES; side++)
        free(values[side]);
}

/* Reads what there is; a side may have no run. */
static bool read_learning(const row *r, const made_run *const shown[SIDES], learning *l) {
    size_t used = (size_t)snprintf(l->caption, sizeof l->caption, "After each epoch");
    const char *between = ":";
    for (int side = 0; side < SIDES; side++) {
        ole_error error;
        if (!shown[side]) continue;
        if (ole_history_read(&l->of[side], shown[side]->folder, &error) != OLE_OK) {
            fail_command("reproduce", "%s: %s", r->asked.name, error.message);
            return false;
        }
        used += (size_t)snprintf(l->caption + used, sizeof l->caption - used,
                                 "%s seed %" PRIu64 " of %s", between, shown[side]->seed,
                                 side_name(r, side));
        between = ",";
    }
    snprintf(l->caption + used, sizeof l->caption - used, ".");
    return true;
}

static bool add_curves(const row *r, const made_run *const shown[SIDES], figure_output *p) {
    learning l = {0};
    bool good = read_learning(r, shown, &l);
    if (good) {
        figure_output_section(p, "Learning curves");
        add_curve(p, &l, r, offsetof(ole_epoch, ole_loss), "ole-loss", "OLÉ loss", false);
        add_curve(p, &l, r, offsetof(ole_epoch, softmax_loss), "softmax-loss", "softmax loss",
                  false);
        add_curve(p, &l, r, offsetof(ole_epoch, test_error), "accuracy", "test accuracy, %", true);
        add_curve(p, &l, r, offsetof(ole_epoch, train_error), "training-accuracy",
                  "training accuracy, %", true);
    }
    for (int side = 0; side < SIDES; side++)
        ole_history_free(&l.of[side]);
    return good && !p->failed;
}

/* ---- All of them -------------------------------------------------------------------------- */

/* What the figures of a row show: [SIDES] runs for the features, [SIDES] for the curves; NULL where
 * a side has none. */
typedef const made_run *shown_runs[2 * SIDES];

static bool draw_shown(const row *r, const shown_runs shown, int threads, figure_output *p,
                       numbers *n) {
    bool good = true;
    for (int side = SOFTMAX; side <= WITH_OLE && good; side++)
        good = !shown[side] || add_features(r, shown[side], threads, p, n);
    bool curves = shown[SIDES + SOFTMAX] || shown[SIDES + WITH_OLE];
    return good && (!curves || add_curves(r, shown + SIDES, p));
}

/* The figures, then the numbers, then the note of what they are of: a note that is there is true.
 */
static bool draw_album(const row *r, const shown_runs shown, int threads) {
    album a;
    numbers n = {0};
    if (!open_album(&a, r)) return false;
    bool good = draw_shown(r, shown, threads, &a.pictures, &n);
    if (good)
        good = figure_output_close(&a.pictures) == EXIT_DONE &&
               (n.count == 0 || numbers_write(&n, r)) && figures_note(r, shown, 2 * SIDES);
    else
        ole_page_free(a.pictures.page);
    numbers_free(&n);
    return good;
}

/* Draws what is not drawn yet; a side whose runs all diverged is left out. */
static bool look_at(const row *r, bool features, bool curves, int threads) {
    made_runs runs;
    shown_runs shown = {0};
    if (!runs_read(&runs, r)) return false;
    for (int side = SOFTMAX; side <= WITH_OLE; side++) {
        if (!runs_have_side(&runs, r, side)) continue;
        if (features) shown[side] = shown_run(r, &runs, side);
        if (curves) shown[SIDES + side] = runs_first(&runs, side);
    }
    bool any = runs_first(&runs, SOFTMAX) || runs_first(&runs, WITH_OLE);
    bool good = !any || figures_show(r, shown, 2 * SIDES) || draw_album(r, shown, threads);
    runs_free(&runs);
    return good;
}

bool look_at_curves(const row *r) {
    return look_at(r, false, true, 1);
}

bool look_at_features(const row *r, int threads) {
    return look_at(r, true, paper_draws(&r->asked, "curves"), threads);
}
