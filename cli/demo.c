/*
 * cli/demo.c - `ole demo`, the first minute with Olé: what the loss does to the features of a small
 * network on the embedded digits, to its error where images are few, and OLÉ alone in three
 * dimensions, the paper's toy.
 *
 * Three studies do the training: ole_tune() chooses λ on a validation set and retrains with and
 * without OLÉ, ole_sweep() takes that λ to a few images per class, ole_compare() trains the toy.
 * The same command resumes them in the --out folder.  Nothing is picked for looks: the page shows
 * the first digits run of each loss, and the toy run with the lowest 1-NN error on a validation
 * set.
 */
#include "commands.h"
#include "common/common.h"
#include "common/figure_output.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "base/error.h"
#include "base/spread.h"
#include "formats/json.h"
#include "report/feature_page.h"
#include "report/run_view.h"
#include <ole/npy.h>
#include <ole/train/evaluate.h>
#include <ole/train/study.h>

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char demo_summary[] = "try it: digits with softmax alone, and with OLE";

static const char digits_net[] = "C32-MP-C64-MP-FC64", toy_net[] = "FC64(x2)-FC3";
static const char toy_classes[] = "3,5,8";
static const double lambdas[] = {0.25, 0.5, 1.0}, val_split = 0.2;
static const int64_t few_samples[] = {5, 10, 20};
enum { LAMBDAS = 3, FEW = 3, MORE_RUNS = 2, MORE_EPOCHS = 2 /* times --seeds, --epochs */ };
enum { PATH_ROOM = 4200, TEXT = 64 };

/* A line of a table: a measure with softmax, and with OLÉ. */
typedef struct row {
    char text[TEXT];
    ole_study_error values[2];
    int64_t better; /* lower with OLÉ than softmax on the same images */
} row;

enum { FIGURES = 5 };
static const struct {
    const char *key, *text, *unit;
    int best; /* 1: more is better, -1: less, 0: neither */
} figures[FIGURES] = {
    {"angle_between", "angle between classes, deg", "°", 1},
    {"angle_within", "angle within classes, deg", "°", -1},
    {"effective_rank", "effective rank", "", 0},
    {"test_error", "test error, %", " %", -1},
    {"knn1_error", "1-NN error, %", " %", -1},
};

static const char *const keys[2] = {"softmax", "ole"};

/* A network trained with each of two losses. */
typedef struct experiment {
    const char *study, *suffix;       /* its folder; what its arrays' names have */
    const char *titles[2], *names[2]; /* of the losses, on a terminal and on the page */
    row rows[FIGURES];
    ole_run_view shown[2]; /* runs whose test features page and arrays have */
} experiment;

typedef struct demo {
    const char *out;         /* NULL: the page alone is kept */
    char studies[PATH_ROOM]; /* their folder: `out`, or a temporary one */
    char page[PATH_ROOM];
    int seeds, epochs, threads;
    bool json;
    double lambda;
    experiment digits, toy;
    row few[FEW];
    int64_t trained, trainings; /* runs: of the studies that have ended, in all */
    ole_report_options report;  /* how models are run */
    progress line;
    ole_error error;
    bool lost_reader; /* of the output, a pipe */
} demo;

/* ---- Studies ------------------------------------------------------------------------------ */

static bool show_progress(void *context, const ole_study_progress *p) {
    demo *d = context;
    if (p->train && progress_due(&d->line)) {
        double epochs = (double)(p->train->epoch - 1) / (double)p->train->epochs;
        int64_t run = d->trained + p->result->ended;
        progress_show(&d->line, "%s  training %d of %d",
                      bar_text(((double)run + epochs) / (double)d->trainings).text, (int)run + 1,
                      (int)d->trainings);
    }
    return interrupted();
}

typedef ole_status study_function(const ole_study_options *, ole_study_result *, ole_error *);

/* Conducts a study in the folder `name`; false after an error or an interruption. */
static bool conduct(demo *d, const char *name, study_function *study, ole_train_options *train,
                    const double *grid, int64_t grid_size, ole_study_result *result) {
    char folder[PATH_ROOM + TEXT];
    ole_study_options o;
    ole_study_options_init(&o);
    snprintf(folder, sizeof folder, "%s/%s", d->studies, name);
    train->out = folder;
    train->eval_every = train->epochs;
    o.train = train;
    o.lambdas = grid;
    o.lambda_count = grid_size;
    o.samples = few_samples;
    o.sample_count = FEW;
    o.baseline = true;
    o.callback = show_progress;
    o.callback_context = d;
    if (study(&o, result, &d->error) != OLE_OK || result->interrupted) return false;
    d->trained += result->total;
    for (int64_t p = 0; p < result->point_count; p++)
        if (result->points[p].diverged > 0)
            return ole_fail(&d->error, OLE_ERROR_NUMERIC, "%s: a run diverged", folder) == OLE_OK;
    return true;
}

/* Takes the test set through the model of a run and analyses its features; for the page, with a
 * map.  Close the view either way. */
static bool view_run(demo *d, const experiment *x, const ole_study_run *run, bool map,
                     ole_run_view *view) {
    char folder[PATH_ROOM + 4 * TEXT];
    ole_analyze_options analyze;
    ole_analyze_options_init(&analyze);
    analyze.map = map;
    analyze.errors = analyze.overlap = false;
    snprintf(folder, sizeof folder, "%s/%s/%s", d->studies, x->study, run->folder);
    bool good = ole_run_view_open(view, folder, &d->error) == OLE_OK &&
                ole_run_view_measure(view, &d->report, &analyze, &d->error) == OLE_OK;
    if (good && view->without[0]) ole_fail(&d->error, OLE_ERROR_DATA, "%s", view->without);
    return good && view->measured;
}

/* The 1-NN error on the validation set; NaN after an error. */
static double judge_view(demo *d, const ole_run_view *view) {
    ole_evaluation e = {.knn1_error = NAN};
    ole_evaluate(&e, view->model, view->set, OLE_SPLIT_VALIDATION, d->threads, &d->error);
    double knn1_error = e.knn1_error;
    ole_evaluation_free(&e);
    return knn1_error;
}

/* Column `side` of the table: means and deviations over the runs, of which the first is shown; or,
 * with `best`, only the run with the lowest 1-NN error on its validation set. */
static bool measure(demo *d, experiment *x, int side, const ole_study_run *runs, int64_t count,
                    bool best) {
    ole_spread spread[FIGURES] = {0};
    double least = HUGE_VAL;
    bool good = true;
    for (int64_t k = 0; k < count && good; k++) {
        ole_run_view view;
        good = view_run(d, x, &runs[k], k == 0 && x == &d->digits, &view);
        double error = good && best ? judge_view(d, &view) : (double)k; /* else the first */
        good = good && !isnan(error);
        if (good && best && error < least) memset(spread, 0, sizeof spread);
        if (good && (!best || error < least)) {
            const double values[FIGURES] = {
                view.analysis.angles.between.mean, view.analysis.angles.within.mean,
                view.analysis.spectra.all.effective_rank, runs[k].test_error, runs[k].knn1_error};
            for (int i = 0; i < FIGURES; i++)
                ole_spread_add(&spread[i], values[i]);
        }
        if (good && error < least) {
            ole_run_view last = x->shown[side];
            x->shown[side] = view;
            view = last;
            least = error;
        }
        ole_run_view_close(&view);
    }
    for (int i = 0; i < FIGURES; i++) {
        snprintf(x->rows[i].text, TEXT, "%s", figures[i].text);
        x->rows[i].values[side] =
            (ole_study_error){ole_spread_mean(&spread[i]), ole_spread_deviation(&spread[i])};
    }
    return good;
}

static ole_train_options train_options(const demo *d) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = digits_net;
    o.epochs = d->epochs;
    o.seeds = d->seeds;
    o.threads = d->threads;
    return o;
}

/* λ, and both losses on all training images. */
static bool run_digits(demo *d) {
    ole_study_result r = {0};
    ole_train_options train = train_options(d);
    train.val_split = val_split;
    bool good = conduct(d, d->digits.study, ole_tune, &train, lambdas, LAMBDAS, &r);
    if (good) d->lambda = r.points[r.picked].lambda;
    for (int i = 0; i < 2 && good; i++) /* the retrained points come last */
        good = measure(d, &d->digits, i, &r.runs[(LAMBDAS + i) * r.seeds], r.seeds, false);
    ole_study_result_free(&r);
    return good;
}

static bool run_few(demo *d) {
    const double grid[] = {0.0, d->lambda};
    ole_study_result r = {0};
    ole_train_options train = train_options(d);
    train.epochs *= MORE_EPOCHS;
    bool good = conduct(d, "few", ole_sweep, &train, grid, 2, &r);
    for (int64_t i = 0; i < FEW && good; i++) {
        const ole_study_run *softmax = &r.runs[2 * i * r.seeds], *ole = softmax + r.seeds;
        row *few = &d->few[i];
        snprintf(few->text, TEXT, "%2d images per class", (int)few_samples[i]);
        few->values[0] = r.points[2 * i].test;
        few->values[1] = r.points[2 * i + 1].test;
        for (int64_t k = 0; k < r.seeds; k++)
            few->better += ole[k].test_error < softmax[k].test_error;
    }
    ole_study_result_free(&r);
    return good;
}

static bool run_toy(demo *d) {
    static const double grid[] = {0.0, 1.0};
    ole_study_result r = {0};
    ole_train_options train = train_options(d);
    train.net = toy_net;
    train.classes = toy_classes;
    train.loss = OLE_LOSS_OLE;
    train.epochs *= MORE_EPOCHS;
    train.seeds *= MORE_RUNS;
    train.opt = "adam";
    train.lr = 3e-3;
    train.val_split = val_split;
    bool good = conduct(d, d->toy.study, ole_compare, &train, grid, 2, &r);
    for (int i = 0; i < 2 && good; i++)
        good = measure(d, &d->toy, i, &r.runs[i * r.seeds], r.seeds, true);
    ole_study_result_free(&r);
    return good;
}

/* ---- The page and the files ---------------------------------------------------------------- */

/* "85.6 ± 0.2°", or "" where there is no number. */
static ole_short_text value_text(ole_study_error value, const char *unit) {
    if (isfinite(value.mean) && value.std > 0)
        return ole_printed("%.1f ± %.1f%s", value.mean, value.std, unit);
    return isfinite(value.mean) ? ole_printed("%.1f%s", value.mean, unit) : (ole_short_text){""};
}

static void add_headlines(ole_page *page, const row *rows) {
    for (int i = 0; i < FIGURES - 1; i++) {
        const ole_study_error *softmax = &rows[i].values[0], *ole = &rows[i].values[1];
        const ole_page_change change = {ole->mean - softmax->mean, fmax(ole->std, softmax->std),
                                        figures[i].best < 0};
        ole_page_compared(
            page, ole_printed("%.*s", (int)strcspn(rows[i].text, ","), rows[i].text).text,
            value_text(*ole, figures[i].unit).text,
            ole_printed("softmax alone %s", value_text(*softmax, figures[i].unit).text).text,
            figures[i].best != 0 ? &change : NULL);
    }
}

/* `pairs`: runs of each number of images per class; 0: the rows are figures. */
static void add_table(ole_page *page, const row *rows, int count, const experiment *x, int pairs,
                      const char *caption) {
    const char *const titles[] = {pairs > 0 ? "images per class" : "", x->names[0], x->names[1],
                                  "lower with OLÉ"};
    ole_text_table table = {.columns = pairs > 0 ? 4 : 3, .names = titles};
    for (int i = 0; i < count; i++) {
        if (pairs > 0)
            ole_text_table_add(&table, "%d", (int)few_samples[i]);
        else
            ole_text_table_add(&table, "%s", rows[i].text);
        for (int k = 0; k < 2; k++) {
            const ole_short_text value = value_text(rows[i].values[k], "");
            ole_text_table_add(&table, "%s", *value.text ? value.text : "–");
        }
        if (pairs > 0) ole_text_table_add(&table, "%d of %d", (int)rows[i].better, pairs);
    }
    ole_text_table_add_to_page(&table, page, caption);
}

/* Saves a figure as NAME.svg in --out. */
static bool save_figure(demo *d, const ole_figure *figure, const char *name) {
    char path[PATH_ROOM + TEXT];
    snprintf(path, sizeof path, "%s/%s.svg", d->out, name);
    return !d->out || (own_file_ready(path, false, &d->error) &&
                       ole_figure_save(figure, path, &d->error) == OLE_OK);
}

/* Draws the features of both losses, as NAME-softmax.svg and NAME-ole.svg and, given a page, on it.
 * The two histograms have the same axes. */
static bool draw(demo *d, ole_page *page, const experiment *x, ole_drawing_kind kind,
                 const char *name) {
    ole_drawing *drawings[2] = {NULL, NULL};
    ole_figure drawn[2];
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        good = ole_analysis_draw(&drawings[i], &x->shown[i].analysis, kind, &d->error) == OLE_OK;
        if (good) drawn[i] = *ole_drawing_figure(drawings[i]);
    }
    if (good) ole_figures_share_y(drawn, 2);
    for (int i = 0; i < 2 && good; i++) {
        drawn[i].title = x->names[i];
        if (page) ole_page_figure(page, &drawn[i], ole_drawing_caption(drawings[i]));
        good = save_figure(d, &drawn[i], ole_printed("%s-%s", name, keys[i]).text);
    }
    for (int i = 0; i < 2; i++)
        ole_drawing_free(drawings[i]);
    return good;
}

static bool add_digits(demo *d, ole_page *page) {
    const experiment *x = &d->digits;
    const ole_feature_view views[2] = {{x->names[0], &x->shown[0].analysis},
                                       {x->names[1], &x->shown[1].analysis}};
    uint8_t *pixels;
    ole_page_images images;
    if (ole_run_view_images(&x->shown[0], NULL, x->shown[0].kept, OLE_THUMBNAIL, &images, &pixels,
                            &d->error) != OLE_OK)
        return false;
    ole_page_section(page, "Ten digits, 64 features");
    for (int i = 0; i < 2; i++)
        ole_analysis_add_map(page, views[i].analysis, x->names[i], &images);
    free(pixels);
    ole_page_add_angles(page, views, 2);
    add_table(page, x->rows, FIGURES, x, 0,
              "Means and standard deviations over the seeds, on the test set.");
    ole_page_section(page, "Singular values");
    ole_page_add_spectra(page, views, 2);
    return draw(d, NULL, x, OLE_DRAW_HISTOGRAM, "angles");
}

/* Test error against images per class, as a figure, which is few.svg too, and as a table. */
static bool add_few(demo *d, ole_page *page) {
    double x[FEW], y[2][FEW], spread[2][FEW];
    for (int i = 0; i < FEW; i++) {
        x[i] = (double)few_samples[i];
        for (int k = 0; k < 2; k++) {
            y[k][i] = d->few[i].values[k].mean;
            spread[k][i] = d->few[i].values[k].std;
        }
    }
    const ole_series series[2] = {
        {d->digits.names[0], FEW, x, y[0], .spread = spread[0], .band = true},
        {d->digits.names[1], FEW, x, y[1], .spread = spread[1], .band = true}};
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "Few images per class";
    figure.x_label = "images per class";
    figure.y_label = "test error, %";
    figure.x_min = 0;
    figure.x_max = 25;
    figure.x_ticks = x;
    figure.x_tick_count = FEW;
    figure.series = series;
    figure.series_count = 2;
    ole_page_section(page, figure.title);
    ole_page_figure(
        page, &figure,
        "Test error of the same network, trained on a few images of each class. Both "
        "losses see the same images; the bands are standard deviations over the draws.");
    add_table(page, d->few, FEW, &d->digits, d->seeds,
              "Test error, %: means and standard deviations over the seeds.");
    return save_figure(d, &figure, "few");
}

static bool add_toy(demo *d, ole_page *page) {
    ole_page_section(page, "Three digits, three features");
    ole_page_text(page,
                  "The paper's toy: a network with three features for the digits 3, 5 and 8. "
                  "OLÉ alone pulls each class towards a line through the origin; in the ideal case "
                  "the lines meet at right angles.");
    bool good = draw(d, page, &d->toy, OLE_DRAW_SPACE, "toy");
    add_table(page, d->toy.rows, FIGURES, &d->toy, 0,
              "The run with the lowest 1-NN error on a validation set.");
    return good;
}

static bool write_page(demo *d) {
    ole_page *page;
    const ole_short_text subtitle = ole_printed(
        "The embedded digits with softmax, and with softmax + OLÉ (λ = %g); %d seed%s, %d epoch%s",
        d->lambda, d->seeds, d->seeds == 1 ? "" : "s", d->epochs, d->epochs == 1 ? "" : "s");
    if (ole_page_create(&page, "What OLÉ does to features", subtitle.text, &d->error) != OLE_OK)
        return false;
    add_headlines(page, d->digits.rows);
    bool good = add_digits(d, page) && add_few(d, page) && add_toy(d, page) &&
                ole_page_write(page, d->page, &d->error) == OLE_OK;
    ole_page_free(page);
    return good && !interrupted();
}

/* Test features and labels, for --out. */
static bool write_arrays(demo *d, const experiment *x) {
    char path[PATH_ROOM + TEXT];
    ole_status status = OLE_OK;
    for (int i = 0; i < 2 && status == OLE_OK; i++) {
        const ole_run_view *v = &x->shown[i];
        const int64_t shape[2] = {v->count, v->analysis.dim};
        float *features = malloc((size_t)(shape[0] * shape[1]) * sizeof *features);
        if (!features) return false;
        snprintf(path, sizeof path, "%s/F%s-%s.npy", d->out, x->suffix, keys[i]);
        status = ole_model_run_split(v->model, v->set, v->split, features, NULL, &d->error);
        if (status == OLE_OK) status = ole_npy_write(path, OLE_F32, 2, shape, features, &d->error);
        free(features);
    }
    const ole_run_view *v = &x->shown[0];
    snprintf(path, sizeof path, "%s/L%s.npy", d->out, x->suffix);
    return status == OLE_OK &&
           ole_npy_write(path, OLE_I32, 1, &v->count, ole_dataset_labels(v->set, v->split),
                         &d->error) == OLE_OK;
}

/* ---- Printing ----------------------------------------------------------------------------- */

static void json_experiment(ole_json *w, const char *key, const experiment *x, bool deviations) {
    ole_json_open(w, key, '{');
    for (int k = 0; k < 2; k++) {
        ole_json_open(w, keys[k], '{');
        for (int i = 0; i < FIGURES; i++) {
            const ole_study_error *value = &x->rows[i].values[k];
            json_spread(w, figures[i].key, value->mean, value->std, deviations);
        }
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void print_json(const demo *d) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("seeds", d->seeds), J("epochs", d->epochs), J("lambda", d->lambda),
                 J("report", d->page));
    json_experiment(&w, "digits", &d->digits, true);
    ole_json_open(&w, "few", '[');
    for (int i = 0; i < FEW; i++) {
        ole_json_open(&w, NULL, '{');
        ole_json_integer(&w, "samples_per_class", few_samples[i]);
        for (int k = 0; k < 2; k++) {
            ole_json_open(&w, keys[k], '{');
            json_spread(&w, "test_error", d->few[i].values[k].mean, d->few[i].values[k].std, true);
            ole_json_close(&w);
        }
        ole_json_integer(&w, "ole_better", d->few[i].better);
        ole_json_close(&w);
    }
    ole_json_close(&w);
    json_experiment(&w, "toy", &d->toy, false);
    ole_json_close(&w);
}

static void print_table(const row *rows, int count, const experiment *x) {
    printf("%-28s %16s %16s\n", "", x->titles[0], x->titles[1]);
    for (int i = 0; i < count; i++) {
        if (isnan(rows[i].values[1].mean)) continue; /* OLÉ alone trains no classifier */
        printf("%-28s", rows[i].text);
        for (int k = 0; k < 2; k++) {
            const ole_short_text value = value_text(rows[i].values[k], "");
            printf(" %*s", strchr(value.text, ' ') ? 17 : 16, value.text); /* "±": two bytes */
        }
        printf("\n");
    }
}

static void print_digits(const demo *d) {
    printf("Digits: 10 classes, %s, %d epochs, %d seeds; mean and standard\n"
           "deviation on the test set. lambda = %g has the lowest error of 0.25, 0.5 and 1\n"
           "on a validation set, a fifth of the training set.\n\n",
           digits_net, d->epochs, d->seeds, d->lambda);
    print_table(d->digits.rows, FIGURES, &d->digits);
}

static void print_few(const demo *d) {
    int64_t better = 0;
    for (int i = 0; i < FEW; i++)
        better += d->few[i].better;
    printf("\nFew images per class: the same network and lambda, %d epochs; test error, %%.\n"
           "OLE has the lower error in %d of %d pairs of runs on the same images.\n\n",
           MORE_EPOCHS * d->epochs, (int)better, FEW * d->seeds);
    print_table(d->few, FEW, &d->digits);
}

static void print_toy(const demo *d) {
    printf("\nThe paper's toy: 3-D features of three classes (%s), %s; of %d runs\n"
           "the one with the lowest 1-NN error on a validation set. Ideal: 90 degrees\n"
           "between classes, 0 within.\n\n",
           toy_classes, toy_net, MORE_RUNS * d->seeds);
    print_table(d->toy.rows, FIGURES, &d->toy);
}

static void print_end(const demo *d) {
    printf("\nDigits are easy: with all of them OLE changes the geometry but hardly the error.\n"
           "It lowers the error with few images, and with photos (the paper, STL-10: 28.7 %%\n"
           "to 25.4 %%). To see that, a minute on a GPU, hours on a CPU:\n\n"
           "  ole data get stl10\n"
           "  ole reproduce stl10-cnn5 --seeds 1\n");
    printf("\n"
           "Report page: %s\n",
           d->page);
    if (d->out) printf("Look closer: ole score %s/F-ole.npy %s/L.npy\n", d->out, d->out);
}

/* Each part as soon as it is known, also into a file or a pipe. */
static bool tell(demo *d, void (*print)(const demo *)) {
    if (d->json) return true;
    progress_clear(&d->line);
    print(d);
    if (fflush(stdout) == 0) return true;
    d->lost_reader = errno == EPIPE;
    return ole_fail(&d->error, OLE_ERROR_IO, "cannot write to standard output: %s",
                    strerror(errno)) == OLE_OK;
}

/* ---- The command -------------------------------------------------------------------------- */

static bool parse(demo *d, int argc, char **argv, int *code) {
    const ole_option options[] = {
        {"out", OLE_TEXT, &d->out, "DIR",
         .help = "folder for page, figures, features and runs (default: only ole-demo.html)"},
        {"seeds", OLE_INTEGER, &d->seeds, "N", .help = "runs of each kind (default 5)", .min = 1,
         .max = 1000},
        {"epochs", OLE_INTEGER, &d->epochs, "N",
         .help = "epochs on all digits (default 15); the other runs take twice as many", .min = 1,
         .max = 10000},
        THREADS_OPTION(&d->threads),
        JSON_OPTION(&d->json),
        {0},
    };
    const arg_command command = {
        .name = "demo",
        .summary = demo_summary,
        .example = "  $ ole demo --out demo\n",
        .about =
            "Trains a small network on the embedded digits with softmax and with softmax and\n"
            "OLE, on all images and on a few per class, and one with three features with\n"
            "softmax alone and OLE alone; compares errors and features in tables, on a page\n"
            "and, with --out, as figures and as F-softmax.npy, F-ole.npy, L.npy, *-toy-*.npy.\n"
            "With --out, Ctrl-C saves and the same command resumes.\n",
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

/* Where page and studies go; whether page and arrays are the demo's own to write. */
static bool prepare(demo *d) {
    static const char *const arrays[] = {"F-softmax.npy", "F-ole.npy", "L.npy", "F-toy-softmax.npy",
                                         "F-toy-ole.npy", "L-toy.npy", NULL};
    const char *folder = getenv("TMPDIR");
    if (d->out) {
        snprintf(d->studies, sizeof d->studies, "%s", d->out);
        snprintf(d->page, sizeof d->page, "%.4000s/report.html", d->out);
        return own_files_ready(d->out, "report.html", arrays, &d->error);
    }
    snprintf(d->page, sizeof d->page, "ole-demo.html");
    if (!own_file_ready(d->page, true, &d->error)) return false;
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/ole-demo-XXXXXX", folder && *folder ? folder : "/tmp");
    if (mkdtemp(path)) {
        memcpy(d->studies, path, sizeof path);
        return true;
    }
    return ole_fail(&d->error, OLE_ERROR_IO, "%s: cannot create the folder: %s", path,
                    strerror(errno)) == OLE_OK;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *at) {
    (void)about, (void)type, (void)at;
    return remove(path);
}

int run_demo(int argc, char **argv) {
    demo d = {
        .seeds = 5,
        .epochs = 15,
        .threads = default_threads(),
        .digits = {.study = "tune",
                   .suffix = "",
                   .titles = {"softmax", "softmax + OLE"},
                   .names = {"softmax", "softmax + OLÉ"}},
        .toy = {.study = "toy",
                .suffix = "-toy",
                .titles = {"softmax", "OLE alone"},
                .names = {"softmax", "OLÉ alone"}},
        .line = progress_start(),
        .error = {.message = "out of memory"},
    };
    int code;
    if (!parse(&d, argc, argv, &code)) return code;
    d.trainings = (LAMBDAS + 2 + 2 * FEW + 2 * MORE_RUNS) * d.seeds;
    ole_report_options_init(&d.report);
    d.report.device = "cpu";
    d.report.threads = d.threads;
    d.report.callback = progress_stoppable;
    d.report.callback_context = &d.line;
    catch_interrupts();
    bool good = prepare(&d) && run_digits(&d) && tell(&d, print_digits) && run_few(&d) &&
                tell(&d, print_few) && run_toy(&d) && tell(&d, print_toy) && write_page(&d) &&
                (!d.out || (write_arrays(&d, &d.digits) && write_arrays(&d, &d.toy))) &&
                tell(&d, print_end);
    progress_clear(&d.line);
    if (good && d.json)
        print_json(&d);
    else if (good || d.lost_reader) /* such as `head`; main() ends as other programs do */
        good = true;
    else if (interrupted())
        code = end_interrupted("demo", d.out ? "the same command resumes"
                                             : "nothing is kept without --out");
    else
        code = fail_command("demo", "%s", d.error.message);
    for (int i = 0; i < 2; i++) {
        ole_run_view_close(&d.digits.shown[i]);
        ole_run_view_close(&d.toy.shown[i]);
    }
    if (!d.out && *d.studies) nftw(d.studies, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return good ? EXIT_DONE : code;
}
