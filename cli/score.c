/*
 * cli/score.c - `ole score`: the OLÉ loss, and its gradient, of any embedding.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "formats/json.h"
#include "report/drawing.h"
#include <ole/loss.h>

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char score_summary[] = "compute the OLE loss and gradient of features and labels";

static const double energy = 0.95; /* of a class, held by the directions compared */

typedef struct arguments {
    const char *features;
    const char *labels;
    const char *gradient; /* NULL: not requested */
    ole_loss_options loss;
    int reduction; /* as in the help: mean, sum */
    int dtype;     /* auto, float32, float64 */
    bool json;
} arguments;

/* ---- The command line --------------------------------------------------------------------- */

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){0};
    ole_loss_options_init(&a->loss);
    a->loss.threads = default_threads();
    const arg_positional positionals[] = {
        FEATURES_POSITIONAL(&a->features),
        LABELS_POSITIONAL(&a->labels),
        {0},
    };
    const ole_option options[] = {
        {"grad", OLE_TEXT, &a->gradient, "G.npy", .help = "write the gradient"},
        {"delta-floor", OLE_NUMBER, &a->loss.delta_floor, "X",
         .help = "minimum of each class's nuclear norm", .max = HUGE_VAL},
        {"delta-abs", OLE_NUMBER, &a->loss.delta_abs, "X",
         .help = "treat singular values up to X as zero", .max = HUGE_VAL},
        {"delta-rel", OLE_NUMBER, &a->loss.delta_rel, "X",
         .help = "the same, relative to the largest one (default auto: 64 epsilon)",
         .max = HUGE_VAL, .special = "auto", .special_value = OLE_DELTA_REL_AUTO},
        {"weight", OLE_NUMBER, &a->loss.weight, "X", .help = "factor of the loss", .min = -HUGE_VAL,
         .max = HUGE_VAL},
        {"reduction", OLE_CHOICE, &a->reduction, "mean|sum",
         .help = "divide by the number of rows, or not"},
        DTYPE_OPTION(&a->dtype),
        THREADS_OPTION(&a->loss.threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "score",
        .summary = score_summary,
        .example = "  $ ole score features.npy labels.npy --grad gradient.npy\n",
        .about =
            "Prints the OLE loss: the sum of the classes' nuclear norms minus the nuclear norm\n"
            "of all rows. It is 0 when the classes are orthogonal to each other.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    a->loss.reduction = a->reduction == 1 ? OLE_REDUCTION_SUM : OLE_REDUCTION_MEAN;
    return true;
}

/* ---- Evaluating --------------------------------------------------------------------------- */

static ole_status evaluate(const arguments *a, const embedding *e, void *gradient,
                           ole_loss_result *result, ole_error *error) {
    progress line = progress_start();
    ole_loss_plan *plan;
    progress_wait(&line, "loss");
    ole_status status = ole_loss_plan_create(&plan, e->rows, e->dim, e->dtype, &a->loss, error);
    const ole_loss_batch batch = {
        .rows = e->rows, .features = e->features, .labels = e->labels, .label_type = OLE_I64};
    const ole_loss_gradient out = {.data = gradient, .upstream = 1.0};
    if (status == OLE_OK) {
        status = ole_loss_eval(plan, &batch, gradient ? &out : NULL, result, error);
        ole_loss_plan_destroy(plan);
    }
    progress_clear(&line);
    return status;
}

/* ---- Ranks and overlaps ------------------------------------------------------------------- */

typedef struct extras {
    double rank;       /* effective, of all rows */
    double class_rank; /* effective, mean over the classes */
    ole_overlap pairs[OVERLAPS_PRINTED];
    int64_t pair_count;
    progress line; /* how far they are */
} extras;

static ole_status find_extras(const embedding *e, int threads, extras *x, ole_error *error) {
    const ole_embedding all = embedding_view(e);
    ole_spectra spectra;
    progress_wait(&x->line, "effective ranks");
    ole_status status = ole_spectra_measure(&spectra, &all, threads, error);
    progress_clear(&x->line);
    if (status != OLE_OK) return status;
    x->rank = spectra.all.effective_rank;
    x->class_rank = ole_class_rank(&spectra);
    ole_spectra_free(&spectra);
    progress_wait(&x->line, "overlaps");
    status = ole_overlaps(&all, energy, threads, x->pairs, OVERLAPS_PRINTED, &x->pair_count,
                          progress_share, &x->line, error);
    progress_clear(&x->line);
    return status;
}

/* ---- Printing ----------------------------------------------------------------------------- */

static void print_json(const arguments *a, const embedding *e, const ole_loss_result *r,
                       const extras *x) {
    (void)a;
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("loss", r->value), J("class_term", r->class_term),
                 J("global_norm", r->global_norm), J("n", r->rows), J("d", e->dim),
                 J("classes", r->classes), J("rank", r->rank));
    ole_json_open(&w, "per_class", '[');
    for (int64_t i = 0; i < r->classes; i++) {
        const ole_loss_class *c = &r->per_class[i];
        ole_json_open(&w, NULL, '{');
        ole_json_integer(&w, "label", c->label);
        if (e->names) ole_json_string(&w, "name", e->names[c->label]);
        ole_json_put(&w, J("n", c->count), J("norm", c->norm), J("rank", c->rank));
        ole_json_close(&w);
    }
    ole_json_close(&w);
    ole_json_put(&w, J("ignored", e->rows - r->rows), J("effective_rank", x->rank),
                 J("class_effective_rank", x->class_rank));
    json_overlaps(&w, x->pairs, x->pair_count);
    ole_json_close(&w);
}

/* One line: name, value, and what the value is, where that needs saying. */
__attribute__((format(printf, 3, 4))) static void print_row(const char *name, const char *note,
                                                            const char *format, ...) {
    char value[32];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    printf(*note ? "%-16s %-12s %s\n" : "%-16s %s%s\n", name, value, note);
}

static double mean_rank(const ole_loss_result *r) {
    double sum = 0.0;
    for (int64_t c = 0; c < r->classes; c++)
        sum += (double)r->per_class[c].rank;
    return sum / (double)r->classes;
}

static void print_text(const arguments *a, const embedding *e, const ole_loss_result *r,
                       const extras *x) {
    char note[128], factor[48] = "", divisor[48] = "", ignored[48] = "";
    if (a->loss.weight != 1.0) snprintf(factor, sizeof factor, "%g * ", a->loss.weight);
    if (a->loss.reduction == OLE_REDUCTION_MEAN)
        snprintf(divisor, sizeof divisor, " / %" PRId64, r->rows);
    snprintf(note, sizeof note, "%s(class term - global norm)%s", factor, divisor);
    print_row("loss", note, "%.6g", r->value);
    snprintf(note, sizeof note, "sum over classes of max(%g, nuclear norm)", a->loss.delta_floor);
    print_row("class term", note, "%.6g", r->class_term);
    print_row("global norm", "nuclear norm of all rows", "%.6g", r->global_norm);
    if (r->rows < e->rows)
        snprintf(ignored, sizeof ignored, "and %" PRId64 " ignored", e->rows - r->rows);
    print_row("rows", ignored, "%" PRId64, r->rows);
    print_row("dimensions", "", "%" PRId64, e->dim);
    print_row("classes", "", "%" PRId64, r->classes);
    snprintf(note, sizeof note, "effective rank %.2f", x->rank);
    print_row("rank", note, "%" PRId64, r->rank);
    snprintf(note, sizeof note, "effective rank %.2f, mean over the classes", x->class_rank);
    print_row("rank per class", note, "%.6g", mean_rank(r));
    print_overlaps(e, x->pairs, x->pair_count);
}

/* ---- The command -------------------------------------------------------------------------- */

/* Evaluates, writes the gradient where one is requested, and prints even if that failed. */
static int score(const arguments *a, const embedding *e) {
    size_t size = (size_t)(e->rows * e->dim) * ole_dtype_size(e->dtype);
    void *gradient = a->gradient ? malloc(size) : NULL;
    ole_loss_class *classes = malloc((size_t)e->rows * sizeof *classes);
    ole_loss_result result = {.per_class = classes, .per_class_capacity = e->rows};
    ole_error error;
    int code;
    if (!classes || (a->gradient && !gradient)) {
        code = fail_command("score", "out of memory for %" PRId64 " rows of %" PRId64 " dimensions",
                            e->rows, e->dim);
    } else if (evaluate(a, e, gradient, &result, &error) != OLE_OK) {
        code = embedding_fail("score", a->features, &error);
    } else {
        bool lost = gradient && write_array(a->gradient, e->dtype, e->rows, e->dim, gradient, "g",
                                            &error) != OLE_OK;
        if (lost) fail_command("score", "%s", error.message);
        extras x = {.line = progress_start()};
        bool found = find_extras(e, a->loss.threads, &x, &error) == OLE_OK;
        if (!found) fail_command("score", "%s", error.message);
        if (found) (a->json ? print_json : print_text)(a, e, &result, &x);
        code = lost || !found ? EXIT_FAILED : EXIT_DONE;
    }
    free(gradient);
    free(classes);
    return code;
}

int run_score(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const inputs[] = {a.features, a.labels};
    if (!spares_inputs("score", &a.gradient, 1, inputs, 2) || !takes_array("score", a.gradient))
        return EXIT_USAGE;
    if (!outputs_ready("score", &a.gradient, 1, NULL)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "score", .converts = true, .dtype = a.dtype};
    embedding e;
    bool opened = embedding_open(&e, &reader, a.features, a.labels);
    code = opened ? score(&a, &e) : EXIT_FAILED;
    embedding_close(&e);
    return code;
}
