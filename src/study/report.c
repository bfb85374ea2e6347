/*
 * src/study/report.c - a study to look at: curve.svg, curve.png and report.html.
 *
 * A tuning is the paper's Fig. 4, validation error against λ with softmax alone as a dotted line; a
 * sweep its Fig. 5, accuracy against samples per class; a comparison shows the test error after
 * each epoch.
 */
#include "base/error.h"
#include "base/quote.h"
#include "ole/train/history.h"
#include "report/figure.h"
#include "report/page.h"
#include "study/measures.h"
#include "study/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL = OLE_ERROR_TEXT,
    LONGEST_TITLE = 60
}; /* bytes; a longer one has no room in the figure */

/* ---- The curve ---------------------------------------------------------------------------- */

/* The lines of the figure. */
typedef struct curve {
    ole_series *series;
    char (*names)[CELL];
    double *numbers; /* x, y and spread of each line, with room for `points` */
    int64_t points;
    int count;
    bool out_of_memory;
} curve;

static void free_curve(curve *c) {
    free(c->series);
    free(c->names);
    free(c->numbers);
}

static void name_line(const ole_study *study, double lambda, bool show_lambda, char name[CELL]) {
    const char *both = study->train.loss == OLE_LOSS_OLE ? "OLÉ" : "softmax + OLÉ";
    if (lambda == 0.0)
        snprintf(name, CELL, "softmax");
    else if (show_lambda)
        snprintf(name, CELL, "%s, λ = %g", both, lambda);
    else
        snprintf(name, CELL, "%s", both);
}

static ole_series *add_line(const ole_study *study, curve *c, double lambda, bool show_lambda) {
    double *numbers = c->numbers + 3 * c->points * c->count;
    bool spread = study->result.seeds > 1 && study->kind != OLE_STUDY_COMPARE;
    ole_series *line = &c->series[c->count];
    *line = (ole_series){.name = c->names[c->count],
                         .x = numbers,
                         .y = numbers + c->points,
                         .spread = spread ? numbers + 2 * c->points : NULL};
    name_line(study, lambda, show_lambda, c->names[c->count++]);
    return line;
}

/* To the last line. */
static void add_value(curve *c, double x, ole_study_error y) {
    if (!isfinite(y.mean)) return;
    double *at = c->numbers + 3 * c->points * (c->count - 1) + c->series[c->count - 1].count++;
    at[0] = x;
    at[c->points] = y.mean;
    at[2 * c->points] = isfinite(y.std) ? y.std : 0.0;
}

static void trace_tuning(const ole_study *study, curve *c) {
    const ole_study_result *r = &study->result;
    const ole_values *lambdas = &study->grid.lambdas;
    const ole_study_point *softmax = ole_study_find(r, OLE_STUDY_GRID, 0.0);
    add_line(study, c, 1.0, false);
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        if (point->part == OLE_STUDY_GRID && point->lambda > 0.0)
            add_value(c, point->lambda, point->validation);
    }
    if (!softmax || softmax->finished == 0) return;
    ole_series *alone = add_line(study, c, 0.0, false);
    alone->dotted = true;
    alone->spread = NULL;
    double first = lambdas->items[1], last = lambdas->items[lambdas->count - 1]; /* 0 is item 0 */
    double wider = first == last ? 1.5 : 1.0; /* beside a single λ there is room for a line */
    add_value(c, first / wider, softmax->validation);
    add_value(c, last * wider, softmax->validation);
}

/* What a study is judged by: the classifier, or 1-NN where there is none. */
static ole_study_error judged_error(const ole_study *study, const ole_study_point *point) {
    return study->train.loss == OLE_LOSS_OLE ? point->knn1 : point->test;
}

static const char *judged_name(const ole_study *study) {
    return study->train.loss == OLE_LOSS_OLE ? "1-NN error" : "test error";
}

static ole_study_error accuracy_of(const ole_study *study, const ole_study_point *point) {
    ole_study_error e = judged_error(study, point);
    return (ole_study_error){100.0 - e.mean, e.std};
}

static void trace_sweep(const ole_study *study, curve *c) {
    const ole_study_result *r = &study->result;
    const ole_grid *g = &study->grid;
    for (int64_t l = 0; l < g->lambdas.count; l++) {
        add_line(study, c, g->lambdas.items[l], true);
        for (int64_t s = 0; s < g->samples.count; s++) {
            const ole_study_point *point = &r->points[s * g->lambdas.count + l];
            add_value(c, (double)point->samples, accuracy_of(study, point));
        }
    }
}

/* The first run of a point that did not diverge; of all that did the first. */
static const ole_study_run *first_run(const ole_study_result *r, int64_t point) {
    const ole_study_run *runs = &r->runs[point * r->seeds];
    for (int64_t i = 0; i < r->seeds; i++)
        if (runs[i].state != OLE_STUDY_DIVERGED) return &runs[i];
    return runs;
}

/* The epochs of a run of each point; one that cannot be read has none. */
static void trace_comparison(const ole_study *study, curve *c) {
    const ole_study_result *r = &study->result;
    for (int64_t p = 0; p < r->point_count; p++) {
        char folder[OLE_RUN_PATH];
        ole_history h;
        bool alone = study->train.loss == OLE_LOSS_OLE;
        add_line(study, c, r->points[p].lambda, true);
        ole_status status = ole_run_path(folder, study->train.out, first_run(r, p)->folder, NULL);
        if (status == OLE_OK) status = ole_history_read(&h, folder, NULL);
        c->out_of_memory |= status == OLE_ERROR_MEMORY;
        if (status != OLE_OK) continue;
        for (int64_t i = 0; i < h.count && i < study->train.epochs; i++) {
            double error = alone ? h.epochs[i].knn1_error : h.epochs[i].test_error;
            add_value(c, (double)h.epochs[i].epoch, (ole_study_error){error, NAN});
        }
        ole_history_free(&h);
    }
}

/* What differs between the kinds of studies. */
static const struct looks {
    void (*trace)(const ole_study *, curve *);
    const char *subtitle, *heading, *x_label, *y_label, *caption;
} looks[] = {
    [OLE_STUDY_TUNE] = {trace_tuning, "Choice of λ", "Error against λ", "λ", "validation error, %",
                        "Error on the validation set; dotted: softmax alone. "
                        "Bars: standard deviation over the seeds."},
    [OLE_STUDY_SWEEP] = {trace_sweep, "Accuracy against samples per class",
                         "Accuracy against samples per class", "samples per class",
                         "test accuracy, %",
                         "Accuracy on the test set. Bars: standard deviation over the seeds."},
    [OLE_STUDY_COMPARE] = {trace_comparison, "With and without OLÉ", "Error against epochs",
                           "epoch", "test error, %",
                           "Error on the test set after each epoch, of the first seed that did not "
                           "diverge (of 1-NN where OLÉ is alone). What counts is the end."},
};

static ole_status draw(const ole_study *study, const char *title, curve *c, ole_figure *figure,
                       ole_error *error) {
    const ole_grid *g = &study->grid;
    const struct looks *look = &looks[study->kind];
    bool tune = study->kind == OLE_STUDY_TUNE, compare = study->kind == OLE_STUDY_COMPARE;
    int64_t points = tune ? g->lambdas.count : compare ? study->train.epochs : g->samples.count;
    size_t lines = tune ? 2 : (size_t)g->lambdas.count;
    c->points = points > 2 ? points : 2;
    c->series = calloc(lines, sizeof *c->series);
    c->names = calloc(lines, sizeof *c->names);
    c->numbers = calloc(3 * lines * (size_t)c->points, sizeof *c->numbers);
    c->out_of_memory = !c->series || !c->names || !c->numbers;
    if (!c->out_of_memory) look->trace(study, c);
    if (c->out_of_memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the curve");
    ole_figure_init(figure);
    for (int i = 0; i < c->count; i++) /* lines without points go */
        if (c->series[i].count > 0) c->series[figure->series_count++] = c->series[i];
    figure->series = c->series;
    if (strlen(title) <= LONGEST_TITLE) figure->title = title;
    figure->x_label = look->x_label;
    figure->y_label = look->y_label;
    figure->x_log = tune;
    figure->y_free = study->kind == OLE_STUDY_SWEEP;
    if (!compare && figure->series_count > 0 && !c->series[0].dotted) { /* what was tried */
        figure->x_ticks = c->series[0].x;
        figure->x_tick_count = (int)c->series[0].count;
    }
    return OLE_OK;
}

static ole_status save_curve(const ole_study *study, const ole_figure *figure, ole_error *error) {
    static const char *const names[] = {"curve.svg", "curve.png"};
    ole_status status = OLE_OK;
    for (size_t i = 0; i < 2 && status == OLE_OK; i++) {
        char path[OLE_RUN_PATH];
        status = ole_run_output(path, study->train.out, names[i], error);
        if (status == OLE_OK) status = ole_figure_save(figure, path, error);
        if (status == OLE_ERROR_UNSUPPORTED) status = OLE_OK; /* a build without cairo */
    }
    return status;
}

/* ---- The page ----------------------------------------------------------------------------- */

static const char *error_text(ole_study_error e, char out[CELL]) {
    return ole_study_error_text(e, " %", out);
}

static void add_tuned(ole_page *page, const ole_study *study) {
    const ole_study_result *r = &study->result;
    char value[CELL], note[2 * CELL], text[CELL];
    if (r->picked < 0) return;
    const ole_study_point *picked = &r->points[r->picked];
    const ole_study_point *tested = ole_study_find(r, OLE_STUDY_RETRAIN, picked->lambda);
    const ole_study_point *alone = ole_study_find(r, OLE_STUDY_RETRAIN, 0.0);
    snprintf(value, sizeof value, "%g", picked->lambda);
    snprintf(note, sizeof note, "validation error %s", error_text(picked->validation, text));
    ole_page_headline(page, "λ", value, note);
    if (!tested || tested->finished == 0) return;
    bool compared = alone && alone != tested && alone->finished > 0;
    const ole_study_error error = judged_error(study, tested),
                          other =
                              compared ? judged_error(study, alone) : (ole_study_error){NAN, NAN};
    const ole_page_change change = {error.mean - other.mean, fmax(error.std, other.std), true};
    snprintf(note, sizeof note, "softmax alone %s", error_text(other, text));
    ole_page_compared(page, judged_name(study), error_text(error, value), compared ? note : NULL,
                      &change);
}

/* The errors of a comparison. */
static void add_compared(ole_page *page, const ole_study *study) {
    const ole_study_result *r = &study->result;
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        char name[CELL], value[CELL];
        if (point->finished == 0) continue;
        name_line(study, point->lambda, true, name);
        ole_page_headline(page, name, error_text(judged_error(study, point), value),
                          judged_name(study));
    }
}

/* The best accuracy of each λ, at the most samples. */
static void add_swept(ole_page *page, const ole_study *study) {
    const ole_grid *g = &study->grid;
    for (int64_t l = 0; l < g->lambdas.count; l++) {
        const ole_study_point *point =
            &study->result.points[(g->samples.count - 1) * g->lambdas.count + l];
        char name[CELL], value[CELL], note[CELL];
        if (point->finished == 0) continue;
        name_line(study, point->lambda, true, name);
        snprintf(note, sizeof note, "accuracy with %" PRId64 " samples per class", point->samples);
        ole_page_headline(page, name, error_text(accuracy_of(study, point), value), note);
    }
}

static void add_progress(ole_page *page, const ole_study_result *r) {
    char value[CELL];
    if (r->ended == r->total) return;
    snprintf(value, sizeof value, "%" PRId64 " of %" PRId64, r->ended, r->total);
    ole_page_headline(page, "runs", value, "still at work, or interrupted");
}

/* One row a point. */
static ole_status add_table(ole_page *page, const ole_study *study, ole_error *error) {
    enum { COLUMNS = 7 };
    static const char *const names[COLUMNS] = {
        "part", "λ", "samples per class", "runs", "validation error", "test error", "1-NN error"};
    const ole_study_result *r = &study->result;
    size_t count = (size_t)r->point_count * COLUMNS;
    char(*texts)[CELL] = calloc(count, sizeof *texts);
    const char **cells = calloc(count, sizeof *cells);
    if (texts && cells) {
        for (size_t i = 0; i < count; i++)
            cells[i] = texts[i];
        for (int64_t p = 0; p < r->point_count; p++) {
            const ole_study_point *point = &r->points[p];
            char(*row)[CELL] = texts + p * COLUMNS;
            snprintf(row[0], CELL, "%s",
                     point->part == OLE_STUDY_RETRAIN ? "on all training data" : "curve");
            snprintf(row[1], CELL, "%g", point->lambda);
            snprintf(row[2], CELL, "all");
            if (point->samples > 0) snprintf(row[2], CELL, "%" PRId64, point->samples);
            snprintf(row[3], CELL, "%" PRId64, point->finished);
            if (point->diverged > 0)
                snprintf(row[3], CELL, "%" PRId64 ", %" PRId64 " diverged", point->finished,
                         point->diverged);
            error_text(point->validation, row[4]);
            error_text(point->test, row[5]);
            error_text(point->knn1, row[6]);
        }
        ole_page_table(page, "Means and standard deviations over the seeds.", r->point_count,
                       COLUMNS, names, cells);
    }
    bool good = texts && cells;
    free(texts);
    free(cells);
    return good ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the page");
}

static ole_status write_page(const ole_study *study, const char *title, const ole_figure *figure,
                             ole_error *error) {
    const ole_study_result *r = &study->result;
    const struct looks *look = &looks[study->kind];
    char subtitle[CELL * 2], path[OLE_RUN_PATH];
    snprintf(subtitle, sizeof subtitle, "%s: %" PRId64 " epochs, %" PRId64 " seeds", look->subtitle,
             study->train.epochs, r->seeds);
    ole_page *page;
    ole_status status = ole_run_output(path, study->train.out, "report.html", error);
    if (status == OLE_OK) status = ole_page_create(&page, title, subtitle, error);
    if (status != OLE_OK) return status;
    if (study->kind == OLE_STUDY_TUNE)
        add_tuned(page, study);
    else if (study->kind == OLE_STUDY_SWEEP)
        add_swept(page, study);
    else
        add_compared(page, study);
    add_progress(page, r);
    ole_page_section(page, look->heading);
    if (figure->series_count > 0) ole_page_figure(page, figure, look->caption);
    status = add_table(page, study, error);
    if (status == OLE_OK) status = ole_page_write(page, path, error);
    ole_page_free(page);
    return status;
}

/* "vgg16 on cifar10" */
typedef char title_text[sizeof(ole_quoted) * 2];
static const char *title_of(const ole_study *study, title_text title) {
    ole_quoted net, data;
    snprintf(title, sizeof(title_text), "%s on %s", ole_quote_string(&net, study->train.net),
             ole_quote_string(&data, study->train.data));
    return title;
}

ole_status ole_study_write_report(const ole_study *study, ole_error *error) {
    title_text title;
    curve c = {0};
    ole_figure figure;
    ole_status status = draw(study, title_of(study, title), &c, &figure, error);
    if (status == OLE_OK && figure.series_count > 0) status = save_curve(study, &figure, error);
    if (status == OLE_OK) status = write_page(study, title, &figure, error);
    free_curve(&c);
    return status;
}

ole_status ole_study_draw_curve(const ole_study *study, ole_page *page, ole_error *error) {
    title_text title;
    curve c = {0};
    ole_figure figure;
    ole_status status = draw(study, title_of(study, title), &c, &figure, error);
    if (status == OLE_OK && figure.series_count > 0)
        ole_page_figure(page, &figure, looks[study->kind].caption);
    free_curve(&c);
    return status;
}
