/*
 * cli/paper.c - the recipes inside the program, and reading one with its block `paper`.
 */
#include "paper.h"

#include "commands.h"
#include "paper_recipes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECIPES = sizeof recipes / sizeof *recipes, LARGEST = 1 << 20, QUICK_SAMPLES = 20 };

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

/* "A,B,..." as an option of training reads each of them. */
static bool read_list(paper *p, const char *text, bool lambdas) {
    int *count = lambdas ? &p->lambda_count : &p->sample_count;
    for (const char *at = text; at; (*count)++) {
        char word[64];
        size_t length = strcspn(at, ",");
        ole_train_options one;
        if (*count == PAPER_VALUES || length >= sizeof word) return false;
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        ole_train_options_init(&one);
        if (ole_train_options_set(&one, lambdas ? "lambda" : "samples_per_class", word, NULL) !=
            OLE_OK)
            return false;
        if (lambdas)
            p->lambdas[*count] = one.lambda;
        else
            p->samples[*count] = one.samples_per_class;
        at = at[length] ? at + length + 1 : NULL;
    }
    return true;
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
        if (!read_number(text, &number) || number != floor(number) || number > 1e6) return false;
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
        return read_list(p, text, fields[f].kind == LAMBDAS);
    }
}

/* False with the reason in `why`. */
static bool read_notes(paper *p, char why[256]) {
    size_t count;
    const ole_recipe_note *notes = ole_recipe_notes(p->recipe, &count);
    for (size_t i = 0; i < count; i++) {
        size_t f = 0;
        const char *names[FIELDS];
        for (; f < FIELDS && strcmp(fields[f].name, notes[i].key) != 0; f++)
            names[f] = fields[f].name;
        const char *near = f == FIELDS ? ole_nearest(notes[i].key, names, FIELDS) : NULL;
        if (f == FIELDS)
            snprintf(why, 256, "paper has no key '%.60s'%s%s%s", notes[i].key,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        else if (!read_note(p, f, notes[i].value))
            snprintf(why, 256, "paper: %s '%.60s' is not understood", notes[i].key, notes[i].value);
        else
            continue;
        return false;
    }
    bool borrowed = p->kind == PAPER_FEATURES || p->kind == PAPER_CURVES;
    if (!p->title || !p->shows)
        snprintf(why, 256, "the block 'paper' with title and shows is missing");
    else if (!borrowed && (!p->train.data || !p->train.net))
        snprintf(why, 256, "data or net is missing");
    else if (borrowed != (p->from != NULL))
        snprintf(why, 256, "paper: 'from' goes with the kinds features and curves");
    else
        return true;
    return false;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static bool read_text(paper *p, const char *label) {
    ole_error error;
    char why[256] = "";
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
    FILE *file = fopen(path, "r");
    p->text = file ? calloc(1, LARGEST + 1) : NULL;
    size_t size = p->text ? fread(p->text, 1, LARGEST, file) : 0;
    bool good = p->text && size < LARGEST && !ferror(file);
    if (file) fclose(file);
    if (!good) fail_command("reproduce", "%s: cannot read this recipe", path);
    return good && read_text(p, path);
}

static bool is_file(const char *row) {
    size_t length = strlen(row);
    return length > 5 && strcmp(row + length - 5, ".yaml") == 0;
}

static bool fail_unknown(const char *row) {
    const char *names[RECIPES];
    for (int i = 0; i < RECIPES; i++)
        names[i] = recipes[i].name;
    const char *near = ole_nearest(row, names, RECIPES);
    for (int i = 0; i < RECIPES && !near; i++)
        if (strncmp(row, names[i], strlen(row)) == 0) near = names[i];
    fail_command("reproduce", "unknown row %.60s; %s%s%s'ole reproduce --list' shows them", row,
                 near ? "did you mean " : "", near ? near : "", near ? "? " : "");
    return false;
}

bool paper_open(paper *p, const char *row) {
    *p = (paper){0};
    if (is_file(row)) {
        const char *slash = strrchr(row, '/');
        char name[PAPER_NAME];
        snprintf(name, sizeof name, "%s", slash ? slash + 1 : row);
        if (strlen(name) > 5) name[strlen(name) - 5] = '\0';
        return paper_open_as(p, name, row);
    }
    for (int i = 0; i < RECIPES; i++) {
        if (strcmp(recipes[i].name, row) != 0) continue;
        snprintf(p->name, sizeof p->name, "%s", row);
        p->text = strdup(recipes[i].text);
        return p->text && read_text(p, row);
    }
    return fail_unknown(row);
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
