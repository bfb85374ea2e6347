/*
 * cli/eval.c - `ole eval`: the errors of a trained model on a data set, and its predictions.
 */
#include "commands.h"
#include "common/common.h"
#include "common/model_and_data.h"
#include "common/outputs.h"

#include "base/memory_file.h"
#include "formats/input.h"
#include "formats/json.h"
#include <ole/train/evaluate.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char eval_summary[] = "measure a model's errors and confusion, by class";

enum { MOST_PAIRS = 5, WIDEST_TABLE = 12 };

/* ---- Counting ----------------------------------------------------------------------------- */

static int64_t at(const ole_evaluation *e, int truth, int predicted) {
    return e->confusion[truth * e->classes + predicted];
}

static int64_t class_count(const ole_evaluation *e, int truth) {
    int64_t count = 0;
    for (int c = 0; c < e->classes; c++)
        count += at(e, truth, c);
    return count;
}

/* In %; NaN for a class without samples. */
static double class_error(const ole_evaluation *e, int truth) {
    int64_t count = class_count(e, truth);
    return count > 0 ? 100.0 * (double)(count - at(e, truth, truth)) / (double)count : NAN;
}

/* The mean of the classes' accuracies, in %, and whether their sizes differ. */
static double balanced_accuracy(const ole_evaluation *e, bool *uneven) {
    double sum = 0;
    int64_t classes = 0, size = 0;
    *uneven = false;
    for (int c = 0; c < e->classes; c++) {
        int64_t count = class_count(e, c);
        if (count == 0) continue;
        *uneven |= size > 0 && count != size;
        size = count;
        sum += 100.0 - class_error(e, c);
        classes++;
    }
    return classes > 0 ? sum / (double)classes : NAN;
}

/* ---- Printing ----------------------------------------------------------------------------- */

static void json_classes(ole_json *w, const ole_evaluation *e, const char *const *names) {
    ole_json_open(w, "per_class", '[');
    for (int c = 0; c < e->classes; c++)
        ole_json_object(w, NULL, J("class", names[c]), J("n", class_count(e, c)),
                        J("error", class_error(e, c)));
    ole_json_close(w);
    ole_json_open(w, "confusion", '[');
    for (int c = 0; c < e->classes; c++) {
        ole_json_open(w, NULL, '[');
        for (int k = 0; k < e->classes; k++)
            ole_json_integer(w, NULL, at(e, c, k));
        ole_json_close(w);
    }
    ole_json_close(w);
}

static void print_json(const model_and_data *s, const ole_evaluation *e, const char *out) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("n", e->count), J("error", e->error), J("knn1_error", e->knn1_error),
                 J("subspace_error", e->subspace_error));
    bool uneven;
    ole_json_number(&w, "balanced_accuracy", e->confusion ? balanced_accuracy(e, &uneven) : NAN);
    if (e->confusion) {
        json_classes(&w, e, ole_model_get_info(s->model)->class_names);
    } else {
        ole_json_number(&w, "per_class", NAN); /* null */
        ole_json_number(&w, "confusion", NAN);
    }
    if (out) ole_json_string(&w, "predictions", out);
    ole_json_close(&w);
}

static void print_error(const char *name, double percent) {
    if (isfinite(percent)) printf("%-24s %.2f %%\n", name, percent);
}

/* Per-class errors, and for few classes the whole confusion: one row per true class. */
static void print_classes(const ole_evaluation *e, const char *const *names) {
    bool table = e->classes <= WIDEST_TABLE;
    int wide = names_width(stdout, names, e->classes, 16, 32);
    printf("\n%-*s %8s %9s%s\n", wide, "class", "samples", "error",
           table ? "   predicted as each class, in the same order" : "");
    for (int c = 0; c < e->classes; c++) {
        char percent[32] = "";
        if (class_count(e, c) > 0) snprintf(percent, sizeof percent, "%.2f %%", class_error(e, c));
        print_column(stdout, names[c], wide);
        printf(" %8" PRId64 " %9s", class_count(e, c), percent);
        for (int k = 0; table && k < e->classes; k++)
            printf("%s%5" PRId64, k ? " " : "  ", at(e, c, k));
        printf("\n");
    }
}

/* The most frequent confusions. */
static void print_pairs(const ole_evaluation *e, const char *const *names) {
    int64_t limit = INT64_MAX;
    int64_t last = -1, cells = (int64_t)e->classes * e->classes;
    int shown = 0;
    while (shown < MOST_PAIRS) {
        int64_t best = -1;
        for (int64_t i = 0; i < cells; i++) {
            int64_t n = e->confusion[i];
            bool later = n < limit || (n == limit && i > last);
            if (i / e->classes == i % e->classes || n == 0 || !later) continue;
            if (best < 0 || n > e->confusion[best]) best = i;
        }
        if (best < 0) return;
        if (shown++ == 0) printf("\nmost confused\n");
        limit = e->confusion[best];
        last = best;
        printf("  ");
        print_name(stdout, names[best / e->classes]);
        printf(" taken for ");
        print_name(stdout, names[best % e->classes]);
        printf(": %" PRId64 "\n", limit);
    }
}

static void print_text(const model_and_data *s, const ole_evaluation *e, const char *out) {
    const char *const *names = ole_model_get_info(s->model)->class_names;
    printf("%-24s %" PRId64 "\n", "samples", e->count);
    print_error("error", e->error);
    bool uneven = false;
    double balanced = e->confusion ? balanced_accuracy(e, &uneven) : NAN;
    if (uneven) print_error("balanced accuracy", balanced);
    print_error("1-NN error (cosine)", e->knn1_error);
    print_error("nearest-subspace error", e->subspace_error);
    if (out) print_lines("%-24s %s\n", "predictions", out);
    if (!e->confusion) return;
    print_classes(e, names);
    print_pairs(e, names);
}

/* ---- Predictions -------------------------------------------------------------------------- */

/* One line per sample: its file, or its row in an array, and what the model makes of it. */
static int write_predictions(const model_and_data *s, const ole_prediction *each,
                             const char *out_path) {
    const ole_dataset_info *set = ole_dataset_get_info(s->set);
    const char *const *names = ole_model_get_info(s->model)->class_names;
    ole_split split = (ole_split)s->split;
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return fail_command("eval", "out of memory");
    FILE *out = memory.file;
    bool files = ole_dataset_file_name(s->set, split, 0);
    fprintf(out, "%s,true,predicted,score,runner-up\n", files ? "file" : "row");
    for (int64_t i = 0; i < set->count[split]; i++) {
        char path[PATH_MAX];
        const char *file = sample_path(s, split, i, path);
        if (file)
            print_csv_name(out, file);
        else
            fprintf(out, "%" PRId64, ole_dataset_row(s->set, split, i));
        fputc(',', out);
        print_csv_name(out, set->class_names[ole_dataset_labels(s->set, split)[i]]);
        fputc(',', out);
        print_csv_name(out, names[each[i].best]);
        fprintf(out, ",%.6g,", each[i].score);
        if (each[i].runner_up[0] >= 0) print_csv_name(out, names[each[i].runner_up[0]]);
        fputc('\n', out);
    }
    return put_memory("eval", out_path, &memory);
}

/* ---- The command -------------------------------------------------------------------------- */

/* Ends with the file of predictions, which is written only if all went well. */
static int evaluate(model_and_data *s, const char *out, bool json) {
    ole_evaluation e;
    ole_error error;
    ole_split split = (ole_split)s->split;
    ole_prediction *each = NULL;
    if (out) each = calloc((size_t)ole_dataset_get_info(s->set)->count[split] + 1, sizeof *each);
    if (out && !each) return fail_command("eval", "out of memory for the predictions");
    ole_status status =
        out ? ole_evaluate_each(&e, each, s->model, s->set, split, s->threads, &error)
            : ole_evaluate(&e, s->model, s->set, split, s->threads, &error);
    progress_clear(&s->line);
    int code = EXIT_DONE;
    if (status != OLE_OK)
        code = fail_command("eval", "%s", error.message);
    else if (e.interrupted)
        code = end_interrupted("eval", "there is no result");
    else if (out)
        code = write_predictions(s, each, out);
    free(each);
    if (status != OLE_OK || code == EXIT_INTERRUPTED) return code;
    if (!e.confusion)
        fprintf(stderr, "ole eval: the model has no trained classifier: error and confusion are "
                        "omitted; 1-NN and nearest subspace compare features\n");
    if (e.by_order)
        tell_command("eval",
                     "warning: the model knows none of %s's class names; classes are matched by "
                     "their order",
                     ole_dataset_get_info(s->set)->name);
    (json ? print_json : print_text)(s, &e, code == EXIT_DONE ? out : NULL);
    ole_evaluation_free(&e);
    return code;
}

/* DATA, or all rows of features and labels, as other commands take them. */
static bool take_data(model_and_data *s, const char *const *words, int count,
                      char pair[2 * PATH_MAX], int *code) {
    *code = EXIT_USAGE;
    if (count == 1) s->data = words[0];
    if (count < 2) return true;
    if (count > 2)
        return refuse("eval", "unexpected argument '%s'; see 'ole eval --help'", words[2]);
    if (!ole_input_is_array(words[0]) || strchr(words[0], ',') || strchr(words[1], ','))
        return refuse("eval",
                      "'%s' and '%s': name one data set, or features as .npy, .npz or .csv "
                      "and their labels, without a comma",
                      words[0], words[1]);
    snprintf(pair, 2 * PATH_MAX, "npy:%s,%s", words[0], words[1]);
    s->data = pair;
    s->split = OLE_SPLIT_TRAIN;
    s->flags.test_share = 0.0;
    s->flags.has_test_share = true;
    return true;
}

int run_eval(int argc, char **argv) {
    model_and_data s;
    bool json = false;
    const char *out = NULL;
    arg_positional positionals[3] = {{0}};
    ole_option options[MODEL_AND_DATA_OPTIONS + 3] = {{0}};
    model_and_data_init(&s, positionals, options);
    const char **words = (const char **)argv + 1;
    int count = 0;
    positionals[1] = (arg_positional){
        "DATA", words,
        "NAME[:PATH]: digits, mnist, cifar10, folder:photos, ... (default: the run's), or X.npy "
        "and labels for all rows of two files"};
    options[MODEL_AND_DATA_OPTIONS] = (ole_option){
        "out", OLE_TEXT, &out, "P.csv",
        .help = "write each sample's file or row, class, predicted class, score and runner-up"};
    options[MODEL_AND_DATA_OPTIONS + 1] = (ole_option)JSON_OPTION(&json);
    const arg_command command = {
        .name = "eval",
        .summary = eval_summary,
        .example = "  $ ole eval runs/first\n"
                   "  $ ole eval runs/first folder:more --out predictions.csv\n"
                   "  $ ole eval intents.safetensors X.npy labels.txt\n",
        .about = "Evaluates a model on a part of a data set. 1-NN and nearest subspace compare\n"
                 "features with those of the training set.\n",
        .positionals = positionals,
        .last_optional = true,
        .many = &count,
        .options = options,
    };
    int code;
    char pair[2 * PATH_MAX];
    if (!args_parse(&command, argc, argv, &code) || !take_data(&s, words, count, pair, &code))
        return code;
    code = model_and_data_open(&s, "eval");
    const char *const inputs[] = {s.model_path, s.data};
    if (code == EXIT_DONE && !spares_inputs("eval", &out, 1, inputs, 2)) code = EXIT_USAGE;
    if (code == EXIT_DONE && !outputs_ready("eval", &out, 1, NULL)) code = EXIT_FAILED;
    if (code == EXIT_DONE) code = evaluate(&s, out, json);
    model_and_data_close(&s);
    return code;
}
