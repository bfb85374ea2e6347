/*
 * cli/reproduce/recipe_catalogue.c - the recipes inside the program, and reading one with its block
 * `paper`.
 */
#include "reproduce/recipe_catalogue.h"

#include "common/common.h"
#include "common/study_command.h"
#include "paper_recipes.h"

#include "base/nearest_name.h"
#include "train/options/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RECIPES = sizeof recipes / sizeof *recipes,
    LARGEST = 1 << 20,
    QUICK_SAMPLES = 20,
    WHY = 320,
    HINT = 80
};

int paper_count(void) {
    return RECIPES;
}

const char *paper_name(int i) {
    return recipes[i].name;
}

/* ---- The block ---------------------------------------------------------------------------- */

/* What a note is read into. */
typedef enum note_kind { TEXT, NUMBER, WHOLE, SWITCH, KIND, LAMBDAS, SAMPLES } note_kind;

static const struct {
    const char *name;
    note_kind kind;
    size_t offset;
} fields[] = {
    {"title", TEXT, offsetof(paper, title)},
    {"shows", TEXT, offsetof(paper, shows)},
    {"kind", KIND, offsetof(paper, kind)},
    {"measure", TEXT, offsetof(paper, measure)},
    {"softmax", NUMBER, offsetof(paper, reported[SOFTMAX].mean)},
    {"softmax_std", NUMBER, offsetof(paper, reported[SOFTMAX].std)},
    {"ole", NUMBER, offsetof(paper, reported[WITH_OLE].mean)},
    {"ole_std", NUMBER, offsetof(paper, reported[WITH_OLE].std)},
    {"reports", TEXT, offsetof(paper, reports)},
    {"note", TEXT, offsetof(paper, note)},
    {"needs", TEXT, offsetof(paper, needs)},
    {"from", TEXT, offsetof(paper, from)},
    {"draw", TEXT, offsetof(paper, draw)},
    {"novel", TEXT, offsetof(paper, novel)},
    {"novel_classes", TEXT, offsetof(paper, novel_classes)},
    {"verify", SWITCH, offsetof(paper, verify)},
    {"chosen", NUMBER, offsetof(paper, chosen)},
    {"minutes", NUMBER, offsetof(paper, minutes)},
    {"quick", WHOLE, offsetof(paper, quick)},
    {"lambdas", LAMBDAS, 0},
    {"samples", SAMPLES, 0},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static const char *const kinds[] = {"compare", "tune", "sweep", "novelty", "features", "curves"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Figures that `draw` may name: those of an analysis, and the learning curves. */
static const char *const figures[] = {
    "angles", "angle-histogram", "spectrum", "class-spectra", "overlaps", "map", "space", "curves"};
enum { FIGURES = sizeof figures / sizeof *figures };

static void take_lambda(void *to, const ole_train_options *one) {
    paper *p = to;
    p->lambdas[p->lambda_count++] = one->lambda;
}

static void take_samples(void *to, const ole_train_options *one) {
    paper *p = to;
    p->samples[p->sample_count++] = one->samples_per_class;
}

static bool read_values(paper *p, const char *text, bool lambdas) {
    char word[WORD_ROOM];
    return lambdas
               ? study_read_list("lambda", text, PAPER_VALUES, take_lambda, p, word)
               : study_read_list("samples_per_class", text, PAPER_VALUES, take_samples, p, word);
}

static bool read_number(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value) && *value >= 0.0;
}

static bool read_note(paper *p, size_t f, const char *text) {
    void *to = (char *)p + fields[f].offset;
    double number;
    switch (fields[f].kind) {
    case TEXT:
        *(const char **)to = text;
        return true;
    case NUMBER:
        return read_number(text, to);
    case WHOLE:
        if (!read_number(text, &number) || number != floor(number)) return false;
        if (number < 1 || number > 1e6) return false;
        *(int *)to = (int)number;
        return true;
    case SWITCH:
        *(bool *)to = strcmp(text, "true") == 0;
        return *(bool *)to || strcmp(text, "false") == 0;
    case KIND:
        for (int k = 0; k < KINDS; k++)
            if (strcmp(text, kinds[k]) == 0) {
                p->kind = (paper_kind)k;
                return true;
            }
        return false;
    default:
        return read_values(p, text, fields[f].kind == LAMBDAS);
    }
}

/* The first word of `draw` that names no figure; its length, 0: there is none. */
static int find_no_figure(const char *draw, const char **word) {
    for (const char *at = draw; at && *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",");
        int known = 0;
        while (known < FIGURES &&
               (strlen(figures[known]) != length || strncmp(figures[known], at, length) != 0))
            known++;
        *word = at;
        if (known == FIGURES) return length > 0 ? (int)length : 1;
    }
    return 0;
}

static bool fail_figure(const char *word, int length, char why[WHY]) {
    int used = snprintf(why, WHY, "paper: draw: '%.*s' is no figure; there are", length, word);
    for (int f = 0; f < FIGURES && used < WHY; f++)
        used += snprintf(why + used, (size_t)(WHY - used), "%s%s", f ? ", " : " ", figures[f]);
    return false;
}

/* The sides of a table are two: softmax and one λ. */
static bool has_sides(const paper *p) {
    int with_ole = 0;
    for (int i = 0; i < p->lambda_count; i++)
        with_ole += p->lambdas[i] > 0.0;
    return with_ole <= 1 || p->kind == PAPER_TUNE;
}

/* What a recipe of known and novel classes lacks, which would show when all is trained; NULL:
 * nothing. */
static const char *lacks_for_novelty(const paper *p) {
    const ole_train_options *o = &p->train;
    if (p->kind != PAPER_NOVELTY) return NULL;
    if (!p->novel && !(p->novel_classes && o->classes))
        return "needs classes, those known, and novel_classes in 'paper'; or another set there, "
               "novel";
    if (!(o->val_split > 0.0)) return "needs val_split: the threshold is found on what is held out";
    if (o->loss == OLE_LOSS_OLE) return "needs a classifier: loss softmax+ole";
    return NULL;
}

/* What no single key shows; false with the reason in `why`. */
static bool check_notes(const paper *p, char why[WHY]) {
    bool borrowed = paper_borrows(p);
    const char *word = NULL;
    int length = find_no_figure(p->draw, &word);
    const char *lacks = lacks_for_novelty(p);
    if (!p->title || !p->shows)
        snprintf(why, WHY, "the block 'paper' with title and shows is missing");
    else if (!borrowed && (!p->train.data || !p->train.net))
        snprintf(why, WHY, "data or net is missing");
    else if (borrowed != (p->from != NULL))
        snprintf(why, WHY, "paper: 'from' goes with the kinds features and curves");
    else if (lacks)
        snprintf(why, WHY, "paper: the kind novelty %s", lacks);
    else if (p->kind == PAPER_SWEEP && p->sample_count == 0)
        snprintf(why, WHY, "paper: the kind sweep needs samples, as samples: [50, 100]");
    else if (p->kind != PAPER_TUNE && !borrowed && p->lambda_count == 0 && p->train.lambda == 0.0)
        snprintf(why, WHY, "lambda is 0: the kind %s sets softmax against a lambda above 0",
                 kinds[p->kind]);
    else if (!has_sides(p))
        snprintf(
            why, WHY,
            "paper: lambdas: the kind %s sets softmax against one lambda above 0: give one, or "
            "a recipe for each; the kind tune takes many",
            kinds[p->kind]);
    else
        return length == 0 || fail_figure(word, length, why);
    return false;
}

/* What a value should have been, where that is soon said. */
static const char *hint_of(size_t f, char out[HINT]) {
    out[0] = '\0';
    if (fields[f].kind == KIND)
        snprintf(out, HINT, "; there are compare, tune, sweep, novelty, features and curves");
    else if (fields[f].kind == LAMBDAS || fields[f].kind == SAMPLES)
        snprintf(out, HINT, "; give 1 to %d numbers with commas between", PAPER_VALUES);
    return out;
}

/* False with the reason in `why`. */
static bool read_notes(paper *p, char why[WHY]) {
    size_t count;
    const ole_recipe_note *notes = ole_recipe_notes(p->recipe, &count);
    for (size_t i = 0; i < count; i++) {
        size_t f = 0;
        const char *names[FIELDS];
        char hint[HINT];
        for (; f < FIELDS && strcmp(fields[f].name, notes[i].key) != 0; f++)
            names[f] = fields[f].name;
        const char *near = f == FIELDS ? ole_nearest_name(notes[i].key, names, FIELDS) : NULL;
        if (f == FIELDS)
            snprintf(why, WHY, "paper has no key '%.60s'%s%s%s", notes[i].key,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        else if (!read_note(p, f, notes[i].value))
            snprintf(why, WHY, "paper: %s '%.60s' is not understood%s", notes[i].key,
                     notes[i].value, hint_of(f, hint));
        else
            continue;
        return false;
    }
    return check_notes(p, why);
}

/* ---- Opening ------------------------------------------------------------------------------ */

static bool read_text(paper *p, const char *label) {
    ole_error error;
    char why[WHY] = "";
    ole_train_options_init(&p->train);
    p->quick = QUICK_SAMPLES;
    p->chosen = p->minutes = NAN;
    for (int side = 0; side < SIDES; side++)
        p->reported[side] = (ole_study_error){NAN, NAN};
    if (ole_recipe_parse(&p->recipe, p->text, strlen(p->text), label, &p->train, &error) !=
        OLE_OK) {
        fail_command("reproduce", "%s", error.message);
        return false;
    }
    if (read_notes(p, why)) return true;
    fail_command("reproduce", "%s: %s", label, why);
    return false;
}

bool paper_open_as(paper *p, const char *name, const char *path) {
    *p = (paper){0};
    snprintf(p->name, sizeof p->name, "%s", name);
    FILE *file = open_text(path);
    p->text = file ? calloc(1, LARGEST + 1) : NULL;
    size_t size = p->text ? fread(p->text, 1, LARGEST, file) : 0;
    bool good = p->text && size < LARGEST && !ferror(file);
    if (file) fclose(file);
    if (!good) fail_command("reproduce", "%s: cannot read this recipe", path);
    return good && read_text(p, path);
}

/* How much of a file's name is its ending; 0: it is no recipe's file. */
static size_t ending(const char *row) {
    static const char *const endings[] = {".yaml", ".yml"};
    size_t length = strlen(row);
    for (int i = 0; i < 2; i++) {
        size_t size = strlen(endings[i]);
        if (length > size && strcmp(row + length - size, endings[i]) == 0) return size;
    }
    return 0;
}

/* The folder of a recipe that results are kept with, FOLDER/recipe.yaml, which bears its name; its
 * length, 0: it is another file. */
static size_t kept_in(const char *row, const char *slash, const char **folder) {
    *folder = slash;
    if (!slash || strcmp(slash, "/recipe.yaml") != 0) return 0;
    while (*folder > row && (*folder)[-1] != '/')
        (*folder)--;
    size_t length = (size_t)(slash - *folder);
    return strspn(*folder, ".") < length ? length : 0;
}

bool paper_row_name(const char *row, char name[PAPER_NAME]) {
    size_t rest = ending(row);
    const char *slash = rest > 0 ? strrchr(row, '/') : NULL, *folder;
    size_t length = kept_in(row, slash, &folder);
    const char *first = length > 0 ? folder : slash ? slash + 1 : row;
    if (length == 0) length = strlen(first) - rest;
    if (length == 0 || length >= PAPER_NAME || *first == '.') return false;
    snprintf(name, PAPER_NAME, "%.*s", (int)length, first);
    return true;
}

static bool fail_unknown(const char *row) {
    const char *names[RECIPES];
    for (int i = 0; i < RECIPES; i++)
        names[i] = recipes[i].name;
    const char *near = ole_nearest_name(row, names, RECIPES);
    for (int i = 0; i < RECIPES && !near; i++)
        if (strncmp(row, names[i], strlen(row)) == 0) near = names[i];
    fail_command("reproduce", "unknown row %.60s; %s%s%s'ole reproduce --list' shows them", row,
                 near ? "did you mean " : "", near ? near : "", near ? "? " : "");
    return false;
}

bool paper_open(paper *p, const char *row) {
    *p = (paper){0};
    if (ending(row) > 0) {
        char name[PAPER_NAME];
        if (paper_row_name(row, name)) return paper_open_as(p, name, row);
        fail_command("reproduce",
                     "%.200s: name the file with 1 to %d characters before the ending, "
                     "the first no dot",
                     row, PAPER_NAME - 1);
        return false;
    }
    for (int i = 0; i < RECIPES; i++) {
        if (strcmp(recipes[i].name, row) != 0) continue;
        snprintf(p->name, sizeof p->name, "%s", row);
        p->text = strdup(recipes[i].text);
        return p->text && read_text(p, row);
    }
    return fail_unknown(row);
}

bool paper_borrows(const paper *p) {
    return p->kind == PAPER_FEATURES || p->kind == PAPER_CURVES;
}

void paper_close(paper *p) {
    ole_recipe_free(p->recipe);
    free(p->text);
    *p = (paper){0};
}

bool paper_draws(const paper *p, const char *kind) {
    size_t length = strlen(kind);
    for (const char *at = p->draw; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, kind, length) == 0 && (at[length] == ',' || !at[length])) return true;
    return false;
}
