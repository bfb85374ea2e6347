/*
 * cli/export.c - `ole export`: a model for other programs, or for a model hub.
 */
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/progress.h"

#include "base/quote.h"
#include "formats/json.h"
#include <ole/train/export.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char export_summary[] = "write a model as ONNX, or as a folder for a model hub";

typedef struct arguments {
    const char *model, *onnx, *hub;
    int threads;
    bool fold, json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){.threads = default_threads()};
    const arg_positional positionals[] = {
        {"MODEL", &a->model, MODEL_HELP},
        {0},
    };
    const ole_option options[] = {
        {"onnx", OLE_TEXT, &a->onnx, "M.onnx", .help = "ONNX file to write"},
        {"fold", OLE_SWITCH, .to = &a->fold,
         .help = "fold batch norms into the layers before them, in this file"},
        {"hub", OLE_TEXT, &a->hub, "FOLDER", .help = "folder to write, for a model hub"},
        THREADS_OPTION(&a->threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "export",
        .summary = export_summary,
        .example = "  $ ole export runs/first --onnx first.onnx\n"
                   "  $ ole export runs/first --onnx first.onnx --fold\n"
                   "  $ ole export runs/first --hub first-digits\n",
        .about =
            "Writes a model as ONNX (operator set 17). It takes 'images', float32 [N, C, H, W]\n"
            "in 0 to 1 (bytes / 255; it normalises them itself), or 'x' [N, D] for a model of\n"
            "vectors, and gives 'features' [N, D] and 'logits' [N, classes]; with a threshold\n"
            "for 'unknown' also 'known_score' [N]: a sample is unknown if it is below the\n"
            "'threshold' of the metadata, which also hold the names of the classes.\n"
            "\n"
            "For a model hub: model.safetensors, model.onnx, config.json, a loader for PyTorch\n"
            "and README.md, a model card with data, classes, errors, calibration, threshold and\n"
            "how to load it. Upload the folder; 'ole predict hf:OWNER/MODEL' then fetches it.\n",
        .positionals = positionals,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, code)) return false;
    *code = EXIT_USAGE;
    if (!a->onnx && !a->hub)
        fail_command("export", "name what to write: --onnx M.onnx, --hub FOLDER, or both");
    else if (a->hub && !*a->hub)
        fail_command("export", "--hub '': name a folder");
    else if (a->fold && !a->onnx)
        fail_command("export", "--fold works only with --onnx");
    else
        return true;
    return false;
}

/* ---- Printing ----------------------------------------------------------------------------- */

static void print_onnx(const arguments *a, const ole_onnx_summary *s) {
    print_lines("%s: ", a->onnx);
    if (s->height == 1 && s->width == 1)
        printf("x [N, %d]", s->channels);
    else
        printf("images [N, %d, %d, %d]", s->channels, s->height, s->width);
    printf(" to features [N, %" PRId64 "] and logits [N, %d]\n", s->features, s->classes);
    printf("%d ops, %" PRId64 " weights, %.3g MB", s->ops, s->weights, (double)s->bytes / 1e6);
    if (a->fold) printf(", %d batch norm%s folded", s->folded, s->folded == 1 ? "" : "s");
    printf("\n");
}

static void print_hub(const arguments *a, const ole_hub_summary *s) {
    char *folder = ole_shell_word(a->hub);
    print_lines("%s: model.safetensors, model.onnx, config.json, load_in_torch.py, README.md\n",
                a->hub);
    if (s->samples > 0)
        printf("error %.2f %% on %" PRId64 " samples\n", s->error, s->samples);
    else
        print_lines("not measured%s%s\n", s->without[0] ? ": " : "", s->without);
    print_lines("choose a licence in README.md, then: huggingface-cli upload OWNER/%s %s\n",
                s->name, folder ? folder : a->hub);
    free(folder);
}

static void json_onnx(ole_json *w, const arguments *a, const ole_onnx_summary *s) {
    ole_json_string(w, "onnx", a->onnx);
    json_shape(w, "input", s->channels, s->height, s->width);
    ole_json_put(w, J("features", s->features), J("classes", s->classes), J("ops", s->ops),
                 J("folded", s->folded), J("weights", s->weights), J("bytes", s->bytes),
                 J("classifier", s->classifier));
}

static void json_hub(ole_json *w, const arguments *a, const ole_hub_summary *s) {
    ole_json_put(w, J("hub", a->hub), J("name", s->name), J("samples", s->samples),
                 J("error", s->error));
    if (s->without[0]) ole_json_string(w, "not_measured", s->without);
}

static void print_json(const arguments *a, const ole_onnx_summary *onnx,
                       const ole_hub_summary *hub) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    if (a->onnx) json_onnx(&w, a, onnx);
    if (a->hub) json_hub(&w, a, hub);
    ole_json_close(&w);
}

/* ---- The command -------------------------------------------------------------------------- */

static ole_status write_onnx(const arguments *a, const char *model, progress *line,
                             ole_onnx_summary *summary, ole_error *error) {
    ole_onnx_options options;
    ole_onnx_options_init(&options);
    options.fold = a->fold;
    options.progress = progress_share;
    options.context = line;
    progress_wait(line, "writing");
    return ole_export_onnx(model, a->onnx, &options, summary, error);
}

static ole_status write_hub(const arguments *a, const char *model, progress *line,
                            ole_hub_summary *summary, ole_error *error) {
    ole_hub_options options;
    ole_hub_options_init(&options);
    options.threads = a->threads;
    options.progress = progress_share;
    options.context = line;
    progress_wait(line, "reading");
    return ole_export_hub(model, a->hub, &options, summary, error);
}

int run_export(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    if (!spares_inputs("export", &a.onnx, 1, &a.model, 1)) return EXIT_USAGE;
    char model[PATH_MAX];
    code = find_model("export", a.model, model);
    if (code != EXIT_DONE) return code;
    ole_onnx_summary onnx;
    ole_hub_summary hub;
    ole_error error;
    progress line = progress_start();
    ole_status status = a.onnx ? write_onnx(&a, model, &line, &onnx, &error) : OLE_OK;
    if (status == OLE_OK && a.hub) status = write_hub(&a, model, &line, &hub, &error);
    progress_clear(&line);
    if (status != OLE_OK) return fail_command("export", "%s", error.message);
    if (!(a.onnx ? onnx : hub.onnx).classifier)
        fprintf(stderr, "ole export: warning: the model has no trained classifier: its logits are "
                        "meaningless; use the features\n");
    if (a.json) {
        print_json(&a, &onnx, &hub);
        return EXIT_DONE;
    }
    if (a.onnx) print_onnx(&a, &onnx);
    if (a.hub) print_hub(&a, &hub);
    return EXIT_DONE;
}
