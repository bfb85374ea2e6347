/*
 * cli/verify.c - `ole verify`: same or different, for pairs of rows of any features.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/figure_output.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "formats/json.h"
#include <ole/verify.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { DRAWN = 10000 }; /* pairs of each kind, at most */

const char verify_summary[] = "tell same from different: ROC, AUC, 10-fold accuracy of pairs";

typedef struct arguments {
    const char *features;
    const char *pairs;  /* NULL: drawn from the labels */
    const char *labels; /* NULL: the pairs are in a file */
    const char *names;  /* NULL: the pairs are rows */
    int folds;
    uint64_t seed;
    int dtype; /* auto, float32, float64 */
    bool json;
    figure_options figures;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){.folds = 10};
    const arg_positional positionals[] = {
        FEATURES_POSITIONAL(&a->features),
        {0},
    };
    const ole_option options[] = {
        {"pairs", OLE_TEXT, &a->pairs, "PAIRS.txt", .help = "pairs to verify, one per line"},
        {"labels", OLE_TEXT, &a->labels, "L.npy",
         .help = "instead of --pairs: a label per row; draws up to 10,000 pairs of the same class "
                 "and as many of different ones"},
        {"seed", OLE_SEED, &a->seed, "N", .help = "with --labels: random seed"},
        {"names", OLE_TEXT, &a->names, "NAMES.txt",
         .help = "with --pairs: the image of each row, one name per line, for pairs given by name"},
        {"folds", OLE_INTEGER, &a->folds, "N", .help = "number of folds, unless PAIRS.txt gives it",
         .min = 2, .max = 1000},
        DTYPE_OPTION(&a->dtype),
        FIGURE_OPTIONS(&a->figures),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "verify",
        .summary = verify_summary,
        .example = "  $ ole verify features.npy --labels labels.npy\n"
                   "  $ ole verify features.npy --pairs pairs.txt\n"
                   "  $ ole verify lfw.npy --pairs pairs.txt --names lfw.txt --out lfw.html\n",
        .about =
            "Decides for pairs of rows whether they are of the same class: yes if their cosine\n"
            "reaches a threshold. The pairs are cut into folds; each fold is judged by the\n"
            "threshold that is best on the others. --labels draws the pairs at random; --pairs\n"
            "reads them from a file, one per line: '12 40 1' if rows 12 and 40, counted from 0,\n"
            "are of the same class, '12 77 0' if not. The file may also be LFW's pairs.txt, where\n"
            "'NAME 1 4' stands for NAME_0001.jpg and NAME_0004.jpg; --names says which row is\n"
            "which image.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    bool one = !a->pairs != !a->labels;
    if (one && !(a->labels && a->names)) return true;
    fail_command("verify", one ? "--names works only with --pairs"
                           : a->pairs
                               ? "--pairs cannot be combined with --labels"
                               : "missing option --pairs PAIRS.txt or --labels L.npy; see 'ole "
                                 "verify --help'");
    *code = EXIT_USAGE;
    return false;
}

/* ---- Printing ----------------------------------------------------------------------------- */

static double standard_error(const ole_verification *v) {
    return v->accuracy_std / sqrt(v->folds);
}

static void print_json(const ole_verification *v) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("pairs", v->count), J("same", v->same), J("auc", v->roc.auroc),
                 J("accuracy", v->accuracy), J("accuracy_std", v->accuracy_std),
                 J("standard_error", standard_error(v)), J("threshold", v->threshold));
    ole_json_open(&w, "folds", '[');
    for (int f = 0; f < v->folds; f++)
        ole_json_object(&w, NULL, J("accuracy", v->fold_accuracy[f]),
                        J("threshold", v->fold_threshold[f]));
    ole_json_close(&w);
    ole_json_open(&w, "roc", '{');
    ole_json_numbers(&w, "threshold", v->roc.threshold, v->roc.points);
    ole_json_numbers(&w, "fpr", v->roc.fpr, v->roc.points);
    ole_json_numbers(&w, "tpr", v->roc.tpr, v->roc.points);
    ole_json_close(&w);
    ole_json_close(&w);
}

static void print_text(const ole_verification *v) {
    printf("%-16s %" PRId64 ", %" PRId64 " of them the same\n", "pairs", v->count, v->same);
    printf("%-16s %.2f ± %.2f %% over %d folds (standard error %.2f)\n", "accuracy", v->accuracy,
           v->accuracy_std, v->folds, standard_error(v));
    printf("%-16s %.4f\n", "AUC", v->roc.auroc);
    printf("%-16s %.4f: call new pairs the same if their cosine is at least this\n", "threshold",
           v->threshold);
}

/* ---- Pictures ----------------------------------------------------------------------------- */

static int draw(const arguments *a, const ole_verification *v) {
    figure_output p;
    if (!figures_requested(&a->figures)) return EXIT_DONE;
    int code = figure_output_open(&p, "verify", &a->figures, "Verification", a->features);
    if (code != EXIT_DONE) return code;
    ole_page_headline(p.page, "accuracy", ole_printed("%.2f %%", v->accuracy).text,
                      ole_printed("± %.2f over %d folds", v->accuracy_std, v->folds).text);
    ole_page_headline(p.page, "AUC", ole_printed("%.4f", v->roc.auroc).text, NULL);
    ole_page_headline(p.page, "threshold", ole_printed("%.4f", v->threshold).text,
                      "on the cosine, best on all pairs");
    double x[CURVE_POINTS], y[CURVE_POINTS];
    const ole_series roc = thin_curve("ROC", v->roc.points, v->roc.fpr, v->roc.tpr, x, y);
    ole_figure figure;
    ole_figure_init(&figure);
    figure.title = "ROC curve";
    figure.x_label = "different pairs accepted";
    figure.y_label = "same pairs accepted";
    figure.x_min = figure.y_min = 0.0;
    figure.x_max = figure.y_max = 1.0;
    figure.series = &roc;
    figure.series_count = 1;
    figure_output_add(&p, &figure, "roc",
                      "Share of the same pairs accepted against that of the "
                      "different ones, over the threshold on the cosine.");
    return figure_output_close(&p);
}

/* ---- The command -------------------------------------------------------------------------- */

static int verify(const arguments *a, const embedding *e) {
    ole_pairs pairs;
    ole_verification v;
    ole_error error;
    progress line = progress_start();
    progress_wait(&line, "reading pairs");
    ole_status status =
        a->labels ? ole_pairs_draw(&pairs, e->rows, e->labels, DRAWN, a->folds, a->seed, &error)
                  : ole_pairs_read(&pairs, a->pairs, a->names, e->rows, a->folds, &error);
    progress_clear(&line);
    if (status != OLE_OK)
        return a->labels ? fail_command("verify", "%s: %s", a->labels, error.message)
                         : fail_command("verify", "%s", error.message);
    progress_wait(&line, "comparing pairs");
    status = ole_verify(&v, e->rows, e->dim, e->dtype, e->features, &pairs, progress_share, &line,
                        &error);
    progress_clear(&line);
    ole_pairs_free(&pairs);
    const char *file = a->labels ? a->labels : a->pairs;
    if (status != OLE_OK)
        return fail_command("verify", "%s: %s", status == OLE_ERROR_DATA ? a->features : file,
                            error.message);
    int code = draw(a, &v);
    (a->json ? print_json : print_text)(&v); /* also where a picture failed */
    if (code == EXIT_DONE && !a->json) figure_output_tell(&a->figures, 16);
    ole_verification_free(&v);
    return code;
}

int run_verify(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const inputs[] = {a.features, a.pairs, a.labels, a.names};
    if (!spares_inputs("verify", &a.figures.page, 1, inputs, 4)) return EXIT_USAGE;
    if (!outputs_ready("verify", &a.figures.page, 1, a.figures.folder)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "verify", .converts = true, .dtype = a.dtype};
    embedding e;
    bool opened = embedding_open(&e, &reader, a.features, a.labels);
    code = opened ? verify(&a, &e) : EXIT_FAILED;
    embedding_close(&e);
    return code;
}
