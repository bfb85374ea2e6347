/*
 * cli/pages/demo_page.c - the page of `ole demo`: softmax beside OLÉ, on the digits, on few of them
 * and on the toy.
 */
#include "pages/demo.h"

#include "common/outputs.h"

#include "report/feature_page.h"
#include <ole/train/data.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CLASSES = 10, TEXT = 64, SIDE = 8 };
static const int64_t toy_digits[] = {3, 5, 8};
static const char *const digit_names[CLASSES] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

/* As on the terminal, with its accent. */
static const char *title_of(const side *s) {
    return s->loss == OLE_LOSS_SOFTMAX ? "softmax"
           : s->loss == OLE_LOSS_OLE   ? "OLÉ alone"
                                       : "softmax + OLÉ";
}

/* ---- Headlines and tables ------------------------------------------------------------------ */

/* "85.6 ± 0.2°", or "" where there is no number. */
static const char *spread_text(char out[TEXT], double mean, double deviation, const char *unit) {
    out[0] = '\0';
    if (isfinite(mean) && deviation > 0)
        snprintf(out, TEXT, "%.1f ± %.1f%s", mean, deviation, unit);
    else if (isfinite(mean))
        snprintf(out, TEXT, "%.1f%s", mean, unit);
    return out;
}

static void add_headlines(ole_page *page, const side sides[2]) {
    const figures *m[2] = {&sides[0].mean, &sides[1].mean},
                  *s[2] = {&sides[0].deviation, &sides[1].deviation};
    const struct {
        const char *label, *unit;
        double mean[2], deviation[2];
    } rows[] = {
        {"angle between classes",
         "°",
         {m[0]->between, m[1]->between},
         {s[0]->between, s[1]->between}},
        {"angle within classes", "°", {m[0]->within, m[1]->within}, {s[0]->within, s[1]->within}},
        {"effective rank", "", {m[0]->rank, m[1]->rank}, {s[0]->rank, s[1]->rank}},
        {"test error", " %", {m[0]->error, m[1]->error}, {s[0]->error, s[1]->error}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char value[TEXT], other[TEXT], note[2 * TEXT];
        spread_text(value, rows[i].mean[1], rows[i].deviation[1], rows[i].unit);
        spread_text(other, rows[i].mean[0], rows[i].deviation[0], rows[i].unit);
        snprintf(note, sizeof note, "softmax alone %s", other);
        ole_page_headline(page, rows[i].label, value, note);
    }
}

static void add_table(ole_page *page, const side sides[2], const char *caption) {
    enum { COLUMNS = 6 };
    static const char *const names[COLUMNS] = {"",
                                               "angle between, °",
                                               "angle within, °",
                                               "effective rank",
                                               "test error, %",
                                               "1-NN error, %"};
    char text[2 * COLUMNS][TEXT];
    const char *cells[2 * COLUMNS];
    for (int i = 0; i < 2; i++) {
        const figures *m = &sides[i].mean, *s = &sides[i].deviation;
        const double means[] = {m->between, m->within, m->rank, m->error, m->knn1};
        const double deviations[] = {s->between, s->within, s->rank, s->error, s->knn1};
        snprintf(text[i * COLUMNS], TEXT, "%s", title_of(&sides[i]));
        for (int k = 1; k < COLUMNS; k++)
            spread_text(text[i * COLUMNS + k], means[k - 1], deviations[k - 1], "");
    }
    for (int i = 0; i < 2 * COLUMNS; i++)
        cells[i] = text[i];
    ole_page_table(page, caption, 2, COLUMNS, names, cells);
}

/* ---- Pictures ------------------------------------------------------------------------------ */

/* A drawing of features: as DIRECTORY/NAME-KEY.svg and, given a page, onto it. */
static bool draw(demo *d, ole_page *page, int which, const side *s, ole_drawing_kind kind,
                 const char *name) {
    int64_t *labels = malloc((size_t)d->count[which] * sizeof *labels);
    for (int64_t i = 0; labels && i < d->count[which]; i++)
        labels[i] = which == 0 ? d->labels[which][i] : toy_digits[d->labels[which][i]];
    const ole_embedding e = {d->count[which], s->dim, OLE_F32, s->features, labels};
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.map = false;
    options.threads = d->threads;
    ole_analysis analysis;
    ole_drawing *drawing = NULL;
    bool good = labels && ole_analyze(&analysis, &e, &options, &d->error) == OLE_OK;
    if (good) {
        good = ole_analysis_draw(&drawing, &analysis, kind, &d->error) == OLE_OK;
        ole_analysis_free(&analysis);
    }
    if (good && drawing) {
        char path[4200];
        ole_figure figure = *ole_drawing_figure(drawing);
        figure.title = title_of(s);
        if (page) ole_page_figure(page, &figure, ole_drawing_caption(drawing));
        snprintf(path, sizeof path, "%s/%s-%s.svg", d->directory, name, s->key);
        if (d->directory)
            good = own_file_ready(path, false, &d->error) &&
                   ole_figure_save(&figure, path, &d->error) == OLE_OK;
    }
    ole_drawing_free(drawing);
    free(labels);
    return good;
}

/* The test set's images, [count, SIDE, SIDE]; NULL after an error. */
static uint8_t *read_images(demo *d) {
    ole_dataset *set = NULL;
    float sample[SIDE * SIDE];
    uint8_t *pixels = malloc((size_t)d->count[0] * SIDE * SIDE);
    bool good = pixels && ole_dataset_open(&set, "digits", NULL, &d->error) == OLE_OK;
    for (int64_t i = 0; good && i < d->count[0]; i++) {
        good = ole_dataset_sample(set, OLE_SPLIT_TEST, i, sample, &d->error) == OLE_OK;
        for (int k = 0; good && k < SIDE * SIDE; k++)
            pixels[i * SIDE * SIDE + k] = (uint8_t)(sample[k] * 255 + 0.5f);
    }
    ole_dataset_close(set);
    if (!good) free(pixels);
    return good ? pixels : NULL;
}

/* ---- The page ------------------------------------------------------------------------------ */

static bool is_interrupted(void *context) {
    (void)context;
    return interrupted();
}

/* All that is known about the digits' test features of a side; its rows are 0 when interrupted. */
static bool analyze_digits(demo *d, const side *s, ole_analysis *analysis) {
    int64_t *labels = malloc((size_t)d->count[0] * sizeof *labels);
    for (int64_t i = 0; labels && i < d->count[0]; i++)
        labels[i] = d->labels[0][i];
    const ole_embedding e = {d->count[0], s->dim, OLE_F32, s->features, labels};
    ole_analyze_options options;
    ole_analyze_options_init(&options);
    options.errors = options.overlap = false;
    options.picture = 400;
    options.threads = d->threads;
    options.progress = progress_share;
    options.stop = is_interrupted;
    options.context = &d->line;
    options.names = digit_names;
    options.name_count = CLASSES;
    bool good = labels && ole_analyze(analysis, &e, &options, &d->error) == OLE_OK;
    free(labels);
    return good && analysis->rows > 0;
}

static bool add_digits(demo *d, ole_page *page, ole_analysis analyses[2]) {
    uint8_t *pixels = read_images(d);
    const ole_page_images images = {d->count[0], SIDE, SIDE, 1, pixels, NULL};
    ole_feature_view views[2];
    bool good = pixels != NULL;
    for (int i = 0; i < 2 && good; i++) {
        views[i] = (ole_feature_view){title_of(&d->digits[i]), &analyses[i]};
        good = analyze_digits(d, &d->digits[i], &analyses[i]) &&
               (!d->directory || draw(d, NULL, 0, &d->digits[i], OLE_DRAW_HISTOGRAM, "angles"));
    }
    if (good) {
        ole_page_section(page, "Ten digits, 64 features");
        for (int i = 0; i < 2; i++)
            ole_analysis_add_map(page, &analyses[i], views[i].name, &images);
        ole_page_add_angles(page, views, 2);
        add_table(page, d->digits,
                  "Means and standard deviations over the seeds, on the test set.");
        ole_page_section(page, "Spectra");
        ole_page_add_spectra(page, views, 2);
    }
    free(pixels);
    return good;
}

/* Error against images a class, as a picture, which is few.svg too, and as a table. */
static bool add_few(demo *d, ole_page *page) {
    enum { COLUMNS = 4 };
    double x[FEW], y[2][FEW], spread[2][FEW];
    char text[FEW * COLUMNS][TEXT], path[4200];
    const char *cells[FEW * COLUMNS];
    const char *const names[COLUMNS] = {"images a class", title_of(&d->digits[0]),
                                        title_of(&d->digits[1]), "runs in which OLÉ errs less"};
    for (int i = 0; i < FEW; i++) {
        const few_images *f = &d->few[i];
        x[i] = f->samples;
        snprintf(text[i * COLUMNS], TEXT, "%d", f->samples);
        for (int k = 0; k < 2; k++) {
            y[k][i] = f->mean[k];
            spread[k][i] = f->deviation[k];
            spread_text(text[i * COLUMNS + 1 + k], f->mean[k], f->deviation[k], "");
        }
        snprintf(text[i * COLUMNS + 3], TEXT, "%d of %d", f->better, d->seeds);
    }
    for (int i = 0; i < FEW * COLUMNS; i++)
        cells[i] = text[i];
    const ole_series series[2] = {{names[1], FEW, x, y[0], .spread = spread[0]},
                                  {names[2], FEW, x, y[1], .spread = spread[1]}};
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Few images a class";
    figure.x_label = "images a class";
    figure.y_label = "test error, %";
    figure.x_min = 0;
    figure.x_max = 25;
    figure.series = series;
    figure.series_count = 2;
    ole_page_section(page, "Few images a class");
    ole_page_figure(page, &figure,
                    "Test error of the same network, trained on a few images of each class. Both "
                    "ways see the same images; bars are standard deviations over the draws.");
    ole_page_table(page, "Test error, %: means and standard deviations over the seeds.", FEW,
                   COLUMNS, names, cells);
    snprintf(path, sizeof path, "%s/few.svg", d->directory);
    return !d->directory || (own_file_ready(path, false, &d->error) &&
                             ole_figure_save(&figure, path, &d->error) == OLE_OK);
}

static bool add_toy(demo *d, ole_page *page) {
    ole_page_section(page, "Three digits, three features");
    ole_page_text(
        page, "The paper's toy: a network with three features for the digits 3, 5 and 8. "
              "OLÉ alone draws each class to a line through the origin, and the lines nearly to "
              "right angles.");
    bool good = true;
    for (int i = 0; i < 2 && good; i++)
        good = draw(d, page, 1, &d->toy[i], OLE_DRAW_SPACE, "toy");
    add_table(page, d->toy, "Of several runs the best by 1-NN on a held-out fifth.");
    return good;
}

bool write_demo_page(demo *d, const char *path) {
    char subtitle[160];
    ole_page *page;
    ole_analysis analyses[2] = {{0}};
    snprintf(
        subtitle, sizeof subtitle,
        "The embedded digits with softmax, and with softmax + OLÉ (λ = %g); %d seeds, %d epochs",
        d->lambda, d->seeds, d->epochs);
    if (ole_page_create(&page, "What OLÉ does to features", subtitle, &d->error) != OLE_OK)
        return false;
    add_headlines(page, d->digits);
    bool good = add_digits(d, page, analyses) && add_few(d, page) && add_toy(d, page) &&
                ole_page_write(page, path, &d->error) == OLE_OK;
    for (int i = 0; i < 2; i++)
        ole_analysis_free(&analyses[i]);
    ole_page_free(page);
    return good && !interrupted();
}
