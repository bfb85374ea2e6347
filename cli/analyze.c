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
#include <math.h>
#include <stdio.h>
#include <string.h>

const char analyze_summary[] = "errors, angles, spectra and a map of features in .npy files";

enum { PAIRS = 5, PAIRS_ON_PAGE = 10, CELL = 48 };

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
    if (a->overlap_count == 0) return;
    printf("\nclasses that overlap most, by principal angle (90 degrees: orthogonal)\n");
    for (int64_t i = 0; i < a->overlap_count && i < PAIRS; i++) {
        char names[64], first[LABEL_ROOM], second[LABEL_ROOM];
        snprintf(names, sizeof names, "%.28s and %.28s",
                 embedding_label(e, a->overlaps[i].label_a, first),
                 embedding_label(e, a->overlaps[i].label_b, second));
        print_lines("  %-20s %8.2f\n", names, a->overlaps[i].angle);
    }
}

/* ---- The page ----------------------------------------------------------------------------- */

static void headline(figure_output *p, const char *label, const char *format, double value,
                     const char *note) {
    char text[CELL];
    snprintf(text, sizeof text, format, value);
    figure_output_headline(p, label, text, note);
}

static void add_headlines(figure_output *p, const ole_analysis *a) {
    char note[96];
    const ole_feature_errors *e = &a->errors;
    const char *how = a->tested ? "test rows" : "rows, each by all others";
    snprintf(note, sizeof note, "%" PRId64 " %s", e->queries, how);
    headline(p, "1-NN error", "%.2f %%", e->knn1, note);
    snprintf(note, sizeof note, "%.1f directions a class", e->directions);
    headline(p, "nearest-subspace error", "%.2f %%", e->subspace, note);
    if (a->angles.within.pairs > 0)
        headline(p, "angle inside classes", "%.1f°", a->angles.within.median, "median; OLÉ: 0°");
    if (a->angles.between.pairs > 0)
        headline(p, "angle between classes", "%.1f°", a->angles.between.median, "median; OLÉ: 90°");
    snprintf(note, sizeof note, "(%.5g − %.5g) / %" PRId64, a->spectra.class_term,
             a->spectra.global_norm, a->rows);
    headline(p, "OLÉ loss", "%.4g", a->spectra.loss, note);
}

static void add_errors(figure_output *p, const ole_analysis *a) {
    const ole_feature_errors *e = &a->errors;
    const struct {
        const char *name;
        double percent;
    } rows[] = {{"1-NN, cosine", e->knn1},
                {"", e->knn},
                {"nearest centroid, cosine", e->centroid},
                {"nearest class subspace", e->subspace}};
    static const char *const names[] = {"classifier", "error, %"};
    char text[4][2][CELL], caption[160];
    const char *cells[8];
    for (int i = 0; i < 4; i++) {
        snprintf(text[i][0], CELL, "%s", rows[i].name);
        if (i == 1) snprintf(text[i][0], CELL, "%d-NN, cosine", e->k);
        snprintf(text[i][1], CELL, "%.2f", rows[i].percent);
        cells[2 * i] = text[i][0];
        cells[2 * i + 1] = text[i][1];
    }
    snprintf(caption, sizeof caption, "%s: %" PRId64 " of %" PRId64 " rows, by %" PRId64 " rows.",
             a->tested ? "Test set" : "Each row by all others", e->queries, e->of_queries,
             e->references);
    figure_output_table(p, caption, 4, 2, names, cells);
}

static void add_angle_table(figure_output *p, const ole_analysis *a) {
    static const char *const names[] = {"pairs", "number", "mean", "least", "5 %",
                                        "25 %",  "median", "75 %", "95 %",  "most"};
    enum { COLUMNS = sizeof names / sizeof *names };
    const ole_angle_summary *of[] = {&a->angles.within, &a->angles.between};
    char text[2][COLUMNS][CELL];
    const char *cells[2 * COLUMNS];
    for (int r = 0; r < 2; r++) {
        const ole_angle_summary *s = of[r];
        const double values[] = {s->mean,   s->minimum, s->q05, s->q25,
                                 s->median, s->q75,     s->q95, s->maximum};
        snprintf(text[r][0], CELL, "%s", r == 0 ? "inside a class" : "between classes");
        snprintf(text[r][1], CELL, "%" PRId64, s->pairs);
        for (int c = 2; c < COLUMNS; c++)
            snprintf(text[r][c], CELL, s->pairs > 0 ? "%.2f" : "–", values[c - 2]);
        for (int c = 0; c < COLUMNS; c++)
            cells[r * COLUMNS + c] = text[r][c];
    }
    figure_output_table(p, "Angles in degrees.", 2, COLUMNS, names, cells);
}

static void add_overlap_table(figure_output *p, const ole_analysis *a, const embedding *e) {
    static const char *const names[] = {"class", "class", "angle, degrees"};
    char text[PAIRS_ON_PAGE][3][CELL];
    const char *cells[3 * PAIRS_ON_PAGE];
    int64_t rows = a->overlap_count < PAIRS_ON_PAGE ? a->overlap_count : PAIRS_ON_PAGE;
    for (int64_t i = 0; i < rows; i++) {
        cells[3 * i] = embedding_label(e, a->overlaps[i].label_a, text[i][0]);
        cells[3 * i + 1] = embedding_label(e, a->overlaps[i].label_b, text[i][1]);
        snprintf(text[i][2], CELL, "%.2f", a->overlaps[i].angle);
        cells[3 * i + 2] = text[i][2];
    }
    if (rows > 0) figure_output_table(p, "Classes that overlap most.", rows, 3, names, cells);
}

static void add_drawing(figure_output *p, const ole_analysis *a, ole_drawing_kind kind) {
    ole_drawing *drawing;
    ole_error error;
    if (p->failed) return;
    if (ole_analysis_draw(&drawing, a, kind, &error) != OLE_OK) {
        fail_command(p->command, "%s", error.message);
        p->failed = true;
        return;
    }
    if (!drawing) return;
    figure_output_add(p, ole_drawing_figure(drawing), ole_drawing_name(drawing),
                      ole_drawing_caption(drawing));
    ole_drawing_free(drawing);
}

/* The map: one to pan and zoom on the page, a plain figure in the folder. */
static void add_map(figure_output *p, const ole_analysis *a) {
    if (!a->map) return;
    figure_output_section(p, "Map");
    if (p->page) ole_analysis_add_map(p->page, a, NULL, NULL);
    figure_output files = *p;
    files.page = NULL;
    add_drawing(&files, a, OLE_DRAW_MAP);
    p->failed = files.failed;
}

/* --out and --figures; the exit code. */
static int write_page(const figure_options *options, const ole_analysis *a, const embedding *e,
                      const char *source) {
    figure_output p;
    char subtitle[320];
    snprintf(subtitle, sizeof subtitle,
             "%.200s: %" PRId64 " rows of %" PRId64 " dimensions, %" PRId64 " classes", source,
             a->rows, a->dim, a->classes);
    int code = figure_output_open(&p, "analyze", options, "Features", subtitle);
    if (code != EXIT_DONE) return code;
    add_headlines(&p, a);
    figure_output_section(&p, "Errors");
    add_errors(&p, a);
    add_map(&p, a);
    if (a->space) figure_output_section(&p, "Features");
    add_drawing(&p, a, OLE_DRAW_SPACE);
    figure_output_section(&p, "Angles");
    add_drawing(&p, a, OLE_DRAW_ANGLES);
    add_drawing(&p, a, OLE_DRAW_HISTOGRAM);
    add_angle_table(&p, a);
    figure_output_section(&p, "Singular values");
    add_drawing(&p, a, OLE_DRAW_SPECTRUM);
    add_drawing(&p, a, OLE_DRAW_CLASS_SPECTRA);
    figure_output_section(&p, "Overlaps");
    add_drawing(&p, a, OLE_DRAW_OVERLAPS);
    add_overlap_table(&p, a, e);
    return figure_output_close(&p);
}

/* ---- The command -------------------------------------------------------------------------- */

/* "F.npy: " before a message about a row. */
static int fail_analysis(const arguments *a, const ole_error *error) {
    bool is_data = error->status == OLE_ERROR_DATA;
    bool of_test = strncmp(error->message, "test ", 5) == 0;
    return fail_command("analyze", "%s%s%s", is_data ? of_test ? a->test[0] : a->features : "",
                        is_data ? ": " : "", error->message);
}

static int analyze(arguments *a, const embedding *e, const embedding *test) {
    const ole_embedding train_view = embedding_view(e), test_view = embedding_view(test);
    progress line = progress_start();
    if (a->test[0]) a->options.test = &test_view;
    a->options.progress = progress_share;
    a->options.context = &line;
    ole_analysis analysis;
    ole_error error;
    ole_status status = ole_analyze(&analysis, &train_view, &a->options, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_analysis(a, &error);
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
