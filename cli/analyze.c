/*
 * cli/analyze.c - `ole analyze`: everything about an embedding, as text, JSON, figures and a page.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"
#include "pages/analyze_page.h"

#include "formats/json.h"
#include <ole/analyze.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char analyze_summary[] = "errors, angles, spectra and a map of features in .npy files";

enum { PAIRS = 5 };

typedef struct arguments {
    const char *features, *labels;
    const char *test[2]; /* NULL: each row is left out in turn */
    int sample;          /* 0: not given */
    bool exact, no_tsne, json;
    ole_analyze_options options;
    figure_options figures;
} arguments;

/* ---- The command line --------------------------------------------------------------------- */

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){0};
    ole_analyze_options_init(&a->options);
    a->options.threads = default_threads();
    const arg_positional positionals[] = {
        {"FEATURES.npy", &a->features, "[rows, dimensions], float16, float32 or float64"},
        {"LABELS.npy", &a->labels, "[rows], integers; rows with a label < 0 are ignored"},
        {0},
    };
    const ole_option options[] = {
        {"test", OLE_PAIR, a->test, "F.npy L.npy",
         .help = "classify these instead of leaving each row out in turn"},
        {"k", OLE_INTEGER, &a->options.k, "K", .help = "neighbours of k-NN", .min = 1, .max = 1000},
        {"energy", OLE_NUMBER, &a->options.energy, "X",
         .help = "share of a class's energy that its subspace holds", .min = 1e-6, .max = 1.0},
        {"sample", OLE_INTEGER, &a->sample, "N",
         .help = "rows to classify, compare and map at most", .min = 10, .max = 1e9},
        {"exact", OLE_SWITCH, &a->exact, .help = "use all rows instead of a sample"},
        {"no-tsne", OLE_SWITCH, &a->no_tsne, .help = "skip the t-SNE map"},
        THREADS_OPTION(&a->options.threads),
        FIGURE_OPTIONS(&a->figures),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "analyze",
        .summary = analyze_summary,
        .example = "  $ ole analyze features.npy labels.npy --out page.html --figures figures\n"
                   "  $ ole analyze train.npy train-labels.npy --test test.npy test-labels.npy\n",
        .about = "Says how well features tell their classes apart: errors of nearest neighbours,\n"
                 "centroids and class subspaces, angles inside and between classes, singular\n"
                 "values, the OLE loss, which classes overlap, and a map by t-SNE.  Spectra and\n"
                 "overlaps are of all rows; what compares rows with each other takes a sample of\n"
                 "large files and says so.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    if (a->exact && a->sample) {
        fail_command("analyze", "--sample %d and --exact, which takes all rows: give one of them",
                     a->sample);
        *code = EXIT_USAGE;
        return false;
    }
    if (a->exact || a->sample) a->options.sample = a->sample; /* of all of them 0 */
    a->options.map = !a->no_tsne && (a->json || a->figures.page || a->figures.folder);
    return true;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static void json_errors(ole_json *w, const ole_analysis *a) {
    ole_json_open(w, "errors", '{');
    ole_json_string(w, "protocol", a->tested ? "test" : "leave-one-out");
    ole_json_integer(w, "n", a->errors.queries);
    ole_json_integer(w, "of", a->errors.of_queries);
    ole_json_integer(w, "references", a->errors.references);
    ole_json_number(w, "knn1_error", a->errors.knn1);
    ole_json_integer(w, "k", a->errors.k);
    ole_json_number(w, "knn_error", a->errors.knn);
    ole_json_number(w, "centroid_error", a->errors.centroid);
    ole_json_number(w, "subspace_error", a->errors.subspace);
    ole_json_number(w, "subspace_directions", a->errors.directions);
    ole_json_close(w);
}

static void json_angles_of(ole_json *w, const char *key, const ole_angle_summary *s,
                           const int64_t *bins) {
    ole_json_open(w, key, '{');
    ole_json_integer(w, "pairs", s->pairs);
    ole_json_number(w, "mean", s->mean);
    ole_json_number(w, "min", s->minimum);
    ole_json_number(w, "q05", s->q05);
    ole_json_number(w, "q25", s->q25);
    ole_json_number(w, "median", s->median);
    ole_json_number(w, "q75", s->q75);
    ole_json_number(w, "q95", s->q95);
    ole_json_number(w, "max", s->maximum);
    ole_json_open(w, "histogram", '[');
    for (int i = 0; i < OLE_ANGLE_BINS; i++)
        ole_json_integer(w, NULL, bins[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static void json_spectrum(ole_json *w, const char *key, const ole_row_spectrum *s) {
    ole_json_open(w, key, '{');
    if (s->label >= 0) ole_json_integer(w, "label", s->label);
    ole_json_integer(w, "n", s->rows);
    ole_json_number(w, "norm", s->norm);
    ole_json_number(w, "effective_rank", s->effective_rank);
    ole_json_open(w, "singular_values", '[');
    for (int64_t i = 0; i < s->count; i++)
        ole_json_number(w, NULL, s->sigma[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static void json_overlaps(ole_json *w, const ole_analysis *a) {
    ole_json_open(w, "principal_angles", '[');
    for (int64_t i = 0; i < a->overlap_count; i++) {
        ole_json_open(w, NULL, '{');
        ole_json_integer(w, "a", a->overlaps[i].label_a);
        ole_json_integer(w, "b", a->overlaps[i].label_b);
        ole_json_number(w, "angle", a->overlaps[i].angle);
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void print_json(const ole_analysis *a) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_integer(&w, "n", a->rows);
    ole_json_integer(&w, "ignored", a->ignored);
    ole_json_integer(&w, "d", a->dim);
    ole_json_integer(&w, "classes", a->classes);
    json_errors(&w, a);
    ole_json_open(&w, "angles", '{');
    ole_json_integer(&w, "n", a->angles.rows);
    ole_json_integer(&w, "of", a->angles.of_rows);
    ole_json_integer(&w, "zeros", a->angles.zeros);
    json_angles_of(&w, "within", &a->angles.within, a->angles.within_bins);
    json_angles_of(&w, "between", &a->angles.between, a->angles.between_bins);
    ole_json_close(&w);
    ole_json_number(&w, "loss", a->spectra.loss);
    ole_json_number(&w, "class_term", a->spectra.class_term);
    ole_json_number(&w, "global_norm", a->spectra.global_norm);
    json_spectrum(&w, "spectrum", &a->spectra.all);
    ole_json_open(&w, "per_class", '[');
    for (int64_t c = 0; c < a->spectra.classes; c++)
        json_spectrum(&w, NULL, &a->spectra.of[c]);
    ole_json_close(&w);
    json_overlaps(&w, a);
    if (a->map) {
        ole_json_open(&w, "map", '{');
        ole_json_integer(&w, "n", a->points);
        ole_json_number(&w, "kl", a->kl);
        ole_json_close(&w);
    }
    ole_json_close(&w);
}

/* ---- Text --------------------------------------------------------------------------------- */

static void print_errors(const ole_analysis *a) {
    const ole_feature_errors *e = &a->errors;
    printf("\nerror, %%%16s", "");
    if (a->tested)
        printf("of %" PRId64 " test rows by %" PRId64, e->queries, e->references);
    else
        printf("each row by all others, of %" PRId64 " rows", e->queries);
    if (e->queries < e->of_queries) printf(" drawn from %" PRId64, e->of_queries);
    char name[32];
    snprintf(name, sizeof name, "%d-NN (cosine)", e->k);
    printf("\n  %-20s %8.2f\n", "1-NN (cosine)", e->knn1);
    if (e->k > 1) printf("  %-20s %8.2f\n", name, e->knn);
    printf("  %-20s %8.2f\n", "nearest centroid", e->centroid);
    printf("  %-20s %8.2f   %.1f directions a class\n", "nearest subspace", e->subspace,
           e->directions);
}

static void print_angle_row(const char *name, const ole_angle_summary *s) {
    if (s->pairs == 0) return;
    printf("  %-20s %8.2f %8.2f %8.2f %8.2f\n", name, s->mean, s->q05, s->median, s->q95);
}

static void print_angles(const ole_angles *a) {
    printf("\nangle, degrees             mean      5 %%   median     95 %%");
    if (a->rows + a->zeros < a->of_rows)
        printf("   of %" PRId64 " rows drawn from %" PRId64, a->rows + a->zeros, a->of_rows);
    if (a->zeros > 0)
        printf("   without %" PRId64 " row%s of zeros", a->zeros, a->zeros > 1 ? "s" : "");
    printf("\n");
    print_angle_row("inside a class", &a->within);
    print_angle_row("between classes", &a->between);
}

static void print_spectra(const ole_spectra *s) {
    double sum = 0.0;
    for (int64_t c = 0; c < s->classes; c++)
        sum += s->of[c].effective_rank;
    printf("\n%-22s %8.6g   (%.6g - %.6g) / %" PRId64 "\n", "OLE loss", s->loss, s->class_term,
           s->global_norm, s->all.rows);
    printf("%-22s %8.2f   of a class %.2f\n", "effective rank", s->all.effective_rank,
           sum / (double)s->classes);
}

static void print_text(const ole_analysis *a) {
    printf("%-22s %8" PRId64, "rows", a->rows);
    if (a->ignored > 0) printf("   and %" PRId64 " ignored", a->ignored);
    printf("\n%-22s %8" PRId64 "\n%-22s %8" PRId64 "\n", "dimensions", a->dim, "classes",
           a->classes);
    print_errors(a);
    print_angles(&a->angles);
    print_spectra(&a->spectra);
    if (a->overlap_count == 0) return;
    printf("\nclasses that overlap most, by principal angle (90 degrees: orthogonal)\n");
    for (int64_t i = 0; i < a->overlap_count && i < PAIRS; i++) {
        char names[64];
        snprintf(names, sizeof names, "%" PRId64 " and %" PRId64, a->overlaps[i].label_a,
                 a->overlaps[i].label_b);
        printf("  %-20s %8.2f\n", names, a->overlaps[i].angle);
    }
}

/* ---- The command -------------------------------------------------------------------------- */

static ole_embedding view_of(const embedding *e) {
    return (ole_embedding){e->rows, e->dim, e->dtype, e->features, e->labels};
}

/* "F.npy: " before a message about a row. */
static int fail_analysis(const arguments *a, const ole_error *error) {
    bool is_data = error->status == OLE_ERROR_DATA;
    bool of_test = strncmp(error->message, "test ", 5) == 0;
    return fail_command("analyze", "%s%s%s", is_data ? of_test ? a->test[0] : a->features : "",
                        is_data ? ": " : "", error->message);
}

static int analyze(arguments *a, const embedding *e, const embedding *test) {
    const ole_embedding train_view = view_of(e), test_view = view_of(test);
    progress line = progress_start();
    if (a->test[0]) a->options.test = &test_view;
    a->options.progress = progress_share;
    a->options.context = &line;
    ole_analysis analysis;
    ole_error error;
    ole_status status = ole_analyze(&analysis, &train_view, &a->options, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_analysis(a, &error);
    int code = write_analysis(&a->figures, &analysis, a->features);
    (a->json ? print_json : print_text)(&analysis); /* also where a picture failed */
    ole_analysis_free(&analysis);
    return code;
}

int run_analyze(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const inputs[] = {a.features, a.labels, a.test[0], a.test[1]};
    if (!spares_inputs("analyze", &a.figures.page, 1, inputs, 4)) return EXIT_USAGE;
    if (!outputs_ready("analyze", &a.figures.page, 1, a.figures.folder)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "analyze"};
    embedding e, test = {0};
    bool opened = embedding_open(&e, &reader, a.features, a.labels);
    if (opened && a.test[0]) opened = embedding_open(&test, &reader, a.test[0], a.test[1]);
    code = opened ? analyze(&a, &e, &test) : EXIT_FAILED;
    embedding_close(&e);
    embedding_close(&test);
    return code;
}
