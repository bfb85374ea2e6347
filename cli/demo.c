/*
 * cli/demo.c - `ole demo`: the first minute.  What OLÉ does to the features of a small network on
 * the embedded digits, to its error where there are few of them, and OLÉ alone in three
 * dimensions, the paper's toy.
 *
 * Nothing is picked for looks: λ is the one with the smallest error on a held-out fifth of the
 * training set, after which the networks are trained on all of it, and on a few images a class with
 * that λ; of the toy's runs the best by 1-NN on such a fifth is shown, as in the paper.
 */
#include "pages/demo.h"

#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"

#include "formats/json.h"
#include <ole/analyze.h>
#include <ole/train/evaluate.h>
#include <ole/train/train.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char demo_summary[] = "the first minute: digits with softmax, and with OLE";

static const char digits_net[] = "C32-MP-C64-MP-FC64", toy_net[] = "FC64(x2)-FC3";
static const char toy_classes[] = "3,5,8";
static const double lambdas[] = {0.25, 0.5, 1.0}, held_out = 0.2;
static const int few_samples[FEW] = {5, 10, 20};
enum { LAMBDAS = 3, TOY_RUNS = 2 /* times --seeds */ };
enum { TOY_EPOCHS = 2, FEW_EPOCHS = 2 /* times --epochs */ };

enum { FIGURES = 5 };

static const struct {
    const char *key, *text;
    size_t offset;
} rows[FIGURES] = {
    {"angle_between", "angle between classes, deg", offsetof(figures, between)},
    {"angle_within", "angle within classes, deg", offsetof(figures, within)},
    {"effective_rank", "effective rank", offsetof(figures, rank)},
    {"test_error", "test error, %", offsetof(figures, error)},
    {"knn1_error", "1-NN error, %", offsetof(figures, knn1)},
};

static double *figure(figures *f, int i) {
    return (double *)((char *)f + rows[i].offset);
}

/* ---- Training ----------------------------------------------------------------------------- */

static bool stop(void *context, const ole_train_progress *p) {
    demo *d = context;
    char bar[BAR_ROOM];
    double share = (double)(p->epoch - 1) / (double)p->epochs;
    if (progress_due(&d->line))
        progress_show(&d->line, "%s  training %d of %d",
                      bar_text((d->trained + share) / d->trainings, bar), d->trained + 1,
                      d->trainings);
    return interrupted();
}

/* Trains once; false after an error or an interruption. */
static bool train(demo *d, ole_train_options *options, ole_train_summary *summary) {
    options->data = "digits";
    options->threads = d->threads;
    options->eval_every = options->epochs;
    options->callback = stop;
    options->callback_context = d;
    if (ole_train(options, summary, &d->error) != OLE_OK) return false;
    d->trained += (int)options->seeds;
    if (summary->interrupted) snprintf(d->error.message, sizeof d->error.message, "interrupted");
    return !summary->interrupted;
}

static ole_train_options digits_options(const demo *d, ole_loss_kind loss) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.net = digits_net;
    o.epochs = d->epochs;
    o.loss = loss;
    o.lambda = d->lambda;
    return o;
}

static ole_train_options toy_options(const demo *d, ole_loss_kind loss) {
    ole_train_options o = digits_options(d, loss);
    o.net = toy_net;
    o.classes = toy_classes;
    o.epochs = TOY_EPOCHS * d->epochs;
    o.opt = "adam";
    o.lr = 3e-3;
    o.lambda = 1.0;
    o.val_split = held_out;
    return o;
}

/* λ by the error on a held-out part; of equals the smallest. */
static bool choose_lambda(demo *d) {
    double least = HUGE_VAL, best = lambdas[0];
    for (int i = 0; i < LAMBDAS; i++) {
        d->lambda = lambdas[i];
        ole_train_options o = digits_options(d, OLE_LOSS_BOTH);
        ole_train_summary summary;
        o.val_split = held_out;
        o.seeds = d->seeds;
        if (!train(d, &o, &summary)) return false;
        if (summary.validation_error < least) {
            least = summary.validation_error;
            best = lambdas[i];
        }
    }
    d->lambda = best;
    return true;
}

/* ---- Measuring ---------------------------------------------------------------------------- */

/* Features of the test set and what they look like; keeps them if `keep`. */
static bool measure(demo *d, int which, side *s, ole_model *model, const ole_dataset *set,
                    const ole_train_summary *summary, figures *f, bool keep) {
    int64_t count = d->count[which];
    s->dim = ole_model_get_info(model)->features;
    float *features = malloc((size_t)(count * s->dim) * sizeof *features);
    if (!features) {
        snprintf(d->error.message, sizeof d->error.message, "out of memory");
        return false;
    }
    const ole_matrix view = {.data = features, .rows = count, .cols = s->dim, .dtype = OLE_F32};
    ole_status status = ole_model_run_split(model, set, OLE_SPLIT_TEST, features, NULL, &d->error);
    if (status == OLE_OK)
        status = ole_mean_angles(count, s->dim, features, d->labels[which], &f->within, &f->between,
                                 &d->error);
    if (status == OLE_OK) status = matrix_effective_rank(&view, d->threads, &f->rank, &d->error);
    f->error = summary->test_error;
    f->knn1 = summary->knn1_error;
    if (keep) {
        free(s->features);
        s->features = features;
    } else {
        free(features);
    }
    return status == OLE_OK;
}

/* Opens the set for its labels. */
static bool open_set(demo *d, int which, const char *classes, ole_dataset **set) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.classes = classes;
    if (ole_dataset_open(set, "digits", &options, &d->error) != OLE_OK) return false;
    d->count[which] = ole_dataset_get_info(*set)->count[OLE_SPLIT_TEST];
    size_t size = (size_t)d->count[which] * sizeof(int32_t);
    d->labels[which] = malloc(size);
    if (d->labels[which]) memcpy(d->labels[which], ole_dataset_labels(*set, OLE_SPLIT_TEST), size);
    return d->labels[which] != NULL;
}

/* Adds the value of run `run` to the mean and the sum of squares around it. */
static void add_value(double *mean, double *squares, int run, double value) {
    double before = value - *mean;
    *mean += before / (run + 1);
    *squares += before * (value - *mean);
}

/* The deviation, of that sum over all runs. */
static double deviation_of(const demo *d, double squares) {
    return d->seeds > 1 ? sqrt(squares / (d->seeds - 1)) : NAN;
}

static bool run_digits(demo *d, const ole_dataset *set, side *s) {
    for (int run = 0; run < d->seeds; run++) {
        ole_model *model;
        ole_train_summary summary;
        figures f;
        ole_train_options o = digits_options(d, s->loss);
        o.seed = (uint64_t)run;
        o.model = &model;
        if (!train(d, &o, &summary)) return false;
        bool good = measure(d, 0, s, model, set, &summary, &f, run == 0);
        ole_model_free(model);
        if (!good) return false;
        for (int i = 0; i < FIGURES; i++)
            add_value(figure(&s->mean, i), figure(&s->deviation, i), run, *figure(&f, i));
    }
    for (int i = 0; i < FIGURES; i++)
        *figure(&s->deviation, i) = deviation_of(d, *figure(&s->deviation, i));
    return true;
}

/* Both ways on the same few images of each class, which follow from the seed. */
static bool run_few(demo *d, few_images *f) {
    for (int run = 0; run < d->seeds; run++) {
        double error[2];
        for (int i = 0; i < 2; i++) {
            ole_train_summary summary;
            ole_train_options o = digits_options(d, d->digits[i].loss);
            o.epochs = FEW_EPOCHS * d->epochs;
            o.samples_per_class = f->samples;
            o.seed = (uint64_t)run;
            if (!train(d, &o, &summary)) return false;
            error[i] = summary.test_error;
            add_value(&f->mean[i], &f->deviation[i], run, error[i]);
        }
        f->better += error[1] < error[0];
    }
    for (int i = 0; i < 2; i++)
        f->deviation[i] = deviation_of(d, f->deviation[i]);
    return true;
}

/* The 1-NN error on what run `run` held out. */
static bool held_out_error(demo *d, ole_model *model, int run, double *percent) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.classes = toy_classes;
    options.validation = held_out;
    options.seed = (uint64_t)run;
    ole_dataset *set = NULL;
    ole_evaluation e = {0};
    bool good = ole_dataset_open(&set, "digits", &options, &d->error) == OLE_OK &&
                ole_evaluate(&e, model, set, OLE_SPLIT_VALIDATION, d->threads, &d->error) == OLE_OK;
    *percent = e.knn1_error;
    ole_evaluation_free(&e);
    ole_dataset_close(set);
    return good;
}

/* The best of several runs on the held-out part, by 1-NN. */
static bool run_toy(demo *d, const ole_dataset *set, side *s) {
    double least = HUGE_VAL;
    for (int run = 0; run < TOY_RUNS * d->seeds; run++) {
        ole_model *model;
        ole_train_summary summary;
        figures f;
        ole_train_options o = toy_options(d, s->loss);
        o.seed = (uint64_t)run;
        o.model = &model;
        if (!train(d, &o, &summary)) return false;
        double percent;
        bool good = held_out_error(d, model, run, &percent);
        bool better = good && percent < least;
        if (better) good = measure(d, 1, s, model, set, &summary, &f, true);
        ole_model_free(model);
        if (!good) return false;
        if (better) {
            least = percent;
            s->mean = f;
        }
    }
    return true;
}

static bool compute(demo *d) {
    ole_dataset *set = NULL, *three = NULL;
    bool good =
        open_set(d, 0, NULL, &set) && open_set(d, 1, toy_classes, &three) && choose_lambda(d);
    for (int i = 0; i < 2 && good; i++)
        good = run_digits(d, set, &d->digits[i]) && run_toy(d, three, &d->toy[i]);
    for (int i = 0; i < FEW && good; i++) {
        d->few[i].samples = few_samples[i];
        good = run_few(d, &d->few[i]);
    }
    ole_dataset_close(set);
    ole_dataset_close(three);
    return good;
}

/* ---- Files -------------------------------------------------------------------------------- */

static bool write_array(demo *d, const char *name, ole_dtype dtype, int ndim, const int64_t *shape,
                        const void *data) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", d->directory, name);
    return ole_npy_write(path, dtype, ndim, shape, data, &d->error) == OLE_OK;
}

static bool write_set(demo *d, int which, const side sides[2], const char *prefix) {
    char name[64];
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        const int64_t shape[2] = {d->count[which], sides[i].dim};
        snprintf(name, sizeof name, "F%s-%s.npy", prefix, sides[i].key);
        good = write_array(d, name, OLE_F32, 2, shape, sides[i].features);
    }
    snprintf(name, sizeof name, "L%s.npy", prefix);
    return good && write_array(d, name, OLE_I32, 1, &d->count[which], d->labels[which]);
}

/* Made before the work begins, so that a mistake shows at once. */
static bool make_directory(demo *d) {
    if (!d->directory || mkdir(d->directory, 0777) == 0) return true;
    struct stat about;
    if (errno == EEXIST) {
        if (stat(d->directory, &about) == 0 && S_ISDIR(about.st_mode)) return true;
        errno = ENOTDIR;
    }
    snprintf(d->error.message, sizeof d->error.message, "%.200s: cannot make the directory: %s",
             d->directory, strerror(errno));
    return false;
}

/* Whether the page and the arrays are the demo's own to write, by the names they have. */
static bool is_ours(demo *d) {
    static const char *const arrays[] = {"F-softmax.npy", "F-ole.npy", "L.npy", "F-toy-softmax.npy",
                                         "F-toy-ole.npy", "L-toy.npy", NULL};
    return d->directory ? own_files_ready(d->directory, "report.html", arrays, &d->error)
                        : own_file_ready(d->page, true, &d->error);
}

/* ---- Printing ----------------------------------------------------------------------------- */

static void json_side(ole_json *w, side *s, bool deviations) {
    ole_json_open(w, s->key, '{');
    for (int i = 0; i < FIGURES; i++) {
        char key[40];
        ole_json_number(w, rows[i].key, *figure(&s->mean, i));
        snprintf(key, sizeof key, "%s_std", rows[i].key);
        if (deviations) ole_json_number(w, key, *figure(&s->deviation, i));
    }
    ole_json_close(w);
}

static void json_few(ole_json *w, const demo *d, const few_images *f) {
    ole_json_open(w, NULL, '{');
    ole_json_integer(w, "samples_per_class", f->samples);
    for (int i = 0; i < 2; i++) {
        ole_json_open(w, d->digits[i].key, '{');
        ole_json_number(w, "test_error", f->mean[i]);
        ole_json_number(w, "test_error_std", f->deviation[i]);
        ole_json_close(w);
    }
    ole_json_integer(w, "ole_better", f->better);
    ole_json_close(w);
}

static void print_json(demo *d) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_integer(&w, "seeds", d->seeds);
    ole_json_integer(&w, "epochs", d->epochs);
    ole_json_number(&w, "lambda", d->lambda);
    ole_json_string(&w, "report", d->page);
    ole_json_open(&w, "digits", '{');
    for (int i = 0; i < 2; i++)
        json_side(&w, &d->digits[i], true);
    ole_json_close(&w);
    ole_json_open(&w, "few", '[');
    for (int i = 0; i < FEW; i++)
        json_few(&w, d, &d->few[i]);
    ole_json_close(&w);
    ole_json_open(&w, "toy", '{');
    for (int i = 0; i < 2; i++)
        json_side(&w, &d->toy[i], false);
    ole_json_close(&w);
    ole_json_close(&w);
}

static void print_cell(double mean, double deviation) {
    char text[48];
    int used = snprintf(text, sizeof text, "%.1f", mean);
    bool both = deviation > 0.0;
    if (both) snprintf(text + used, sizeof text - (size_t)used, " ± %.1f", deviation);
    printf(" %*s", both ? 17 : 16, text); /* the sign has two bytes */
}

static void print_titles(const side sides[2]) {
    printf("%-28s %16s %16s\n", "", sides[0].title, sides[1].title);
}

static void print_table(side sides[2]) {
    print_titles(sides);
    for (int i = 0; i < FIGURES; i++) {
        if (isnan(*figure(&sides[1].mean, i))) continue; /* OLÉ alone trains no classifier */
        printf("%-28s", rows[i].text);
        for (int k = 0; k < 2; k++)
            print_cell(*figure(&sides[k].mean, i), *figure(&sides[k].deviation, i));
        printf("\n");
    }
}

static void print_few(const demo *d) {
    int better = 0;
    for (int i = 0; i < FEW; i++)
        better += d->few[i].better;
    printf("\nFew images a class: the same network and lambda, %d epochs; test error, %%. Of %d "
           "pairs\n"
           "of runs, which have the same images, OLE errs less in %d.\n\n",
           FEW_EPOCHS * d->epochs, FEW * d->seeds, better);
    print_titles(d->digits);
    for (int i = 0; i < FEW; i++) {
        const few_images *f = &d->few[i];
        printf("%2d %-25s", f->samples, "images a class");
        for (int k = 0; k < 2; k++)
            print_cell(f->mean[k], f->deviation[k]);
        printf("\n");
    }
}

static void print_text(demo *d) {
    printf("Digits: 10 classes, %s, %d epochs, %d seeds; mean and deviation on the test set.\n"
           "lambda = %g of 0.25, 0.5 and 1 errs least on a held-out fifth of the training set.\n\n",
           digits_net, d->epochs, d->seeds, d->lambda);
    print_table(d->digits);
    print_few(d);
    printf("\nThe paper's toy: 3-D features of three classes (%s), %s; of %d runs the best by\n"
           "1-NN on a held-out fifth. Ideal: 90 degrees between classes, 0 within.\n\n",
           toy_classes, toy_net, TOY_RUNS * d->seeds);
    print_table(d->toy);
    printf("\nDigits are easy: with all of them the geometry changes and the error hardly does. "
           "Where\n"
           "OLE gains accuracy is with few images, and with photos (the paper, STL-10: 28.7 %% to\n"
           "25.4 %%): ole data get stl10; ole reproduce stl10-cnn5 --seeds 1 (a minute on a GPU,\n"
           "an hour or more on a CPU)\n");
    printf("\nA page to look at: %s\n", d->page);
    if (d->directory)
        printf("Look closer: ole score %s/F-ole.npy %s/L.npy\n", d->directory, d->directory);
}

/* ---- The command -------------------------------------------------------------------------- */

static bool parse(demo *d, int argc, char **argv, int *code) {
    const ole_option options[] = {
        {"out", OLE_TEXT, &d->directory, "DIR",
         .help = "the page and the test features go here (default: ole-demo.html, no features)"},
        {"seeds", OLE_INTEGER, &d->seeds, "N", .help = "runs of each kind (default 5)", .min = 1,
         .max = 1000},
        {"epochs", OLE_INTEGER, &d->epochs, "N",
         .help = "of runs on all digits (default 15); the others have twice as many", .min = 1,
         .max = 10000},
        {"threads", OLE_INTEGER, &d->threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
        {"json", OLE_SWITCH, &d->json, .help = "print JSON"},
        {0},
    };
    const arg_command command = {
        .name = "demo",
        .summary = demo_summary,
        .example = "  $ ole demo --out demo\n",
        .about =
            "Trains a small network on the embedded digits with softmax and with softmax and\n"
            "OLE, on all images and on few of each class, and one with three features with\n"
            "softmax alone and OLE alone; compares errors and features in tables, on a page\n"
            "and, with --out, as figures and as F-softmax.npy, F-ole.npy, L.npy, *-toy-*.npy.\n",
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

static int fail_demo(demo *d) {
    progress_clear(&d->line);
    fail_command("demo", "%s", d->error.message);
    return interrupted() ? EXIT_INTERRUPTED : EXIT_FAILED;
}

int run_demo(int argc, char **argv) {
    demo d = {
        .seeds = 5,
        .epochs = 15,
        .threads = default_threads(),
        .digits = {{.key = "softmax", .title = "softmax", .loss = OLE_LOSS_SOFTMAX},
                   {.key = "ole", .title = "softmax + OLE", .loss = OLE_LOSS_BOTH}},
        .toy = {{.key = "softmax", .title = "softmax", .loss = OLE_LOSS_SOFTMAX},
                {.key = "ole", .title = "OLE alone", .loss = OLE_LOSS_OLE}},
        .line = progress_start(),
        .error = {.message = "out of memory"},
    };
    int code;
    if (!parse(&d, argc, argv, &code)) return code;
    snprintf(d.page, sizeof d.page, "%s%s", d.directory ? d.directory : "",
             d.directory ? "/report.html" : "ole-demo.html");
    d.trainings = (LAMBDAS + 2 + 2 * TOY_RUNS + 2 * FEW) * d.seeds;
    catch_interrupts();
    bool good = make_directory(&d) && is_ours(&d) && compute(&d) && write_demo_page(&d, d.page);
    if (good && d.directory)
        good = write_set(&d, 0, d.digits, "") && write_set(&d, 1, d.toy, "-toy");
    code = good ? EXIT_DONE : fail_demo(&d);
    progress_clear(&d.line);
    if (good) (d.json ? print_json : print_text)(&d);
    for (int i = 0; i < 2; i++) {
        free(d.digits[i].features);
        free(d.toy[i].features);
        free(d.labels[i]);
    }
    return code;
}
