/*
 * cli/predict.c - `ole predict`: what a model sees in image files, in the rows of .npy files, or in
 * the data of its run.
 */
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/embedding.h"
#include "common/image_files.h"
#include "common/model_and_data.h"
#include "common/sample_rows.h"

#include "base/quote.h"
#include "formats/input.h"
#include "formats/json.h"
#include <ole/npy.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

const char predict_summary[] = "label images or vectors, or answer unknown";

typedef struct predicting {
    model_and_data from;
    const char **words; /* [count] */
    int count;
    double threshold; /* < 0: the model's own */
    bool json;
    ole_json w;
    int64_t done; /* files */
    bool failed;
} predicting;

static bool parse(predicting *p, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"MODEL", &p->from.model_path, MODEL_HELP},
        {"FILE", p->words,
         "png, jpeg, webp, bmp, tiff, pgm or ppm images, folders of them, X.npy, .npz or .csv "
         "(each row), or - for stdin: an image, or names, one per line (default: the run's test "
         "set)"},
        {0},
    };
    const ole_option options[] = {
        {"threshold", OLE_NUMBER, &p->threshold, "X",
         .help = "score, as printed, below which a sample is unknown; 0: never (default: the "
                 "model's threshold)",
         .min = 0, .max = 1},
        ALIGN_OPTION(&p->from.flags.align),
        THREADS_OPTION(&p->from.threads),
        JSON_OPTION(&p->json),
        {0},
    };
    const arg_command command = {
        .name = "predict",
        .summary = predict_summary,
        .example = "  $ ole predict runs/first cat.png photos/\n"
                   "  $ find . -name '*.jpg' | ole predict runs/first -\n"
                   "  $ curl -s https://example.org/cat.jpg | ole predict runs/first -\n"
                   "  $ ole predict runs/vectors X.npy\n",
        .about = "Prints the class of each sample, the score (0 to 1) and the next best classes;\n"
                 "'unknown' below the threshold that training or 'ole novelty' stored in the\n"
                 "model.\n",
        .positionals = positionals,
        .last_optional = true,
        .many = &p->count,
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

/* ---- Printing ----------------------------------------------------------------------------- */

static const char *label_of(const ole_model_info *info, const ole_prediction *p) {
    return p->label < 0 ? "unknown" : info->class_names[p->label];
}

static void print_text(const ole_model_info *info, const char *path, int64_t row,
                       const ole_prediction *p) {
    if (path) print_name(stdout, path);
    if (row >= 0) printf(path ? ", row %" PRId64 : "row %" PRId64, row);
    bool unknown = p->label < 0; /* then the score is that of the nearest class */
    printf(": ");
    print_name(stdout, label_of(info, p));
    if (unknown) {
        printf(" (");
        print_name(stdout, info->class_names[p->best]);
    }
    printf(" %.3f", p->score);
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++) {
        printf(i || unknown ? ", " : " (");
        print_name(stdout, info->class_names[p->runner_up[i]]);
        printf(" %.3f", p->runner_up_score[i]);
    }
    printf(unknown || p->runner_up[0] >= 0 ? ")\n" : "\n");
}

static void json_class(ole_json *w, const ole_model_info *info, int label, double score) {
    ole_json_object(w, NULL, J("label", info->class_names[label]), J("score", score));
}

/* With what decides whether the sample is known: --threshold goes before the model's. */
static void print_json(ole_json *w, const ole_model_info *info, const char *path, int64_t row,
                       double given, const ole_prediction *p) {
    ole_json_open(w, NULL, '{');
    if (path) ole_json_string(w, row < 0 ? "image" : "file", path);
    if (row >= 0) ole_json_integer(w, "row", row);
    ole_json_put(w, J("label", label_of(info, p)), J("known", (bool)(p->label >= 0)),
                 J("score", p->score));
    ole_score score = given >= 0.0 ? OLE_SCORE_CALIBRATED : info->threshold_score;
    if (score != OLE_SCORE_NONE)
        ole_json_put(w, J("threshold_score", ole_score_name(score)),
                     J("known_score", given >= 0.0 ? p->score : p->known_score),
                     J("threshold", given >= 0.0 ? given : info->threshold));
    ole_json_open(w, "classes", '[');
    json_class(w, info, p->best, p->score);
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++)
        json_class(w, info, p->runner_up[i], p->runner_up_score[i]);
    ole_json_close(w);
    ole_json_close(w);
}

/* A row of a file, or (-1) the image in it; without a file, a row of a data set. */
static void print(predicting *a, const char *path, int64_t row, ole_prediction *p) {
    const ole_model_info *info = ole_model_get_info(a->from.model);
    progress_clear(&a->from.line);
    if (a->threshold >= 0.0) p->label = p->score >= a->threshold ? p->best : -1;
    if (a->json)
        print_json(&a->w, info, path, row, a->threshold, p);
    else
        print_text(info, path, row, p);
}

/* ---- Files -------------------------------------------------------------------------------- */

/* Models of vectors take nothing but arrays. */
static bool takes_arrays(const predicting *a) {
    const ole_model_info *info = ole_model_get_info(a->from.model);
    return info->height == 1 && info->width == 1;
}

/* float32 rows of a model of vectors, where they lie in the file. False: not such a file, or the
 * model's numbers of dimensions differ; `predicted` tells whether anything was done. */
static bool predict_mapped(predicting *a, const char *path, bool *predicted, ole_error *error) {
    enum { CHUNK = 8192 };
    static ole_prediction predictions[CHUNK];
    const int64_t dim = ole_model_get_info(a->from.model)->channels;
    ole_npy *file = NULL;
    *predicted = false;
    if (ole_features_open(&file, path, NULL, NULL) != OLE_OK) return false;
    const ole_npy_header *h = ole_npy_get_header(file);
    const float *rows = h->dtype == OLE_F32 ? ole_npy_data(file) : NULL;
    bool good = *predicted = rows && h->ndim == 2 && h->shape[1] == dim && h->count > 0;
    for (int64_t first = 0; good && first < h->shape[0] && !interrupted(); first += CHUNK) {
        int64_t count = h->shape[0] - first < CHUNK ? h->shape[0] - first : CHUNK;
        const float *from = rows + first * dim;
        good = ole_model_predict(a->from.model, from, count, predictions, error) == OLE_OK;
        if (!good) { /* the model counts the rows of one call */
            const ole_error why = *error;
            int64_t bad = embedding_bad_row(from, count, dim);
            if (bad >= 0)
                snprintf(error->message, sizeof error->message,
                         "%s: row %" PRId64 " holds NaN or Inf", ole_quote_string(path).text,
                         first + bad);
            else
                snprintf(error->message, sizeof error->message,
                         "%s, from row %" PRId64 " on: %.200s", ole_quote_string(path).text, first,
                         why.message);
        }
        for (int64_t i = 0; i < count && good; i++)
            print(a, path, first + i, &predictions[i]);
        if (good && h->shape[0] > CHUNK)
            progress_images(&a->from.line, "rows", first + count, h->shape[0]);
    }
    ole_npy_close(file);
    return good;
}

/* All rows of an array or a table; the message of a failure is in `error`. */
static bool predict_rows(predicting *a, const char *path, ole_error *error) {
    int64_t count = 0;
    float *rows;
    bool predicted = false;
    if (takes_arrays(a) && predict_mapped(a, path, &predicted, error)) return true;
    if (predicted) return false;
    *error = (ole_error){.message = "out of memory"};
    bool good = read_sample_rows("predict", a->from.model, a->from.model_path, path, &rows, &count,
                                 error) == OLE_OK;
    ole_prediction *p = good ? calloc((size_t)count, sizeof *p) : NULL;
    if (p && ole_model_predict(a->from.model, rows, count, p, error) != OLE_OK) {
        const ole_error why = *error;
        snprintf(error->message, sizeof error->message, "%s: %.200s", ole_quote_string(path).text,
                 why.message);
        good = false;
    }
    good = good && p;
    for (int64_t i = 0; i < count && good; i++)
        print(a, path, i, &p[i]);
    free(p);
    free(rows);
    return good;
}

/* An image, aligned where its landmarks are known; the message of a failure is in `error`. */
static bool predict_image(predicting *a, const char *path, ole_prediction *p, ole_error *error) {
    ole_model *model = a->from.model;
    if (!a->from.marks.aligner) return ole_model_predict_file(model, path, p, error) == OLE_OK;
    const ole_model_info *info = ole_model_get_info(model);
    float *sample = malloc((size_t)info->channels * (size_t)info->height * (size_t)info->width *
                           sizeof *sample);
    *error = (ole_error){.message = "out of memory for an image"};
    bool good = sample && alignment_read(&a->from.marks, model, path, sample, error) == OLE_OK &&
                ole_model_predict(model, sample, 1, p, error) == OLE_OK;
    free(sample);
    return good;
}

/* One that cannot be read does not stop the others; true after Ctrl-C. */
static bool predict_file(void *context, const char *path) {
    predicting *a = context;
    if (interrupted()) return true;
    if (a->done < a->count) /* of folders and lists the end is not known */
        progress_images(&a->from.line, "files", a->done, a->count);
    else if (progress_due(&a->from.line))
        progress_show(&a->from.line, "%" PRId64 " files", a->done);
    bool array = takes_arrays(a) || ole_input_is_array(path);
    ole_prediction p;
    ole_error error;
    bool good = array ? predict_rows(a, path, &error) : predict_image(a, path, &p, &error);
    if (!good) {
        progress_clear(&a->from.line);
        fail_command("predict", "%s", error.message);
        a->failed = true;
    } else if (!array) {
        print(a, path, -1, &p);
    }
    a->done++;
    return false;
}

/* ---- The run's data ----------------------------------------------------------------------- */

static bool predict_samples(predicting *a) {
    const ole_dataset *set = a->from.set;
    const ole_dataset_info *info = ole_dataset_get_info(set);
    const ole_split split = OLE_SPLIT_TEST;
    ole_error error = {.message = "out of memory for a sample"};
    float *sample = malloc((size_t)info->channels * (size_t)info->height * (size_t)info->width *
                           sizeof *sample);
    bool good = sample;
    if (info->count[split] == 0) {
        good = false;
        snprintf(error.message, sizeof error.message, "the run has no test set; name files");
    }
    for (int64_t i = 0; i < info->count[split] && good && !interrupted(); i++) {
        ole_prediction p;
        good = ole_dataset_sample(set, split, i, sample, &error) == OLE_OK &&
               ole_model_predict(a->from.model, sample, 1, &p, &error) == OLE_OK;
        char path[PATH_MAX];
        const char *file = sample_path(&a->from, split, i, path);
        if (good) print(a, file, file ? -1 : ole_dataset_row(set, split, i), &p);
    }
    if (!good) fail_command("predict", "%s", error.message);
    free(sample);
    return good;
}

/* ---- The command -------------------------------------------------------------------------- */

static int predict(predicting *a) {
    if (!ole_model_get_info(a->from.model)->classifier)
        return fail_command("predict",
                            "%s: has no trained classifier, so it cannot label samples; train with "
                            "--loss softmax+ole or fit with --method linear, or compare features "
                            "with 'ole features' or 'ole eval'",
                            a->from.model_path);
    ole_json_init(&a->w, stdout, 2);
    if (a->json) ole_json_open(&a->w, NULL, '[');
    catch_interrupts();
    signal(SIGPIPE, SIG_DFL); /* what nobody reads any more need not be predicted */
    bool enough = false;
    for (int i = 0; i < a->count && !enough; i++) {
        a->from.marks.word = a->words[i];
        enough = each_file("predict", a->words[i], takes_arrays(a), predict_file, a, &a->failed);
    }
    if (a->count == 0) a->failed = !predict_samples(a);
    progress_clear(&a->from.line);
    if (a->json) ole_json_close(&a->w);
    if (interrupted()) return end_interrupted("predict", "the remaining files were skipped");
    return a->failed ? EXIT_FAILED : EXIT_DONE;
}

int run_predict(int argc, char **argv) {
    predicting a = {.words = (const char **)argv + 1, .threshold = -1.0};
    model_and_data_init(&a.from, (arg_positional[2]){{0}},
                        (ole_option[MODEL_AND_DATA_OPTIONS]){{0}});
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (a.count == 0)
        code = model_and_data_open(&a.from, "predict");
    else
        code = model_and_data_open_files(&a.from, "predict");
    if (code == EXIT_DONE) code = predict(&a);
    model_and_data_close(&a.from);
    return code;
}
