/*
 * cli/export.c - `ole export`: a model for other programs.
 */
#include "commands.h"
#include "common/common.h"
#include "common/progress.h"

#include "formats/json.h"
#include <ole/train/export.h>

#include <inttypes.h>
#include <stdio.h>

const char export_summary[] = "a model as an ONNX file";

typedef struct arguments {
    const char *model, *onnx;
    bool fold, json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){0};
    const arg_positional positionals[] = {
        {"MODEL", &a->model, "a .safetensors file or a run folder"},
        {0},
    };
    const ole_option options[] = {
        {"onnx", OLE_TEXT, &a->onnx, "M.onnx", .help = "file to write", .flags = OLE_REQUIRED},
        {"fold", OLE_SWITCH, .to = &a->fold,
         .help = "fold batch norms into the layers before them"},
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "export",
        .summary = export_summary,
        .example = "  $ ole export runs/first --onnx first.onnx\n"
                   "  $ ole export runs/first --onnx first.onnx --fold\n",
        .about =
            "Writes a model as ONNX (operator set 17). It takes 'images', float32 [N, C, H, W]\n"
            "in 0 to 1 (bytes / 255; it normalises them itself), and gives 'features' [N, D]\n"
            "and 'logits' [N, classes]; with a threshold for 'unknown' also 'known_score' [N]:\n"
            "a sample is unknown where it is under the 'threshold' of the metadata, which also\n"
            "have the names of the classes.\n",
        .positionals = positionals,
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

static void print_text(const arguments *a, const ole_onnx_summary *s) {
    printf("%s: images [N, %d, %d, %d] to features [N, %" PRId64 "] and logits [N, %d]\n", a->onnx,
           s->channels, s->height, s->width, s->features, s->classes);
    printf("%d ops, %" PRId64 " numbers, %.3g MB", s->ops, s->weights, (double)s->bytes / 1e6);
    if (a->fold) printf(", %d batch norm%s folded", s->folded, s->folded == 1 ? "" : "s");
    printf("\n");
}

static void print_json(const arguments *a, const ole_onnx_summary *s) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_string(&w, "onnx", a->onnx);
    json_shape(&w, "input", s->channels, s->height, s->width);
    ole_json_integer(&w, "features", s->features);
    ole_json_integer(&w, "classes", s->classes);
    ole_json_integer(&w, "ops", s->ops);
    ole_json_integer(&w, "folded", s->folded);
    ole_json_integer(&w, "weights", s->weights);
    ole_json_integer(&w, "bytes", s->bytes);
    ole_json_bool(&w, "classifier", s->classifier);
    ole_json_close(&w);
}

int run_export(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (!spares_inputs("export", &a.onnx, 1, &a.model, 1)) return EXIT_USAGE;
    ole_onnx_options options;
    ole_onnx_options_init(&options);
    options.fold = a.fold;
    ole_onnx_summary summary;
    ole_error error;
    progress line = progress_start();
    options.progress = progress_share;
    options.context = &line;
    progress_wait(&line, "writing");
    ole_status status = ole_export_onnx(a.model, a.onnx, &options, &summary, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_command("export", "%s", error.message);
    if (!summary.classifier)
        fprintf(stderr, "ole export: warning: the model was trained with OLE alone, without a "
                        "classifier: its logits mean nothing; use the features\n");
    (a.json ? print_json : print_text)(&a, &summary);
    return EXIT_DONE;
}
