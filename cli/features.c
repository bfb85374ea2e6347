/*
 * cli/features.c - `ole features`: what a model's last layer reads, as .npy files.
 */
#include "commands.h"
#include "common/common.h"
#include "common/model_and_data.h"

#include "formats/json.h"
#include <ole/npy.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char features_summary[] = "deep features and labels of a data set, as .npy files";

/* ---- Both files or none ------------------------------------------------------------------- */

/* A file that is about to be replaced, under a second name: "" where there is none to keep. */
typedef struct kept_file {
    char path[PATH_MAX];   /* links resolved */
    char beside[PATH_MAX]; /* the second name */
    bool is_new;           /* there was no file */
} kept_file;

static void keep_file(kept_file *k, const char *path) {
    struct stat about;
    *k = (kept_file){.is_new = stat(path, &about) != 0};
    if (k->is_new || !S_ISREG(about.st_mode) || !realpath(path, k->path)) return;
    int size = (int)sizeof k->beside;
    if (snprintf(k->beside, sizeof k->beside, "%s.%ld.part", k->path, (long)getpid()) >= size ||
        link(k->path, k->beside) != 0)
        k->beside[0] = '\0'; /* a file system without links: it cannot be put back */
}

/* Puts back what was there, or lets it go. */
static void end_keeping(const kept_file *k, const char *path, bool put_back) {
    if (put_back && k->is_new) unlink(path);
    if (put_back && k->beside[0]) rename(k->beside, k->path);
    if (!put_back && k->beside[0]) unlink(k->beside);
}

static ole_status write_both(const char *const out[2], const int64_t shape[2],
                             const float *features, const int64_t *labels, ole_error *error) {
    kept_file before;
    keep_file(&before, out[0]);
    ole_status status = ole_npy_write(out[0], OLE_F32, 2, shape, features, error);
    bool first = status == OLE_OK;
    if (first) status = ole_npy_write(out[1], OLE_I64, 1, shape, labels, error);
    end_keeping(&before, out[0], first && status != OLE_OK);
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

/* Runs the split and writes both files; stopped: neither. */
static ole_status write_files(model_and_data *s, const char *const out[2], float *features,
                              int64_t *labels, bool *stopped, ole_error *error) {
    int64_t rows = ole_dataset_get_info(s->set)->count[s->split];
    const int64_t shape[2] = {rows, ole_model_get_info(s->model)->features};
    const int32_t *given = ole_dataset_labels(s->set, (ole_split)s->split);
    for (int64_t i = 0; i < rows; i++)
        labels[i] = given[i];
    ole_status status =
        ole_model_run_split(s->model, s->set, (ole_split)s->split, features, NULL, error);
    progress_clear(&s->line);
    *stopped = interrupted();
    if (*stopped || status != OLE_OK) return status;
    return write_both(out, shape, features, labels, error);
}

static void report(const model_and_data *s, const char *const out[2], bool json) {
    int64_t rows = ole_dataset_get_info(s->set)->count[s->split];
    int64_t dim = ole_model_get_info(s->model)->features;
    if (!json) {
        printf("%s: %" PRId64 " features of %" PRId64 " dimensions; %s: their labels\n", out[0],
               rows, dim, out[1]);
        return;
    }
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_integer(&w, "n", rows);
    ole_json_integer(&w, "d", dim);
    ole_json_string(&w, "features", out[0]);
    ole_json_string(&w, "labels", out[1]);
    ole_json_close(&w);
}

static int extract(model_and_data *s, const char *const out[2], bool json) {
    int64_t rows = ole_dataset_get_info(s->set)->count[s->split];
    if (rows == 0)
        return fail_command("features", "%s: this split has no samples; --split names another%s",
                            s->data,
                            s->split == OLE_SPLIT_VALIDATION ? ", --val-split makes this one" : "");
    size_t dim = (size_t)ole_model_get_info(s->model)->features;
    float *features = malloc((size_t)rows * dim * sizeof *features);
    int64_t *labels = malloc((size_t)rows * sizeof *labels);
    ole_error error;
    bool stopped = false;
    int code = EXIT_DONE;
    if (!features || !labels)
        code = fail_command("features", "out of memory for %" PRId64 " features", rows);
    else if (write_files(s, out, features, labels, &stopped, &error) != OLE_OK)
        code = fail_command("features", "%s", error.message);
    else if (stopped)
        code = end_interrupted("features", "nothing was written");
    else
        report(s, out, json);
    free(features);
    free(labels);
    return code;
}

int run_features(int argc, char **argv) {
    model_and_data s;
    bool json = false;
    const char *out[2] = {NULL, NULL};
    arg_positional positionals[3] = {{0}};
    ole_option options[MODEL_AND_DATA_OPTIONS + 3] = {{0}};
    model_and_data_init(&s, positionals, options);
    options[MODEL_AND_DATA_OPTIONS] = (ole_option){"out",
                                                   OLE_PAIR,
                                                   out,
                                                   "F.npy L.npy",
                                                   .flags = OLE_REQUIRED,
                                                   .help = "features and labels to write"};
    options[MODEL_AND_DATA_OPTIONS + 1] = (ole_option)JSON_OPTION(&json);
    const arg_command command = {
        .name = "features",
        .summary = features_summary,
        .example = "  $ ole features runs/first digits --out F.npy L.npy\n",
        .about = "Writes the input of a model's classifier for each sample of a part of a data\n"
                 "set: float32 [rows, dimensions], and the labels, int64 [rows].\n",
        .positionals = positionals,
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;
    const char *const inputs[] = {s.model_path, s.data};
    if (!spares_inputs("features", out, 2, inputs, 2)) return EXIT_USAGE;
    code = model_and_data_open(&s, "features");
    if (code == EXIT_DONE) code = extract(&s, out, json);
    model_and_data_close(&s);
    return code;
}
