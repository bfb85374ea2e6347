/*
 * src/study/record.c - the study in a folder: the options it was started with (study.json), how its
 * runs ended, and a lock, so that two processes do not work in it at once.
 *
 * study.json holds the kind, the grid and the recipe; it is the first file of a study.  config.yaml
 * is the same recipe for readers and for `ole tune --resume`.
 */
#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/json.h"
#include "formats/parse_json.h"
#include "ole/train/history.h"
#include "study/study.h"
#include "train/options/options.h"
#include "train/options/recipe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGEST = 1 << 26, CHANGE = 320, CHANGED = 120 };

void ole_record_close(ole_study *study) {
    if (study->lock >= 0) close(study->lock);
    study->lock = -1;
    free(study->data_name);
    study->data_name = NULL;
}

/* ---- study.json --------------------------------------------------------------------------- */

static void put_values(ole_json *w, const ole_values *values) {
    ole_json_numbers(w, values->name, values->items, values->count);
}

/* The text of study.json; free() it.  NULL: out of memory. */
static char *record_text(const ole_study *study, const char *config) {
    ole_memory_file memory;
    if (!config || !ole_memory_file_open(&memory)) return NULL;
    ole_json w = ole_json_begin(memory.file, 2, '{');
    ole_json_string(&w, "study", ole_study_kind_name(study->kind));
    put_values(&w, &study->lambdas);
    put_values(&w, &study->samples);
    ole_json_bool(&w, "baseline", study->baseline);
    if (study->vary) ole_json_string(&w, "vary", study->vary);
    if (*study->weights) ole_json_string(&w, "weights", study->weights);
    if (study->data_name) ole_json_string(&w, "data", study->data_name);
    ole_json_string(&w, "config", config);
    ole_json_close(&w);
    memory.failed |= !ole_json_good(&w);
    return ole_memory_file_close(&memory);
}

static ole_status write_files(const ole_study *study, ole_error *error) {
    const char *out = study->train.out, *recipe = study->given->recipe;
    char *config = ole_recipe_text(&study->train), *text = record_text(study, config);
    ole_status status = ole_run_put(out, "study.json", text, error);
    if (status == OLE_OK) status = ole_run_put(out, "config.yaml", config, error);
    if (status == OLE_OK && recipe) status = ole_run_put(out, "recipe.yaml", recipe, error);
    free(text);
    free(config);
    return status;
}

/* ---- The study in the folder ------------------------------------------------------ */

/*
 * Options that may change between two starts of a study, or (`run`) between the study and one of
 * its runs: those that affect no run; initial weights, which are compared by content; data that
 * both sides call by a recipe's name, whatever their path; and, in a study, what its grid sets.
 */
static bool may_differ(const ole_study *study, const ole_option *o, bool run) {
    if (o->flags & OLE_EXECUTION || strcmp(o->name, "init_from") == 0) return true;
    if (strcmp(o->name, "data") == 0) return study->data_name && (run || study->given->data_name);
    if (run) return false;
    return strcmp(o->name, "lambda") == 0 ||
           (study->kind == OLE_STUDY_SWEEP && strcmp(o->name, "samples_per_class") == 0);
}

/* "epochs '2', not '3'" */
static void put_change(const char *name, const char *was, const char *is, char out[CHANGE]) {
    snprintf(out, CHANGE, "%s '%.*s', not '%.*s'", name, CHANGED,
             ole_quote_string(was ? was : "").text, CHANGED, ole_quote_string(is ? is : "").text);
}

/* Whether an option differs by more than the secrets of a URL, which no recipe holds. */
static bool differs(const ole_option *o, const ole_train_options *now,
                    const ole_train_options *then) {
    char room[2][OLE_OPTION_VALUE];
    const char *is = ole_option_text(o, now, room[0]), *was = ole_option_text(o, then, room[1]);
    char *a = ole_without_secrets(is ? is : ""), *b = ole_without_secrets(was ? was : "");
    bool same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    return !same;
}

/* The first option of the study, or of one of its runs, that has changed; false: none. */
static bool find_change(const ole_study *study, const ole_train_options *now,
                        const ole_train_options *then, bool run, char out[CHANGE]) {
    for (const ole_option *o = ole_train_table; o->name; o++) {
        if (may_differ(study, o, run) || !differs(o, now, then)) continue;
        char a[OLE_OPTION_VALUE], b[OLE_OPTION_VALUE];
        put_change(o->name, ole_option_text(o, then, a), ole_option_text(o, now, b), out);
        return true;
    }
    return false;
}

static ole_status fail_changed(const ole_study *study, const char *change, ole_error *error) {
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s: the study has %s; resume with the same, or choose another folder",
                    ole_quote_string(study->train.out).text, change);
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Whether the initial weights differ; their path may.  Without a recorded `sum` (NULL) the file's
 * name counts. */
static bool find_other_weights(const ole_study *study, const char *was, const char *sum,
                               char out[CHANGE]) {
    const char *is = study->train.init_from;
    if (!is && !was) return false;
    bool both = is && was;
    if (both && study->given->look) return false;
    if (both && strcmp(sum ? study->weights : file_name(is), sum ? sum : file_name(was)) == 0)
        return false;
    put_change("init_from", was, is, out);
    if (both && strcmp(is, was) == 0)
        snprintf(out, CHANGE, "init_from '%.*s', whose weights have changed since", CHANGED,
                 ole_quote_string(is).text);
    return true;
}

/* Fewer values or seeds than in the folder: the other runs stay there, unused, which is reported.
 */
static void say_left_out(const ole_study *study, const char *what) {
    if (study->given->look || study->given->check || !ole_study_leads(study)) return;
    ole_study_say(
        study,
        "the folder has runs with other %s, which the results exclude; list all %s to include them",
        what, what);
}

static ole_status compare_config(const ole_study *study, const char *config, const char *sum,
                                 const char *path, ole_error *error) {
    ole_train_options then;
    ole_train_options_init(&then);
    ole_recipe *recipe;
    char change[CHANGE];
    ole_status status = ole_recipe_parse(&recipe, config, strlen(config), path, &then, error);
    if (status == OLE_OK && (find_change(study, &study->train, &then, false, change) ||
                             find_other_weights(study, then.init_from, sum, change)))
        status = fail_changed(study, change, error);
    if (status == OLE_OK && then.seeds > study->train.seeds) say_left_out(study, "seeds");
    ole_recipe_free(recipe);
    return status;
}

/* A recipe's name for the data; if the study has a recipe, their path may change. */
static ole_status compare_name(ole_study *study, const char *was, ole_error *error) {
    const char *is = study->given->data_name;
    char change[CHANGE];
    if (!was) return OLE_OK;
    put_change("data", was, is, change);
    if (is && strcmp(is, was) != 0) return fail_changed(study, change, error);
    study->data_name = strdup(was);
    return study->data_name ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
}

static ole_status fail_damaged(const char *path, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: damaged, or from another program; choose another folder for a new study",
                    ole_quote_string(path).text);
}

/* Takes a list from study.json if the caller gives none; *excluded: it has a value that the
 * caller's list lacks. */
static ole_status take_values(ole_values *now, const json_t *record, const char *path,
                              bool *excluded, ole_error *error) {
    const json_t *list = json_object_get(record, now->name);
    size_t count = json_array_size(list);
    double *then = calloc(count + 1, sizeof *then);
    if (!then) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        then[i] = json_number_value(json_array_get(list, i));
    bool good = now->count > 0 || ole_values_set(now, then, (int64_t)count, NULL) == OLE_OK;
    for (size_t i = 0; i < count && good; i++) {
        bool known = false;
        for (int64_t k = 0; k < now->count; k++)
            known |= now->items[k] == then[i];
        *excluded |= !known;
    }
    free(then);
    return good ? OLE_OK : fail_damaged(path, error);
}

/* The command that makes studies of a kind. */
static const char *command_of(const char *kind) {
    return strcmp(kind, "compare") == 0 ? "reproduce" : kind;
}

static ole_status use_record(ole_study *study, const char *path, const json_t *record,
                             ole_error *error) {
    const char *kind = json_string_value(json_object_get(record, "study"));
    const char *config = json_string_value(json_object_get(record, "config"));
    if (!kind || !config) return fail_damaged(path, error);
    if (strcmp(kind, ole_study_kind_name(study->kind)) != 0) {
        return ole_fail(
            error, OLE_ERROR_ARGUMENT, "%s: a folder of 'ole %s', not of 'ole %s'; choose another",
            ole_quote_string(study->train.out).text, ole_quote_string(command_of(kind)).text,
            command_of(ole_study_kind_name(study->kind)));
    }
    const char *vary = json_string_value(json_object_get(record, "vary"));
    char change[CHANGE];
    put_change("vary", vary ? vary : "lambda", study->vary ? study->vary : "lambda", change);
    if (strcmp(vary ? vary : "", study->vary ? study->vary : "") != 0)
        return fail_changed(study, change, error);
    ole_status status =
        compare_name(study, json_string_value(json_object_get(record, "data")), error);
    const char *sum = json_string_value(json_object_get(record, "weights"));
    if (status == OLE_OK) status = compare_config(study, config, sum, path, error);
    bool excluded = false;
    if (status == OLE_OK) status = take_values(&study->lambdas, record, path, &excluded, error);
    if (status == OLE_OK) status = take_values(&study->samples, record, path, &excluded, error);
    if (status == OLE_OK && excluded)
        say_left_out(study, study->kind == OLE_STUDY_SWEEP ? "lambdas or samples" : "lambdas");
    study->baseline |= json_is_true(json_object_get(record, "baseline"));
    return status;
}

static ole_status use_text(ole_study *study, const char *path, const char *bytes, size_t size,
                           ole_error *error) {
    bool no_memory;
    json_t *record = ole_parse_json(bytes, size, 0, NULL, &no_memory);
    ole_status status = record      ? use_record(study, path, record, error)
                        : no_memory ? ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a study")
                                    : fail_damaged(path, error);
    json_decref(record);
    return status;
}

static ole_status read_study(ole_study *study, ole_error *error) {
    char path[OLE_RUN_PATH], *bytes = NULL;
    size_t size;
    ole_status status = ole_run_path(path, study->train.out, "study.json", error);
    if (status == OLE_OK) status = ole_read_file(path, LARGEST, &bytes, &size, error);
    if (status == OLE_OK) status = use_text(study, path, bytes, size, error);
    free(bytes);
    return status;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static ole_status take_defaults(ole_study *study, ole_error *error) {
    static const double tuned[] = {0, 1.0 / 64, 1.0 / 32, 1.0 / 16, 1.0 / 8, 1.0 / 4, 1.0 / 2, 1};
    static const double samples[] = {50, 100, 200, 300, 400, 500};
    const double swept[] = {0, study->kind == OLE_STUDY_COMPARE ? study->train.lambda : 0.25};
    bool tune = study->kind == OLE_STUDY_TUNE;
    int first = study->train.loss == OLE_LOSS_OLE && study->kind != OLE_STUDY_COMPARE;
    ole_status status = OLE_OK;
    if (study->lambdas.count == 0) /* OLÉ alone learns nothing with 0 */
        status = ole_values_set(&study->lambdas, (tune ? tuned : swept) + first,
                                (tune ? 8 : 2) - first, error);
    if (status == OLE_OK && study->samples.count == 0)
        status = ole_values_set(&study->samples, samples, 6, error);
    return status;
}

static ole_status take_given(ole_study *study, ole_error *error) {
    const ole_study_options *o = study->given;
    ole_status status = OLE_OK;
    if (o->lambdas) status = ole_values_set(&study->lambdas, o->lambdas, o->lambda_count, error);
    if (status != OLE_OK || !o->samples || study->kind != OLE_STUDY_SWEEP) return status;
    size_t count = o->sample_count > 0 ? (size_t)o->sample_count : 0;
    double *samples = calloc(count + 1, sizeof *samples);
    if (!samples) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        samples[i] = (double)o->samples[i];
    status = ole_values_set(&study->samples, samples, o->sample_count, error);
    free(samples);
    return status;
}

/* The single number of samples of a study that is no sweep; it may be 0. */
static ole_status take_samples(ole_study *study, ole_error *error) {
    if (study->kind == OLE_STUDY_SWEEP) return OLE_OK;
    ole_values *samples = &study->samples;
    samples->items = malloc(sizeof *samples->items);
    if (!samples->items) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    samples->items[0] = (double)study->train.samples_per_class;
    samples->count = 1;
    return OLE_OK;
}

static ole_status sum_weights(ole_study *study, ole_error *error) {
    if (!study->train.init_from || study->given->look) return OLE_OK;
    return ole_checksum_file(study->train.init_from, OLE_SHA256_DIGITS, study->weights, error);
}

/* The caller's name of the data, for a study that recorded none. */
static ole_status take_name(ole_study *study, ole_error *error) {
    if (study->data_name || !study->given->data_name) return OLE_OK;
    study->data_name = strdup(study->given->data_name);
    return study->data_name ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
}

ole_status ole_record_open(ole_study *study, ole_error *error) {
    const char *out = study->train.out;
    bool there = ole_run_has(out, "study.json");
    if (!there && (ole_run_has(out, "last.safetensors") || ole_run_has(out, "config.yaml")))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: already holds a run of 'ole train'; choose another folder",
                        ole_quote_string(out).text);
    if (!there && (study->train.resume || (study->given->look && !study->planned)))
        return ole_fail(error, OLE_ERROR_IO, "%s: no study to resume", ole_quote_string(out).text);
    static const char *const files[] = {"study.json",   "config.yaml", "recipe.yaml",
                                        "results.json", "results.csv", "curve.svg",
                                        "curve.png",    "report.html", NULL};
    ole_status status = there ? OLE_OK : ole_run_refuse_files(out, files, error);
    if (status == OLE_OK) status = take_given(study, error);
    if (status == OLE_OK) status = take_samples(study, error);
    if (status == OLE_OK && there && !study->given->look)
        status = ole_run_lock(&study->lock, study->train.out, error);
    if (status == OLE_OK) status = sum_weights(study, error);
    if (status == OLE_OK && there) status = read_study(study, error);
    if (status == OLE_OK) status = take_name(study, error);
    if (status == OLE_OK) status = take_defaults(study, error);
    return status;
}

/* The text of rank 0's study.json on every rank; free() it. */
static ole_status share_text(ole_study *study, char **text, int64_t *size, ole_error *error) {
    ole_status status = OLE_OK;
    *text = NULL;
    *size = 0;
    if (ole_study_leads(study)) {
        char *config = ole_recipe_text(&study->train);
        *text = record_text(study, config);
        *size = *text ? (int64_t)strlen(*text) : 0;
        free(config);
    }
    ole_ranks_broadcast(study->ranks, size, (int64_t)sizeof *size, 0);
    if (!*text && *size > 0) *text = malloc((size_t)*size + 1);
    if (!*text) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a recipe");
    status = ole_ranks_agree(study->ranks, status, error);
    if (status == OLE_OK) ole_ranks_broadcast(study->ranks, *text, *size, 0);
    return status;
}

ole_status ole_record_share(ole_study *study, ole_error *error) {
    char *text;
    int64_t size;
    if (!study->ranks) return OLE_OK;
    ole_status status = share_text(study, &text, &size, error);
    if (status == OLE_OK && !ole_study_leads(study)) {
        status = take_samples(study, error);
        if (status == OLE_OK) status = sum_weights(study, error);
        if (status == OLE_OK) status = use_text(study, "rank 0", text, (size_t)size, error);
    }
    free(text);
    return ole_ranks_agree(study->ranks, status, error);
}

ole_status ole_record_write(ole_study *study, ole_error *error) {
    ole_status status = ole_run_make_folder(study->train.out, NULL, error);
    if (status == OLE_OK && study->lock < 0)
        status = ole_run_lock(&study->lock, study->train.out, error);
    return status == OLE_OK ? write_files(study, error) : status;
}

/* ---- Runs --------------------------------------------------------------------------------- */

/* A run that was trained again with other options is no longer the study's. */
static ole_status check_run(const ole_study *study, const ole_study_run *run, const char *folder,
                            ole_error *error) {
    char path[OLE_RUN_PATH], change[CHANGE];
    const ole_train_options now = ole_study_run_options(study, run);
    ole_train_options then;
    ole_train_options_init(&then);
    ole_recipe *recipe = NULL;
    ole_status status = ole_run_path(path, folder, "config.yaml", error);
    if (status == OLE_OK) status = ole_recipe_read(&recipe, path, &then, error);
    bool changed = status == OLE_OK && find_change(study, &now, &then, true, change);
    if (status == OLE_OK && !changed && !now.init_from != !then.init_from) {
        put_change("init_from", then.init_from, now.init_from, change);
        changed = true;
    }
    if (changed)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "%s: the run has %s; remove the folder to train it again",
                          ole_quote_string(folder).text, change);
    ole_recipe_free(recipe);
    return status;
}

ole_status ole_record_read_run(const ole_study *study, ole_study_run *run, ole_error *error) {
    char folder[OLE_RUN_PATH];
    ole_history h;
    ole_status status = ole_run_path(folder, study->train.out, run->folder, error);
    if (status != OLE_OK) return status;
    if (ole_run_has(folder, "failed.txt")) run->state = OLE_STUDY_DIVERGED;
    if (run->state == OLE_STUDY_DIVERGED || !ole_run_has(folder, "metrics.jsonl")) return OLE_OK;
    status = ole_history_read(&h, folder, error);
    if (status == OLE_ERROR_FORMAT) return OLE_OK; /* damaged: it is resumed or trained again */
    if (status != OLE_OK) return status;
    if (h.ended) {
        status = check_run(study, run, folder, error);
        run->state = OLE_STUDY_FINISHED;
        run->test_error = h.test_error;
        run->validation_error = h.validation_error;
        run->knn1_error = h.knn1_error;
        run->seconds = h.seconds;
    }
    ole_history_free(&h);
    return status;
}

ole_status ole_record_diverged(const ole_study *study, const ole_study_run *run,
                               const char *message, ole_error *error) {
    char folder[OLE_RUN_PATH], path[OLE_RUN_PATH], text[600];
    ole_status status = ole_run_output_folder(folder, study->train.out, run->folder, error);
    if (status == OLE_OK) status = ole_run_path(path, run->folder, "failed.txt", error);
    if (status == OLE_OK) status = ole_run_make_folder(folder, NULL, error);
    if (status != OLE_OK) return status;
    snprintf(text, sizeof text, "%s\n", message);
    return ole_run_put(study->train.out, path, text, error);
}
