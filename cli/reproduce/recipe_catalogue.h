/*
 * cli/reproduce/recipe_catalogue.h - the recipes of the paper: the options of each one's runs, and
 * what the paper reports.
 *
 *     recipe r;
 *     if (recipe_open(&r, "cifar10-vgg16"))
 *         printf("%s: %g\n", r.title, r.reported[WITH_OLE].mean);
 *     recipe_close(&r);
 *
 * A recipe is YAML as for `ole train -c`; its `paper:` block has the rest.
 */
#ifndef OLE_CLI_REPRODUCE_RECIPE_CATALOGUE_H
#define OLE_CLI_REPRODUCE_RECIPE_CATALOGUE_H

#include "report/drawing.h"
#include "study/measures.h"
#include <ole/train/study.h>

typedef enum recipe_kind {
    RECIPE_COMPARE = 0,  /* softmax against OLÉ */
    RECIPE_TUNE = 1,     /* error against λ */
    RECIPE_SWEEP = 2,    /* accuracy against samples per class */
    RECIPE_NOVELTY = 3,  /* softmax against OLÉ, and novel classes */
    RECIPE_FEATURES = 4, /* figures of the features of another recipe's runs */
    RECIPE_CURVES = 5,   /* learning curves of another recipe's runs */
} recipe_kind;

/* Every table and figure compares these two. */
enum { SOFTMAX = OLE_SIDE_SOFTMAX, WITH_OLE = OLE_SIDE_OLE, SIDES = OLE_SIDES };

/* What a recipe may draw: the figures of an analysis, and learning curves. */
enum { DRAW_CURVES = OLE_DRAWINGS, RECIPE_FIGURES };

enum { RECIPE_NAME = 64, RECIPE_VALUES = 16 };

typedef struct recipe {
    char name[RECIPE_NAME];
    char *text; /* the YAML */
    ole_recipe *parsed;
    ole_train_options train;
    int kind;                          /* a recipe_kind */
    const char *title, *shows;         /* "CIFAR-10, VGG-16"; "Table 2, row 7" */
    const char *measure;               /* "test error", for --dry-run; NULL: none is reported */
    ole_study_error reported[SIDES];   /* NaN: not reported */
    const char *reports;               /* what the paper reports where that is no number; or NULL */
    const char *note, *needs;          /* NULL: none */
    const char *from;                  /* the recipe whose runs the figures show; or NULL */
    const char *draw;                  /* kinds of figures, comma-separated; or NULL */
    unsigned draws;                    /* the same, a bit for each */
    const char *novel, *novel_classes; /* of a novelty: data (NULL: the same), classes */
    bool verify;                       /* also verify pairs of novel samples */
    double chosen;                     /* λ that the paper chose; NaN */
    double minutes;                    /* per run, on an H200 in bf16; NaN: not known */
    int quick;                         /* samples per class with --quick */
    const char *lambda_list, *sample_list;
    int64_t lambda_count, sample_count; /* at least 2 lambdas; samples of a sweep only */
    double lambdas[RECIPE_VALUES];
    int64_t samples[RECIPE_VALUES];
} recipe;

/* The recipes inside the program; the number of one, or -1; whether one is as in the program. */
int recipe_count(void);
const char *recipe_name(int i);
int recipe_find(const char *name);
bool recipe_is_original(const recipe *r);

/* Opens one by its name, or a file ending in .yaml or .yml.  False after printing an error.  Close
 * it either way. */
bool recipe_open(recipe *r, const char *row);

/* The name that a row's folder has; false: a folder cannot have it. */
bool recipe_folder_name(const char *row, char name[RECIPE_NAME]);

/* Opens a file under another name. */
bool recipe_open_as(recipe *r, const char *name, const char *path);
void recipe_close(recipe *r); /* one that was never opened must be zero */

#endif
