/*
 * cli/common/train_flags.c - flags, recipe and the recipe of a resumed folder become training
 * options.
 *
 * Flags override the recipe, and the recipe overrides what a resumed folder began with.  Flags are
 * parsed before either is known, into options of their own, and those given are copied at the end.
 */
#include "common/train_flags.h"

#include "common/common.h"

#include "base/quote.h"
#include "train/options/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The table ---------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names) {
    for (; names && *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

static void set_defaults(const train_flags *f, ole_train_options *options) {
    ole_train_options_init(options);
    if (f->study)
        options->seeds = 3;
    else
        options->epochs = 0; /* chosen to suit the data */
}

ole_option *train_flags_rows(train_flags *f, const char *const *without, ole_option *row) {
    const char *heading = NULL;
    set_defaults(f, &f->options);
    *row++ = (ole_option){
        "config",    OLE_TEXT,      &f->recipe,
        "FILE.yaml", .letter = 'c', .help = "recipe: a YAML file with the options below as keys"};
    for (const ole_option *o = ole_train_table; o->name; o++) {
        if (o->heading) heading = o->heading;
        if (strcmp(o->name, "data") == 0 || is_one_of(o->name, without)) continue;
        *row = *o;
        row->to = (char *)&f->options + o->offset;
        row->given = &f->given[o - ole_train_table];
        row->heading = heading;
        heading = NULL;
        if (f->holds_out && strcmp(o->name, "val_split") == 0) row->flags |= OLE_NOT_ZERO;
        row++;
    }
    return row;
}

/* ---- The options -------------------------------------------------------------------------- */

static bool read_recipe(const train_flags *f, train_setup *s, int which, const char *path) {
    ole_error error;
    if (ole_recipe_read(&s->recipes[which], path, &s->options, &error) == OLE_OK) return true;
    return refuse(f->command, "%s", error.message);
}

/* Warns of flags that have no effect beside others; a recipe, which stores all, may hold both. */
static void warn_of_idle(const train_flags *f, const train_setup *s) {
    char beside[OLE_OPTION_WHY], flag[OLE_OPTION_FLAG];
    if (ole_ranks_launched_rank() > 0) return; /* rank 0 warns */
    for (const ole_option *o = ole_train_table; o->name; o++)
        if (f->given[o - ole_train_table] &&
            ole_option_is_idle(o, ole_train_table, &s->options, beside))
            tell_command(f->command, "warning: %s has no effect with %s", ole_option_flag(o, flag),
                         beside);
}

/* A resumed folder knows what it began with. */
static bool read_own_recipe(const train_flags *f, train_setup *s) {
    char path[4096] = "";
    ole_train_options given;
    ole_recipe *recipe = NULL;
    ole_train_options_init(&given);
    if (f->recipe && ole_recipe_read(&recipe, f->recipe, &given, NULL) != OLE_OK) return true;
    const char *out = f->options.out ? f->options.out : given.out;
    if (out && (f->options.resume || given.resume))
        snprintf(path, sizeof path, "%s/config.yaml", out);
    ole_recipe_free(recipe);
    return access(path, F_OK) != 0 || read_recipe(f, s, 0, path);
}

/* A study needs a name for its folder, so that the same command resumes it. */
static const char *what_is_missing(const train_flags *f, const ole_train_options *o) {
    if (o->resume && !o->out)
        return "missing option --out: the folder to resume, such as runs/first";
    if (!o->data) return "missing argument DATA: a data set, such as digits or folder:photos";
    if (f->study && !o->out)
        return "missing option --out: the folder of the study, such as runs/first";
    return NULL;
}

static bool is_given(const train_flags *f, const char *name) {
    for (const ole_option *o = ole_train_table; o->name; o++)
        if (strcmp(o->name, name) == 0) return f->given[o - ole_train_table];
    return false;
}

/*
 * Of folder: and npy: data a tenth is held out for the threshold, unless flags say what to train
 * on. Named sets have a training part that results are compared on; a recipe and a resumed run say
 * all that they need.
 */
static bool holds_out_some(const train_flags *f, const train_setup *s) {
    const ole_train_options *o = &s->options;
    bool own = o->data && (strncmp(o->data, "folder:", 7) == 0 || strncmp(o->data, "npy:", 4) == 0);
    return f->calibrates && own && !s->recipes[0] && !s->recipes[1] && o->unknown &&
           (o->loss & OLE_LOSS_CLASSIFIERS) && o->samples_per_class == 0 &&
           !is_given(f, "calibration") && !is_given(f, "val_split");
}

/*
 * What suits a few hundred to a few thousand photos: chosen on sets that bench/photo_defaults.py
 * names.  A flag replaces all that stands in its group.
 */
static const struct {
    const char *name, *value;
    int group;
} of_photos[] = {
    {"opt", "adamw", 0},         {"lr", "2e-3", 0},  {"weight_decay", "0.05", 0},
    {"milestones", "cosine", 1}, {"warmup", "2", 1}, {"augment", "flip,jitter:0.2", 2},
    {"sampler", "balanced", 3},
};

/* Flags that say what those of a group would. */
static const struct {
    const char *name;
    int group;
} instead_of[] = {{"momentum", 0}, {"nesterov", 0}, {"gamma", 1}, {"batch_size", 3}};

static bool is_settled(const train_flags *f, int group) {
    for (size_t i = 0; i < sizeof of_photos / sizeof *of_photos; i++)
        if (of_photos[i].group == group && is_given(f, of_photos[i].name)) return true;
    for (size_t i = 0; i < sizeof instead_of / sizeof *instead_of; i++)
        if (instead_of[i].group == group && is_given(f, instead_of[i].name)) return true;
    return false;
}

enum { SHORT = 10 }; /* epochs that need no warm-up */

/* Settings for a folder of photos, unless flags, a recipe or a resumed folder have theirs. */
static void suit_photos(const train_flags *f, train_setup *s) {
    char why[OLE_OPTION_WHY], flag[OLE_OPTION_FLAG];
    bool brief = s->options.epochs > 0 && s->options.epochs <= SHORT;
    for (size_t i = 0; i < sizeof of_photos / sizeof *of_photos; i++) {
        bool warms = strcmp(of_photos[i].name, "warmup") == 0;
        if (is_settled(f, of_photos[i].group) || (warms && brief)) continue;
        const ole_option *row =
            ole_option_find(ole_train_table, of_photos[i].name, strlen(of_photos[i].name));
        ole_option_set(row, &s->options, row->name, of_photos[i].value, why);
        size_t used = strlen(s->settings);
        snprintf(s->settings + used, sizeof s->settings - used, " %s %s",
                 ole_option_flag(row, flag), of_photos[i].value);
    }
}

/* Reports where the data of a resumed folder were, if they are there no more. */
static void tell_moved(const train_flags *f, const train_setup *s) {
    const char *at = ole_recipe_data_at(s->recipes[0]), *data = s->options.data;
    if (!s->recipes[0] || f->data || f->recipe || !data || ole_recipe_data_here(data) ||
        ole_ranks_launched_rank() > 0)
        return;
    char *word = ole_shell_word(s->options.out);
    tell_command(f->command,
                 "the data of the run, %s, are not there%s%s; if they have moved, name them: ole "
                 "%s DATA --resume --out %s",
                 data, at ? ", nor are " : "", at ? at : "", f->command,
                 word ? word : s->options.out);
    free(word);
}

void train_setup_tell(const train_setup *s, const char *command) {
    if (*s->settings)
        tell_command(command, "settings for photos:%s; flags set others", s->settings);
}

bool train_flags_read(const train_flags *f, train_setup *s) {
    *s = (train_setup){0};
    set_defaults(f, &s->options);
    if (!read_own_recipe(f, s)) return false;
    if (f->recipe && !read_recipe(f, s, 1, f->recipe)) return false;
    for (const ole_option *o = ole_train_table; o->name; o++)
        if (f->given[o - ole_train_table]) ole_option_copy(o, &s->options, &f->options);
    warn_of_idle(f, s);
    if (f->data) s->options.data = f->data;
    bool photos = s->options.data && strncmp(s->options.data, "folder:", 7) == 0;
    if (photos && !s->recipes[0] && !s->recipes[1] && !s->options.resume) suit_photos(f, s);
    if (holds_out_some(f, s)) s->options.calibration = 0.1;
    tell_moved(f, s);
    const char *missing = what_is_missing(f, &s->options);
    if (missing && s->options.resume && s->options.out)
        fail_command(f->command, "%s: no %s to resume", s->options.out, f->study ? "study" : "run");
    else if (missing)
        fail_command(f->command, "%s; see 'ole %s --help'", missing, f->command);
    return !missing;
}

void train_setup_free(train_setup *s) {
    ole_recipe_free(s->recipes[0]);
    ole_recipe_free(s->recipes[1]);
}
