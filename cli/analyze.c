/*
 * cli/analyze.c - `ole analyze`: everything about an embedding, as text, JSON, figures and a page.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/figure_output.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "formats/json.h"
#include "report/drawing.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char analyze_summary[] = "errors, angles, spectra and a map of features in .npy files";

enum { PAIRS_ON_PAGE = 10 };

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
        FEATURES_POSITIONAL(&a->features),
        LABELS_POSITIONAL(&a->labels),
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

/* The numbers that sum up the angles of pairs. */
static const struct {
    const char *key, *title;
    size_t offset;
} summary[] = {
    {"mean", "mean", offsetof(ole_angle_summary, mean)},
    {"min", "least", offsetof(ole_angle_summary, minimum)},
    {"q05", "5 %", offsetof(ole_angle_summary, q05)},
    {"q25", "25 %", offsetof(ole_angle_summary, q25)},
    {"median", "median", offsetof(ole_angle_summary, median)},
    {"q75", "75 %", offsetof(ole_angle_summary, q75)},
    {"q95", "95 %", offsetof(ole_angle_summary, q95)},
    {"max", "most", offsetof(ole_angle_summary, maximum)},
};
enum { SUMMARY = sizeof summary / sizeof *summary };

static double summary_value(const ole_angle_summary *s, int i) {
    return *(const double *)((const char *)s + summary[i].offset);
}

static void json_angles_of(ole_json *w, const char *key, const ole_angle_summary *s,
                           const int64_t *bins) {
    ole_json_open(w, key, '{');
    ole_json_integer(w, "pairs", s->pairs);
    for (int i = 0; i < SUMMARY; i++)
        ole_json_number(w, summary[i].key, summary_value(s, i));
    ole_json_open(w, "histogram", '[');
    for (int i = 0; i < OLE_ANGLE_BINS; i++)
        ole_json_integer(w, NULL, bins[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static void json_spectrum(ole_json *w, const char *key, const ole_row_spectrum *s,
                          const embedding *e) {
    ole_json_open(w, key, '{');
    if (s->label >= 0) ole_json_integer(w, "label", s->label);
    if (s->label >= 0 && e->names) ole_json_string(w, "name", e->names[s->label]);
    ole_json_integer(w, "n", s->rows);
    ole_json_number(w, "norm", s->norm);
    ole_json_number(w, "effective_rank", s->effective_rank);
    ole_json_open(w, "singular_values", '[');
    for (int64_t i = 0; i < s->count; i++)
        ole_json_number(w, NULL, s->sigma[i]);
    ole_json_close(w);
    ole_json_close(w);
}

static void print_json(const ole_analysis *a, const embedding *e) {
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
    json_spectrum(&w, "spectrum", &a->spectra.all, e);
    ole_json_open(&w, "per_class", '[');
    for (int64_t c = 0; c < a->spectra.classes; c++)
        json_spectrum(&w, NULL, &a->spectra.of[c], e);
    ole_json_close(&w);
    json_overlaps(&w, a->overlaps, a->overlap_count);
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
    printf("\n%-22s %8.6g   (%.6g - %.6g) / %" PRId64 "\n", "OLE loss", s->loss, s->class_term,
           s->global_norm, s->all.rows);
    printf("%-22s %8.2f   of a class %.2f\n", "effective rank", s->all.effective_rank,
           ole_class_rank(s));
}

static void print_text(const ole_analysis *a, const embedding *e) {
    printf("%-22s %8" PRId64, "rows", a->rows);
    if (a->ignored > 0) printf("   and %" PRId64 " ignored", a->ignored);
    printf("\n%-22s %8" PRId64 "\n%-22s %8" PRId64 "\n", "dimensions", a->dim, "classes",
           a->classes);
    print_errors(a);
    print_angles(&a->angles);
    print_spectra(&a->spectra);
    print_overlaps(e, a->overlaps, a->overlap_count);
}

/* ---- The page ----------------------------------------------------------------------------- */

static void headline(ole_page *page, const char *label, const char *format, double value,
                     const char *note) {
    char text[48];
    snprintf(text, sizeof text, format, value);
    ole_page_headline(page, label, text, note);
}

static void add_headlines(ole_page *page, const ole_analysis *a) {
    char note[96];
    const ole_feature_errors *e = &a->errors;
    snprintf(note, sizeof note, "%" PRId64 " %s", e->queries,
             a->tested ? "test rows" : "rows, each by all others");
    headline(page, "1-NN error", "%.2f %%", e->knn1, note);
    snprintf(note, sizeof note, "%.1f directions a class", e->directions);
    headline(page, "nearest-subspace error", "%.2f %%", e->subspace, note);
    if (a->angles.within.pairs > 0)
        headline(page, "angle inside classes", "%.1f°", a->angles.within.median, "median; OLÉ: 0°");
    if (a->angles.between.pairs > 0)
        headline(page, "angle between classes", "%.1f°", a->angles.between.median,
                 "median; OLÉ: 90°");
    snprintf(note, sizeof note, "(%.5g − %.5g) / %" PRId64, a->spectra.class_term,
             a->spectra.global_norm, a->rows);
    headline(page, "OLÉ loss", "%.4g", a->spectra.loss, note);
}

static void add_errors(ole_page *page, const ole_analysis *a) {
    static const char *const names[] = {"classifier", "error, %"};
    const ole_feature_errors *e = &a->errors;
    page_table table = {.columns = 2};
    char caption[160];
    page_table_print(&table, "1-NN, cosine");
    page_table_print(&table, "%.2f", e->knn1);
    page_table_print(&table, "%d-NN, cosine", e->k);
    page_table_print(&table, "%.2f", e->knn);
    page_table_print(&table, "nearest centroid, cosine");
    page_table_print(&table, "%.2f", e->centroid);
    page_table_print(&table, "nearest class subspace");
    page_table_print(&table, "%.2f", e->subspace);
    snprintf(caption, sizeof caption, "%s: %" PRId64 " of %" PRId64 " rows, by %" PRId64 " rows.",
             a->tested ? "Test set" : "Each row by all others", e->queries, e->of_queries,
             e->references);
    page_table_add(page, &table, names, caption);
}

static void add_angle_table(ole_page *page, const ole_analysis *a) {
    const char *names[2 + SUMMARY] = {"pairs", "number"};
    page_table table = {.columns = 2 + SUMMARY};
    for (int i = 0; i < SUMMARY; i++)
        names[2 + i] = summary[i].title;
    for (int r = 0; r < 2; r++) {
        const ole_angle_summary *s = r == 0 ? &a->angles.within : &a->angles.between;
        page_table_print(&table, "%s", r == 0 ? "inside a class" : "between classes");
        page_table_print(&table, "%" PRId64, s->pairs);
        for (int i = 0; i < SUMMARY; i++)
            if (s->pairs > 0)
                page_table_print(&table, "%.2f", summary_value(s, i));
            else
                page_table_print(&table, "–");
    }
    page_table_add(page, &table, names, "Angles in degrees.");
}

static void add_overlap_table(ole_page *page, const ole_analysis *a, const embedding *e) {
    static const char *const names[] = {"class", "class", "angle, degrees"};
    page_table table = {.columns = 3};
    for (int64_t i = 0; i < a->overlap_count && i < PAIRS_ON_PAGE; i++) {
        char room[LABEL_ROOM];
        page_table_print(&table, "%s", embedding_label(e, a->overlaps[i].label_a, room));
        page_table_print(&table, "%s", embedding_label(e, a->overlaps[i].label_b, room));
        page_table_print(&table, "%.2f", a->overlaps[i].angle);
    }
    if (table.count > 0) page_table_add(page, &table, names, "Classes that overlap most.");
}

/* A drawing, if there is one; the map is a figure only as a file, as the page has one to zoom. */
static void add_drawing(figure_output *p, const ole_analysis *a, ole_drawing_kind kind) {
    ole_drawing *drawing;
    ole_error error;
    if (p->failed) return;
    p->failed = ole_analysis_draw(&drawing, a, kind, &error) != OLE_OK;
    if (p->failed) fail_command("analyze", "%s", error.message);
    if (p->failed || !drawing) return;
    const ole_figure *figure = ole_drawing_figure(drawing);
    if (kind == OLE_DRAW_MAP)
        figure_output_save(p, figure, ole_drawing_name(drawing));
    else
        figure_output_add(p, figure, ole_drawing_name(drawing), ole_drawing_caption(drawing));
    ole_drawing_free(drawing);
}

/* --out and --figures; the exit code. */
static int write_page(const figure_options *options, const ole_analysis *a, const embedding *e,
                      const char *source) {
    figure_output p;
    char subtitle[320];
    if (!figures_requested(options)) return EXIT_DONE;
    snprintf(subtitle, sizeof subtitle,
             "%.200s: %" PRId64 " rows of %" PRId64 " dimensions, %" PRId64 " classes", source,
             a->rows, a->dim, a->classes);
    int code = figure_output_open(&p, "analyze", options, "Features", subtitle);
    if (code != EXIT_DONE) return code;
    add_headlines(p.page, a);
    ole_page_section(p.page, "Errors");
    add_errors(p.page, a);
    if (a->map) ole_page_section(p.page, "Map");
    ole_analysis_add_map(p.page, a, NULL, NULL);
    add_drawing(&p, a, OLE_DRAW_MAP);
    if (a->space) ole_page_section(p.page, "Features");
    add_drawing(&p, a, OLE_DRAW_SPACE);
    ole_page_section(p.page, "Angles");
    add_drawing(&p, a, OLE_DRAW_ANGLES);
    add_drawing(&p, a, OLE_DRAW_HISTOGRAM);
    add_angle_table(p.page, a);
    ole_page_section(p.page, "Singular values");
    add_drawing(&p, a, OLE_DRAW_SPECTRUM);
    add_drawing(&p, a, OLE_DRAW_CLASS_SPECTRA);
    ole_page_section(p.page, "Overlaps");
    add_drawing(&p, a, OLE_DRAW_OVERLAPS);
    add_overlap_table(p.page, a, e);
    return figure_output_close(&p);
}

/* ---- The command -------------------------------------------------------------------------- */

static int analyze(arguments *a, const embedding *e, const embedding *test) {
    const ole_embedding train_view = embedding_view(e), test_view = embedding_view(test);
    progress line = progress_start();
    if (a->test[0]) a->options.test = &test_view;
    if (e->names) {
        a->options.names = e->names;
        a->options.name_count = e->classes;
    }
    a->options.progress = progress_share;
    a->options.context = &line;
    ole_analysis analysis;
    ole_error error = {0};
    ole_status status = ole_analyze(&analysis, &train_view, &a->options, &error);
    progress_clear(&line);
    bool of_test = strncmp(error.message, "test ", 5) == 0;
    if (status != OLE_OK)
        return embedding_fail("analyze", of_test ? a->test[0] : a->features, &error);
    int code = write_page(&a->figures, &analysis, e, a->features);
    (a->json ? print_json : print_text)(&analysis, e); /* also where a picture failed */
    if (code == EXIT_DONE && !a->json) figure_output_tell(&a->figures, 22);
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
    if (opened && a.test[0])
        opened = embedding_open(&test, &reader, a.test[0], a.test[1]) &&
                 embedding_share_names(&e, &test, "analyze");
    code = opened ? analyze(&a, &e, &test) : EXIT_FAILED;
    embedding_close(&e);
    embedding_close(&test);
    return code;
}
