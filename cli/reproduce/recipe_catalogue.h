/*
 * cli/reproduce/recipe_catalogue.h - a recipe of the paper: the options of its runs, and what the
 * paper reports.
 *
 *     paper p;
 *     if (!paper_open(&p, "cifar10-vgg16")) return EXIT_USAGE;
 *     printf("%s: %g\n", p.title, p.reported[WITH_OLE].mean);
 *     paper_close(&p);
 *
 * The YAML is that of `ole train -c`; its block `paper` says the rest.
 */
#ifndef OLE_CLI_REPRODUCE_RECIPE_CATALOGUE_H
#define OLE_CLI_REPRODUCE_RECIPE_CATALOGUE_H

#include <ole/train/study.h>

typedef enum paper_kind {
    PAPER_COMPARE = 0,  /* softmax against OLÉ */
    PAPER_TUNE = 1,     /* error against λ */
    PAPER_SWEEP = 2,    /* accuracy against samples a class */
    PAPER_NOVELTY = 3,  /* softmax against OLÉ, and novel classes */
    PAPER_FEATURES = 4, /* figures of the features of another recipe's runs */
    PAPER_CURVES = 5,   /* learning curves of another recipe's runs */
} paper_kind;

/* The two sides of everything. */
enum { SOFTMAX = 0, WITH_OLE = 1, SIDES = 2 };

enum { PAPER_NAME = 64, PAPER_VALUES = 16 };

typedef struct paper {
    char name[PAPER_NAME];
    char *text; /* the YAML */
    ole_recipe *recipe;
    ole_train_options train;
    paper_kind kind;
    const char *title, *shows;         /* "CIFAR-10, VGG-16"; "Table 2, row 7" */
    const char *measure;               /* "test error", for --list; NULL: none is reported */
    ole_study_error reported[SIDES];   /* NaN: not reported */
    const char *reports;               /* where that is no such number; or NULL */
    const char *note, *needs;          /* NULL: none */
    const char *from;                  /* the recipe whose runs are looked at; or NULL */
    const char *draw;                  /* kinds of figures, with commas between; or NULL */
    const char *novel, *novel_classes; /* of a novelty: data (NULL: the same), classes */
    bool verify;                       /* pairs of novel samples too */
    double chosen;                     /* λ that the paper chose; NaN */
    double minutes;                    /* a run, on an H200 in bf16 */
    int quick;                         /* samples a class of --quick */
    int lambda_count, sample_count;
    double lambdas[PAPER_VALUES];
    int64_t samples[PAPER_VALUES];
} paper;

/* The recipes inside the program. */
int paper_count(void);
const char *paper_name(int i);

/* Opens one by its name, or a file ending in .yaml or .yml.  False after an error, which was
 * explained. */
bool paper_open(paper *p, const char *row);

/* The name of such a row or file; false where it is none that a folder can have. */
bool paper_row_name(const char *row, char name[PAPER_NAME]);

/* The same from a file, under another name. */
bool paper_open_as(paper *p, const char *name, const char *path);
void paper_close(paper *p); /* one that was not opened must be zero */

/* Whether it has no runs of its own, but looks at those of `from`. */
bool paper_borrows(const paper *p);

/* Whether `draw` names this kind of figure. */
bool paper_draws(const paper *p, const char *kind);

#endif
