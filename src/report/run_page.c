/*
 * src/report/run_page.c - the page of runs: learning curves, errors, geometry, mistakes, map;
 * several runs side by side.
 */
#include "report/run_view.h"

#include "base/read_file.h"
#include "base/spread.h"
#include "report/feature_page.h"
#include "report/model_page.h"
#include "report/text_table.h"
#include "train/options/options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 96, MISTAKE = 160 }; /* room; the side of an image in pixels */

/* "softmax + OLÉ, λ = 0.25", "ole+arcface, λ = 0.25, margin=0.3" */
static ole_short_text loss_text(const ole_run_view *r) {
    const ole_train_options *o = &r->options;
    const ole_option *row = ole_option_find(ole_train_table, "loss", 4);
    char room[OLE_OPTION_VALUE];
    ole_short_text lambda = {""};
    bool ole = o->loss & OLE_LOSS_OLE, known = (o->loss & OLE_LOSS_BOTH) == o->loss;
    if (ole && o->loss != OLE_LOSS_OLE) lambda = ole_printed(", λ\u00a0=\u00a0%g", o->lambda);
    if (known)
        return ole_printed("%s%s",
                           o->loss == OLE_LOSS_BOTH      ? "softmax + OLÉ"
                           : o->loss == OLE_LOSS_SOFTMAX ? "softmax"
                                                         : "OLÉ alone",
                           lambda.text);
    return ole_printed("%s%s%s%s", ole_option_text(row, o, room), lambda.text,
                       *o->loss_options ? ", " : "", o->loss_options);
}

/* ---- Seeds ------------------------------------------------------------------------------- */

/* Whether runs differ only in the seed and in where and how they ran. */
static bool same_recipe(const ole_train_options *a, const ole_train_options *b) {
    for (const ole_option *o = ole_train_table; o->name; o++)
        if (!(o->flags & OLE_EXECUTION) && strcmp(o->name, "seed") != 0 &&
            ole_option_differs(o, a, b))
            return false;
    return true;
}

/* Whether all runs are of one recipe, each with a seed of its own, and have ended. */
static bool are_seeds(const ole_report *r) {
    for (int i = 0; i < r->count; i++) {
        const ole_run_view *run = &r->views[i];
        if (!run->history.ended) return false;
        if (!same_recipe(&r->views[0].options, &run->options)) return false;
        for (int k = 0; k < i; k++)
            if (r->views[k].options.seed == run->options.seed) return false;
    }
    return true;
}

/* ---- Learning curves ---------------------------------------------------------------------- */

static void add_chart(ole_page *page, const ole_curve *curves, int count, const char *title,
                      const char *y_label, const char *caption) {
    ole_drawing *drawing;
    ole_error error;
    if (ole_curves_draw(&drawing, curves, count, title, y_label, &error) != OLE_OK)
        ole_page_fail(page, error.status, error.message);
    if (drawing) ole_page_figure(page, ole_drawing_figure(drawing), caption);
    ole_drawing_free(drawing);
}

enum {
    TEST = offsetof(ole_epoch, test_error),
    VALIDATION = offsetof(ole_epoch, validation_error),
    SOFTMAX = offsetof(ole_epoch, softmax_loss),
    OLE = offsetof(ole_epoch, ole_loss),
};

/* One run, or the mean of its seeds. */
static void add_recipe_curves(ole_page *page, const ole_report *r) {
    const ole_history *h = &r->views[0].history, *seeds[OLE_REPORT_RUNS];
    for (int i = 1; i < r->count; i++)
        seeds[i - 1] = &r->views[i].history;
    ole_curve errors[] = {{h, TEST, "test set", .dotted = false},
                          {h, VALIDATION, "validation set", .dotted = false},
                          {h, offsetof(ole_epoch, knn1_error), "1-NN", .dotted = false},
                          {h, offsetof(ole_epoch, train_error), "training set", .dotted = true}};
    ole_curve losses[] = {{h, SOFTMAX, "softmax", .dotted = false},
                          {h, OLE, "OLÉ", .dotted = false}};
    ole_short_text means = {""};
    for (int k = 0; k < 6; k++) {
        ole_curve *curve = k < 4 ? &errors[k] : &losses[k - 4];
        curve->seeds = seeds;
        curve->seed_count = r->count - 1;
    }
    if (r->count > 1)
        means = ole_printed("Mean of %d seeds, shaded: ± the standard deviation. ", r->count);
    add_chart(page, errors, 4, "Error after each epoch", "error, %",
              ole_printed("%sMeasured after each epoch; for the training set, the mean during the "
                          "epoch.",
                          means.text)
                  .text);
    add_chart(page, losses, 2, "Loss in each epoch", "loss",
              ole_printed("%sMeans over each epoch, unweighted.", means.text).text);
}

static void add_curves(ole_page *page, const ole_report *r) {
    static const struct {
        size_t offset;
        const char *title, *y_label;
    } all[] = {{TEST, "Test error", "error, %"},
               {VALIDATION, "Validation error", "error, %"},
               {SOFTMAX, "Softmax loss", "loss"},
               {OLE, "OLÉ loss", "loss"}};
    ole_page_section(page, "Learning curves");
    if (r->count == 1 || are_seeds(r)) {
        add_recipe_curves(page, r);
        return;
    }
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        ole_curve curves[OLE_REPORT_RUNS];
        for (int i = 0; i < r->count; i++)
            curves[i] = (ole_curve){
                .run = &r->views[i].history, .offset = all[k].offset, .name = r->views[i].folder};
        add_chart(page, curves, r->count, all[k].title, all[k].y_label, NULL);
    }
}

/* ---- Headlines and the table of runs ------------------------------------------------------ */

/* "12.3 %", or "" if not measured. */
static ole_short_text number_text(double value, const char *unit) {
    if (!isfinite(value)) return (ole_short_text){""};
    return ole_printed("%.*f%s", strcmp(unit, "°") == 0 ? 1 : 2, value, unit);
}

static void add_headline(ole_page *page, const char *label, double value, const char *unit,
                         const char *note) {
    if (isfinite(value)) ole_page_headline(page, label, number_text(value, unit).text, note);
}

static const char *error_name(const ole_run_view *run, const ole_report_row *row) {
    if (run->lone && !row->tested) return "error";
    return row->tested ? "test error" : "validation error";
}

/* With a validation split the model is the best one's, which may not be the last: neighbours are
 * only searched at the end. */
static void add_headlines(ole_page *page, const ole_run_view *run, const ole_report_row *row) {
    ole_short_text note = {""};
    bool chosen = ole_train_keeps_best(&run->options);
    if (run->fitted_on)
        note = ole_printed("too low: the model was fitted on some of the %lld samples",
                           (long long)run->count);
    else if (!run->without[0] && run->count > 0)
        note = ole_printed("of %lld samples%s", (long long)run->count,
                           chosen ? ", by the model with the lowest validation error" : "");
    add_headline(page, error_name(run, row), row->error, " %", *note.text ? note.text : NULL);
    add_headline(page, "1-NN error", row->knn1_error, " %",
                 chosen ? "by cosine, at the end of training" : "by cosine, on the features");
    if (!run->measured) return;
    const ole_angles *a = &run->analysis.angles;
    add_headline(page, "angle between classes", row->angle_between, "°",
                 ole_printed("median %.1f°; OLÉ aims at 90°", a->between.median).text);
    add_headline(page, "angle within classes", row->angle_within, "°",
                 ole_printed("median %.1f°; OLÉ aims at 0°", a->within.median).text);
    add_headline(page, "effective rank", row->effective_rank, "",
                 ole_printed("per class %.1f, of %lld dimensions",
                             ole_class_rank(&run->analysis.spectra), (long long)run->analysis.dim)
                     .text);
}

static void add_mean(ole_page *page, const ole_report *r) {
    ole_spread errors = {0};
    for (int i = 0; i < r->count; i++)
        ole_spread_add(&errors, r->runs[i].error);
    if (!are_seeds(r) || !isfinite(errors.mean)) return;
    ole_page_headline(
        page, error_name(&r->views[0], &r->runs[0]),
        ole_printed("%.2f ± %.2f %%", errors.mean, ole_spread_deviation(&errors)).text,
        ole_printed("mean and standard deviation of %d seeds", r->count).text);
}

enum { NUMBERS = 5 };

static void list_numbers(const ole_report_row *row, double values[NUMBERS]) {
    const double all[NUMBERS] = {row->error, row->knn1_error, row->angle_between, row->angle_within,
                                 row->effective_rank};
    memcpy(values, all, sizeof all);
}

/* Whether all runs are of the same data. */
static bool share_data(const ole_report *r) {
    const char *data = r->views[0].options.data;
    for (int i = 1; i < r->count; i++) {
        const char *other = r->views[i].options.data;
        if (!data || !other || strcmp(data, other) != 0) return false;
    }
    return true;
}

/* Two runs on the same data, one with softmax alone: how the other compares with it.  Errors that
 * differ by less than the standard deviation of a sample this large are about the same. */
static void add_comparison(ole_page *page, const ole_report *r) {
    static const struct {
        const char *label, *unit;
        bool less_is_better, judged, share; /* share: of the samples, in % */
    } kinds[NUMBERS] = {{NULL, " %", true, true, true},
                        {"1-NN error", " %", true, true, true},
                        {"angle between classes", "°", false, true, false},
                        {"angle within classes", "°", true, true, false},
                        {"effective rank", "", false, false, false}};
    if (r->count != 2 || r->runs[0].tested != r->runs[1].tested || !share_data(r)) return;
    int alone = r->views[1].options.loss == OLE_LOSS_SOFTMAX;
    if (r->views[alone].options.loss != OLE_LOSS_SOFTMAX ||
        r->views[!alone].options.loss == OLE_LOSS_SOFTMAX)
        return;
    double of[2][NUMBERS];
    list_numbers(&r->runs[!alone], of[0]);
    list_numbers(&r->runs[alone], of[1]);
    for (int k = 0; k < NUMBERS; k++) {
        double mean = (of[0][k] + of[1][k]) / 200, samples = (double)r->views[0].count;
        const ole_page_change change = {
            of[0][k] - of[1][k],
            kinds[k].share && samples > 0 ? 100 * sqrt(2 * mean * (1 - mean) / samples) : NAN,
            kinds[k].less_is_better};
        if (!isfinite(change.difference)) continue;
        ole_page_compared(
            page, kinds[k].label ? kinds[k].label : error_name(&r->views[0], &r->runs[0]),
            number_text(of[0][k], kinds[k].unit).text,
            ole_printed("softmax alone %s", number_text(of[1][k], kinds[k].unit).text).text,
            kinds[k].judged ? &change : NULL);
    }
}

/* What a run is and how it was trained, as cells of a table: a table of several runs has the first
 * SHORT of them. */
enum { SHORT = 5, RECIPE = 8 };
static const char *const recipe_names[RECIPE] = {
    "data", "network", "loss", "epochs", "seed", "batch size", "optimiser, learning rate", "time"};

static void describe(const ole_run_view *run, ole_short_text cells[RECIPE]) {
    const ole_train_options *o = &run->options;
    const ole_history *h = &run->history;
    cells[0] = ole_printed("%.90s", o->data ? o->data : "");
    cells[1] = ole_printed("%.90s", o->net ? o->net : "");
    cells[2] = loss_text(run);
    cells[3] = ole_printed("%lld of %lld", (long long)h->count, (long long)o->epochs);
    cells[4] = ole_printed("%llu", (unsigned long long)o->seed);
    cells[5] = ole_printed("%lld", (long long)o->batch_size);
    cells[6] = ole_printed("%.20s, initially %g", o->opt, o->lr);
    cells[7] = number_text(h->seconds, " s");
}

/* One row per run: its settings and results. */
static void add_table(ole_page *page, const ole_report *r) {
    enum { COLUMNS = 1 + SHORT + NUMBERS };
    const char *kind = error_name(&r->views[0], &r->runs[0]);
    for (int i = 1; i < r->count; i++)
        if (r->runs[i].tested != r->runs[0].tested) kind = "test or validation error";
    const ole_short_text errors = ole_printed("%s, %%", kind);
    const char *names[COLUMNS] = {"run"};
    const char *const numbers[NUMBERS] = {errors.text, "1-NN error, %", "angle between, °",
                                          "angle within, °", "effective rank"};
    memcpy(names + 1, recipe_names, SHORT * sizeof *names);
    memcpy(names + 1 + SHORT, numbers, sizeof numbers);
    ole_text_table table = {.columns = COLUMNS, .names = names};
    for (int i = 0; i < r->count; i++) {
        double values[NUMBERS];
        ole_short_text text[RECIPE];
        list_numbers(&r->runs[i], values);
        describe(&r->views[i], text);
        ole_text_table_add(&table, "%s", r->runs[i].folder);
        for (int k = 0; k < SHORT; k++)
            ole_text_table_add(&table, "%s", text[k].text);
        for (int k = 0; k < NUMBERS; k++)
            ole_text_table_add(&table, "%s", number_text(values[k], "").text);
    }
    ole_text_table_add_to_page(&table, page, "The runs and their results.");
}

/* The recipe of the one run. */
static void add_recipe(ole_page *page, const ole_run_view *run) {
    static const char *const names[2] = {"", "this run"};
    ole_text_table table = {.columns = 2, .names = names};
    ole_short_text text[RECIPE];
    describe(run, text);
    for (int k = 0; k < RECIPE; k++)
        if (k < RECIPE - 1 || *text[k].text)
            ole_text_table_row(&table, "%s|%s", recipe_names[k], text[k].text);
    if (run->model && run->classifier)
        ole_text_table_row(&table, "unknown|%s",
                           ole_unknown_words(ole_model_get_info(run->model)).text);
    ole_page_section(page, "How it was trained");
    ole_text_table_add_to_page(&table, page, "All options are in config.yaml in the run folder.");
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void add_confusion(ole_page *page, const ole_run_view *run, bool several) {
    enum { MOST_CLASSES = 200 };
    if (!run->confusion) return;
    const ole_model_info *model = ole_model_get_info(run->model);
    int classes = model->classes;
    if (classes > MOST_CLASSES) return;
    float *shares = malloc((size_t)classes * (size_t)classes * sizeof *shares);
    if (!shares) {
        ole_page_fail(page, OLE_ERROR_MEMORY, "page: out of memory");
        return;
    }
    for (int t = 0; t < classes; t++) {
        int64_t all = 0;
        for (int c = 0; c < classes; c++)
            all += run->confusion[t * classes + c];
        for (int c = 0; c < classes; c++) {
            double share =
                all > 0 ? 100.0 * (double)run->confusion[t * classes + c] / (double)all : NAN;
            shares[t * classes + c] = (float)(round(share * 10) / 10);
        }
    }
    const ole_short_text title =
        ole_printed("Confusion matrix%s%.130s", several ? ", " : "", several ? run->folder : "");
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HEATMAP;
    f.title = title.text;
    f.values = shares;
    f.rows = f.columns = classes;
    f.row_names = f.column_names = model->class_names;
    f.x_label = "predicted class";
    f.y_label = "true class";
    f.value_label = "share of the class, %";
    f.value_min = 0;
    f.value_max = 100;
    f.height = 400;
    ole_page_figure(page, &f, "How the samples of each class are classified, in % of that class.");
    free(shares);
}

static void add_mistakes(ole_page *page, const ole_run_view *run, bool several) {
    if (run->mistake_count == 0) return;
    const char *const *names = ole_model_get_info(run->model)->class_names;
    ole_short_text captions[OLE_MISTAKES];
    const char *list[OLE_MISTAKES];
    int64_t samples[OLE_MISTAKES];
    for (int i = 0; i < run->mistake_count; i++) {
        const ole_mistake *m = &run->mistakes[i];
        samples[i] = m->sample;
        const char *file = ole_dataset_file_name(run->set, run->split, m->sample);
        const char *base = file ? strrchr(file, '/') : NULL; /* its folder is the class */
        const ole_short_text name = file ? ole_printed("%.120s", base ? base + 1 : file)
                                         : ole_printed("sample %lld", (long long)m->sample);
        captions[i] = ole_printed("%.60s → %.60s\n%.1f %% sure\n%s", names[m->truth],
                                  names[m->taken], 100.0 * (double)m->score, name.text);
        list[i] = captions[i].text;
    }
    const ole_short_text caption =
        ole_printed("%.100s%sthe most confident mistakes: true class → predicted class.",
                    several ? run->folder : "", several ? ": " : "");
    ole_page_images images;
    uint8_t *pixels;
    ole_error error;
    if (ole_run_view_images(run, samples, run->mistake_count, MISTAKE, &images, &pixels, &error) !=
        OLE_OK)
        ole_page_fail(page, error.status, error.message);
    images.captions = list;
    if (pixels) ole_page_add_images(page, caption.text, &images);
    free(pixels);
}

static void add_errors(ole_page *page, const ole_report *r) {
    bool any = false;
    for (int i = 0; i < r->count; i++)
        any = any || r->views[i].confusion;
    if (!any) return;
    ole_page_section(page, "Mistakes");
    for (int i = 0; i < r->count; i++)
        add_confusion(page, &r->views[i], r->count > 1);
    for (int i = 0; i < r->count; i++)
        add_mistakes(page, &r->views[i], r->count > 1);
}

/* ---- Geometry ----------------------------------------------------------------------------- */

static const char angles_heading[] = "Angles between features"; /* of every page with features */

bool ole_run_page_is_full(const char *path) {
    char *text;
    size_t size;
    if (ole_read_file(path, (size_t)1 << 30, &text, &size, NULL) != OLE_OK) return false;
    bool full = strstr(text, angles_heading) != NULL;
    free(text);
    return full;
}

static void add_geometry(ole_page *page, const ole_report *r) {
    ole_feature_view views[OLE_REPORT_RUNS];
    int count = 0, maps = 0;
    for (int i = 0; i < r->count; i++) {
        if (!r->views[i].measured) continue;
        views[count++] = (ole_feature_view){r->runs[i].folder, &r->views[i].analysis};
        maps += r->views[i].analysis.map != NULL;
    }
    if (count == 0) return;
    ole_page_section(page, angles_heading);
    ole_page_add_angles(page, views, count);
    ole_page_section(page, "Singular values");
    ole_page_add_spectra(page, views, count);
    if (maps > 0) ole_page_section(page, "Map of the features");
    for (int i = 0; i < r->count; i++) {
        const ole_run_view *run = &r->views[i];
        if (!run->measured || !run->analysis.map) continue;
        ole_page_images images = {0};
        uint8_t *pixels;
        ole_error error;
        if (ole_run_view_images(run, NULL, run->kept, OLE_THUMBNAIL, &images, &pixels, &error) !=
            OLE_OK)
            ole_page_fail(page, error.status, error.message);
        const char **files = pixels ? ole_run_view_files(run) : NULL;
        images.captions = files;
        ole_analysis_add_map(page, &run->analysis, count > 1 ? run->folder : NULL,
                             pixels ? &images : NULL);
        free(files);
        free(pixels);
    }
}

/* ---- The page ----------------------------------------------------------------------------- */

/* The subject of the page of a model's file. */
static void title_model(const ole_run_view *run, ole_short_text *title, ole_short_text *subtitle) {
    const ole_model_info *model = ole_model_get_info(run->model);
    const char *base = strrchr(run->folder, '/'), *data = run->options.data;
    *title = ole_printed("%.190s", base ? base + 1 : run->folder);
    *subtitle = ole_printed("%.100s · %d classes%s%.150s", model->net, model->classes,
                            data ? " · shown on " : "", data ? ole_page_data_name(data) : "");
}

/* The page's subject: the data and the runs. */
static void write_titles(const ole_report *r, ole_short_text *title, ole_short_text *subtitle) {
    if (r->views[0].lone) {
        title_model(&r->views[0], title, subtitle);
        return;
    }
    const ole_train_options *o = &r->views[0].options;
    const char *data = o->data ? o->data : "unknown data";
    bool same = share_data(r);
    data = ole_page_data_name(data);
    if (r->count == 1 || are_seeds(r)) {
        const ole_history *history = &r->views[0].history;
        bool several = r->count > 1, one = history->ended && history->count == 1;
        *title = ole_printed("Trained on %.150s%s", data,
                             several ? ole_printed(", %d seeds", r->count).text : "");
        *subtitle =
            ole_printed("%.100s · %.90s · %lld%s epoch%s · %.70s%s%.70s", o->net ? o->net : "",
                        loss_text(&r->views[0]).text, (long long)history->count,
                        history->ended ? "" : ole_printed(" of %lld", (long long)o->epochs).text,
                        one ? "" : "s", r->views[0].folder, several ? " … " : "",
                        several ? r->views[r->count - 1].folder : "");
        return;
    }
    *title =
        ole_printed("%d runs side by side%s%.150s", r->count, same ? " on " : "", same ? data : "");
    *subtitle = ole_printed("%.150s%s%.150s", r->views[0].folder, r->count == 2 ? ", " : " … ",
                            r->views[r->count - 1].folder);
}

ole_status ole_run_page_write(const ole_report *r, const ole_report_options *options,
                              ole_error *error) {
    ole_short_text title, subtitle;
    const ole_run_view *first = &r->views[0];
    write_titles(r, &title, &subtitle);
    ole_page *page;
    ole_status status = ole_page_create(&page, title.text, subtitle.text, error);
    if (status != OLE_OK) return status;
    ole_page_refresh(page, options->refresh);
    if (options->refresh > 0)
        ole_page_text(page, "Training is in progress. This page shows the curves so far and "
                            "refreshes itself. The rest appears at the end.");
    if (r->count == 1)
        add_headlines(page, first, &r->runs[0]);
    else
        add_mean(page, r), add_comparison(page, r), add_table(page, r);
    for (const ole_run_view *run = r->views; run < r->views + r->count; run++)
        if (run->without[0])
            ole_page_text(page, ole_printed("%.100s: shown without its %s (%s).", run->folder,
                                            run->without_data ? "data" : "model", run->without)
                                    .text);
    if (first->lone)
        ole_page_add_model(page, first->model);
    else
        add_curves(page, r);
    add_errors(page, r);
    add_geometry(page, r);
    if (r->count == 1 && !first->lone) add_recipe(page, first);
    status = ole_page_write(page, options->out, error);
    ole_page_free(page);
    return status;
}
