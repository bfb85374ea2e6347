/*
 * cli/tsne.c - `ole tsne`: a map of features in the plane, as .npy and as a figure.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/sort.h"
#include "formats/json.h"
#include "report/drawing.h"
#include <ole/tsne.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char tsne_summary[] = "map features to the plane (Barnes-Hut t-SNE)";

enum {
    NEIGHBOURS = 5,     /* of trustworthiness */
    MOST_GROUPS = 100,  /* labels with colours of their own in a figure */
    OFTEN_FROM = 20000, /* rows whose steps are slow */
};

typedef struct arguments {
    const char *features, *labels, *start;
    const char *out, *preview, *figure;
    ole_tsne_options tsne;
    bool quality, json;
} arguments;

/* A map under way, and then done. */
typedef struct job {
    const arguments *a;
    const embedding *e;
    double *map;      /* [rows, 2] */
    ole_keyed *order; /* [rows], by label; NULL: nothing is drawn */
    int64_t groups;   /* different labels */
    double kl, exact_kl, trustworthiness, seconds;
    progress line;
    double began, previewed;
    bool failed;         /* a preview could not be written, and the reason was printed */
    bool written, drawn; /* map and figure are in their files */
} job;

/* ---- The command line --------------------------------------------------------------------- */

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), part = strlen(end);
    return length >= part && strcasecmp(path + length - part, end) == 0;
}

static bool is_picture(const char *path) {
    return ends_in(path, ".svg") || ends_in(path, ".pdf") || ends_in(path, ".png");
}

/* Names that would fail only after all the work; false after a message. */
static bool check_outputs(const arguments *a) {
    const char *inputs[] = {a->features, a->labels, a->start};
    const char *outputs[] = {a->out, a->preview, a->figure};
    if (a->figure && !is_picture(a->figure))
        return refuse("tsne", "--figure %s: the name must end in .svg, .pdf or .png", a->figure);
    if (a->preview && !is_picture(a->preview) && !ends_in(a->preview, ".npy"))
        return refuse("tsne", "--preview %s: the name must end in .npy, .svg, .pdf or .png",
                      a->preview);
    return spares_inputs("tsne", outputs, 3, inputs, 3) && takes_array("tsne", a->out);
}

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){0};
    ole_tsne_options *o = &a->tsne;
    ole_tsne_options_init(o);
    o->threads = default_threads();
    const arg_positional positionals[] = {
        FEATURES_POSITIONAL(&a->features),
        {0},
    };
    const ole_option options[] = {
        {"out", OLE_TEXT, &a->out, "Y.npy", .heading = "Files", .flags = OLE_REQUIRED,
         .help = "the map to write, float64 [rows, 2]"},
        {"labels", OLE_TEXT, &a->labels, "L.npy", .help = "labels [rows] that colour the figure"},
        {"figure", OLE_TEXT, &a->figure, "FILE", .help = "draw the map as .svg, .pdf or .png"},
        {"preview", OLE_TEXT, &a->preview, "FILE",
         .help = "write the unfinished map once a second, as .npy, .svg, .pdf or .png"},
        {"perplexity", OLE_NUMBER, &o->perplexity, "X", .heading = "Map",
         .help = "effective number of neighbours, at most rows / 3", .min = 1.0, .max = 1e6},
        {"theta", OLE_NUMBER, &o->theta, "X", .help = "accuracy, from 0 (all pairs) to 1 (coarse)",
         .max = 1.0},
        {"iterations", OLE_INTEGER, &o->iterations, "N", .help = "gradient steps", .max = 1e9},
        {"exaggeration", OLE_NUMBER, &o->exaggeration, "X",
         .help = "exaggeration in the first 250 steps", .min = 1.0, .max = 1e6},
        {"learning-rate", OLE_NUMBER, &o->learning_rate, "X",
         .help = "step size (default auto: rows / exaggeration / 4, at least 50)", .min = 1e-9,
         .max = 1e9, .special = "auto"},
        {"pca", OLE_INTEGER, &o->pca, "N",
         .help = "principal components to keep; 0: all dimensions", .max = 1e6},
        {"start", OLE_TEXT, &a->start, "S.npy", .help = "initial map, [rows, 2] (default: random)"},
        {"seed", OLE_SEED, &o->seed, "N", .help = "random seed"},
        THREADS_OPTION(&o->threads),
        {"quality", OLE_SWITCH, &a->quality,
         .help = "measure the exact KL divergence and the trustworthiness; time grows with rows "
                 "squared"},
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "tsne",
        .summary = tsne_summary,
        .example = "  $ ole tsne features.npy --out map.npy\n"
                   "  $ ole tsne features.npy --labels labels.npy --out map.npy --figure map.svg\n",
        .about = "Places the rows in the plane so that neighbours stay neighbours: principal\n"
                 "components, exact nearest neighbours, then Barnes-Hut t-SNE. The same seed\n"
                 "gives the same map. For more than about 100,000 rows, use a sample.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    return check_outputs(a);
}

/* ---- The figure --------------------------------------------------------------------------- */

/* Rises with the label, which may be negative. */
static uint64_t label_key(const embedding *e, int64_t row) {
    return e->labels ? (uint64_t)e->labels[row] + INT64_MAX + 1 : 0;
}

/* Orders the rows by label, for figures; warns of more labels than a figure has colours. */
static bool order_rows(job *j) {
    const arguments *a = j->a;
    const embedding *e = j->e;
    if (!a->figure && !(a->preview && is_picture(a->preview))) return true;
    j->order = malloc((size_t)e->rows * sizeof *j->order);
    if (!j->order) return false;
    for (int64_t i = 0; i < e->rows; i++)
        j->order[i] = (ole_keyed){label_key(e, i), i};
    qsort(j->order, (size_t)e->rows, sizeof *j->order, ole_by_key);
    j->groups = 1;
    for (int64_t i = 1; i < e->rows; i++)
        j->groups += j->order[i].key != j->order[i - 1].key;
    if (j->groups > MOST_GROUPS)
        tell_command("tsne",
                     "warning: %s has %" PRId64
                     " labels; a figure distinguishes up to %d, so all points get one colour",
                     a->labels, j->groups, MOST_GROUPS);
    return true;
}

static ole_status draw(const job *j, const double *map, const char *path, ole_error *error) {
    const embedding *e = j->e;
    double *points = malloc((size_t)e->rows * 2 * sizeof *points);
    int64_t *labels = malloc((size_t)e->rows * sizeof *labels);
    ole_status status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the figure");
    for (int64_t i = 0; points && labels && i < e->rows; i++) {
        memcpy(points + 2 * i, map + 2 * j->order[i].row, 2 * sizeof *points);
        labels[i] = e->labels ? e->labels[j->order[i].row] : 0;
    }
    const ole_analysis drawn = {.rows = e->rows,
                                .points = e->rows,
                                .map = points,
                                .point_labels = labels,
                                .classes = e->labels ? j->groups : MOST_GROUPS + 1, /* no groups */
                                .names = e->names,
                                .name_count = e->classes};
    ole_drawing *drawing = NULL;
    if (points && labels) status = ole_analysis_draw(&drawing, &drawn, OLE_DRAW_MAP, error);
    if (status == OLE_OK) status = ole_figure_save(ole_drawing_figure(drawing), path, error);
    ole_drawing_free(drawing);
    free(points);
    free(labels);
    return status;
}

/* The map as the name says: numbers, or a figure. */
static ole_status write_map(const job *j, const double *map, const char *path, ole_error *error) {
    if (is_picture(path)) return draw(j, map, path, error);
    return write_array(path, OLE_F64, j->e->rows, 2, map, "y", error);
}

/* ---- Making the map ------------------------------------------------------------------------- */

static void preview(job *j, const ole_tsne_progress *p) {
    double now = ole_clock();
    ole_error error;
    if (!p->map || now - j->previewed < 1.0) return;
    if (write_map(j, p->map, j->a->preview, &error) != OLE_OK) {
        progress_clear(&j->line);
        fail_command("tsne", "%s", error.message);
        j->failed = true;
    }
    j->previewed = ole_clock();
}

static bool on_progress(void *context, const ole_tsne_progress *p) {
    job *j = context;
    if (progress_due(&j->line)) {
        double done = ole_clock() - j->began;
        if (p->map && p->iteration)
            progress_show(&j->line, "%s step %d of %d  KL %.4f  %s left", bar_text(p->share).text,
                          p->iteration, p->iterations, p->kl,
                          duration_text(done * (1.0 - p->share) / p->share).text);
        else
            progress_show(&j->line, "%s %s", bar_text(p->share).text, p->stage);
    }
    if (j->a->preview) preview(j, p);
    return interrupted() || j->failed;
}

/* The start from its file; false after an error that was printed. */
static bool open_start(const job *j, embedding *start) {
    const embedding_reader reader = {.command = "tsne", .dtype = DTYPE_FLOAT64};
    if (!embedding_open(start, &reader, j->a->start, NULL)) return false;
    if (start->rows == j->e->rows && start->dim == 2) return true;
    return refuse("tsne",
                  "%s: the initial map must have shape (%" PRId64 ", 2), one point per row of %s",
                  j->a->start, j->e->rows, j->a->features);
}

/* KL and trustworthiness of the map against the features as t-SNE saw them.  Neither can be stopped
 * within: Ctrl-C is heard between them. */
static ole_status measure(job *j, ole_error *error) {
    const embedding *e = j->e;
    int64_t least = e->rows < e->dim ? e->rows : e->dim;
    int64_t components = j->a->tsne.pca > 0 && j->a->tsne.pca < least ? j->a->tsne.pca : 0;
    const void *x = e->features;
    int64_t dim = e->dim;
    ole_dtype dtype = e->dtype;
    double *reduced = NULL;
    ole_status status = OLE_OK;
    int threads = j->a->tsne.threads;
    if (components) {
        reduced = malloc((size_t)(e->rows * components) * sizeof *reduced);
        if (!reduced) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
        status = ole_pca(e->rows, dim, dtype, x, components, threads, reduced, error);
        x = reduced;
        dim = components;
        dtype = OLE_F64;
    }
    if (status == OLE_OK)
        status = ole_tsne_kl(e->rows, dim, dtype, x, j->a->tsne.perplexity, j->map, threads,
                             &j->exact_kl, error);
    int near = e->rows > 2 * NEIGHBOURS ? NEIGHBOURS : 1;
    if (status == OLE_OK && !interrupted())
        status = ole_trustworthiness(e->rows, dim, dtype, x, j->map, near, threads,
                                     &j->trustworthiness, error);
    free(reduced);
    return status;
}

static void print_json(const job *j) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("rows", j->e->rows), J("dimensions", j->e->dim),
                 J("iterations", j->a->tsne.iterations), J("kl", j->kl));
    if (j->a->quality)
        ole_json_put(&w, J("exact_kl", j->exact_kl), J("trustworthiness", j->trustworthiness));
    ole_json_number(&w, "seconds", j->seconds);
    if (j->written) ole_json_string(&w, "map", j->a->out);
    ole_json_close(&w);
}

static void print_text(const job *j) {
    printf("KL divergence    %.4f\n", j->kl);
    if (j->a->quality) {
        printf("exact            %.4f\n", j->exact_kl);
        printf("trustworthiness  %.4f\n", j->trustworthiness);
    }
    if (j->written) printf("map              %s\n", j->a->out);
    if (j->drawn) printf("figure           %s\n", j->a->figure);
}

/* The error of a call on the features or the start: of their numbers, with the file's name. */
static int failed(const job *j, const ole_error *error) {
    static const char start[] = "start: ";
    const char *message = error->message;
    if (strncmp(message, start, sizeof start - 1) == 0)
        return fail_command("tsne", "%s: %s", j->a->start, message + sizeof start - 1);
    if (error->status == OLE_ERROR_ARGUMENT)
        return fail_command("tsne", "%s: %s", j->a->features, message);
    return embedding_fail("tsne", j->a->features, error);
}

/* Writes map and figure, and prints what was found: also where one of them failed. */
static int write_all(job *j) {
    const arguments *a = j->a;
    ole_error error;
    int code = EXIT_DONE;
    j->written = write_array(a->out, OLE_F64, j->e->rows, 2, j->map, "y", &error) == OLE_OK;
    if (!j->written) code = fail_command("tsne", "%s", error.message);
    j->drawn = a->figure && draw(j, j->map, a->figure, &error) == OLE_OK;
    if (a->figure && !j->drawn) code = fail_command("tsne", "%s", error.message);
    (a->json ? print_json : print_text)(j);
    return code;
}

/* `start`: [rows, 2]; NULL: random. */
static int make(job *j, const double *start) {
    const embedding *e = j->e;
    ole_tsne_options o = j->a->tsne;
    o.start = start;
    if (e->rows > OFTEN_FROM) o.every = 10; /* so that Ctrl-C is heard within a second or two */
    o.callback = on_progress;
    o.callback_context = j;
    ole_error error;
    catch_interrupts();
    j->line = progress_start();
    j->began = j->previewed = ole_clock();
    ole_status status =
        ole_tsne(e->rows, e->dim, e->dtype, e->features, &o, j->map, &j->kl, &error);
    progress_clear(&j->line);
    j->seconds = ole_clock() - j->began;
    if (status != OLE_OK) return failed(j, &error);
    if (j->failed) return EXIT_FAILED;
    if (interrupted()) return end_interrupted("tsne", "no map was written");
    if (j->a->quality) {
        progress_wait(&j->line, "quality");
        status = measure(j, &error);
        progress_clear(&j->line);
        if (status != OLE_OK) return failed(j, &error);
        if (interrupted()) return end_interrupted("tsne", "no map was written");
    }
    return write_all(j);
}

int run_tsne(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const outputs[] = {a.out, a.preview, a.figure};
    if (!outputs_ready("tsne", outputs, 3, NULL)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "tsne", .keeps_all = true};
    embedding e, start = {0};
    job j = {.a = &a, .e = &e};
    code = EXIT_FAILED;
    if (embedding_open(&e, &reader, a.features, a.labels)) {
        j.map = malloc((size_t)e.rows * 2 * sizeof *j.map);
        if (!j.map || !order_rows(&j))
            fail_command("tsne", "out of memory for %" PRId64 " rows", e.rows);
        else if (!a.start || open_start(&j, &start))
            code = make(&j, start.features);
    }
    free(j.map);
    embedding_close(&start);
    free(j.order);
    embedding_close(&e);
    return code;
}
