/* fuzz/fuzz_study.c - study.json: showing the study of a folder; and the record alone, which is the
 * same after writing. */
#include "formats/parse_json.h"
#include "fuzz.h"
#include "study/study.h"
#include "train/options/options.h"
#include "train/options/recipe.h"

#include <stdlib.h>
#include <string.h>

static void look(void) {
    typedef ole_status kind(const ole_study_options *, ole_study_result *, ole_error *);
    static kind *const kinds[] = {ole_tune, ole_sweep, ole_compare};
    for (int i = 0; i < 3; i++) {
        ole_train_options train;
        ole_study_options options;
        ole_study_result result = {0};
        ole_error error = {0};
        ole_train_options_init(&train);
        ole_study_options_init(&options);
        train.data = "digits";
        train.out = fuzz_folder();
        options.train = &train;
        options.look = true;
        ole_status status = kinds[i](&options, &result, &error);
        if (status != OLE_OK) check_error(status, &error);
        ole_study_result_free(&result);
    }
}

/* ---- The record ----------------------------------------------------------------------------- */

static ole_study make(ole_study_kind kind, const ole_study_options *options, const char *folder) {
    ole_study study = ole_study_make(kind, options);
    study.train = *options->train;
    study.train.out = folder;
    study.vary = options->vary;
    return study;
}

static void free_study(ole_study *study) {
    ole_record_close(study);
    free(study->lambdas.items);
    free(study->samples.items);
}

static bool has_same(const ole_values *a, const ole_values *b) {
    return a->count == b->count &&
           memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0;
}

static void write_again(ole_study *study, const ole_study_options *options) {
    char folder[100];
    ole_error error = {0};
    strcpy(folder, fuzz_path("again"));
    ole_study again = make(study->kind, options, folder);
    study->train.out = folder;
    require(ole_record_write(study, &error) == OLE_OK, error.message);
    require(ole_record_open(&again, &error) == OLE_OK, error.message);
    require(has_same(&again.lambdas, &study->lambdas) &&
                has_same(&again.samples, &study->samples) && again.baseline == study->baseline &&
                strcmp(again.data_name ? again.data_name : "",
                       study->data_name ? study->data_name : "") == 0,
            "another study after writing");
    free_study(&again);
    remove_folder(folder);
}

static const char *text_of(const json_t *record, const char *key) {
    return json_string_value(json_object_get(record, key));
}

/* Opens the record with the options that it says it was made with. */
static void check_record(const json_t *record) {
    const char *config = text_of(record, "config"), *name = text_of(record, "study");
    ole_study_kind kind = OLE_STUDY_TUNE;
    while (kind <= OLE_STUDY_COMPARE && strcmp(name ? name : "", ole_study_kind_name(kind)) != 0)
        kind++;
    if (!config || kind > OLE_STUDY_COMPARE) return;
    ole_train_options train;
    ole_study_options options;
    ole_recipe *recipe;
    ole_error error = {0};
    ole_train_options_init(&train);
    ole_study_options_init(&options);
    options.train = &train;
    options.look = true; /* reads no initial weights */
    options.vary = text_of(record, "vary");
    options.data_name = text_of(record, "data");
    if (ole_recipe_parse(&recipe, config, strlen(config), "config", &train, &error) != OLE_OK)
        return;
    ole_study study = make(kind, &options, fuzz_folder());
    ole_status status = ole_record_open(&study, &error);
    if (status != OLE_OK) check_error(status, &error);
    if (status == OLE_OK) write_again(&study, &options);
    free_study(&study);
    ole_recipe_free(recipe);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    bool no_memory;
    put_file("study.json", bytes, size);
    look();
    json_t *record = ole_parse_json((const char *)bytes, size, 0, NULL, &no_memory);
    if (record) check_record(record);
    json_decref(record);
}
