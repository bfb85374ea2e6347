/*
 * cli/pages/report_page.c - the page of runs: learning curves, errors, geometry, mistakes, map;
 * several runs side by side.
 */
#include "pages/report.h"

#include "train/options/option_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 96 };

/* ---- Learning curves ---------------------------------------------------------------------- */

typedef struct curve {
    size_t offset; /* of the number in ole_epoch */
    const char *name;
    bool dotted;
} curve;

/* A figure under construction. */
typedef struct chart {
    ole_series series[4 * REPORT_MOST_RUNS];
    double *numbers[4 * REPORT_MOST_RUNS];
    int count;
    int64_t points;
} chart;

static double number_of(const ole_epoch *epoch, size_t offset) {
    double value;
    memcpy(&value, (const char *)epoch + offset, sizeof value);
    return value;
}

/*
 * Adds a curve of a run; epochs in which it was not measured are passed over.  A curve without any
 * stays as an empty one without a name, so that the others keep their colours.
 */
static void chart_add(chart *c, ole_page *page, const ole_history *h, const curve *which,
                      const char *name) {
    double *numbers = malloc((2 * (size_t)h->count + 1) * sizeof *numbers);
    int64_t count = 0;
    if (!numbers) {
        page_lacks_memory(page);
        return;
    }
    for (int64_t i = 0; i < h->count; i++) {
        double value = number_of(&h->epochs[i], which->offset);
        if (!isfinite(value)) continue;
        numbers[count] = (double)h->epochs[i].epoch;
        numbers[h->count + count++] = value;
    }
    c->numbers[c->count] = numbers;
    c->series[c->count++] = (ole_series){count > 0 ? name : NULL, count, numbers,
                                         numbers + h->count,      NULL,  which->dotted};
    c->points += count;
}

static void chart_finish(chart *c, ole_page *page, const char *title, const char *y_label,
                         const char *caption) {
    ole_figure f;
    ole_figure_init(&f);
    f.title = title;
    f.x_label = "epoch";
    f.y_label = y_label;
    f.series = c->series;
    f.series_count = c->count;
    if (c->points > 0) ole_page_figure(page, &f, caption);
    for (int i = 0; i < c->count; i++)
        free(c->numbers[i]);
    *c = (chart){0};
}

static const curve train_curve = {offsetof(ole_epoch, train_error), "training set", true},
                   test_curve = {offsetof(ole_epoch, test_error), "test set", false},
                   validation_curve = {offsetof(ole_epoch, validation_error), "held out", false},
                   knn_curve = {offsetof(ole_epoch, knn1_error), "1-NN", false},
                   softmax_curve = {offsetof(ole_epoch, softmax_loss), "softmax", false},
                   ole_curve = {offsetof(ole_epoch, ole_loss), "OLÉ", false};

static void add_curves(ole_page *page, const report *r) {
    const ole_history *h = &r->runs[0].history;
    chart c = {0};
    ole_page_section(page, "Learning curves");
    if (r->count == 1) {
        chart_add(&c, page, h, &test_curve, test_curve.name);
        chart_add(&c, page, h, &validation_curve, validation_curve.name);
        chart_add(&c, page, h, &knn_curve, knn_curve.name);
        chart_add(&c, page, h, &train_curve, train_curve.name);
        chart_finish(&c, page, "Error", "error, %",
                     "After each epoch; of the training set its mean while the epoch ran.");
        chart_add(&c, page, h, &softmax_curve, softmax_curve.name);
        chart_add(&c, page, h, &ole_curve, ole_curve.name);
        chart_finish(&c, page, "Losses", "loss", "Means over an epoch, each without its weight.");
        return;
    }
    const struct {
        const curve *which;
        const char *title, *y_label;
    } all[] = {{&test_curve, "Test error", "error, %"},
               {&validation_curve, "Error on the held-out part", "error, %"},
               {&softmax_curve, "Softmax loss", "loss"},
               {&ole_curve, "OLÉ loss", "loss"}};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        for (int i = 0; i < r->count; i++)
            chart_add(&c, page, &r->runs[i].history, all[k].which, r->runs[i].folder);
        chart_finish(&c, page, all[k].title, all[k].y_label, NULL);
    }
}

/* ---- Headlines and the table of runs ------------------------------------------------------ */

/* "12.3 %", or "" for what was not measured. */
static const char *number_text(char out[TEXT], double value, const char *unit) {
    if (isfinite(value))
        snprintf(out, TEXT, "%.*f%s", strcmp(unit, "°") == 0 ? 1 : 2, value, unit);
    else
        out[0] = '\0';
    return out;
}

static void add_headline(ole_page *page, const char *label, double value, const char *unit,
                         const char *note) {
    char text[TEXT];
    if (isfinite(value)) ole_page_headline(page, label, number_text(text, value, unit), note);
}

/* With a validation split the model is the best one's, which may not be the last: neighbours are
 * only sought at the end. */
static void add_headlines(ole_page *page, const run_view *run) {
    char note[TEXT] = "";
    bool chosen = run->options.val_split > 0.0;
    if (!run->without[0])
        snprintf(note, sizeof note, "of %lld samples%s", (long long)run->count,
                 chosen ? ", by the model of the least validation error" : "");
    add_headline(page, run_error_name(run), run_error(run), " %", note[0] ? note : NULL);
    add_headline(page, "1-NN error", run->history.knn1_error, " %",
                 chosen ? "by cosine, at the end of training" : "by cosine, on the features");
    if (!run->view.measured) return;
    const ole_angles *a = &run->view.angles;
    snprintf(note, sizeof note, "median %.1f°; OLÉ asks for 90°", a->between.median);
    add_headline(page, "angle between classes", a->between.mean, "°", note);
    snprintf(note, sizeof note, "median %.1f°; OLÉ asks for 0°", a->within.median);
    add_headline(page, "angle within classes", a->within.mean, "°", note);
    snprintf(note, sizeof note, "of a class %.1f, of %lld dimensions", run->view.class_rank,
             (long long)run->view.dim);
    add_headline(page, "effective rank", run->view.spectra.all.effective_rank, "", note);
}

/* Whether runs differ only in the seed and in where and how they ran. */
static bool same_recipe(const ole_train_options *a, const ole_train_options *b) {
    for (const ole_option *o = ole_train_table; o->name; o++)
        if (!(o->flags & OLE_EXECUTION) && strcmp(o->name, "seed") != 0 &&
            ole_option_differs(o, a, b))
            return false;
    return true;
}

/* Whether all runs are of one recipe, each with a seed of its own, and have ended. */
static bool are_seeds(const report *r) {
    for (int i = 0; i < r->count; i++) {
        if (!r->runs[i].history.ended) return false;
        if (!same_recipe(&r->runs[0].options, &r->runs[i].options)) return false;
        for (int k = 0; k < i; k++)
            if (r->runs[k].options.seed == r->runs[i].options.seed) return false;
    }
    return true;
}

static void add_mean(ole_page *page, const report *r) {
    double sum = 0, squares = 0;
    if (!are_seeds(r)) return;
    for (int i = 0; i < r->count; i++)
        sum += run_error(&r->runs[i]);
    double mean = sum / r->count;
    for (int i = 0; i < r->count; i++)
        squares += pow(run_error(&r->runs[i]) - mean, 2);
    char value[TEXT], note[TEXT];
    if (!isfinite(mean)) return;
    snprintf(value, sizeof value, "%.2f ± %.2f %%", mean, sqrt(squares / (r->count - 1)));
    snprintf(note, sizeof note, "mean and standard deviation of %d seeds", r->count);
    ole_page_headline(page, run_error_name(&r->runs[0]), value, note);
}

/* What the errors of all runs are. */
static void name_errors(const report *r, char out[TEXT]) {
    const char *name = run_error_name(&r->runs[0]);
    for (int i = 1; i < r->count; i++)
        if (strcmp(run_error_name(&r->runs[i]), name) != 0) name = "test or validation error";
    snprintf(out, TEXT, "%s, %%", name);
}

/* The runs in rows: what they are and what came out. */
static void add_table(ole_page *page, const report *r) {
    enum { COLUMNS = 11 };
    char errors[TEXT];
    name_errors(r, errors);
    const char *names[COLUMNS] = {"run",
                                  "data",
                                  "network",
                                  "loss",
                                  "epochs",
                                  "seed",
                                  errors,
                                  "1-NN error, %",
                                  "angle between, °",
                                  "angle within, °",
                                  "effective rank"};
    char(*text)[TEXT] = calloc((size_t)r->count * COLUMNS, sizeof *text);
    const char **cells = malloc((size_t)r->count * COLUMNS * sizeof *cells);
    for (int i = 0; text && cells && i < r->count; i++) {
        const run_view *run = &r->runs[i];
        char(*row)[TEXT] = text + i * COLUMNS;
        char loss[64];
        double nothing = NAN;
        const double numbers[] = {run_error(run), run->history.knn1_error,
                                  run->view.measured ? run->view.angles.between.mean : nothing,
                                  run->view.measured ? run->view.angles.within.mean : nothing,
                                  run->view.measured ? run->view.spectra.all.effective_rank
                                                     : nothing};
        snprintf(row[0], TEXT, "%.90s", run->folder);
        snprintf(row[1], TEXT, "%.90s", run->options.data ? run->options.data : "");
        snprintf(row[2], TEXT, "%.90s", run->options.net ? run->options.net : "");
        snprintf(row[3], TEXT, "%s", run_loss_text(run, loss));
        snprintf(row[4], TEXT, "%lld", (long long)run->history.count);
        snprintf(row[5], TEXT, "%llu", (unsigned long long)run->options.seed);
        for (int k = 0; k < 5; k++)
            number_text(row[6 + k], numbers[k], "");
        for (int k = 0; k < COLUMNS; k++)
            cells[i * COLUMNS + k] = row[k];
    }
    if (text && cells)
        ole_page_table(page, "The runs and what came out.", r->count, COLUMNS, names, cells);
    else
        page_lacks_memory(page);
    free(cells);
    free(text);
}

/* The recipe of the one run, as a table. */
static void add_recipe(ole_page *page, const run_view *run) {
    char text[8][TEXT], loss[64];
    const ole_train_options *o = &run->options;
    snprintf(text[0], TEXT, "%.90s", o->data);
    snprintf(text[1], TEXT, "%.90s", o->net);
    snprintf(text[2], TEXT, "%s", run_loss_text(run, loss));
    snprintf(text[3], TEXT, "%lld of %lld", (long long)run->history.count, (long long)o->epochs);
    snprintf(text[4], TEXT, "%lld", (long long)o->batch_size);
    snprintf(text[5], TEXT, "%.20s, %g at first", o->opt,
             run->history.count > 0 ? run->history.epochs[0].lr : o->lr);
    snprintf(text[6], TEXT, "%llu", (unsigned long long)o->seed);
    number_text(text[7], run->history.seconds, " s");
    static const char *const names[2] = {"", "this run"};
    const char *const cells[] = {
        "data",       text[0], "network",         text[1], "loss", text[2], "epochs", text[3],
        "batch size", text[4], "optimiser, rate", text[5], "seed", text[6], "time",   text[7]};
    ole_page_section(page, "How it was trained");
    ole_page_table(page, "config.yaml in the run folder has all of it.", text[7][0] ? 8 : 7, 2,
                   names, cells);
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void add_confusion(ole_page *page, const run_view *run, bool several) {
    enum { MOST_CLASSES = 200 };
    int classes = run->view.classes;
    if (!run->classifier || run->without[0] || classes > MOST_CLASSES) return;
    float *shares = malloc((size_t)classes * (size_t)classes * sizeof *shares);
    if (!shares) {
        page_lacks_memory(page);
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
    char title[160];
    snprintf(title, sizeof title, several ? "Confusion, %s" : "Confusion", run->folder);
    ole_figure f;
    ole_figure_init(&f);
    f.kind = OLE_FIGURE_HEATMAP;
    f.title = title;
    f.values = shares;
    f.rows = f.columns = classes;
    f.row_names = f.column_names = classes <= 30 ? run->view.class_names : NULL;
    f.x_label = "taken for";
    f.y_label = "true class";
    f.value_label = "share of the class, %";
    f.value_min = 0;
    f.value_max = 100;
    f.height = 380;
    ole_page_figure(page, &f, "What each class is taken for, in % of its samples.");
    free(shares);
}

static void add_mistakes(ole_page *page, const run_view *run, bool several) {
    if (!run->classifier || run->mistake_count == 0 || !run->pixels) return;
    const char *const *names = run->view.class_names;
    ole_page_images images = run->images;
    size_t size = (size_t)(images.width * images.height * images.channels);
    uint8_t *pixels = malloc((size_t)run->mistake_count * size);
    char captions[RUN_MISTAKES][TEXT];
    const char *list[RUN_MISTAKES];
    ole_error error;
    int count = 0;
    if (!pixels) page_lacks_memory(page);
    for (int i = 0; pixels && i < run->mistake_count; i++) {
        const run_mistake *m = &run->mistakes[i];
        if (!run_view_pixels(run, m->sample, pixels + (size_t)count * size, &error)) {
            ole_page_fail(page, error.status, error.message);
            continue;
        }
        snprintf(captions[count], TEXT, "%.30s taken for %.30s, %.1f %%", names[m->truth],
                 names[m->taken], 100.0 * (double)m->score);
        list[count] = captions[count];
        count++;
    }
    images.count = count;
    images.pixels = pixels;
    images.captions = list;
    char caption[200];
    snprintf(caption, sizeof caption, "%s%sThe mistakes the network was surest of, with its score.",
             several ? run->folder : "", several ? ": " : "");
    if (count > 0) ole_page_add_images(page, caption, &images);
    free(pixels);
}

static void add_errors(ole_page *page, const report *r) {
    bool any = false;
    for (int i = 0; i < r->count; i++)
        any = any || (r->runs[i].classifier && !r->runs[i].without[0]);
    if (!any) return;
    ole_page_section(page, "Mistakes");
    for (int i = 0; i < r->count; i++)
        add_confusion(page, &r->runs[i], r->count > 1);
    for (int i = 0; i < r->count; i++)
        add_mistakes(page, &r->runs[i], r->count > 1);
}

/* ---- Geometry ----------------------------------------------------------------------------- */

static void add_geometry(ole_page *page, const report *r) {
    feature_view views[REPORT_MOST_RUNS];
    const ole_page_images *images = NULL;
    int count = 0, maps = 0;
    for (int i = 0; i < r->count; i++) {
        if (!r->runs[i].view.measured) continue;
        views[count++] = r->runs[i].view;
        maps += r->runs[i].view.map != NULL;
        if (!images && r->runs[i].images.count > 0) images = &r->runs[i].images;
    }
    if (count == 0) return;
    ole_page_section(page, "Angles");
    page_add_angles(page, views, count);
    ole_page_section(page, "Spectra");
    page_add_spectra(page, views, count);
    if (maps == 0) return;
    ole_page_section(page, "Map");
    page_add_maps(page, views, count, images);
}

static void add_notes(ole_page *page, const report *r) {
    for (int i = 0; i < r->count; i++) {
        char text[700];
        if (!r->runs[i].without[0]) continue;
        snprintf(text, sizeof text, "%s: the model was not looked at (%s).", r->runs[i].folder,
                 r->runs[i].without);
        ole_page_text(page, text);
    }
}

/* ---- The page ----------------------------------------------------------------------------- */

static bool write_page(const report *r, ole_error *error) {
    char title[200], subtitle[300], loss[64];
    const run_view *first = &r->runs[0];
    if (r->count == 1) {
        snprintf(title, sizeof title, "%.90s, %.90s", first->options.data, first->options.net);
        snprintf(subtitle, sizeof subtitle, "%s · %lld epochs · %.150s", run_loss_text(first, loss),
                 (long long)first->history.count, r->folders[0]);
    } else {
        snprintf(title, sizeof title, "%d runs side by side", r->count);
        snprintf(subtitle, sizeof subtitle, "%.100s … %.100s", r->folders[0],
                 r->folders[r->count - 1]);
    }
    ole_page *page;
    if (ole_page_create(&page, title, subtitle, error) != OLE_OK) return false;
    if (r->count == 1)
        add_headlines(page, first);
    else
        add_mean(page, r), add_table(page, r);
    add_notes(page, r);
    add_curves(page, r);
    add_errors(page, r);
    add_geometry(page, r);
    if (r->count == 1) add_recipe(page, first);
    bool good = ole_page_write(page, r->out, error) == OLE_OK;
    ole_page_free(page);
    return good;
}

bool report_make(report *r, ole_error *error) {
    r->runs = calloc((size_t)r->count, sizeof *r->runs);
    bool good = r->runs != NULL;
    if (!good) snprintf(error->message, sizeof error->message, "out of memory");
    progress line = progress_start();
    for (int i = 0; i < r->count && good; i++)
        good = run_view_open(&r->runs[i], r->folders[i], error);
    for (int i = 0; i < r->count && good; i++) {
        const feature_options options = {r->threads, i < r->maps, &line};
        good = run_view_measure(&r->runs[i], &options, error);
    }
    progress_clear(&line);
    return good && !interrupted() && write_page(r, error);
}

void report_free(report *r) {
    for (int i = 0; r->runs && i < r->count; i++)
        run_view_close(&r->runs[i]);
    free(r->runs);
    r->runs = NULL;
}
