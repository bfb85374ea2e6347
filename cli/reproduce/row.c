/*
 * cli/reproduce/row.c - a recipe and the flags become a study in a folder, on data that are found
 * here.
 */
#include "reproduce/reproduce.h"

#include "base/quote.h"
#include "common/common.h"
#include "common/trained_data.h"
#include "data/find_path.h"
#include "study/by_kind.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void join_path(char out[ROW_PATH], const char *folder, const char *name) {
    if (ole_run_path(out, folder, name, NULL) != OLE_OK) out[0] = '\0';
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* The paths, and the options as the recipe with the runs has them. */
static void place(row *r, const char *out) {
    r->runs = r->asked.from ? &r->source : &r->asked;
    join_path(r->folder, out, r->asked.name);
    join_path(r->runs_folder, out, r->runs->name);
    r->train = r->runs->train;
    r->train.out = r->runs_folder;
}

static void make_quick(row *r) {
    int64_t few = r->runs->quick, *samples = r->runs->samples;
    r->train.epochs = r->train.eval_every = QUICK_EPOCHS;
    r->train.seeds = 1;
    if (r->runs->sample_count > 0) {
        r->runs->sample_count = 2;
        samples[0] = few / 2 > 1 ? few / 2 : 1;
        samples[1] = samples[0] + 1 > few ? samples[0] + 1 : few;
    } else if (r->train.samples_per_class == 0 || r->train.samples_per_class > few) {
        r->train.samples_per_class = few;
    }
}

/* The options that the runs in the folder were begun with; false where there are none. */
static bool read_config(row *r, ole_train_options *options) {
    char path[ROW_PATH];
    join_path(path, r->runs_folder, "config.yaml");
    return ole_run_has(r->runs_folder, "config.yaml") &&
           ole_recipe_read(&r->config, path, options, NULL) == OLE_OK;
}

/* The recipe of a folder, as it was used; false where there is none. */
static bool open_used(recipe *used, const char *name, const char *out) {
    char folder[ROW_PATH], path[ROW_PATH];
    join_path(folder, out, name);
    join_path(path, folder, "recipe.yaml");
    if (!ole_run_has(folder, "recipe.yaml")) return false;
    if (recipe_open_as(used, name, path)) return true;
    recipe_close(used);
    return false;
}

/* The recipe whose runs a figure shows: the one in the folder, if there is one, else as it is. */
static bool open_source(row *r, const char *out, bool *used) {
    const char *name = r->asked.name, *from = r->asked.from;
    char source[RECIPE_NAME];
    *used = recipe_folder_name(from, source) && open_used(&r->source, source, out);
    if (!*used && !recipe_open(&r->source, from))
        return refuse("reproduce", "%s: paper: from %.100s: give the name of a recipe", name, from);
    if (r->source.from)
        return refuse("reproduce",
                      "%s: paper: from %.100s: it has no runs of its own, but shows those "
                      "of %.100s: name that one",
                      name, from, r->source.from);
    return strcmp(name, r->source.name) != 0 ||
           refuse("reproduce",
                  "%s: paper: from %.100s: both are called %s: rename this recipe's file", name,
                  from, name);
}

bool row_open(row *r, const char *name, const reproduction *asked) {
    bool used = false;
    *r = (row){0};
    if (!recipe_open(&r->asked, name) || (r->asked.from && !open_source(r, asked->out, &used)))
        return false;
    place(r, asked->out);
    ole_train_options begun;
    ole_train_options_init(&begun);
    bool made = read_config(r, &begun);
    if (r->asked.from) r->train.seeds = 1; /* runs that are made for a figure alone */
    if (used && made) {                    /* a figure takes the runs as they were made */
        r->as_made = true;
        begun.out = r->runs_folder;
        begun.data = r->train.data; /* both may have been moved since */
        begun.init_from = r->train.init_from;
        r->train = begun;
    } else {
        if (asked->quick) make_quick(r);
        if (asked->epochs > 0) r->train.epochs = asked->epochs;
        if (asked->precision) r->train.precision = asked->precision;
    }
    if (asked->eval_every > 0) r->train.eval_every = asked->eval_every;
    if (asked->seeds > 0) r->train.seeds = asked->seeds;
    if (asked->device) r->train.device = asked->device;
    if (asked->threads > 0) r->train.threads = asked->threads;
    if (made && begun.seeds > r->train.seeds)
        r->train.seeds = begun.seeds; /* runs in the folder are not given up for fewer seeds */
    return true;
}

bool row_open_made(row *r, const char *name, const char *out) {
    char from[RECIPE_NAME];
    *r = (row){0};
    if (!open_used(&r->asked, name, out)) return false;
    if (r->asked.from && (!recipe_folder_name(r->asked.from, from) ||
                          !open_used(&r->source, from, out) || r->source.from))
        return false;
    place(r, out);
    r->as_made = read_config(r, &r->train);
    r->train.out = r->runs_folder;
    return r->as_made;
}

static void forget(row *r) {
    ole_measures_free(&r->measures);
    ole_study_result_free(&r->study);
    free(r->marks);
    r->marks = NULL;
}

void row_close(row *r) {
    forget(r);
    ole_recipe_free(r->config);
    recipe_close(&r->asked);
    recipe_close(&r->source);
    *r = (row){0};
}

/* ---- Words -------------------------------------------------------------------------------- */

bool row_is_alone(const row *r) {
    return !(r->train.loss & OLE_LOSS_CLASSIFIERS);
}

const char *side_name(const row *r, int side) {
    return side == SOFTMAX ? "softmax" : row_is_alone(r) ? "OLÉ" : "softmax + OLÉ";
}

const char *row_precision(const row *r) {
    return r->train.precision ? r->train.precision : "fp32";
}

void put_word(FILE *out, const char *word) {
    char *quoted = ole_shell_word(word);
    fprintf(out, " %s", quoted ? quoted : word);
    free(quoted);
}

void add_item(char list[ROW_TEXT], const char *format, ...) {
    size_t used = strlen(list);
    va_list args;
    if (used > 0) used += (size_t)snprintf(list + used, ROW_TEXT - used, ", ");
    va_start(args, format);
    if (used < ROW_TEXT) vsnprintf(list + used, ROW_TEXT - used, format, args);
    va_end(args);
}

/* ---- The study ---------------------------------------------------------------------------- */

ole_study_kind row_study_kind(const row *r) {
    return r->runs->kind == RECIPE_TUNE    ? OLE_STUDY_TUNE
           : r->runs->kind == RECIPE_SWEEP ? OLE_STUDY_SWEEP
                                           : OLE_STUDY_COMPARE;
}

ole_study_options row_study(const row *r) {
    ole_study_options o;
    ole_study_options_init(&o);
    o.train = &r->train;
    if (!r->as_made) {
        o.lambdas = r->runs->lambdas;
        o.lambda_count = r->runs->lambda_count;
        o.samples = r->runs->sample_count > 0 ? r->runs->samples : NULL;
        o.sample_count = r->runs->sample_count;
    }
    o.baseline = r->runs->kind == RECIPE_TUNE;
    o.recipe = r->runs->text;
    o.data_name = r->runs->train.data;
    return o;
}

bool row_read(row *r, const char *folder, ole_error *error) {
    ole_study_options o = row_study(r);
    o.look = true;
    forget(r);
    if (ole_study_conduct(row_study_kind(r), &o, &r->study, error) != OLE_OK) return false;
    r->marks = calloc((size_t)r->study.run_count + 1, sizeof *r->marks);
    snprintf(error->message, sizeof error->message, "out of memory");
    for (int64_t i = 0; i < r->study.run_count && r->marks; i++)
        r->marks[i] = ole_run_mark_of(&r->study, i, r->runs_folder);
    return r->marks &&
           ole_measures_read(&r->measures, folder, r->marks, r->study.run_count, error) == OLE_OK;
}

bool row_write(const row *r, const char *folder) {
    ole_error error;
    return ole_measures_write(&r->measures, folder, &error) == OLE_OK ||
           refuse("reproduce", "%s", error.message);
}

bool row_is_whole(row *r) {
    ole_error error;
    return ole_run_has(r->runs_folder, "study.json") && row_read(r, r->runs_folder, &error) &&
           r->study.ended == r->study.total;
}

row *row_with_runs(row *rows, int count, const row *r) {
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].runs_folder, r->runs_folder) == 0) return &rows[i];
    return NULL;
}

/* ---- Its data ----------------------------------------------------------------------------- */

/* Where data, or the weights of training, are. */
static bool locate(const row *r, const char *name, bool weights, char out[ROW_PATH],
                   char why[ROW_WHY]) {
    const char *folder = weights ? "" : "folder:", *given = name + strlen(folder);
    char path[ROW_PATH];
    ole_error error;
    if (strncmp(name, folder, strlen(folder)) != 0) { /* a set that can be downloaded */
        snprintf(out, ROW_PATH, "%s", name);
        if (ole_dataset_locate(name, path, sizeof path, &error) == OLE_OK) return true;
        snprintf(why, ROW_WHY, "%s: %s", r->asked.name, error.message);
        return false;
    }
    if (ole_find_path(path, given)) {
        snprintf(out, ROW_PATH, "%s%.*s", folder, ROW_PATH - 16, path);
        return true;
    }
    snprintf(why, ROW_WHY,
             "%s: there is no %s%.100s here or in $OLE_DATA; put it there, as it cannot be "
             "downloaded: %.300s",
             r->asked.name, weights ? "" : "folder ", given,
             r->runs->needs ? r->runs->needs
             : weights      ? "these weights"
                            : "one subfolder per class");
    return false;
}

bool row_locate(row *r, char why[ROW_WHY]) {
    const char *weights = r->train.init_from;
    if (r->located) return true;
    if (!locate(r, r->train.data, false, r->data, why) ||
        (r->asked.novel && !locate(r, r->asked.novel, false, r->novel, why)) ||
        (weights && !locate(r, weights, true, r->weights, why)))
        return false;
    r->train.data = r->data;
    if (weights) r->train.init_from = r->weights;
    return r->located = true;
}

const char *row_missing(const row *r, char out[ROW_WHY]) {
    const char *needs = r->asked.needs ? r->asked.needs : r->runs->needs;
    snprintf(out, ROW_WHY, "its data are missing; %s%.500s%s",
             needs ? "it needs " : "get them with 'ole data get ",
             needs ? needs : r->runs->train.data, needs ? "" : "'");
    return out;
}

static void add_part(char part[ROW_TEXT], int64_t here, int64_t all, const char *what) {
    if (here > 0 && here < all)
        add_item(part, "%" PRId64 " of %" PRId64 " %s images", here, all, what);
}

void row_part(const row *r, char out[ROW_TEXT]) {
    const ole_known_dataset *known = known_dataset(r->train.data);
    char folder[ROW_PATH], path[ROW_PATH];
    ole_dataset *set;
    out[0] = '\0';
    if (!known || ole_dataset_locate(r->train.data, folder, sizeof folder, NULL) != OLE_OK) return;
    bool whole = true; /* files of the published sizes need not be read */
    for (const ole_known_file *file = known->files; file->name && whole; file++) {
        struct stat about;
        join_path(path, folder, file->name);
        whole = stat(path, &about) == 0 && about.st_size == file->size;
    }
    if (whole || ole_dataset_open(&set, r->train.data, NULL, NULL) != OLE_OK) return;
    const int64_t *here = ole_dataset_get_info(set)->count;
    add_part(out, here[OLE_SPLIT_TRAIN], known->train, "training");
    add_part(out, here[OLE_SPLIT_TEST], known->test, "test");
    ole_dataset_close(set);
}

bool row_note_samples(row *r, int threads) {
    ole_error error;
    ole_dataset *set;
    char part[ROW_TEXT];
    ole_train_options largest = r->train;
    for (int i = 0; i < r->runs->sample_count; i++) /* a sweep's last point */
        if (r->runs->samples[i] > largest.samples_per_class)
            largest.samples_per_class = r->runs->samples[i];
    const ole_dataset_options options = run_dataset_options(&largest, threads);
    bool good = row_read(r, r->runs_folder, &error);
    if (good && ole_measures_find(&r->measures, NULL, OLE_MEASURE_TRAINING)) return true;
    if (!good || ole_dataset_open(&set, r->train.data, &options, &error) != OLE_OK)
        return refuse("reproduce", "%s", error.message);
    const int64_t *count = ole_dataset_get_info(set)->count;
    row_part(r, part);
    ole_measures_add_number(&r->measures, NULL, OLE_MEASURE_TRAINING,
                            (double)count[OLE_SPLIT_TRAIN]);
    ole_measures_add_number(&r->measures, NULL, OLE_MEASURE_TEST, (double)count[OLE_SPLIT_TEST]);
    ole_measures_add(&r->measures, NULL, OLE_MEASURE_PART, part);
    ole_dataset_close(set);
    return row_write(r, r->runs_folder);
}

/* Runs of early versions recorded the number of test samples alone. */
void row_read_samples(const row *r, int64_t samples[2], char part[ROW_TEXT]) {
    ole_measures data;
    if (ole_measures_read(&data, r->runs_folder, NULL, 0, NULL) != OLE_OK) return;
    const char *train = ole_measures_find(&data, NULL, OLE_MEASURE_TRAINING),
               *test = ole_measures_find(&data, NULL, OLE_MEASURE_TEST),
               *noted = ole_measures_find(&data, NULL, OLE_MEASURE_PART);
    const ole_known_dataset *known = r->train.classes ? NULL : known_dataset(r->train.data);
    samples[0] = train ? strtoll(train, NULL, 10) : 0;
    samples[1] = test ? strtoll(test, NULL, 10) : 0;
    snprintf(part, ROW_TEXT, "%s", noted ? noted : "");
    if (!noted && known) add_part(part, samples[1], known->test, "test");
    ole_measures_free(&data);
}
