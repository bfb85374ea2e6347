/*
 * cli/analyze.c - `ole analyze`: everything about an embedding, as text, JSON, figures and a page.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/figure_output.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "base/sort.h"
#include "formats/json.h"
#include "report/drawing.h"

#include <inttypes.h>
#include <limits.h>
#include <ole/npy.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char analyze_summary[] = "measure how well features separate classes, and draw a page";

enum { PAIRS_ON_PAGE = 10 };

typedef struct arguments {
    const char *features, *labels;
    const char *test[2];    /* NULL: each row is left out in turn */
    const char *classifier; /* "W.npy" or "W.npy,b.npy"; NULL: none */
    int sample;             /* 0: not given */
    bool exact, no_tsne, json, k_given;
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
        {"classifier", OLE_TEXT, &a->classifier, "W.npy[,b.npy]",
         .help = "weights [classes, dimensions] and bias of a linear classifier, its classes in "
                 "the order of the labels: measures how far it has collapsed with the features"},
        {"k", OLE_INTEGER, &a->options.k, "K", .given = &a->k_given, .help = "neighbours of k-NN",
         .min = 1, .max = 1000},
        {"energy", OLE_NUMBER, &a->options.energy, "X",
         .help = "share of a class's energy that its subspace holds", .min = 1e-6, .max = 1.0},
        {"sample", OLE_INTEGER, &a->sample, "N",
         .help = "use at most N rows to classify, compare and map", .min = 10, .max = 1e9},
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
        .about =
            "Measures how well features separate their classes: errors of nearest neighbours,\n"
            "centroids and class subspaces, angles within and between classes, singular\n"
            "values, the OLE loss, overlapping classes, neural collapse, retrieval (MAP@R,\n"
            "R-precision, recall@k), and a t-SNE map. Spectra and overlaps use all rows;\n"
            "comparisons of rows use a sample of large files and print its size.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    if (a->exact && a->sample) {
        fail_command("analyze", "--sample %d cannot be combined with --exact, which uses all rows",
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
    ole_json_object(
        w, "errors", J("protocol", a->tested ? "test" : "leave-one-out"), J("n", a->errors.queries),
        J("of", a->errors.of_queries), J("references", a->errors.references),
        J("knn1_error", a->errors.knn1), J("k", a->errors.k), J("knn_error", a->errors.knn),
        J("centroid_error", a->errors.centroid), J("subspace_error", a->errors.subspace),
        J("subspace_directions", a->errors.directions));
}

/* The numbers that sum up the angles of pairs. */
static const struct {
    const char *key, *title;
    size_t offset;
} summary[] = {
    {"mean", "mean", offsetof(ole_angle_summary, mean)},
    {"min", "lowest", offsetof(ole_angle_summary, minimum)},
    {"q05", "5 %", offsetof(ole_angle_summary, q05)},
    {"q25", "25 %", offsetof(ole_angle_summary, q25)},
    {"median", "median", offsetof(ole_angle_summary, median)},
    {"q75", "75 %", offsetof(ole_angle_summary, q75)},
    {"q95", "95 %", offsetof(ole_angle_summary, q95)},
    {"max", "highest", offsetof(ole_angle_summary, maximum)},
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
    ole_json_integers(w, "histogram", bins, OLE_ANGLE_BINS);
    ole_json_close(w);
}

static void json_spectrum(ole_json *w, const char *key, const ole_row_spectrum *s,
                          const embedding *e) {
    ole_json_open(w, key, '{');
    if (s->label >= 0) ole_json_integer(w, "label", s->label);
    if (s->label >= 0 && e->names) ole_json_string(w, "name", e->names[s->label]);
    ole_json_put(w, J("n", s->rows), J("norm", s->norm), J("effective_rank", s->effective_rank));
    ole_json_numbers(w, "singular_values", s->sigma, s->count);
    ole_json_close(w);
}

/* ---- The classifier ----------------------------------------------------------------------- */

/* A file of --classifier as floats of this shape (`columns` 0: [rows]); NULL after an error. */
static float *read_weights(const char *path, int64_t rows, int64_t columns) {
    ole_npy *file;
    ole_error error;
    if (ole_npy_open(&file, path, &error) != OLE_OK) {
        fail_command("analyze", "%s", error.message);
        return NULL;
    }
    const ole_npy_header *h = ole_npy_get_header(file);
    bool fits =
        h->ndim == (columns ? 2 : 1) && h->shape[0] == rows && (!columns || h->shape[1] == columns);
    float *values = fits ? malloc((size_t)(h->count + 1) * sizeof *values) : NULL;
    if (!fits) {
        char has[OLE_SHAPE_ROOM], wants[OLE_SHAPE_ROOM];
        const int64_t shape[] = {rows, columns};
        fail_command("analyze", "%s: the shape is %s; expected %s, for the classes and dimensions",
                     path, ole_shape_text(has, h->ndim, h->shape),
                     ole_shape_text(wants, columns ? 2 : 1, shape));
    } else if (!values) {
        fail_command("analyze", "out of memory for a classifier");
    } else if (ole_npy_read(file, OLE_F32, values, &error) != OLE_OK) {
        fail_command("analyze", "%s: %s", path, error.message);
        free(values);
        values = NULL;
    }
    ole_npy_close(file);
    return values;
}

/* Distinct labels that are not negative; -1 without memory. */
static int64_t count_classes(const embedding *e) {
    int64_t *sorted = malloc((size_t)(e->rows + 1) * sizeof *sorted), count = 0;
    if (!sorted) return -1;
    for (int64_t i = 0; i < e->rows; i++)
        if (e->labels[i] >= 0) sorted[count++] = e->labels[i];
    count = ole_distinct(sorted, count);
    free(sorted);
    return count;
}

/* Reads both files; false after an error.  Free weight and bias. */
static bool open_classifier(const char *paths, const embedding *e, ole_linear_classifier *c) {
    char weight[PATH_MAX];
    const char *comma = strrchr(paths, ',');
    snprintf(weight, sizeof weight, "%.*s", comma ? (int)(comma - paths) : (int)strlen(paths),
             paths);
    *c = (ole_linear_classifier){.classes = count_classes(e), .dim = e->dim};
    if (c->classes < 0) return refuse("analyze", "out of memory for the labels");
    c->weight = read_weights(weight, c->classes, e->dim);
    if (c->weight && comma) c->bias = read_weights(comma + 1, c->classes, 0);
    return c->weight && (c->bias || !comma);
}

/* ---- Collapse and retrieval --------------------------------------------------------------- */

/* The measures in the order of a report; those of a classifier last. */
static const struct {
    const char *key, *title, *note;
    size_t offset;
} collapses[] = {
    {"nc1", "NC1", "variance within classes over variance between", offsetof(ole_collapse, nc1)},
    {"nc2_norms", "NC2, norms", "deviation of the lengths of class means, over their mean",
     offsetof(ole_collapse, nc2_norms)},
    {"nc2_cosines", "NC2, cosines", "deviation of the cosines of class means",
     offsetof(ole_collapse, nc2_cosines)},
    {"nc2_simplex", "NC2, simplex", "mean distance of these cosines from -1/(C-1)",
     offsetof(ole_collapse, nc2_simplex)},
    {"mean_cosine", "cosine of means", "of classes, not centred; OLE: 0",
     offsetof(ole_collapse, mean_cosine)},
    {"nc3", "NC3", "distance of the classifier from the class means", offsetof(ole_collapse, nc3)},
    {"nc4", "NC4, %", "rows that the classifier and the nearest mean judge differently",
     offsetof(ole_collapse, nc4)},
    {"angle_mean", "w to subspace", "degrees, classifier vector to its class; OLE: 0",
     offsetof(ole_collapse, angle_mean)},
    {"angle_most", "w to subspace, most", "degrees", offsetof(ole_collapse, angle_most)},
};
enum { COLLAPSES = sizeof collapses / sizeof *collapses, WITHOUT_CLASSIFIER = 5 };

static double collapse_value(const ole_analysis *a, int i) {
    return *(const double *)((const char *)&a->collapse + collapses[i].offset);
}

static int collapse_count(const ole_analysis *a) {
    return a->collapse.angle ? COLLAPSES : WITHOUT_CLASSIFIER;
}

static void json_collapse(ole_json *w, const ole_analysis *a) {
    ole_json_open(w, "collapse", '{');
    for (int i = 0; i < collapse_count(a); i++)
        ole_json_number(w, collapses[i].key, collapse_value(a, i));
    if (a->collapse.angle) ole_json_numbers(w, "angles", a->collapse.angle, a->collapse.classes);
    ole_json_close(w);
}

static void json_retrieval(ole_json *w, const ole_retrieval *r) {
    ole_json_open(w, "retrieval", '{');
    ole_json_put(w, J("n", r->queries), J("of", r->of_queries), J("map_at_r", r->map_at_r),
                 J("r_precision", r->r_precision));
    ole_json_open(w, "recall", '{');
    for (int i = 0; i < OLE_RECALLS; i++) {
        ole_json_number(w, ole_printed("%d", r->k[i]).text, r->recall[i]);
    }
    ole_json_close(w);
    ole_json_close(w);
}

static void print_collapse(const ole_analysis *a) {
    printf("\nneural collapse%14s0: collapsed\n", "");
    for (int i = 0; i < collapse_count(a); i++)
        printf("  %-20s %8.4g   %s\n", collapses[i].title, collapse_value(a, i), collapses[i].note);
}

static void print_retrieval(const ole_retrieval *r) {
    printf("\nretrieval, %%%12s%" PRId64 " queries", "", r->queries);
    if (r->queries < r->of_queries) printf(" of %" PRId64, r->of_queries);
    printf("\n  %-20s %8.2f\n  %-20s %8.2f\n", "MAP@R", r->map_at_r, "R-precision", r->r_precision);
    for (int i = 0; i < OLE_RECALLS; i++)
        printf("  recall@%-13d %8.2f\n", r->k[i], r->recall[i]);
}

static void add_collapse(ole_page *page, const ole_analysis *a) {
    static const char *const names[] = {"measure", "value", "what it is"};
    ole_text_table table = {.columns = 3, .names = names};
    for (int i = 0; i < collapse_count(a); i++)
        ole_text_table_row(&table, "%s|%.4g|%s", collapses[i].title, collapse_value(a, i),
                           collapses[i].note);
    ole_text_table_add_to_page(
        &table, page, "0: collapsed, each feature at its class mean and the means a simplex.");
}

static void add_retrieval(ole_page *page, const ole_retrieval *r) {
    static const char *const names[] = {"measure", "%"};
    ole_text_table table = {.columns = 2, .names = names};
    ole_text_table_row(&table, "MAP@R|%.2f", r->map_at_r);
    ole_text_table_row(&table, "R-precision|%.2f", r->r_precision);
    for (int i = 0; i < OLE_RECALLS; i++)
        ole_text_table_row(&table, "recall@%d|%.2f", r->k[i], r->recall[i]);
    ole_text_table_add_to_page(
        &table, page,
        "Each row queries for the others of its class, by cosine; R is their number.");
}

/* ---- All of it as JSON ------------------------------------------------------------------- */

static void print_json(const ole_analysis *a, const embedding *e) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("n", a->rows), J("ignored", a->ignored), J("d", a->dim),
                 J("classes", a->classes));
    json_errors(&w, a);
    ole_json_open(&w, "angles", '{');
    ole_json_put(&w, J("n", a->angles.rows), J("of", a->angles.of_rows),
                 J("zeros", a->angles.zeros));
    json_angles_of(&w, "within", &a->angles.within, a->angles.within_bins);
    json_angles_of(&w, "between", &a->angles.between, a->angles.between_bins);
    ole_json_close(&w);
    ole_json_put(&w, J("loss", a->spectra.loss), J("class_term", a->spectra.class_term),
                 J("global_norm", a->spectra.global_norm));
    json_spectrum(&w, "spectrum", &a->spectra.all, e);
    ole_json_open(&w, "per_class", '[');
    for (int64_t c = 0; c < a->spectra.classes; c++)
        json_spectrum(&w, NULL, &a->spectra.of[c], e);
    ole_json_close(&w);
    json_overlaps(&w, a->overlaps, a->overlap_count);
    if (a->classes > 1) json_collapse(&w, a);
    json_retrieval(&w, &a->retrieval);
    if (a->map) ole_json_object(&w, "map", J("n", a->points), J("kl", a->kl));
    ole_json_close(&w);
}

/* ---- Text --------------------------------------------------------------------------------- */

static void print_errors(const ole_analysis *a) {
    const ole_feature_errors *e = &a->errors;
    printf("\nerror, %%%16s", "");
    if (a->tested)
        printf("%" PRId64 " test rows, compared with %" PRId64, e->queries, e->references);
    else
        printf("leave-one-out, %" PRId64 " rows", e->queries);
    if (e->queries < e->of_queries) printf(" drawn from %" PRId64, e->of_queries);
    printf("\n  %-20s %8.2f\n", "1-NN (cosine)", e->knn1);
    if (e->k > 1) printf("  %-20s %8.2f\n", ole_printed("%d-NN (cosine)", e->k).text, e->knn);
    printf("  %-20s %8.2f\n", "nearest centroid", e->centroid);
    printf("  %-20s %8.2f   %.1f directions per class\n", "nearest subspace", e->subspace,
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
        printf("   excluding %" PRId64 " row%s of zeros", a->zeros, a->zeros > 1 ? "s" : "");
    printf("\n");
    print_angle_row("within classes", &a->within);
    print_angle_row("between classes", &a->between);
}

static void print_spectra(const ole_spectra *s) {
    printf("\n%-22s %8.6g   (%.6g - %.6g) / %" PRId64 "\n", "OLE loss", s->loss, s->class_term,
           s->global_norm, s->all.rows);
    printf("%-22s %8.2f   per class %.2f\n", "effective rank", s->all.effective_rank,
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
    if (a->classes > 1) print_collapse(a);
    print_retrieval(&a->retrieval);
}

/* ---- The page ----------------------------------------------------------------------------- */

static void add_headlines(ole_page *page, const ole_analysis *a) {
    const ole_feature_errors *e = &a->errors;
    const ole_angle_summary *within = &a->angles.within, *between = &a->angles.between;
    ole_page_headline(
        page, "1-NN error", ole_printed("%.2f %%", e->knn1).text,
        ole_printed("%" PRId64 " %s", e->queries, a->tested ? "test rows" : "rows, leave-one-out")
            .text);
    ole_page_headline(page, "nearest-subspace error", ole_printed("%.2f %%", e->subspace).text,
                      ole_printed("%.1f directions per class", e->directions).text);
    if (within->pairs > 0)
        ole_page_headline(page, "angle within classes", ole_printed("%.1f°", within->median).text,
                          "median; OLÉ: 0°");
    if (between->pairs > 0)
        ole_page_headline(page, "angle between classes", ole_printed("%.1f°", between->median).text,
                          "median; OLÉ: 90°");
    ole_page_headline(page, "OLÉ loss", ole_printed("%.4g", a->spectra.loss).text,
                      ole_printed("(%.5g − %.5g) / %" PRId64, a->spectra.class_term,
                                  a->spectra.global_norm, a->rows)
                          .text);
}

static void add_errors(ole_page *page, const ole_analysis *a) {
    static const char *const names[] = {"classifier", "error, %"};
    const ole_feature_errors *e = &a->errors;
    ole_text_table table = {.columns = 2, .names = names};
    ole_text_table_row(&table, "1-NN, cosine|%.2f", e->knn1);
    ole_text_table_row(&table, "%d-NN, cosine|%.2f", e->k, e->knn);
    ole_text_table_row(&table, "nearest centroid, cosine|%.2f", e->centroid);
    ole_text_table_row(&table, "nearest class subspace|%.2f", e->subspace);
    ole_text_table_add_to_page(&table, page,
                               ole_printed("%s: %" PRId64 " of %" PRId64
                                           " rows, compared with %" PRId64 " rows.",
                                           a->tested ? "Test set" : "Leave-one-out", e->queries,
                                           e->of_queries, e->references)
                                   .text);
}

static void add_angle_table(ole_page *page, const ole_analysis *a) {
    const char *names[2 + SUMMARY] = {"pairs", "count"};
    ole_text_table table = {.columns = 2 + SUMMARY, .names = names};
    for (int i = 0; i < SUMMARY; i++)
        names[2 + i] = summary[i].title;
    for (int r = 0; r < 2; r++) {
        const ole_angle_summary *s = r == 0 ? &a->angles.within : &a->angles.between;
        ole_text_table_add(&table, r == 0 ? "within classes" : "between classes");
        ole_text_table_add(&table, "%" PRId64, s->pairs);
        for (int i = 0; i < SUMMARY; i++)
            if (s->pairs > 0)
                ole_text_table_add(&table, "%.2f", summary_value(s, i));
            else
                ole_text_table_add(&table, "–");
    }
    ole_text_table_add_to_page(&table, page, "Angles in degrees.");
}

static void add_overlap_table(ole_page *page, const ole_analysis *a, const embedding *e) {
    static const char *const names[] = {"class", "class", "angle, degrees"};
    ole_text_table table = {.columns = 3, .names = names};
    for (int64_t i = 0; i < a->overlap_count && i < PAIRS_ON_PAGE; i++) {
        char room[2][LABEL_ROOM];
        ole_text_table_row(
            &table, "%s|%s|%.2f", embedding_label(e, a->overlaps[i].label_a, room[0]),
            embedding_label(e, a->overlaps[i].label_b, room[1]), a->overlaps[i].angle);
    }
    ole_text_table_add_to_page(&table, page, "The classes that overlap most.");
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
    if (!figures_requested(options)) return EXIT_DONE;
    int code = figure_output_open(&p, "analyze", options, "Features",
                                  ole_printed("%.200s: %" PRId64 " rows of %" PRId64
                                              " dimensions, %" PRId64 " classes",
                                              source, a->rows, a->dim, a->classes)
                                      .text);
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
    ole_page_section(p.page, "Neural collapse");
    if (a->classes > 1) add_collapse(p.page, a);
    ole_page_section(p.page, "Retrieval");
    add_retrieval(p.page, &a->retrieval);
    return figure_output_close(&p);
}

/* ---- The command -------------------------------------------------------------------------- */

static int analyze(const arguments *a, const embedding *e, const embedding *test) {
    const ole_embedding train_view = embedding_view(e), test_view = embedding_view(test);
    progress line = progress_start();
    ole_analyze_options options = a->options;
    if (a->test[0]) options.test = &test_view;
    if (e->names) {
        options.names = e->names;
        options.name_count = e->classes;
    }
    options.progress = progress_share;
    options.context = &line;
    ole_analysis analysis;
    ole_linear_classifier classifier = {0};
    ole_error error = {0};
    if (a->classifier) {
        if (!open_classifier(a->classifier, e, &classifier)) {
            free((float *)classifier.weight);
            return EXIT_FAILED;
        }
        options.classifier = &classifier;
    }
    ole_status status = ole_analyze(&analysis, &train_view, &options, &error);
    progress_clear(&line);
    free((float *)classifier.weight);
    free((float *)classifier.bias);
    bool of_test = strncmp(error.message, "test ", 5) == 0;
    if (status != OLE_OK)
        return embedding_fail("analyze", of_test ? a->test[0] : a->features, &error);
    int code = write_page(&a->figures, &analysis, e, a->features);
    (a->json ? print_json : print_text)(&analysis, e); /* also where a picture failed */
    if (code == EXIT_DONE && !a->json) figure_output_tell(&a->figures, 22);
    ole_analysis_free(&analysis);
    return code;
}

/* Whether the rows that count are of two classes or more. */
static bool check_classes(const embedding *e, const char *label_path) {
    int64_t first = -1;
    for (int64_t i = 0; i < e->rows; i++) {
        if (e->labels[i] < 0) continue;
        if (first >= 0 && e->labels[i] != first) return true;
        first = e->labels[i];
    }
    char room[LABEL_ROOM];
    return refuse("analyze", "%s: all rows have the label %s; at least two classes are needed",
                  label_path, embedding_label(e, first, room));
}

/* Whether there are as many neighbours as requested; by default all that there are will do. */
static bool check_neighbours(const arguments *a, const embedding *e) {
    int64_t others = a->test[0] ? 0 : -1; /* no row is its own neighbour */
    for (int64_t i = 0; i < e->rows; i++)
        others += e->labels[i] >= 0;
    if (!a->k_given || a->options.k <= others) return true;
    return refuse("analyze",
                  "--k %d: %s has %" PRId64 " %srows to be neighbours; give at most that",
                  a->options.k, a->features, others, a->test[0] ? "" : "other ");
}

/* Whether each test row has a class to be found in. */
static bool check_test_classes(const arguments *a, const embedding *e, const embedding *test) {
    size_t rows = (size_t)e->rows;
    int64_t *known = malloc(rows * sizeof *known);
    if (!known) return refuse("analyze", "out of memory for labels");
    memcpy(known, e->labels, rows * sizeof *known);
    qsort(known, rows, sizeof *known, ole_by_rising_integer);
    int64_t i = test->dim == e->dim ? 0 : test->rows; /* which is explained later */
    while (i < test->rows && (test->labels[i] < 0 || bsearch(&test->labels[i], known, rows,
                                                             sizeof *known, ole_by_rising_integer)))
        i++;
    free(known);
    if (i == test->rows) return true;
    char room[LABEL_ROOM];
    return refuse("analyze", "%s: row %" PRId64 " has the label '%s', which no row of %s has",
                  a->test[1], i, embedding_label(e, test->labels[i], room), a->labels);
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
                 embedding_share_names(&e, &test, "analyze") && check_test_classes(&a, &e, &test);
    opened = opened && check_classes(&e, a.labels) && check_neighbours(&a, &e);
    code = opened ? analyze(&a, &e, &test) : EXIT_FAILED;
    embedding_close(&e);
    embedding_close(&test);
    return code;
}
