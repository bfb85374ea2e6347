/*
 * cli/common/spare_inputs.c - outputs that would overwrite what a command reads: files, files of a
 * run, images and other files of its data.
 *
 * Every command asks here before it works, with all that it was given; the data of a run are found
 * through the run's config.yaml, so that they are safe where only the run is named.
 */
#include "common/common.h"

#include "formats/input.h"
#ifdef OLE_TRAIN
#include "data/images/image_name.h"
#include "train/options/recipe.h"
#include <ole/train/data.h>
#endif

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Whether `out` is the file `in`, or in the run folder `in` a file that a run needs. */
static bool is_input(const char *out, const char *in) {
    static const char *const files[] = {
        "",
        "/best.safetensors",
        "/last.safetensors",
        "/previous.safetensors",
        "/config.yaml",
        "/metrics.jsonl",
    };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (snprintf(path, sizeof path, "%s%s", in, files[i]) < PATH_MAX && same_file(out, path))
            return true;
    return false;
}

/* ---- Files of data ------------------------------------------------------------------------ */

#ifdef OLE_TRAIN

/* Whether the file is there and lies in the folder, at any depth. */
static bool lies_in(const char *file, const char *folder) {
    char *inner = realpath(file, NULL), *outer = realpath(folder, NULL);
    size_t length = outer ? strlen(outer) : 0;
    if (length == 1) length = 0; /* "/" */
    bool inside = inner && outer && strncmp(inner, outer, length) == 0 && inner[length] == '/';
    free(inner);
    free(outer);
    return inside;
}

/* Whether Olé writes files with such names: beside those of a data set they are outputs. */
static bool has_output_name(const char *name) {
    static const char *const endings[] = {".html", ".csv", ".json", ".onnx",
                                          ".npy",  ".txt", ".svg",  ".pdf"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

/* Whether `out` is an image in folder:PATH, or in the folder itself; or a file of another set. */
static bool is_of_data(const char *out, const char *data) {
    char folder[PATH_MAX];
    struct stat about;
    if (strncmp(data, "npy:", 4) == 0) return false; /* is_part_of() */
    if (stat(data, &about) == 0)
        return S_ISDIR(about.st_mode) && ole_image_has_name(out) && lies_in(out, data);
    if (ole_dataset_locate(data, folder, sizeof folder, NULL) != OLE_OK || !*folder) return false;
    bool images = strncmp(data, "folder:", 7) == 0;
    return (images ? ole_image_has_name(out) : !has_output_name(out)) && lies_in(out, folder);
}

#endif

/* The same for "data.csv:column", "data.npz:name" and the files of "npy:X.npy,y.npy". */
static bool is_part_of(const char *out, const char *input) {
    bool is_set = strncmp(input, "npy:", 4) == 0, found = false;
    char *names = strdup(is_set ? input + 4 : input), *rest = NULL, file[PATH_MAX];
    for (char *name = names; name && !found; name = rest) {
        rest = is_set ? strchr(name, ',') : NULL;
        if (rest) *rest++ = '\0';
        ole_input_file(name, file);
        found = is_input(out, file);
    }
    free(names);
    return found;
}

#ifdef OLE_TRAIN

/* Whether `out` belongs to the data that the run `in`, or the run of the model `in`, is of. */
static bool is_of_run(const char *out, const char *in) {
    char path[PATH_MAX];
    struct stat about;
    bool folder = stat(in, &about) == 0 && S_ISDIR(about.st_mode), found = false;
    const char *slash = strrchr(in, '/');
    int length = folder ? (int)strlen(in) : slash ? (int)(slash - in) : 0;
    snprintf(path, sizeof path, "%.*s%sconfig.yaml", length, in, length || slash == in ? "/" : "");
    ole_train_options run;
    ole_recipe *recipe;
    ole_train_options_init(&run);
    if (ole_recipe_read(&recipe, path, &run, NULL) != OLE_OK) return false;
    const char *const data[] = {run.data, ole_recipe_data_at(recipe)};
    for (int i = 0; i < 2 && !found; i++)
        found = data[i] && (is_of_data(out, data[i]) || is_part_of(out, data[i]));
    ole_recipe_free(recipe);
    return found;
}

static bool is_read(const char *out, const char *in) {
    return is_input(out, in) || is_part_of(out, in) || is_of_data(out, in) || is_of_run(out, in);
}

#else

static bool is_read(const char *out, const char *in) {
    return is_input(out, in) || is_part_of(out, in);
}

#endif

/* ---- Outputs ------------------------------------------------------------------------------ */

/* Whether two outputs would end up in one file, where only the second would be left. */
static bool same_output(const char *a, const char *b) {
    struct stat about;
    if (strcmp(a, b) != 0 && !same_file(a, b)) return false;
    return stat(a, &about) != 0 || S_ISREG(about.st_mode);
}

bool spares_inputs(const char *command, const char *const *outputs, int output_count,
                   const char *const *inputs, int input_count) {
    for (int o = 0; o < output_count; o++) {
        const char *out = outputs[o];
        for (int i = 0; out && i < input_count; i++)
            if (inputs[i] && is_read(out, inputs[i]))
                return refuse(command, "%s would overwrite an input; name another file", out);
        for (int k = 0; out && k < o; k++)
            if (outputs[k] && same_output(out, outputs[k]))
                return refuse(command, "%s would be written twice; name two files", out);
    }
    return true;
}
