/*
 * cli/reproduce_figures.c - figures of trained runs, softmax beside OLÉ: their features (the
 * paper's Figs. 1, 2 and 7) and their learning curves (Fig. 3).
 */
#include "reproduce.h"

#include "commands.h"
#include "pictures.h"
#include "run_view.h"

#include <ole/analyze.h>
#include <ole/drawing.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* OUT/NAME/figures.html and OUT/NAME/figures. */
typedef struct album {
    char page[ROW_PATH], folder[ROW_PATH];
    picture_options options;
    pictures pictures;
} album;

static bool open_album(album *a, const row *r) {
    join_path(a->page, r->folder, "figures.html");
    join_path(a->folder, r->folder, "figures");
    a->options = (picture_options){.folder = a->folder, .page = a->page};
    return pictures_open(&a->pictures, "reproduce", &a->options, r->asked.title, r->asked.shows) ==
           EXIT_DONE;
}

/* The seed whose runs are shown: of a toy the best of each side, else the first. */
static uint64_t shown_seed(const row *r, int side) {
    ole_study_result s;
    uint64_t seed = r->train.seed;
    double least = INFINITY;
    if (r->train.loss != OLE_LOSS_OLE || !row_look(r, &s)) return seed;
    for (int64_t i = 0; i < s.run_count; i++) {
        bool with = s.points[s.runs[i].point].lambda > 0.0;
        if (with != (side == WITH_OLE) || !(s.runs[i].knn1_error < least)) continue;
        least = s.runs[i].knn1_error;
        seed = s.runs[i].seed;
    }
    ole_study_result_free(&s);
    return seed;
}

/* ---- Features ----------------------------------------------------------------------------- */

static void draw_kinds(const row *r, const ole_analysis *analysis, int side, pictures *p) {
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
            pictures_add(p, ole_drawing_figure(drawing), name, caption);
        }
        ole_drawing_free(drawing);
    }
}

static bool keep_numbers(const row *r, const ole_analysis *a, int side, uint64_t seed) {
    numbers n;
    const struct {
        const char *name;
        double value;
    } all[] = {{"angle inside classes, median", a->angles.within.median},
               {"angle between classes, median", a->angles.between.median},
               {"effective rank of all features", a->spectra.all.effective_rank},
               {"OLE loss of the test features", a->spectra.loss}};
    bool good = numbers_read(&n, r);
    for (size_t i = 0; i < sizeof all / sizeof *all && good; i++)
        if (!numbers_have(&n, side, seed, all[i].name))
            good = numbers_add(&n, side, seed, all[i].name, all[i].value);
    good = good && numbers_write(&n, r);
    numbers_free(&n);
    return good;
}

static void show_share(void *context, const char *what, double share) {
    progress *line = context;
    char bar[BAR_ROOM];
    if (progress_due(line)) progress_show(line, "%s  %s", bar_text(share, bar), what);
}

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
    options.map = paper_draws(&r->asked, "map");
    options.threads = threads;
    options.progress = show_share;
    options.context = &line;
    options.names = view->view.class_names;
    options.name_count = view->view.classes;
    bool good = labels && ole_analyze(analysis, &e, &options, error) == OLE_OK;
    progress_clear(&line);
    free(labels);
    return good;
}

/* The features of one side's run: its figures and numbers. */
static bool add_features(const row *r, int side, int threads, pictures *p) {
    uint64_t seed = shown_seed(r, side);
    char folder[ROW_PATH];
    row_run_folder(r, side, seed, folder);
    progress line = progress_start();
    const feature_options options = {.threads = threads, .line = &line};
    ole_error error = {.message = "the run is not finished"};
    ole_analysis analysis;
    run_view view = {0};
    bool good = folder[0] && run_view_open(&view, folder, &error) &&
                run_view_measure(&view, &options, &error);
    progress_clear(&line);
    if (good && view.without[0]) {
        snprintf(error.message, sizeof error.message, "%.500s", view.without);
        good = false;
    }
    if (good && analyze(r, &view, threads, &analysis, &error)) {
        pictures_section(p, side_name(r, side));
        draw_kinds(r, &analysis, side, p);
        good = !p->failed && keep_numbers(r, &analysis, side, seed);
        ole_analysis_free(&analysis);
    } else if (!interrupted()) {
        fail_command("reproduce", "%s: %s", folder[0] ? folder : r->asked.name, error.message);
        good = false;
    }
    run_view_close(&view);
    return good && !interrupted();
}

/* ---- Learning curves ---------------------------------------------------------------------- */

/* A number of each epoch of both sides, as one figure. */
static void add_curve(pictures *p, const ole_history h[SIDES], const row *r, size_t offset,
                      const char *name, const char *y_label, bool accuracy) {
    ole_series series[SIDES];
    double *values[SIDES];
    int count = 0;
    for (int side = 0; side < SIDES; side++) {
        int64_t points = 0;
        values[side] = malloc((2 * (size_t)h[side].count + 1) * sizeof *values[side]);
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
    if (count > 0) pictures_add(p, &f, name, "After each epoch, of the first seed.");
    for (int side = 0; side < SIDES; side++)
        free(values[side]);
}

static bool add_curves(const row *r, pictures *p) {
    ole_history h[SIDES] = {{0}};
    bool good = true;
    for (int side = 0; side < SIDES && good; side++) {
        char folder[ROW_PATH];
        ole_error error = {.message = "the run is not finished"};
        row_run_folder(r, side, r->train.seed, folder);
        good = folder[0] && ole_history_read(&h[side], folder, &error) == OLE_OK;
        if (!good) fail_command("reproduce", "%s: %s", r->asked.name, error.message);
    }
    if (good) {
        pictures_section(p, "Learning curves");
        add_curve(p, h, r, offsetof(ole_epoch, ole_loss), "ole-loss", "OLÉ loss", false);
        add_curve(p, h, r, offsetof(ole_epoch, softmax_loss), "softmax-loss", "softmax loss",
                  false);
        add_curve(p, h, r, offsetof(ole_epoch, test_error), "accuracy", "test accuracy, %", true);
        add_curve(p, h, r, offsetof(ole_epoch, train_error), "training-accuracy",
                  "training accuracy, %", true);
    }
    for (int side = 0; side < SIDES; side++)
        ole_history_free(&h[side]);
    return good && !p->failed;
}

bool look_at_curves(const row *r) {
    album a;
    if (!open_album(&a, r)) return false;
    bool good = add_curves(r, &a.pictures);
    return pictures_close(&a.pictures) == EXIT_DONE && good;
}

bool look_at_features(const row *r, int threads) {
    album a;
    if (!open_album(&a, r)) return false;
    bool good = true;
    for (int side = SOFTMAX; side <= WITH_OLE && good; side++)
        good = add_features(r, side, threads, &a.pictures);
    if (good && paper_draws(&r->asked, "curves")) good = add_curves(r, &a.pictures);
    if (good) return pictures_close(&a.pictures) == EXIT_DONE;
    ole_page_free(a.pictures.page);
    return false;
}
