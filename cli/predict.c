/*
 * cli/predict.c - `ole predict`: what a model sees in image files.
 */
#include "commands.h"
#include "progress.h"

#include <ole/json.h>
#include <ole/model.h>

#include <stdio.h>
#include <stdlib.h>

const char predict_summary[] = "label, score and runners-up of images";

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
        {"IMAGE", a->images, "png, jpeg, pgm or ppm files"},
        {0},
    };
    const arg_option options[] = {
        {"threshold", ARG_NUMBER, &a->threshold, "X",
         .help = "softmax score under which an image is unknown (default: the model's threshold)",
         .min = 0, .max = 1},
        {"threads", ARG_INTEGER, &a->threads, "N", .help = "threads (default: all processors)",
         .min = 1, .max = 1024},
        {"json", ARG_FLAG, .to = &a->json, .help = "print JSON"},
        {0},
    };
    const arg_command command = {
        .name = "predict",
        .summary = predict_summary,
        .example = "  $ ole predict runs/first cat.png dog.jpg\n",
        .about = "Prints the class of each image, the score (0 to 1) and the next best classes;\n"
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

static void print_text(const ole_model_info *info, const char *path, const ole_prediction *p) {
    printf("%s: %s %.3f", path, label_of(info, p), p->score);
    bool unknown = p->label < 0;
    if (unknown) printf(" (%s", info->class_names[p->best]);
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++)
        printf("%s%s %.3f", i || unknown ? ", " : " (", info->class_names[p->runner_up[i]],
               p->runner_up_score[i]);
    printf(unknown || p->runner_up[0] >= 0 ? ")\n" : "\n");
}

static void json_class(ole_json *w, const ole_model_info *info, int label, double score) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "label", info->class_names[label]);
    ole_json_number(w, "score", score);
    ole_json_close(w);
}

static void print_json(ole_json *w, const ole_model_info *info, const char *path,
                       const ole_prediction *p) {
    ole_json_open(w, NULL, '{');
    ole_json_string(w, "image", path);
    ole_json_string(w, "label", label_of(info, p));
    ole_json_bool(w, "known", p->label >= 0);
    ole_json_number(w, "score", p->score);
    if (info->threshold_score != OLE_SCORE_NONE) {
        ole_json_string(w, "threshold_score", ole_score_name(info->threshold_score));
        ole_json_number(w, "known_score", p->known_score);
        ole_json_number(w, "threshold", info->threshold);
    }
    ole_json_open(w, "classes", '[');
    json_class(w, info, p->best, p->score);
    for (int i = 0; i < OLE_RUNNERS_UP && p->runner_up[i] >= 0; i++)
        json_class(w, info, p->runner_up[i], p->runner_up_score[i]);
    ole_json_close(w);
    ole_json_close(w);
}

/* ---- The command -------------------------------------------------------------------------- */

/* One image; where it cannot be read, that is said instead. */
static bool predict_image(const arguments *a, ole_model *model, int i, progress *line,
                          ole_json *w) {
    const ole_model_info *info = ole_model_get_info(model);
    ole_prediction p;
    ole_error error;
    ole_status status = ole_model_predict_file(model, a->images[i], &p, &error);
    progress_clear(line);
    if (status != OLE_OK) {
        fail_command("predict", "%s", error.message);
        return false;
    }
    if (a->threshold >= 0.0) p.label = p.score >= a->threshold ? p.best : -1;
    if (a->json)
        print_json(w, info, a->images[i], &p);
    else
        print_text(info, a->images[i], &p);
    return true;
}

/* All images, until Ctrl-C; one that cannot be read does not stop the others. */
static int predict(const arguments *a, ole_model *model) {
    progress line = progress_start();
    int code = EXIT_DONE, done = 0;
    ole_json w;
    ole_json_init(&w, stdout, 2);
    if (a->json) ole_json_open(&w, NULL, '[');
    catch_interrupts();
    while (done < a->count && !progress_images(&line, "images", done, a->count))
        if (!predict_image(a, model, done++, &line, &w)) code = EXIT_FAILED;
    progress_clear(&line);
    if (a->json) ole_json_close(&w);
    return done < a->count ? end_interrupted("predict", "the images after that are left out")
                           : code;
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
            code = predict(&a, model);
            ole_model_free(model);
        } else {
            code = fail_command("predict", "%s", error.message);
        }
    }
    free(a.images);
    return code;
}
