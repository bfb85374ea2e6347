/* fuzz/fuzz_recipe.c - a recipe in YAML; one that is good says the same when written and read
 * again. */
#include "base/quote.h"
#include "fuzz.h"
#include "train/options/options.h"
#include "train/options/recipe.h"

#include <stdlib.h>
#include <string.h>

/* Whether an option of `b` is that of `a`, without what a URL may hold of secrets. */
static bool is_kept(const ole_option *o, const ole_train_options *a, const ole_train_options *b) {
    char room[2][OLE_OPTION_VALUE];
    const char *given = ole_option_text(o, a, room[0]), *got = ole_option_text(o, b, room[1]);
    char *expected = ole_without_secrets(given ? given : "");
    bool same = expected && strcmp(expected, got ? got : "") == 0;
    free(expected);
    return same;
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_train_options options, again;
    ole_recipe *recipe, *copy;
    ole_error error = {0};
    ole_train_options_init(&options);
    ole_train_options_init(&again);
    ole_status status =
        ole_recipe_parse(&recipe, (const char *)bytes, size, "recipe.yaml", &options, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        require(recipe == NULL, "a recipe in spite of an error");
        return;
    }
    size_t notes;
    const ole_recipe_note *note = ole_recipe_notes(recipe, &notes);
    for (size_t i = 0; i < notes; i++)
        touch(note[i].value, strlen(note[i].value) + strlen(note[i].key));
    char *text = ole_recipe_text(&options);
    require(text != NULL, "it cannot be written");
    status = ole_recipe_parse(&copy, text, strlen(text), "again.yaml", &again, &error);
    require(status == OLE_OK, error.message);
    for (const ole_option *o = ole_train_table; o->name; o++)
        require(o->flags & OLE_TRANSIENT || is_kept(o, &options, &again),
                "another value after writing");
    free(text);
    ole_recipe_free(copy);
    ole_recipe_free(recipe);
}
