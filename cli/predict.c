/*
 * cli/predict.c - `ole predict`: what a model sees in image files, or in the rows of .npy files.
 */
#include "commands.h"
#include "common/common.h"
#include "common/progress.h"

#include "formats/json.h"
#include <ole/train/model.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char predict_summary[] = "label, score and runners-up of images or vectors";

typedef struct arguments {
    const char *model;
    const char **images; /* [count] */
    int count;
    double threshold; /* < 0: the model's own */
    int threads;
    bool json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"MODEL", &a->model, "a .safetensors file or a run folder"},
        {"IMAGE", a->images, "png, jpeg, webp, bmp, tiff, pgm or ppm files, or X.npy: each row"},
        {0},
    };
    const ole_option options[] = {
        {"threshold", OLE_NUMBER, &a->threshold, "X",
         .help =
             "score, as printed, under which a sample is unknown (default: the model's threshold)",
         .min = 0, .max = 1},
        THREADS_OPTION(&a->threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "predict",
        .summary = predict_summary,
        .example = "  $ ole predict runs/first cat.png dog.jpg\n"
                   "  $ ole predict runs/vectors X.npy\n",
        .about = "Prints the class of each sample, the score (0 to 1) and the next best classes;\n"
                 "'unknown' under the threshold that 'ole novelty' has stored in the model.\n",
        .positionals = positionals,
        .many = &a->count,
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
    print_name(stdout, path);
    if (row >= 0) printf(", row %" PRId64, row);
    printf(": ");
    print_name(stdout, label_of(info, p));
    printf(" %.3f", p->score);
    bool unknown = p->label < 0;
    if (unknown) {
        printf(" (");
        print_name(stdout, info->class_names[p->best]);
    }
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++) {
        printf(i || unknown ? ", " : " (");
        print_name(stdout, info->class_names[p->runner_up[i]]);
        printf(" %.3f", p->runner_up_score[i]);
    }
    printf(unknown || p->runner_up[0] >= 0 ? ")\n" : "\n");
}

static void json_class(ole_json *w, const ole_model_info *info, int label, double score) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "label", info->class_names[label]);
    ole_json_number(w, "score", score);
    ole_json_close(w);
}

/* By what the sample is known or unknown: --threshold goes before the model's. */
static void json_threshold(ole_json *w, const ole_model_info *info, double given,
                           const ole_prediction *p) {
    ole_score score = given >= 0.0 ? OLE_SCORE_CALIBRATED : info->threshold_score;
    if (score == OLE_SCORE_NONE) return;
    ole_json_string(w, "threshold_score", ole_score_name(score));
    ole_json_number(w, "known_score", given >= 0.0 ? p->score : p->known_score);
    ole_json_number(w, "threshold", given >= 0.0 ? given : info->threshold);
}

static void print_json(ole_json *w, const ole_model_info *info, const char *path, int64_t row,
                       double threshold, const ole_prediction *p) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, row < 0 ? "image" : "file", path);
    if (row >= 0) ole_json_integer(w, "row", row);
    ole_json_string(w, "label", label_of(info, p));
    ole_json_bool(w, "known", p->label >= 0);
    ole_json_number(w, "score", p->score);
    json_threshold(w, info, threshold, p);
    ole_json_open(w, "classes", '[');
    json_class(w, info, p->best, p->score);
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++)
        json_class(w, info, p->runner_up[i], p->runner_up_score[i]);
    ole_json_close(w);
    ole_json_close(w);
}

/* A row of a file, or (-1) the image in it. */
static void print(const arguments *a, const ole_model_info *info, const char *path, int64_t row,
                  ole_prediction *p, ole_json *w) {
    if (a->threshold >= 0.0) p->label = p->score >= a->threshold ? p->best : -1;
    if (a->json)
        print_json(w, info, path, row, a->threshold, p);
    else
        print_text(info, path, row, p);
}

/* ---- Images ------------------------------------------------------------------------------- */

/* One image; false after a message. */
static bool predict_image(const arguments *a, ole_model *model, const char *path, progress *line,
                          ole_json *w) {
    ole_prediction p;
    ole_error error;
    ole_status status = ole_model_predict_file(model, path, &p, &error);
    progress_clear(line);
    if (status != OLE_OK) {
        fail_command("predict", "%s", error.message);
        return false;
    }
    print(a, ole_model_get_info(model), path, -1, &p, w);
    return true;
}

/* ---- Arrays ------------------------------------------------------------------------------- */

/* Whether a file is an array of samples: models of vectors take nothing else. */
static bool is_array(const ole_model_info *info, const char *path) {
    size_t length = strlen(path);
    return (info->height == 1 && info->width == 1) ||
           (length > 4 && strcmp(path + length - 4, ".npy") == 0);
}

/* All rows of a file. */
static bool predict_rows(const arguments *a, ole_model *model, const char *path, progress *line,
                         ole_json *w) {
    int64_t count = 0;
    float *rows;
    ole_error error = {.message = "out of memory"};
    progress_clear(line);
    bool good = ole_model_read_npy(model, path, &rows, &count, &error) == OLE_OK;
    ole_prediction *p = good ? calloc((size_t)count, sizeof *p) : NULL;
    good = p && ole_model_predict(model, rows, count, p, &error) == OLE_OK;
    if (!good) fail_command("predict", "%s", error.message);
    for (int64_t i = 0; i < count && good; i++)
        print(a, ole_model_get_info(model), path, i, &p[i], w);
    free(p);
    free(rows);
    return good;
}

/* ---- The command -------------------------------------------------------------------------- */

static bool has_labels(const arguments *a, const ole_model *model) {
    if (ole_model_get_info(model)->classifier) return true;
    fail_command("predict",
                 "%s: trained with OLE alone, without a classifier, so it cannot label samples; "
                 "train with --loss softmax+ole, or compare features with 'ole features' or 'ole "
                 "eval'",
                 a->model);
    return false;
}

/* All files, until Ctrl-C; one that cannot be read does not stop the others. */
static int predict(const arguments *a, ole_model *model) {
    progress line = progress_start();
    int code = EXIT_DONE, done = 0;
    ole_json w;
    ole_json_init(&w, stdout, 2);
    if (a->json) ole_json_open(&w, NULL, '[');
    catch_interrupts();
    signal(SIGPIPE, SIG_DFL); /* what nobody reads any more need not be predicted */
    for (; done < a->count && !progress_images(&line, "files", done, a->count); done++) {
        const char *path = a->images[done];
        bool good = is_array(ole_model_get_info(model), path)
                        ? predict_rows(a, model, path, &line, &w)
                        : predict_image(a, model, path, &line, &w);
        if (!good) code = EXIT_FAILED;
    }
    progress_clear(&line);
    if (a->json) ole_json_close(&w);
    return done < a->count ? end_interrupted("predict", "the remaining files were skipped") : code;
}

int run_predict(int argc, char **argv) {
    arguments a = {.threshold = -1.0, .threads = default_threads()};
    a.images = calloc((size_t)argc + 1, sizeof *a.images);
    if (!a.images) return fail_command("predict", "out of memory");
    int code;
    if (parse(&a, argc, argv, &code)) {
        ole_model *model;
        ole_error error;
        if (ole_model_load(&model, a.model, a.threads, &error) == OLE_OK) {
            code = has_labels(&a, model) ? predict(&a, model) : EXIT_FAILED;
            ole_model_free(model);
        } else {
            code = fail_command("predict", "%s", error.message);
        }
    }
    free(a.images);
    return code;
}
