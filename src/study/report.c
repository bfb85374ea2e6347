/*
 * src/study/report.c - a study to look at: curve.svg, curve.png and report.html.
 *
 * A tuning is the paper's Fig. 4, validation error against λ with softmax alone as a dotted line; a
 * sweep its Fig. 5, accuracy against samples per class; a comparison shows the test error after
 * each epoch.  Points are means over the seeds, bands their standard deviation.
 */
#include "base/error.h"
#include "base/quote.h"
#include "base/spread.h"
#include "ole/train/history.h"
#include "report/text_table.h"
#include "study/by_kind.h"
#include "study/study.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_TITLE = 60 }; /* bytes; a longer one does not fit the figure */

ole_short_text ole_study_error_text(ole_study_error e, const char *unit) {
    if (isfinite(e.std)) return ole_printed("%.2f ± %.2f%s", e.mean, e.std, unit);
    return isfinite(e.mean) ? ole_printed("%.2f%s", e.mean, unit) : (ole_short_text){""};
}

/* The error a study is judged by: of the classifier, or of 1-NN if there is none. */
static bool is_alone(const ole_study *study) {
    return !(study->train.loss & OLE_LOSS_CLASSIFIERS);
}

static ole_study_error judged_error(const ole_study *study, const ole_study_point *point) {
    return is_alone(study) ? point->knn1 : point->test;
}

static const char *judged_name(const ole_study *study) {
    return is_alone(study) ? "1-NN error" : "test error";
}

static ole_study_error accuracy_of(const ole_study *study, const ole_study_point *point) {
    ole_study_error e = judged_error(study, point);
    return (ole_study_error){100.0 - e.mean, e.std};
}

/* ---- Curves ------------------------------------------------------------------------------- */

/* The lines of a figure. */
typedef struct curve {
    ole_series *series;
    ole_short_text *names;
    double *numbers; /* x, y and spread of each line, with room for `points` */
    int64_t points;
    int count;
} curve;

static bool make_curve(curve *c, int64_t lines, int64_t points) {
    c->points = points > 2 ? points : 2;
    c->series = calloc((size_t)lines, sizeof *c->series);
    c->names = calloc((size_t)lines, sizeof *c->names);
    c->numbers = calloc(3 * (size_t)lines * (size_t)c->points, sizeof *c->numbers);
    return c->series && c->names && c->numbers;
}

static void free_curve(curve *c) {
    free(c->series);
    free(c->names);
    free(c->numbers);
}

/* λ is 0 or, for a line that is not of one λ, NaN. `vary`: it is another option's value; or NULL.
 */
static ole_short_text line_name(const char *vary, bool alone, double lambda) {
    const char *both = alone ? "OLÉ" : "softmax + OLÉ";
    if (vary)
        return isfinite(lambda) ? ole_printed("%s %g", vary, lambda) : ole_printed("%s", vary);
    if (lambda == 0.0) return ole_printed("softmax");
    return isfinite(lambda) ? ole_printed("%s, λ = %g", both, lambda) : ole_printed("%s", both);
}

static ole_series *add_line(curve *c, const char *vary, bool alone, double lambda) {
    double *numbers = c->numbers + 3 * c->points * c->count;
    ole_series *line = &c->series[c->count];
    *line = (ole_series){.name = c->names[c->count].text,
                         .x = numbers,
                         .y = numbers + c->points,
                         .spread = numbers + 2 * c->points,
                         .band = true};
    c->names[c->count++] = line_name(vary, alone, lambda);
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

/* A single seed has no deviation, and so no band. */
static ole_figure figure_of(curve *c, int64_t seeds, const char *x_label, const char *y_label) {
    ole_figure figure;
    ole_figure_init(&figure);
    for (int i = 0; i < c->count; i++) { /* lines without points go */
        if (c->series[i].count == 0) continue;
        if (seeds == 1) c->series[i].spread = NULL, c->series[i].band = false;
        c->series[figure.series_count++] = c->series[i];
    }
    figure.series = c->series;
    figure.x_label = x_label;
    figure.y_label = y_label;
    figure.y_free = strstr(y_label, "accuracy") != NULL;
    return figure;
}

static bool trace_tuning(const ole_study *study, curve *c) {
    const ole_study_result *r = &study->result;
    const ole_values *lambdas = &study->lambdas;
    const ole_study_point *softmax = study->vary ? NULL : ole_study_find(r, OLE_STUDY_GRID, 0.0);
    if (!make_curve(c, 2, lambdas->count)) return false;
    add_line(c, study->vary, is_alone(study), NAN);
    for (int64_t p = 0; p < r->point_count; p++) {
        const ole_study_point *point = &r->points[p];
        if (point->part == OLE_STUDY_GRID && point->lambda > 0.0)
            add_value(c, point->lambda, point->validation);
    }
    if (!softmax || softmax->finished == 0) return true;
    add_line(c, NULL, false, 0.0)->dotted = true;
    double first = lambdas->items[1], last = lambdas->items[lambdas->count - 1]; /* 0 is item 0 */
    double wider = first == last ? 1.5 : 1.0; /* beside a single λ there is room for a line */
    add_value(c, first / wider, softmax->validation);
    add_value(c, last * wider, softmax->validation);
    return true;
}

static bool trace_sweep(const ole_study *study, curve *c) {
    const ole_values *lambdas = &study->lambdas, *samples = &study->samples;
    if (!make_curve(c, lambdas->count, samples->count)) return false;
    for (int64_t l = 0; l < lambdas->count; l++) {
        add_line(c, NULL, is_alone(study), lambdas->items[l]);
        for (int64_t s = 0; s < samples->count; s++) {
            const ole_study_point *point = &study->result.points[s * lambdas->count + l];
            add_value(c, (double)point->samples, accuracy_of(study, point));
        }
    }
    return true;
}

/* A run that cannot be read counts in no epoch.  False: out of memory. */
static bool add_epochs(ole_spread *sums, int64_t epochs, const char *run,
                       const ole_epoch_number *number) {
    ole_history h;
    ole_status status = ole_history_read(&h, run, NULL);
    if (status != OLE_OK) return status != OLE_ERROR_MEMORY;
    for (int64_t i = 0; i < h.count; i++) {
        double value;
        memcpy(&value, (const char *)&h.epochs[i] + number->offset, sizeof value);
        if (isfinite(value) && h.epochs[i].epoch >= 1 && h.epochs[i].epoch <= epochs)
            ole_spread_add(&sums[h.epochs[i].epoch - 1], number->accuracy ? 100.0 - value : value);
    }
    ole_history_free(&h);
    return true;
}

/* A line for each point of the curve, over its runs that did not diverge. */
static bool trace_epochs(const ole_study_result *r, const ole_train_options *train,
                         const ole_epoch_number *number, curve *c) {
    ole_spread *sums = calloc((size_t)train->epochs, sizeof *sums);
    bool good = sums && make_curve(c, r->point_count, train->epochs);
    for (int64_t p = 0; p < r->point_count && good; p++) {
        if (r->points[p].part != OLE_STUDY_GRID) continue;
        memset(sums, 0, (size_t)train->epochs * sizeof *sums);
        for (int64_t i = p * r->seeds; i < (p + 1) * r->seeds && good; i++) {
            char folder[OLE_RUN_PATH];
            if (r->runs[i].state != OLE_STUDY_DIVERGED &&
                ole_run_path(folder, train->out, r->runs[i].folder, NULL) == OLE_OK)
                good = add_epochs(sums, train->epochs, folder, number);
        }
        add_line(c, NULL, !(train->loss & OLE_LOSS_CLASSIFIERS), r->points[p].lambda);
        for (int64_t e = 0; e < train->epochs; e++)
            add_value(c, (double)e + 1.0,
                      (ole_study_error){ole_spread_mean(&sums[e]), ole_spread_deviation(&sums[e])});
    }
    free(sums);
    return good;
}

static bool trace_comparison(const ole_study *study, curve *c) {
    const ole_epoch_number number = {.offset = is_alone(study) ? offsetof(ole_epoch, knn1_error)
                                                               : offsetof(ole_epoch, test_error)};
    return trace_epochs(&study->result, &study->train, &number, c);
}

ole_status ole_study_draw_epochs(const ole_study_result *result, const ole_train_options *train,
                                 const ole_epoch_number *number, ole_figure_sink *add,
                                 void *context, ole_error *error) {
    curve c = {0};
    bool good = trace_epochs(result, train, number, &c);
    if (good) {
        const ole_figure figure = figure_of(&c, result->seeds, "epoch", number->y_label);
        if (figure.series_count > 0) add(context, &figure);
    }
    free_curve(&c);
    return good ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the curves");
}

/* What differs between the kinds of studies. */
static const struct looks {
    bool (*trace)(const ole_study *, curve *); /* false: out of memory */
    const char *title, *heading, *x_label, *y_label;
} looks[] = {
    [OLE_STUDY_TUNE] = {trace_tuning, "Choice of λ", "Error against λ", "λ", "validation error, %"},
    [OLE_STUDY_SWEEP] = {trace_sweep, "Accuracy against samples per class",
                         "Accuracy against samples per class", "samples per class",
                         "test accuracy, %"},
    [OLE_STUDY_COMPARE] = {trace_comparison, "With and without OLÉ", "Error against epochs",
                           "epoch", "test error, %"},
};

/* Says what the figure shows, and only that: without softmax alone, or with one seed, it has no
 * dashed line and no bands. */
static ole_short_text caption_of(const ole_study *study, const ole_figure *f) {
    static const char *const measured[] = {
        [OLE_STUDY_TUNE] = "Error on the validation set.",
        [OLE_STUDY_SWEEP] = "Accuracy on the test set.",
        [OLE_STUDY_COMPARE] = "Error on the test set after each epoch; the last one counts."};
    bool compares = study->kind == OLE_STUDY_COMPARE, bands = false, dashed = false;
    const ole_series *first = &f->series[0];
    char single[64] = "";
    for (const ole_series *s = f->series; s < f->series + f->series_count; s++) {
        bands |= s->band;
        dashed |= s->dotted;
    }
    if (study->kind == OLE_STUDY_TUNE && first->count == 1 && !first->dotted)
        snprintf(single, sizeof single, " Only one %s was tried, %g.",
                 study->vary ? study->vary : "λ", first->x[0]);
    return ole_printed("%s%s%s%s",
                       compares && is_alone(study)
                           ? "Error of 1-NN on the test set after each epoch; the last one counts."
                           : measured[study->kind],
                       single, dashed ? " Dashed: softmax alone." : "",
                       !bands ? ""
                       : compares
                           ? " Lines: mean of the runs that did not diverge; bands: ± standard "
                             "deviation over the seeds."
                           : " Bands: ± standard deviation over the seeds.");
}

/* free_curve() it either way.  `title` has the figure's, "vgg16 on cifar10". */
static ole_status draw(const ole_study *study, ole_short_text *title, curve *c, ole_figure *figure,
                       ole_error *error) {
    const struct looks *look = &looks[study->kind];
    *c = (curve){0};
    if (!look->trace(study, c))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the curve");
    *figure =
        figure_of(c, study->result.seeds, study->vary ? study->vary : look->x_label, look->y_label);
    *title = ole_printed("%s on %s", ole_quote_string(study->train.net).text,
                         ole_quote_string(ole_page_data_name(study->train.data)).text);
    if (strlen(title->text) <= LONGEST_TITLE) figure->title = title->text;
    figure->x_log = study->kind == OLE_STUDY_TUNE;
    if (study->kind != OLE_STUDY_COMPARE && figure->series_count > 0 && !c->series[0].dotted) {
        figure->x_ticks = c->series[0].x; /* the values that were tried */
        figure->x_tick_count = (int)c->series[0].count;
    }
    return OLE_OK;
}

/* ---- The page ----------------------------------------------------------------------------- */

static void add_tuned(ole_page *page, const ole_study *study) {
    const ole_study_result *r = &study->result;
    if (r->picked < 0) return;
    const ole_study_point *picked = &r->points[r->picked];
    const ole_study_point *tested = ole_study_find(r, OLE_STUDY_RETRAIN, picked->lambda);
    const ole_study_point *alone = ole_study_find(r, OLE_STUDY_RETRAIN, 0.0);
    ole_page_headline(
        page, study->vary ? study->vary : "λ", ole_printed("%g", picked->lambda).text,
        ole_printed("validation error %s", ole_study_error_text(picked->validation, " %").text)
            .text);
    if (!tested || tested->finished == 0) return;
    bool compared = alone && alone != tested && alone->finished > 0;
    const ole_study_error error = judged_error(study, tested),
                          other =
                              compared ? judged_error(study, alone) : (ole_study_error){NAN, NAN};
    const ole_page_change change = {error.mean - other.mean, fmax(error.std, other.std), true};
    const ole_short_text note =
        ole_printed("softmax alone %s", ole_study_error_text(other, " %").text);
    ole_page_compared(page, judged_name(study), ole_study_error_text(error, " %").text,
                      compared ? note.text : NULL, &change);
}

/* The result of each λ: of a comparison, or of a sweep at its largest number of samples. */
static void add_sides(ole_page *page, const ole_study *study) {
    bool sweep = study->kind == OLE_STUDY_SWEEP;
    int64_t count = study->lambdas.count, first = (study->samples.count - 1) * count;
    for (const ole_study_point *p = &study->result.points[first];
         p < &study->result.points[first + count]; p++) {
        if (p->finished == 0) continue;
        const ole_short_text note =
            sweep ? ole_printed("accuracy with %" PRId64 " samples per class", p->samples)
                  : ole_printed("%s", judged_name(study));
        ole_study_error error = sweep ? accuracy_of(study, p) : judged_error(study, p);
        ole_page_headline(page, line_name(NULL, is_alone(study), p->lambda).text,
                          ole_study_error_text(error, " %").text, note.text);
    }
}

/* A row for each point; columns that no point fills are omitted. */
static void add_table(ole_page *page, const ole_study *study) {
    const ole_study_result *r = &study->result;
    const char *names[7] = {"loss"};
    bool samples = study->kind == OLE_STUDY_SWEEP, tuned = study->kind == OLE_STUDY_TUNE;
    bool tested = false, nearest = false;
    for (const ole_study_point *p = r->points; p < r->points + r->point_count; p++) {
        tested |= isfinite(p->test.mean);
        nearest |= isfinite(p->knn1.mean);
    }
    ole_text_table table = {.columns = 1, .names = names};
    if (tuned) names[table.columns++] = "trained on";
    if (samples) names[table.columns++] = "samples per class";
    names[table.columns++] = "runs";
    if (tuned) names[table.columns++] = "validation error";
    if (tested) names[table.columns++] = "test error";
    if (nearest) names[table.columns++] = "1-NN error";
    for (const ole_study_point *p = r->points; p < r->points + r->point_count; p++) {
        ole_text_table_add(&table, "%s", line_name(study->vary, is_alone(study), p->lambda).text);
        if (tuned)
            ole_text_table_add(&table, "%s",
                               p->part == OLE_STUDY_RETRAIN ? "all training data"
                                                            : "all but the validation set");
        if (samples) ole_text_table_add(&table, "%" PRId64, p->samples);
        ole_text_table_add(&table, "%" PRId64 "%s", p->finished,
                           p->diverged > 0 ? ole_printed(", %" PRId64 " diverged", p->diverged).text
                                           : "");
        if (tuned) ole_text_table_add(&table, "%s", ole_study_error_text(p->validation, " %").text);
        if (tested) ole_text_table_add(&table, "%s", ole_study_error_text(p->test, " %").text);
        if (nearest) ole_text_table_add(&table, "%s", ole_study_error_text(p->knn1, " %").text);
    }
    ole_text_table_add_to_page(&table, page,
                               r->seeds > 1 ? "Means and standard deviations over the seeds."
                                            : "One seed per row.");
}

static ole_status write_page(const ole_study *study, const ole_figure *figure, ole_error *error) {
    const ole_study_result *r = &study->result;
    const struct looks *look = &looks[study->kind];
    char path[OLE_RUN_PATH];
    const ole_short_text title = ole_printed(
        "%s on %s", look->title, ole_quote_string(ole_page_data_name(study->train.data)).text);
    const ole_short_text subtitle =
        ole_printed("%s · %" PRId64 " epoch%s · %" PRId64 " seed%s",
                    ole_quote_string(study->train.net).text, study->train.epochs,
                    study->train.epochs == 1 ? "" : "s", r->seeds, r->seeds == 1 ? "" : "s");
    ole_page *page;
    ole_status status = ole_run_output(path, study->train.out, "report.html", error);
    if (status == OLE_OK) status = ole_page_create(&page, title.text, subtitle.text, error);
    if (status != OLE_OK) return status;
    (study->kind == OLE_STUDY_TUNE ? add_tuned : add_sides)(page, study);
    if (r->ended < r->total)
        ole_page_headline(page, "runs",
                          ole_printed("%" PRId64 " of %" PRId64, r->ended, r->total).text,
                          "running or interrupted");
    ole_page_section(page, look->heading);
    if (figure->series_count > 0) ole_page_figure(page, figure, caption_of(study, figure).text);
    add_table(page, study);
    status = ole_page_write(page, path, error);
    ole_page_free(page);
    return status;
}

ole_status ole_study_write_report(const ole_study *study, ole_error *error) {
    static const char *const names[] = {"curve.svg", "curve.png"};
    ole_short_text title;
    curve c;
    ole_figure figure;
    ole_status status = draw(study, &title, &c, &figure, error);
    for (size_t i = 0; i < 2 && status == OLE_OK && figure.series_count > 0; i++) {
        char path[OLE_RUN_PATH];
        status = ole_run_output(path, study->train.out, names[i], error);
        if (status == OLE_OK) status = ole_figure_save(&figure, path, error);
        if (status == OLE_ERROR_UNSUPPORTED) status = OLE_OK; /* a build without cairo */
    }
    if (status == OLE_OK) status = write_page(study, &figure, error);
    free_curve(&c);
    return status;
}

ole_status ole_study_draw_curve(const ole_study *study, ole_page *page, ole_error *error) {
    ole_short_text title;
    curve c;
    ole_figure figure;
    ole_status status = draw(study, &title, &c, &figure, error);
    if (status == OLE_OK && figure.series_count > 0)
        ole_page_figure(page, &figure, caption_of(study, &figure).text);
    free_curve(&c);
    return status;
}
