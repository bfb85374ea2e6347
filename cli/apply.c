/*
 * cli/apply.c - `ole apply`: the features that a model makes of embeddings, row by row.
 */
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"

#include "formats/json.h"
#include <ole/train/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char apply_summary[] = "map embeddings with a fitted model";

enum { CHUNK = 16384 }; /* rows between two looks at Ctrl-C */

typedef struct arguments {
    const char *model, *features, *out;
    int threads;
    bool json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){.threads = default_threads()};
    const arg_positional positionals[] = {
        {"MODEL", &a->model, "a model of vectors: " MODEL_HELP},
        FEATURES_POSITIONAL(&a->features),
        {0},
    };
    const ole_option options[] = {
        {"out", OLE_TEXT, &a->out, "Z.npy", .flags = OLE_REQUIRED,
         .help = "the mapped rows to write, float32 [rows, features]"},
        THREADS_OPTION(&a->threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "apply",
        .summary = apply_summary,
        .example = "  $ ole fit X.npy labels.txt --out map.safetensors\n"
                   "  $ ole apply map.safetensors X.npy --out Z.npy\n"
                   "  $ ole analyze Z.npy labels.txt --out page.html\n",
        .about = "Writes the input of the model's classifier for each row, in the rows' order.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    const char *inputs[] = {a->model, a->features};
    return takes_array("apply", a->out) && spares_inputs("apply", &a->out, 1, inputs, 2);
}

/* Maps the rows, `mapped` of them before Ctrl-C. */
static ole_status map_rows(ole_model *model, const embedding *e, float *to, int64_t *mapped,
                           ole_error *error) {
    const int64_t width = ole_model_get_info(model)->features;
    progress line = progress_start();
    ole_status status = OLE_OK;
    catch_interrupts();
    for (*mapped = 0; *mapped < e->rows && status == OLE_OK && !interrupted();) {
        int64_t rows = e->rows - *mapped < CHUNK ? e->rows - *mapped : CHUNK;
        const float *from = (const float *)e->features + *mapped * e->dim;
        status = ole_model_run(model, from, rows, to + *mapped * width, NULL, error);
        if (status == OLE_OK) *mapped += rows;
        progress_images(&line, "rows", *mapped, e->rows);
    }
    progress_clear(&line);
    return status;
}

static int apply(const arguments *a, ole_model *model, const embedding *e) {
    const ole_model_info *info = ole_model_get_info(model);
    if (info->height != 1 || info->width != 1)
        return fail_command("apply", "%s: takes images, not vectors; use 'ole features'", a->model);
    if (info->channels != e->dim)
        return fail_command("apply", "%s: rows have %" PRId64 " dimensions, but the model takes %d",
                            a->features, e->dim, info->channels);
    ole_error error;
    int64_t mapped;
    float *out = malloc((size_t)(e->rows * info->features) * sizeof *out);
    if (!out)
        return fail_command("apply", "out of memory for %" PRId64 " rows of %" PRId64 " features",
                            e->rows, info->features);
    int code = EXIT_DONE;
    ole_status status = map_rows(model, e, out, &mapped, &error);
    if (status == OLE_ERROR_DATA) /* the model counts the rows of one call */
        code = fail_command("apply", "%s: row %" PRId64 " holds NaN or Inf", a->features,
                            embedding_bad_row(e->features, e->rows, e->dim));
    else if (status != OLE_OK)
        code = fail_command("apply", "%s, from row %" PRId64 " on: %s", a->features, mapped,
                            error.message);
    else if (mapped < e->rows)
        code = end_interrupted("apply", "nothing was written");
    else if (write_array(a->out, OLE_F32, e->rows, info->features, out, "f", &error) != OLE_OK)
        code = fail_command("apply", "%s", error.message);
    free(out);
    if (code != EXIT_DONE) return code;
    if (a->json) {
        ole_json w;
        ole_json_init(&w, stdout, 2);
        ole_json_object(&w, NULL, J("n", e->rows), J("d", info->features), J("features", a->out));
    } else {
        print_lines("%s: %" PRId64 " rows of %" PRId64 " features\n", a->out, e->rows,
                    info->features);
    }
    return EXIT_DONE;
}

int run_apply(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (!outputs_ready("apply", &a.out, 1, NULL)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "apply", .dtype = DTYPE_FLOAT32, .keeps_all = true};
    ole_model *model = NULL;
    embedding e = {0};
    code = open_model("apply", a.model, a.threads, &model);
    if (code == EXIT_DONE)
        code = embedding_open(&e, &reader, a.features, NULL) ? apply(&a, model, &e) : EXIT_FAILED;
    embedding_close(&e);
    ole_model_free(model);
    return code;
}
