/*
 * tests/unit/train/test_train_memory.c - running out of memory while models, checkpoints and
 * recipes are read and written: never a crash, never a good file called damaged, and never a run
 * resumed from anything but its last checkpoint.
 */
#include "failing_memory.h"
#include "run_files.h"
#include "temporary.h"

#include "base/error.h"
#include "formats/parse_json.h"
#include "model/model_card.h"
#include "ole/train/export.h"
#include "ole/train/model.h"
#include "train/options/recipe.h"
#include "train/run/run.h"

#include <string.h>

static char folder[400], last_path[600];
static ole_card card;

/* A run of two epochs: last.safetensors and previous.safetensors. */
static int train_one(void **state) {
    if (temporary_make(state) != 0) return -1;
    snprintf(folder, sizeof folder, "%s/run", temporary_dir);
    snprintf(last_path, sizeof last_path, "%s/last.safetensors", folder);
    ole_train_options o = small_run("FC4", "ref");
    ole_error error;
    o.out = folder;
    o.epochs = 2;
    o.save_every = 1;
    ole_safetensors *file;
    if (ole_train(&o, NULL, &error) != OLE_OK ||
        ole_safetensors_open(&file, last_path, &error) != OLE_OK)
        return -1;
    ole_status status = ole_card_read(&card, file, last_path, &error);
    ole_safetensors_close(file);
    return status == OLE_OK ? 0 : -1;
}

static int remove_one(void **state) {
    ole_card_free(&card);
    run_remove(folder);
    temporary_clear(state);
    return temporary_remove(state);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

/* Tokens too short for jansson to need memory for them: there it asserts that it has found some. */
static ole_status parse_json(ole_error *error) {
    static const char text[] =
        "{\"a\":[1,[2.5,null],{\"b\":\"c\"}],\"d\":[[],[],[],[],[],[],[],[],[]]}";
    bool no_memory;
    json_t *json = ole_parse_json(text, strlen(text), JSON_REJECT_DUPLICATES, NULL, &no_memory);
    if (no_memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    assert_int_equal(json_array_size(json_object_get(json, "d")), 9);
    json_decref(json);
    return OLE_OK;
}

/* ---- Recipes, cards, files ---------------------------------------------------------------- */

static ole_status parse_recipe(ole_error *error) {
    static const char text[] = "epochs: &e 3\n"
                               "classes: [a, 'b', \"c\"]\n"
                               "paper:\n  a: 1\n  b: [1, 2]\n";
    ole_train_options o;
    ole_recipe *recipe;
    ole_train_options_init(&o);
    ole_status status = ole_recipe_parse(&recipe, text, strlen(text), "r.yaml", &o, error);
    ole_recipe_free(recipe);
    return status;
}

static ole_status write_recipe(ole_error *error) {
    ole_train_options o;
    ole_train_options_init(&o);
    return ole_recipe_write(temporary_path("r.yaml"), &o, error);
}

static ole_status write_card(ole_error *error) {
    ole_card_texts texts;
    ole_status status = ole_card_write(&card, &texts, error);
    if (status == OLE_OK) assert_string_equal(texts.pair[1].value, "FC4");
    ole_card_texts_free(&texts);
    return status;
}

static ole_status write_file(ole_error *error) {
    static const float values[4];
    const ole_tensor tensor = {"w", OLE_F32, 1, {4}, values};
    const ole_metadata text = {"key", "value"};
    return ole_safetensors_write(temporary_path("w.safetensors"), &tensor, 1, &text, 1, error);
}

static ole_status read_card(ole_error *error) {
    ole_safetensors *file;
    ole_card read = {0};
    ole_status status = ole_safetensors_open(&file, last_path, error);
    if (status == OLE_OK) status = ole_card_read(&read, file, last_path, error);
    ole_card_free(&read);
    ole_safetensors_close(file);
    return status;
}

static ole_status load_model(ole_error *error) {
    ole_model *model;
    ole_status status = ole_model_load(&model, folder, 1, error);
    ole_model_free(model);
    return status;
}

static ole_status export_model(ole_error *error) {
    return ole_export_onnx(folder, temporary_path("m.onnx"), NULL, NULL, error);
}

/* ---- Resuming ----------------------------------------------------------------------------- */

static ole_status resume(ole_error *error) {
    ole_train_options o = small_run("FC4", "ref");
    o.out = folder;
    o.epochs = 3;
    o.save_every = 1;
    o.resume = true;
    ole_run run;
    ole_status status = ole_run_open(&run, &o, error);
    if (status != OLE_OK) return status;
    bool from_last = run.has_last && run.state.epoch == 2;
    ole_run_close(&run);
    return from_last ? OLE_OK : ole_fail(error, OLE_ERROR_FORMAT, "not the last checkpoint");
}

/* ---- Training ----------------------------------------------------------------------------- */

static void find_threshold(void *found, const char *text) {
    *(bool *)found |= strstr(text, "without a threshold") != NULL;
}

/* A model has its threshold, or the run says that there was no memory for it. */
static ole_status train_model(ole_error *error) {
    ole_train_options o = small_run("FC4", "ref");
    ole_model *model = NULL;
    bool said = false;
    o.samples_per_class = 4;
    o.epochs = 1;
    o.augment = NULL;
    o.calibration = 0;
    o.model = &model;
    o.message = find_threshold;
    o.callback_context = &said;
    ole_status status = ole_train(&o, NULL, error);
    if (status == OLE_OK)
        assert_int_not_equal(said,
                             ole_model_get_info(model)->threshold_score == OLE_SCORE_CALIBRATED);
    ole_model_free(model);
    return status;
}

/*
 * `spared`: libraries that end the program when they find no memory, jansson where a token is
 * longer than a few bytes and oneDNN.
 */
#define FAILING(name, spared)                                                                      \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        fail_each(name, spared);                                                                   \
    }

FAILING(parse_json, NULL)
FAILING(parse_recipe, NULL)
FAILING(write_recipe, NULL)
FAILING(write_card, NULL)
FAILING(write_file, NULL)
FAILING(read_card, "libjansson")
FAILING(load_model, "libjansson libdnnl libstdc++")
FAILING(export_model, "libjansson")
FAILING(resume, "libjansson")
FAILING(train_model, NULL)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_json),   cmocka_unit_test(test_parse_recipe),
        cmocka_unit_test(test_write_recipe), cmocka_unit_test(test_write_card),
        cmocka_unit_test(test_write_file),   cmocka_unit_test(test_read_card),
        cmocka_unit_test(test_load_model),   cmocka_unit_test(test_export_model),
        cmocka_unit_test(test_resume),       cmocka_unit_test(test_train_model),
    };
    return cmocka_run_group_tests(tests, train_one, remove_one);
}
