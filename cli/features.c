/*
 * cli/features.c - `ole features`: what a model's last layer reads, as .npy files, with the class
 * of each sample by name.
 */
#include "commands.h"
#include "common/common.h"
#include "common/download.h"
#include "common/image_files.h"
#include "common/model_and_data.h"
#include "common/outputs.h"
#include "common/sample_rows.h"

#include "base/atomic_file.h"
#include "base/memory_file.h"
#include "base/utf8.h"
#include "formats/input.h"
#include "formats/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char features_summary[] = "write deep features and class names as .npy files";

/* What there is to write. */
typedef struct table {
    int64_t rows, dim, room;
    float *features;                /* [rows, dim] */
    char **names;                   /* [rows]: of images, their files; else NULL */
    const int32_t *of;              /* [rows]: the class of each sample, where `names` is NULL... */
    const char *const *class_names; /* ...and what the classes are called */
    int classes;
} table;

static const char *name_of(const table *t, int64_t i) {
    return t->names ? t->names[i] : t->class_names[t->of[i]];
}

/* ---- The file of labels ------------------------------------------------------------------- */

/* Whether the classes are called 0, 1, 2...: then their labels are numbers. */
static bool has_numbers(const table *t) {
    char number[16];
    for (int c = 0; c < t->classes; c++) {
        snprintf(number, sizeof number, "%d", c);
        if (strcmp(t->class_names[c], number) != 0) return false;
    }
    return !t->names;
}

/* The next character of a text in UTF-8, 0 at its end; U+FFFD for a byte that is none. */
static uint32_t next_character(const char **at) {
    const char *s = *at;
    size_t length = ole_utf8_sequence(s);
    uint32_t character = length == 0 ? 0xfffd : (unsigned char)s[0];
    if (length > 1) character &= 0x7fu >> length;
    for (size_t i = 1; i < length; i++)
        character = character << 6 | ((unsigned char)s[i] & 0x3f);
    *at += !*s ? 0 : length ? length : 1;
    return character;
}

static size_t count_characters(const char *text) {
    size_t count = 0;
    while (next_character(&text))
        count++;
    return count;
}

/* A .npy file of one dimension: int64 numbers, or texts of UTF-32 as NumPy's '<U' has them. */
static void print_npy(FILE *out, const table *t) {
    enum { MAGIC = 10, ALIGNMENT = 64 };
    bool numbers = has_numbers(t);
    size_t width = 1;
    for (int64_t i = 0; i < t->rows && !numbers; i++) {
        size_t length = count_characters(name_of(t, i));
        if (length > width) width = length;
    }
    char type[32], header[128];
    snprintf(type, sizeof type, numbers ? "<i8" : "<U%zu", width);
    int length = snprintf(header, sizeof header,
                          "{'descr': '%s', 'fortran_order': False, 'shape': (%" PRId64 ",), }",
                          type, t->rows);
    int size = (MAGIC + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - MAGIC;
    fwrite("\x93NUMPY\x01", 1, 8, out); /* with the 0 behind it: version 1.0 */
    fputc(size & 255, out);
    fputc(size >> 8, out);
    fprintf(out, "%-*s\n", size - 1, header);
    for (int64_t i = 0; i < t->rows; i++) {
        const char *at = numbers ? NULL : name_of(t, i);
        for (size_t k = 0; k < (numbers ? 1 : width); k++) {
            uint64_t item = numbers ? (uint64_t)t->of[i] : next_character(&at);
            for (int byte = 0; byte < (numbers ? 8 : 4); byte++)
                fputc((int)(item >> 8 * byte & 255), out);
        }
    }
}

static void print_labels(FILE *out, const table *t, const char *path) {
    size_t length = strlen(path);
    const char *end = length < 4 ? "" : path + length - 4;
    bool lines = strcmp(end, ".txt") == 0, cells = strcmp(end, ".csv") == 0;
    if (!lines && !cells) {
        print_npy(out, t);
        return;
    }
    if (cells) fputs("label\n", out);
    for (int64_t i = 0; i < t->rows; i++) {
        if (cells)
            print_csv_name(out, name_of(t, i));
        else
            fputs(name_of(t, i), out);
        fputc('\n', out);
    }
}

/* Both files or none: the labels replace the old ones last, when the features are there. */
static ole_status write_both(const table *t, const char *const out[2], ole_error *error) {
    ole_memory_file memory;
    ole_atomic_file file = {.fd = -1};
    if (ole_memory_file_open(&memory)) print_labels(memory.file, t, out[1]);
    char *labels = ole_memory_file_close(&memory);
    ole_status status = labels ? ole_atomic_file_begin(&file, out[1], error)
                               : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (status == OLE_OK) status = ole_atomic_file_write(&file, labels, memory.size, error);
    if (status == OLE_OK)
        status = write_array(out[0], OLE_F32, t->rows, t->dim, t->features, "f", error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
    ole_atomic_file_abort(&file);
    free(labels);
    return status;
}

/* ---- Data sets and images ----------------------------------------------------------------- */

static int take_data(table *t, model_and_data *s) {
    const ole_dataset_info *info = ole_dataset_get_info(s->set);
    t->rows = info->count[s->split];
    if (t->rows == 0)
        return fail_command(
            "features", "%s: this split has no samples; choose another with --split%s", s->data,
            s->split == OLE_SPLIT_VALIDATION ? ", or make it with --val-split" : "");
    t->of = ole_dataset_labels(s->set, (ole_split)s->split);
    t->class_names = info->class_names;
    t->classes = info->classes;
    t->features = malloc((size_t)(t->rows * t->dim) * sizeof *t->features);
    ole_error error = {.message = "out of memory for the features"};
    bool good = t->features && ole_model_run_split(s->model, s->set, (ole_split)s->split,
                                                   t->features, NULL, &error) == OLE_OK;
    progress_clear(&s->line);
    return good ? EXIT_DONE : fail_command("features", "%s", error.message);
}

typedef struct reading {
    table *to;
    model_and_data *from;
    float *sample;
    bool failed;
} reading;

static bool make_room(table *t, int64_t more) {
    if (t->room - t->rows >= more) return true;
    int64_t room = 2 * t->room + more + 64;
    float *features = realloc(t->features, (size_t)(room * t->dim) * sizeof *features);
    if (features) t->features = features;
    char **names = realloc(t->names, (size_t)room * sizeof *names);
    if (names) t->names = names;
    if (features && names) t->room = room;
    return features && names;
}

/* The features of an image, or of all rows of an array, into the next rows; true after Ctrl-C or a
 * failure.  A row is called X.npy:7. */
static bool add_file(void *context, const char *path) {
    reading *r = context;
    table *t = r->to;
    ole_model *model = r->from->model;
    const ole_model_info *info = ole_model_get_info(model);
    bool array = (info->height == 1 && info->width == 1) || ole_input_is_array(path);
    float *rows = NULL;
    int64_t count = 1;
    ole_error error = {.message = "out of memory for the features"};
    bool good = array ? read_sample_rows("features", model, r->from->model_path, path, &rows,
                                         &count, &error) == OLE_OK
                      : alignment_read(&r->from->marks, model, path, r->sample, &error) == OLE_OK;
    good = good && make_room(t, count) &&
           ole_model_run(model, array ? rows : r->sample, count, t->features + t->rows * t->dim,
                         NULL, &error) == OLE_OK;
    for (int64_t i = 0; i < count && good; i++) {
        char *name = NULL;
        good = (array ? asprintf(&name, "%s:%" PRId64, path, i) : asprintf(&name, "%s", path)) >= 0;
        if (good) t->names[t->rows++] = name;
    }
    free(rows);
    r->failed = !good;
    if (progress_due(&r->from->line)) progress_show(&r->from->line, "%" PRId64 " samples", t->rows);
    if (!r->failed) return interrupted();
    progress_clear(&r->from->line);
    fail_command("features", "%s", error.message);
    return true;
}

static int take_files(table *t, model_and_data *s, const char *const *words, int count) {
    int code = model_and_data_open_files(s, "features");
    if (code != EXIT_DONE) return code;
    const ole_model_info *info = ole_model_get_info(s->model);
    size_t size = (size_t)info->channels * (size_t)info->height * (size_t)info->width;
    t->dim = info->features;
    reading r = {.to = t, .from = s, .sample = malloc(size * sizeof(float))};
    if (!r.sample) return fail_command("features", "out of memory for an image");
    catch_interrupts();
    bool enough = false, failed = false;
    for (int i = 0; i < count && !enough && !failed; i++) {
        s->marks.word = words[i];
        enough = each_file("features", words[i], false, add_file, &r, &failed);
    }
    free(r.sample);
    progress_clear(&s->line);
    return r.failed || failed ? EXIT_FAILED : EXIT_DONE;
}

/* ---- The command -------------------------------------------------------------------------- */

static void report(const table *t, const char *const out[2], bool json) {
    if (!json) {
        printf("%s: %" PRId64 " features of %" PRId64 " dimensions; %s: %s\n", out[0], t->rows,
               t->dim, out[1], t->names ? "the names of their files" : "their labels");
        return;
    }
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_object(&w, NULL, J("n", t->rows), J("d", t->dim), J("features", out[0]),
                    J("labels", out[1]));
}

/* Whether the words are files: a data set has a name, or one and a colon. */
static bool are_files(const char *const *words, int count) {
    struct stat about;
    char file[PATH_MAX]; /* of data.npz:name */
    if (count != 1) return count > 1;
    ole_input_file(words[0], file);
    return strcmp(words[0], "-") == 0 || stat(file, &about) == 0;
}

static int extract(model_and_data *s, const char *const *words, int count, const char *const out[2],
                   bool json) {
    bool files = are_files(words, count);
    s->data = count > 0 && !files ? words[0] : NULL;
    table t = {0};
    if (!takes_array("features", out[0]) || !spares_inputs("features", out, 2, &s->model_path, 1) ||
        !spares_inputs("features", out, 2, words, count))
        return EXIT_USAGE;
    int code = files ? take_files(&t, s, words, count) : model_and_data_open(s, "features");
    if (code == EXIT_DONE && !spares_inputs("features", out, 2, (const char *const *)&s->data, 1))
        code = EXIT_USAGE; /* of the run's data */
    if (code == EXIT_DONE && !files) {
        t.dim = ole_model_get_info(s->model)->features;
        code = take_data(&t, s);
    }
    ole_error error;
    if (code == EXIT_DONE && interrupted())
        code = end_interrupted("features", "nothing was written");
    else if (code == EXIT_DONE && write_both(&t, out, &error) != OLE_OK)
        code = fail_command("features", "%s", error.message);
    else if (code == EXIT_DONE)
        report(&t, out, json);
    for (int64_t i = 0; t.names && i < t.rows; i++)
        free(t.names[i]);
    free(t.names);
    free(t.features);
    return code;
}

int run_features(int argc, char **argv) {
    model_and_data s;
    bool json = false;
    const char *out[2] = {NULL, NULL};
    const char **words = (const char **)argv + 1;
    int count = 0, code;
    arg_positional positionals[3] = {{0}};
    ole_option options[MODEL_AND_DATA_OPTIONS + 3] = {{0}};
    model_and_data_init(&s, positionals, options);
    positionals[1] = (arg_positional){"DATA|IMAGE", words,
                                      "NAME[:PATH]; or image files, folders of them, X.npy (each "
                                      "row), or - for names on stdin (default: the run's data)"};
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
        .example = "  $ ole features runs/first --out F.npy L.npy\n"
                   "  $ ole features runs/first new/*.jpg --out F.npy files.txt\n",
        .about = "Writes the input of a model's classifier for each sample of a part of a data\n"
                 "set, float32 [rows, dimensions], and the name of its class: as text in .npy\n"
                 "('<U') or in .txt, one per line; as int64 where the classes are called 0, 1,\n"
                 "2... For image files it writes their names, for arrays FILE:ROW.\n",
        .positionals = positionals,
        .last_optional = true,
        .many = &count,
        .options = options,
    };
    if (!args_parse(&command, argc, argv, &code)) return code;
    code = extract(&s, words, count, out, json);
    model_and_data_close(&s);
    return code;
}
