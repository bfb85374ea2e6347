/*
 * cli/train_flags.c - flags, recipe and the recipe of a resumed folder become options of training.
 *
 * Flags count more than the recipe, the recipe more than what a resumed folder began with.
 */
#include "train_flags.h"

#include "commands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- The table ---------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names) {
    for (; names && *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

/* What an option is to a study. */
static const char *study_help(const ole_train_option *option) {
    static const struct {
        const char *name, *help;
    } other[] = {
        {"out", "folder of the study: runs, results, curve, page"},
        {"resume", "go on with the study in the folder, with its options"},
        {"seeds", "runs of each point, from seed on (default 3)"},
        {"epochs", "passes over the training set (default 20)"},
    };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (strcmp(option->name, other[i].name) == 0) return other[i].help;
    return option->help;
}

arg_option *train_flags_rows(train_flags *f, const char *const *without, arg_option *row) {
    *row++ = (arg_option){.name = "config",
                          .kind = ARG_STRING,
                          .to = &f->recipe,
                          .value = "FILE.yaml",
                          .help = "a recipe: the options below by name",
                          .letter = 'c'};
    f->count = ole_train_option_count();
    for (size_t i = 0; i < f->count; i++) {
        ole_train_option option = ole_train_option_get(i);
        snprintf(f->name[i], TRAIN_NAME, "%s", option.name);
        for (char *c = f->name[i]; *c; c++)
            if (*c == '_') *c = '-';
        if (strcmp(option.name, "data") == 0) continue; /* it stands without a name */
        if (is_one_of(option.name, without)) continue;
        *row++ = (arg_option){.name = f->name[i],
                              .kind = option.value ? ARG_STRING : ARG_FLAG,
                              .to = option.value ? (void *)&f->text[i] : (void *)&f->on[i],
                              .value = option.value,
                              .help = f->study ? study_help(&option) : option.help};
    }
    *row++ = (arg_option){
        .name = "no-nesterov", .kind = ARG_FLAG, .to = &f->no_nesterov, .help = "plain momentum"};
    return row;
}

/* ---- The options -------------------------------------------------------------------------- */

static bool read_recipe(const train_flags *f, train_setup *s, int which, const char *path) {
    ole_error error;
    if (ole_recipe_read(&s->recipes[which], path, &s->options, &error) == OLE_OK) return true;
    fail_command(f->command, "%s", error.message);
    return false;
}

static bool set_flag(const train_flags *f, train_setup *s, const char *name, const char *text) {
    ole_error error;
    if (ole_train_options_set(&s->options, name, text, &error) == OLE_OK) return true;
    fail_command(f->command, "--%s", error.message);
    return false;
}

/* The text of a flag, NULL where it was not given. */
static const char *flag_text(const train_flags *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->name[i], name) == 0) return f->on[i] ? "true" : f->text[i];
    return NULL;
}

/* A recipe's 0, as run folders store it, may mean that nothing was given; a flag's never does. */
static bool check_zero(const train_flags *f, const train_setup *s) {
    const ole_train_options *o = &s->options;
    const struct {
        const char *name;
        bool zero;
        const char *expected;
    } rows[] = {
        {"epochs", o->epochs == 0, "a whole number from 1 up expected"},
        {"lr", o->lr == 0.0, "a number over 0 expected"},
        {"val-split", f->holds_out && o->val_split == 0.0, "a share over 0 expected, such as 10%"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *text = flag_text(f, rows[i].name);
        if (!text || !rows[i].zero) continue;
        fail_command(f->command, "--%s %s: %s; leave it out for the default", rows[i].name, text,
                     rows[i].expected);
        return false;
    }
    return true;
}

/* Flags beside others that leave them nothing to do; a recipe, which stores all, may hold both. */
static void warn_of_idle(const train_flags *f, const train_setup *s) {
    const ole_train_options *o = &s->options;
    bool softmax = o->loss == OLE_LOSS_SOFTMAX, adam = strcmp(o->opt, "adam") == 0;
    bool falls = strcmp(o->milestones, "cosine") != 0 && strcmp(o->milestones, "none") != 0;
    const struct {
        const char *name;
        bool idle;
        const char *beside;
    } rows[] = {
        {"lambda", softmax, "--loss softmax"}, {"ole-at", softmax, "--loss softmax"},
        {"momentum", adam, "--opt adam"},      {"nesterov", adam, "--opt adam"},
        {"gamma", !falls, "these milestones"}, {"batch-size", *o->sampler, "--sampler"},
    };
    if (ole_ranks_launched_rank() > 0) return; /* one of them says it */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].idle && flag_text(f, rows[i].name))
            fprintf(stderr, "ole %s: warning: --%s does nothing with %s\n", f->command,
                    rows[i].name, rows[i].beside);
}

/* A resumed folder knows what it began with. */
static bool read_own_recipe(const train_flags *f, train_setup *s) {
    char path[4096] = "";
    ole_train_options given;
    ole_recipe *recipe = NULL;
    ole_train_options_init(&given);
    if (f->recipe && ole_recipe_read(&recipe, f->recipe, &given, NULL) != OLE_OK) return true;
    const char *out = flag_text(f, "out") ? flag_text(f, "out") : given.out;
    if (out && (flag_text(f, "resume") || given.resume))
        snprintf(path, sizeof path, "%s/config.yaml", out);
    ole_recipe_free(recipe);
    return access(path, F_OK) != 0 || read_recipe(f, s, 0, path);
}

/* A study's folder is named, so that the same command goes on with it. */
static const char *what_is_missing(const train_flags *f, const ole_train_options *o) {
    if (o->resume && !o->out) return "--out is missing: the folder to go on in, as runs/first";
    if (!o->data) return "DATA is missing: a data set, as digits or folder:photos";
    if (f->study && !o->out) return "--out is missing: the folder of the study, as runs/first";
    return NULL;
}

bool train_flags_read(const train_flags *f, train_setup *s) {
    *s = (train_setup){0};
    ole_train_options_init(&s->options);
    if (f->study)
        s->options.seeds = 3;
    else
        s->options.epochs = 0; /* chosen */
    if (!read_own_recipe(f, s)) return false;
    if (f->recipe && !read_recipe(f, s, 1, f->recipe)) return false;
    for (size_t i = 0; i < f->count; i++) {
        const char *text = flag_text(f, f->name[i]);
        if (text && !set_flag(f, s, f->name[i], text)) return false;
    }
    if (!check_zero(f, s)) return false;
    warn_of_idle(f, s);
    if (f->no_nesterov) s->options.nesterov = false;
    if (f->data) s->options.data = f->data;
    const char *missing = what_is_missing(f, &s->options);
    if (missing && s->options.resume && s->options.out)
        fail_command(f->command, "%s: there is no %s to go on with", s->options.out,
                     f->study ? "study" : "run");
    else if (missing)
        fail_command(f->command, "%s; see 'ole %s --help'", missing, f->command);
    return !missing;
}

void train_setup_free(train_setup *s) {
    ole_recipe_free(s->recipes[0]);
    ole_recipe_free(s->recipes[1]);
}
