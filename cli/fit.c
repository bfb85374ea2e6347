/*
 * cli/fit.c - `ole fit`: a map of embeddings, a classifier and a threshold for unknown, as a model.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"
#include "novelty/novelty_report.h"

#include "base/clock.h"
#include "formats/json.h"
#include "model/threshold_words.h"
#include <ole/train/embed.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char fit_summary[] = "learn a classifier and a threshold for unknown";

typedef struct arguments {
    const char *features, *labels, *out, *score_name;
    ole_score score; /* OLE_SCORE_NONE: to be chosen */
    int method;      /* from 1, as in ole_embed_method */
    bool balanced, no_unknown, json;
    ole_embed_options fit;
} arguments;

/* Options that some methods take, in the order of the table. */
enum { LAMBDA, DECAY, WIDTH, BALANCED, EPOCHS, BATCH, RATE, TOLERANCE, FOLDS, SCORE, GIVEN };

/* ---- The command line --------------------------------------------------------------------- */

/* Refuses what the method would not read. */
static bool check_given(const arguments *a, const bool given[GIVEN]) {
    enum { L = 1 << OLE_EMBED_LINEAR, M = 1 << OLE_EMBED_MLP, T = 1 << OLE_EMBED_TRANSFORM };
    static const struct {
        const char *name, *methods;
        int taken;
    } rules[GIVEN] = {
        [LAMBDA] = {"lambda", "linear or mlp", L | M},
        [DECAY] = {"weight-decay", "linear or mlp", L | M},
        [WIDTH] = {"width", "mlp", M},
        [BALANCED] = {"balanced", "linear or mlp", L | M},
        [EPOCHS] = {"epochs", "linear, mlp or transform", L | M | T},
        [BATCH] = {"batch-size", "mlp", M},
        [RATE] = {"lr", "mlp", M},
        [TOLERANCE] = {"tolerance", "linear", L},
        [FOLDS] = {"folds", "linear, mlp or transform", L | M | T},
        [SCORE] = {"score", "linear or mlp, which have a classifier", L | M},
    };
    for (int i = 0; i < GIVEN; i++)
        if (given[i] && !(rules[i].taken & 1 << a->fit.method))
            return refuse("fit", "--%s does not apply to --method %s: give it with %s",
                          rules[i].name, ole_embed_method_name(a->fit.method), rules[i].methods);
    if (given[SCORE] && a->no_unknown)
        return refuse("fit", "--score cannot be combined with --no-unknown");
    return true;
}

/* Other commands know a model's file by its ending. */
static bool check_out(const char *out) {
    static const char ending[] = ".safetensors";
    size_t length = strlen(out), last = sizeof ending - 1;
    if (length > last && strcmp(out + length - last, ending) == 0) return true;
    return refuse("fit", "--out '%s': models are .safetensors files; give a name with this ending",
                  out);
}

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){.method = OLE_EMBED_LINEAR, .score_name = "auto"};
    ole_embed_options *o = &a->fit;
    ole_embed_options_init(o);
    bool given[GIVEN] = {false};
    o->threads = default_threads();
    o->device = "auto";
    const arg_positional positionals[] = {
        FEATURES_POSITIONAL(&a->features),
        LABELS_POSITIONAL(&a->labels),
        {0},
    };
    const ole_option options[] = {
        {"out", OLE_TEXT, &a->out, "MODEL", .flags = OLE_REQUIRED,
         .help = "the model to write, a .safetensors file"},
        {"method", OLE_CHOICE, &a->method, "linear|mlp|transform|none",
         .help = "linear: one matrix; mlp: one hidden layer; transform: Qiu and Sapiro's, without "
                 "a classifier; none: the rows as they are",
         .min = OLE_EMBED_LINEAR},
        {"lambda", OLE_NUMBER, &o->lambda, "X", .given = &given[LAMBDA], .heading = "Settings",
         .help = "weight of OLE (default auto: by cross-validation)", .max = 1e6, .special = "auto",
         .special_value = NAN},
        {"weight-decay", OLE_NUMBER, &o->weight_decay, "X", .given = &given[DECAY],
         .help = "L2 penalty, for rows scaled to a mean square length of 1 (default auto: by "
                 "cross-validation)",
         .max = 1e6, .special = "auto", .special_value = NAN},
        {"width", OLE_WHOLE, &o->width, "N", .given = &given[WIDTH],
         .help = "hidden units of mlp; 0: by cross-validation", .max = 65536},
        {"balanced", OLE_SWITCH, &a->balanced, .given = &given[BALANCED],
         .help = "weigh rows so that each class counts the same"},
        {"epochs", OLE_WHOLE, &o->epochs, "N", .given = &given[EPOCHS],
         .help = "at most so many passes over the rows (transform: steps); 0: 200 for linear, 30 "
                 "or more "
                 "for mlp, chosen on a held-out fifth for transform",
         .max = 1000000},
        {"batch-size", OLE_WHOLE, &o->batch_size, "N", .given = &given[BATCH],
         .help = "rows per step of mlp; 0: up to 256", .max = 1 << 20},
        {"lr", OLE_NUMBER, &o->learning_rate, "X", .given = &given[RATE],
         .help = "learning rate of mlp; 0: 0.002", .max = 1e6},
        {"tolerance", OLE_NUMBER, &o->tolerance, "X", .given = &given[TOLERANCE],
         .help = "linear stops where the gradient is this share of the first one", .max = 0.999},
        {"folds", OLE_INTEGER, &o->folds, "N", .given = &given[FOLDS], .heading = "Held-out rows",
         .help = "folds of cross-validation; 0: 5, or one held-out fifth above 5,000 rows",
         .max = 1000},
        {"no-unknown", OLE_SWITCH, &a->no_unknown,
         .help = "store no threshold for unknown; with fixed settings nothing is held out"},
        {"score", OLE_TEXT, &a->score_name, "auto|NAME", .given = &given[SCORE],
         .help = "score for unknown, as in 'ole novelty'; auto: the best one that can be exported, "
                 "from six more fits, of at most 20,000 rows, that leave out groups of classes; "
                 "calibrated for fewer than 5 or more than 1,000 classes"},
        {"seed", OLE_SEED, &o->seed, "N", .help = "random seed"},
        THREADS_OPTION(&o->threads),
        {"device", OLE_TEXT, &o->device, "auto|cpu|cuda|cuda:N|ref", .help = "where mlp trains"},
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "fit",
        .summary = fit_summary,
        .example = "  $ ole fit X.npy labels.txt --out intents.safetensors\n"
                   "  $ ole predict intents.safetensors new.npy\n",
        .about = "Learns from embeddings of any model which class a row belongs to. Settings that\n"
                 "are not given are chosen by cross-validation on these rows. The model has the\n"
                 "map, the classifier, the class names and the score under which a row is\n"
                 "unknown; 'ole predict', 'apply', 'eval', 'novelty' and 'export' take it.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    o->method = (ole_embed_method)a->method;
    o->balanced = a->balanced;
    o->unknown = !a->no_unknown;
    *code = EXIT_USAGE;
    const char *inputs[] = {a->features, a->labels};
    if (!novelty_parse_score("fit", a->score_name, &a->score)) return false;
    if (o->folds == 1) return refuse("fit", "--folds 1: give at least 2, or 0");
    return check_given(a, given) && spares_inputs("fit", &a->out, 1, inputs, 2) &&
           check_out(a->out);
}

/* ---- Results ------------------------------------------------------------------------------ */

/* Of what a reader should know before using the map; NULL: nothing. */
static const char *note_of(const arguments *a, const ole_embed_summary *s) {
    bool idle = a->fit.method == OLE_EMBED_TRANSFORM && s->iterations == 0;
    return idle ? "no step helped: the map only scales the rows" : NULL;
}

static void print_trials(const ole_embed_summary *s) {
    bool width = s->width > 0;
    printf("\ntried on held-out rows\n%10s %12s%s %10s %8s\n", "lambda", "weight decay",
           width ? "   width" : "", "accuracy", "NLL");
    for (int64_t i = 0; i < s->trials; i++) {
        const ole_embed_trial *t = &s->trial[i];
        bool chosen =
            t->lambda == s->lambda && t->weight_decay == s->weight_decay && t->width == s->width;
        printf("%10.3g %12.3g", t->lambda, t->weight_decay);
        if (width) printf(" %7" PRId64, t->width);
        printf(" %8.2f %% %8.4f%s\n", t->accuracy, t->nll, chosen ? "  chosen" : "");
    }
}

/* The rows of the fit serve as an example. */
static void print_what_next(const arguments *a, const ole_model_info *m) {
    char onnx[4096];
    const char *dot = strrchr(a->out, '.');
    int stem = dot && !strchr(dot, '/') ? (int)(dot - a->out) : (int)strlen(a->out);
    snprintf(onnx, sizeof onnx, "%.*s.onnx", stem, a->out);
    bool exports = m->threshold_score == OLE_SCORE_NONE || ole_score_exports(m->threshold_score);
    char *const next[] = {
        m->classifier ? next_command("predict", a->out, "", a->features) : NULL,
        exports && m->classifier ? next_command("export", a->out, "--onnx ", onnx) : NULL,
        m->classifier ? NULL : next_command("apply", a->out, "--out mapped.npy ", a->features)};
    print_next(next, 3);
}

static void print_text(const arguments *a, const ole_embed_summary *s, const ole_model_info *m,
                       const ole_novelty_choice *choice) {
    printf("%-20s %" PRId64 " of %" PRId64 " dimensions, %d classes\n", "rows", s->rows, s->dim,
           s->classes);
    printf("%-20s %s, %" PRId64 " features\n", "map", ole_embed_method_name(a->fit.method),
           s->features);
    if (isfinite(s->lambda)) printf("%-20s %.4g\n", "lambda", s->lambda);
    if (isfinite(s->weight_decay)) printf("%-20s %.4g\n", "weight decay", s->weight_decay);
    if (s->width > 0) printf("%-20s %" PRId64 "\n", "width", s->width);
    if (a->fit.method == OLE_EMBED_TRANSFORM)
        printf("%-20s %" PRId64 ", to an objective of %.4g\n", "steps", s->iterations,
               s->objective);
    if (note_of(a, s)) printf("%-20s %s\n", "note", note_of(a, s));
    if (isfinite(s->held_out_accuracy))
        printf("%-20s %.2f %% of %" PRId64 " rows\n",
               a->fit.method == OLE_EMBED_TRANSFORM ? "held-out 1-NN" : "held-out accuracy",
               s->held_out_accuracy, s->held_out);
    if (isfinite(s->training_accuracy))
        printf("%-20s %.2f %%\n", "training accuracy", s->training_accuracy);
    if (m->threshold_score != OLE_SCORE_NONE)
        printf("%-20s %.4g of the score %s, which keeps 95 %% of the held-out rows\n",
               "unknown under", m->threshold, ole_score_name(m->threshold_score));
    if (s->single > 0)
        printf("%-20s %d %s a single row and %s never held out\n", "note", s->single,
               s->single == 1 ? "class has" : "classes have", s->single == 1 ? "was" : "were");
    if (s->trials > 1) print_trials(s);
    if (choice->groups > 0) {
        printf("\n");
        novelty_print_choice(choice, a->score == OLE_SCORE_NONE);
    }
    if (choice->groups == 0) printf("\n"); /* else there is an empty line */
    print_lines("model: %s  (%.1f s)\n", a->out, s->seconds);
    print_what_next(a, m);
}

static void print_json(const arguments *a, const ole_embed_summary *s, const ole_model_info *m,
                       const ole_novelty_choice *choice) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("model", a->out), J("method", ole_embed_method_name(a->fit.method)));
    ole_json_put(&w, J("rows", s->rows), J("dimensions", s->dim), J("classes", s->classes),
                 J("features", s->features), J("smallest_class", s->rarest),
                 J("single_row_classes", s->single), J("lambda", s->lambda),
                 J("weight_decay", s->weight_decay), J("width", s->width),
                 J("held_out", s->held_out), J("held_out_accuracy", s->held_out_accuracy),
                 J("training_accuracy", s->training_accuracy), J("objective", s->objective),
                 J("iterations", s->iterations), J("temperature", m->temperature));
    if (m->threshold_score != OLE_SCORE_NONE)
        ole_json_put(&w, J("threshold_score", ole_score_name(m->threshold_score)),
                     J("threshold", m->threshold));
    if (note_of(a, s)) ole_json_string(&w, "note", note_of(a, s));
    ole_json_open(&w, "trials", '[');
    for (int64_t i = 0; i < s->trials; i++) {
        const ole_embed_trial *t = &s->trial[i];
        ole_json_object(&w, NULL, J("lambda", t->lambda), J("weight_decay", t->weight_decay),
                        J("width", t->width), J("accuracy", t->accuracy), J("nll", t->nll));
    }
    ole_json_close(&w);
    if (choice->groups > 0) novelty_json_choice(&w, choice);
    ole_json_number(&w, "seconds", s->seconds);
    ole_json_close(&w);
}

/* ---- The command -------------------------------------------------------------------------- */

static bool show(void *line, const char *part, int64_t done, int64_t total) {
    if (progress_due(line))
        progress_show(line, "%s, step %" PRId64 " of at most %" PRId64, part, done, total);
    return interrupted();
}

/* Replaces the threshold of the fit, which is one of predictions, by that of a score. */
static ole_status attach_score(const arguments *a, ole_model *model, const ole_embedding *known,
                               const ole_embed_summary *summary, ole_novelty_choice *choice,
                               ole_error *error) {
    if (a->no_unknown || !ole_model_get_info(model)->classifier) return OLE_OK;
    ole_novelty_options options;
    ole_novelty_options_init(&options);
    options.threads = a->fit.threads;
    options.callback = a->fit.callback;
    options.callback_context = a->fit.callback_context;
    return ole_novelty_attach(choice, model, known, &a->fit, summary, a->score, &options, error);
}

/* Rows that are all the same fit without an error: the classifier knows how frequent classes are.
 */
static void warn_of_equal_rows(const arguments *a, const embedding *e) {
    size_t row = (size_t)e->dim * ole_dtype_size(e->dtype);
    for (int64_t i = 1; i < e->rows; i++)
        if (memcmp(e->features, (const char *)e->features + (size_t)i * row, row) != 0) return;
    tell_command("fit", "warning: %s: all rows are equal, so nothing tells the classes apart",
                 a->features);
}

static int fit(arguments *a, const embedding *e) {
    warn_of_equal_rows(a, e);
    progress line = progress_start();
    a->fit.callback = show;
    a->fit.callback_context = &line;
    ole_embedding view = embedding_view(e);
    ole_model *model = NULL;
    ole_embed_summary summary = {0};
    ole_error error;
    /* A model that is only written needs no GPU, and looking for one takes as long as a small fit.
     */
    if (a->no_unknown && a->fit.method != OLE_EMBED_MLP && strcmp(a->fit.device, "auto") == 0)
        a->fit.device = "cpu";
    catch_interrupts();
    ole_status status =
        ole_embed_fit(&model, &view, e->names, e->classes, &a->fit, &summary, &error);
    ole_novelty_choice choice = {0};
    if (status == OLE_OK && !summary.interrupted)
        status = attach_score(a, model, &view, &summary, &choice, &error);
    summary.seconds = ole_clock() - line.started;
    progress_clear(&line);
    int code = EXIT_DONE;
    if (status != OLE_OK)
        code = status == OLE_ERROR_ARGUMENT
                   ? fail_command("fit", "%s: %s", a->labels, error.message)
                   : embedding_fail("fit", a->features, &error);
    else if (interrupted())
        code = end_interrupted("fit", "no model was written");
    else if (ole_model_save(model, a->out, &error) != OLE_OK)
        code = fail_command("fit", "%s", error.message);
    else {
        const ole_model_info *info = ole_model_get_info(model);
        if (info->threshold_score != OLE_SCORE_NONE)
            novelty_tell_export("fit", info->threshold_score, &choice);
        (a->json ? print_json : print_text)(a, &summary, info, &choice);
    }
    ole_embed_summary_free(&summary);
    ole_model_free(model);
    return code;
}

int run_fit(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const out = a.out;
    if (!outputs_ready("fit", &out, 1, NULL)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "fit"};
    embedding e;
    code = EXIT_FAILED;
    if (embedding_open(&e, &reader, a.features, a.labels)) code = fit(&a, &e);
    embedding_close(&e);
    return code;
}
