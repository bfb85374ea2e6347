/*
 * tests/unit/test_train_memory.c - running out of memory while models, checkpoints and recipes are
 * read and written: never a crash, never a good file called damaged, and never a run resumed from
 * anything but its last checkpoint.
 */
#include "failing_memory.h"
#include "run_files.h"
#include "temporary.h"

#include "train/card.h"
#include "train/recipe.h"

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

#define FAILING(name)                                                                              \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        fail_each(name);                                                                           \
    }

FAILING(parse_recipe)
FAILING(write_recipe)
FAILING(write_card)
FAILING(write_file)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_recipe),
        cmocka_unit_test(test_write_recipe),
        cmocka_unit_test(test_write_card),
        cmocka_unit_test(test_write_file),

    };
    return cmocka_run_group_tests(tests, train_one, remove_one);
}
