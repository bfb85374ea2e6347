/*
 * cli/reproduce/recipe_catalogue.c - the recipes inside the program, and reading one together with
 * its `paper:` block.
 */
#include "reproduce/reproduce.h"

#include "base/nearest_name.h"
#include "base/option.h"
#include "base/read_file.h"
#include "common/common.h"
#include "recipe_texts.h"
#include "train/options/recipe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RECIPES = sizeof recipe_texts / sizeof *recipe_texts, LARGEST = 1 << 20 };

int recipe_count(void) {
    return RECIPES;
}

const char *recipe_name(int i) {
    return recipe_texts[i].name;
}

int recipe_find(const char *name) {
    for (int i = 0; i < RECIPES; i++)
        if (strcmp(recipe_texts[i].name, name) == 0) return i;
    return -1;
}

bool recipe_is_original(const recipe *r) {
    int at = recipe_find(r->name);
    return at >= 0 && strcmp(recipe_texts[at].text, r->text) == 0;
}

/* ---- The block `paper:` ------------------------------------------------------------------- */

static const ole_option keys[] = {
    {"title", OLE_TEXT, .offset = offsetof(recipe, title)},
    {"shows", OLE_TEXT, .offset = offsetof(recipe, shows)},
    {"kind", OLE_CHOICE, .offset = offsetof(recipe, kind),
     .value = "compare|tune|sweep|novelty|features|curves"},
    {"measure", OLE_TEXT, .offset = offsetof(recipe, measure)},
    {"softmax", OLE_NUMBER, .offset = offsetof(recipe, reported[SOFTMAX].mean)},
    {"softmax_std", OLE_NUMBER, .offset = offsetof(recipe, reported[SOFTMAX].std)},
    {"ole", OLE_NUMBER, .offset = offsetof(recipe, reported[WITH_OLE].mean)},
    {"ole_std", OLE_NUMBER, .offset = offsetof(recipe, reported[WITH_OLE].std)},
    {"reports", OLE_TEXT, .offset = offsetof(recipe, reports)},
    {"note", OLE_TEXT, .offset = offsetof(recipe, note)},
    {"needs", OLE_TEXT, .offset = offsetof(recipe, needs)},
    {"from", OLE_TEXT, .offset = offsetof(recipe, from)},
    {"draw", OLE_TEXT, .offset = offsetof(recipe, draw)},
    {"novel", OLE_TEXT, .offset = offsetof(recipe, novel)},
    {"novel_classes", OLE_TEXT, .offset = offsetof(recipe, novel_classes)},
    {"verify", OLE_SWITCH, .offset = offsetof(recipe, verify)},
    {"chosen", OLE_NUMBER, .offset = offsetof(recipe, chosen)},
    {"minutes", OLE_NUMBER, .offset = offsetof(recipe, minutes)},
    {"quick", OLE_INTEGER, .offset = offsetof(recipe, quick), .min = 1, .max = 1000000},
    {"lambdas", OLE_TEXT, .offset = offsetof(recipe, lambda_list)},
    {"samples", OLE_TEXT, .offset = offsetof(recipe, sample_list)},
    {0},
};

/* Fills `draws` from `draw`. */
static bool read_figures(recipe *r, char why[OLE_OPTION_WHY]) {
    static const ole_option figure = {
        "draw", OLE_CHOICE,
        .value = "angles|angle-histogram|spectrum|class-spectra|overlaps|map|space|curves"};
    for (const char *at = r->draw; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char word[WORD_ROOM];
        int kind;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        if (!ole_option_set(&figure, &kind, "paper: draw", word, why)) return false;
        r->draws |= 1u << kind;
    }
    return true;
}

static bool read_values(const char *key, const char *option, const char *text, void *values,
                        int64_t *count, char why[OLE_OPTION_WHY]) {
    char word[WORD_ROOM];
    if (!text || study_read_list(option, text, RECIPE_VALUES, values, count, word)) return true;
    snprintf(why, OLE_OPTION_WHY, "paper: %s '%.60s': expected 1 to %d comma-separated numbers",
             key, text, RECIPE_VALUES);
    return false;
}

/* A mistake that no single key shows, and that might only show after all training; NULL: none. */
static const char *find_mistake(const recipe *r) {
    const ole_train_options *o = &r->train;
    bool shows_others = r->kind == RECIPE_FEATURES || r->kind == RECIPE_CURVES;
    int with_ole = 0;
    for (int i = 0; i < r->lambda_count; i++)
        with_ole += r->lambdas[i] > 0.0;
    if (!r->title || !r->shows) return "the block 'paper' with title and shows is missing";
    if (!shows_others && (!o->data || !o->net)) return "data or net is missing";
    if (shows_others != (r->from != NULL))
        return "paper: 'from' is required for the kinds features and curves, and not allowed for "
               "others";
    if (r->kind == RECIPE_SWEEP && r->sample_count == 0)
        return "paper: the kind sweep needs samples, as samples: [50, 100]";
    if (r->kind != RECIPE_TUNE && !r->from && !r->lambda_list && o->lambda == 0.0)
        return "lambda is 0: softmax must be compared with a lambda above 0";
    if (r->kind != RECIPE_TUNE && with_ole > 1)
        return "paper: lambdas: softmax is compared with one lambda above 0: give one, or a recipe "
               "for each; the kind tune takes many";
    if (r->kind != RECIPE_NOVELTY) return NULL;
    if (!r->novel && !(r->novel_classes && o->classes))
        return "paper: the kind novelty needs classes (the known ones) and, in 'paper', "
               "novel_classes, or another data set there (novel)";
    if (!(o->val_split > 0.0))
        return "paper: the kind novelty needs val_split: the threshold comes from the validation "
               "set";
    return !(o->loss & OLE_LOSS_CLASSIFIERS)
               ? "paper: the kind novelty needs a classifier: loss softmax+ole"
               : NULL;
}

static bool read_block(recipe *r, char why[OLE_OPTION_WHY]) {
    size_t count;
    const ole_recipe_note *notes = ole_recipe_notes(r->parsed, &count);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(notes[i].key);
        const ole_option *key = ole_option_find(keys, notes[i].key, length);
        if (!key) {
            const ole_option *near = ole_option_nearest(keys, notes[i].key, length);
            snprintf(why, OLE_OPTION_WHY, "paper has no key '%.60s'%s%s%s", notes[i].key,
                     near ? "; did you mean " : "", near ? near->name : "", near ? "?" : "");
            return false;
        }
        char name[64];
        snprintf(name, sizeof name, "paper: %s", key->name);
        if (!ole_option_set(key, r, name, notes[i].value, why)) return false;
    }
    if (!read_values("lambdas", "lambda", r->lambda_list, r->lambdas, &r->lambda_count, why) ||
        !read_values("samples", "samples_per_class", r->sample_list, r->samples, &r->sample_count,
                     why))
        return false;
    const char *mistake = find_mistake(r);
    if (mistake) snprintf(why, OLE_OPTION_WHY, "%s", mistake);
    if (mistake || !read_figures(r, why)) return false;
    if (r->lambda_count == 0) {
        r->lambdas[1] = r->train.lambda;
        r->lambda_count = 2;
    }
    return true;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static bool read_text(recipe *r, const char *label) {
    ole_error error;
    char why[OLE_OPTION_WHY];
    ole_train_options_init(&r->train);
    r->quick = 20;
    r->chosen = r->minutes = NAN;
    r->reported[SOFTMAX] = r->reported[WITH_OLE] = (ole_study_error){NAN, NAN};
    if (ole_recipe_parse(&r->parsed, r->text, strlen(r->text), label, &r->train, &error) != OLE_OK)
        return refuse("reproduce", "%s", error.message);
    return read_block(r, why) || refuse("reproduce", "%s: %s", label, why);
}

bool recipe_open_as(recipe *r, const char *name, const char *path) {
    size_t size;
    *r = (recipe){0};
    snprintf(r->name, sizeof r->name, "%s", name);
    if (ole_read_file(path, LARGEST, &r->text, &size, NULL) == OLE_OK) return read_text(r, path);
    return refuse("reproduce", "%s: cannot read this recipe", path);
}

/* The length of .yaml or .yml at the end; 0: it is no file of a recipe. */
static size_t ending_length(const char *given) {
    const char *dot = strrchr(given, '.');
    bool yaml = dot && dot > given && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    return yaml ? strlen(dot) : 0;
}

/* A file is called by its name without the ending; the recipe.yaml of a row's folder by the name of
 * the folder. */
bool recipe_folder_name(const char *given, char name[RECIPE_NAME]) {
    const char *end = given + strlen(given) - ending_length(given),
               *slash = *end ? strrchr(given, '/') : 0;
    const char *first = slash ? slash + 1 : given;
    if (slash && strcmp(slash, "/recipe.yaml") == 0) {
        const char *folder = slash;
        while (folder > given && folder[-1] != '/')
            folder--;
        if (strspn(folder, ".") < (size_t)(slash - folder)) {
            first = folder;
            end = slash;
        }
    }
    if (end == first || end - first >= RECIPE_NAME || *first == '.') return false;
    snprintf(name, RECIPE_NAME, "%.*s", (int)(end - first), first);
    return true;
}

bool recipe_open(recipe *r, const char *given) {
    char name[RECIPE_NAME];
    const char *names[RECIPES], *near;
    int at = recipe_find(given);
    *r = (recipe){0};
    if (at >= 0) {
        snprintf(r->name, sizeof r->name, "%s", given);
        r->text = strdup(recipe_texts[at].text);
        return r->text && read_text(r, given);
    }
    if (ending_length(given) > 0) {
        if (recipe_folder_name(given, name)) return recipe_open_as(r, name, given);
        return refuse("reproduce",
                      "%.200s: the file's name needs 1 to %d characters before the ending "
                      "and must not start with a dot",
                      given, RECIPE_NAME - 1);
    }
    for (int i = 0; i < RECIPES; i++)
        names[i] = recipe_texts[i].name;
    near = ole_nearest_name(given, names, RECIPES);
    for (int i = 0; i < RECIPES && !near; i++)
        if (strncmp(given, names[i], strlen(given)) == 0) near = names[i];
    return refuse("reproduce", "unknown row %.60s; %s%s%s'ole reproduce --list' shows them", given,
                  near ? "did you mean " : "", near ? near : "", near ? "? " : "");
}

void recipe_close(recipe *r) {
    ole_recipe_free(r->parsed);
    free(r->text);
    *r = (recipe){0};
}
