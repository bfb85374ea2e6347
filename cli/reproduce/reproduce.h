/*
 * cli/reproduce/reproduce.h - `ole reproduce`: the paper's table rows and figures, each a study
 * that a recipe describes.
 *
 * reproduce.c reads the command line and conducts the studies; recipe_catalogue.c reads recipes;
 * row.c turns one into a study in a folder; plan.c lists recipes and plans, with the time they
 * take; results.c compares the paper with what a folder holds; figures.c measures and draws trained
 * runs.
 *
 * The folder is the only state.  OUT/NAME holds recipe.yaml, the recipe as it was used; the study
 * of its runs (ole/train/study.h); figures; and numbers.csv, what was measured (study/measures.h).
 */
#ifndef OLE_CLI_REPRODUCE_REPRODUCE_H
#define OLE_CLI_REPRODUCE_REPRODUCE_H

#include "base/memory_file.h"
#include "common/progress.h"
#include "common/study_command.h"
#include "model/run_folder.h"
#include "report/drawing.h"
#include "study/measures.h"

#include <stdio.h>

/* ---- recipe_catalogue.c ------------------------------------------------------------------ */

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

/* A figure that a recipe may draw besides those of an analysis. */
enum { DRAW_CURVES = OLE_DRAWINGS };

enum { RECIPE_NAME = 64, RECIPE_VALUES = 16 };

/* YAML as for `ole train -c`, with the rest in its block `paper:`.  NULL, NaN: not given. */
typedef struct recipe {
    char name[RECIPE_NAME];
    char *text; /* the YAML */
    ole_recipe *parsed;
    ole_train_options train;
    int kind;                          /* a recipe_kind */
    const char *title, *shows;         /* "CIFAR-10, VGG-16"; "Table 2, row 7" */
    const char *measure;               /* "test error", for --dry-run */
    ole_study_error reported[SIDES];   /* by the paper */
    const char *reports;               /* what it reports where that is no number */
    const char *note, *needs;          /* on the results; on the data */
    const char *from;                  /* the recipe whose runs the figures show */
    const char *draw;                  /* kinds of figures, comma-separated */
    unsigned draws;                    /* the same, a bit for each */
    const char *novel, *novel_classes; /* of a novelty: data (NULL: the same), classes */
    bool verify;                       /* also verify pairs of novel samples */
    double chosen;                     /* λ that the paper chose */
    double minutes;                    /* per run, on an H200 in bf16 */
    int quick;                         /* samples per class with --quick */
    const char *lambda_list, *sample_list;
    int64_t lambda_count, sample_count; /* at least 2 lambdas; samples of a sweep only */
    double lambdas[RECIPE_VALUES];
    int64_t samples[RECIPE_VALUES];
} recipe;

/* The recipes inside the program, in the paper's order; the number of one, or -1. */
int recipe_count(void);
const char *recipe_name(int i);
int recipe_find(const char *name);
bool recipe_is_original(const recipe *r); /* as in the program */

/* Opens one by its name, a file ending in .yaml or .yml, or a file under another name.  False after
 * printing an error.  Close it either way. */
bool recipe_open(recipe *r, const char *given);
bool recipe_open_as(recipe *r, const char *name, const char *path);
void recipe_close(recipe *r); /* one that was never opened must be zero */

/* The name that a row's folder has; false: a folder cannot have it. */
bool recipe_folder_name(const char *given, char name[RECIPE_NAME]);

/* ---- row.c -------------------------------------------------------------------------------- */

enum { ROW_PATH = OLE_RUN_PATH, ROW_MOST = 64, QUICK_EPOCHS = 2, ROW_TEXT = 256, ROW_WHY = 600 };

/* What the flags ask for; 0 and NULL: as in the recipe. */
typedef struct reproduction {
    const char *out;
    int seeds, epochs, eval_every, threads, jobs;
    const char *device, *precision;
    bool quick;       /* two epochs of a few samples, one seed */
    ole_ranks *ranks; /* share the runs; rank 0 does the rest */
} reproduction;

/* A recipe in a folder. */
typedef struct row {
    recipe asked;
    recipe source;      /* of asked.from; empty without */
    recipe *runs;       /* asked or source: the one that is trained */
    ole_recipe *config; /* owns the texts of `train` if that was read from the folder; or NULL */
    bool as_made;       /* options and grid are those in the folder */
    ole_train_options train;
    char folder[ROW_PATH], runs_folder[ROW_PATH];
    bool located;
    char data[ROW_PATH], novel[ROW_PATH], weights[ROW_PATH]; /* where they are, if located */
    /* What row_read() read last: */
    ole_study_result study; /* the runs as they are */
    ole_run_mark *marks;    /* [study.run_count] */
    ole_measures measures;  /* of the runs */
} row;

/* "FOLDER/NAME"; "" where that is too long. */
void join_path(char out[ROW_PATH], const char *folder, const char *name);

/* A recipe with the flags; false after printing a mistake.  Close it either way. */
bool row_open(row *r, const char *name, const reproduction *asked);

/* One that is in the folder, as it was begun; false where there is none. */
bool row_open_made(row *r, const char *name, const char *out);
void row_close(row *r);

/* The options of its study, without callbacks, and its kind. */
ole_study_options row_study(const row *r);
ole_study_kind row_study_kind(const row *r);

/* Reads the runs, and the measures in a folder.  Nothing is run. */
bool row_read(row *r, const char *folder, ole_error *error);

/* Writes the measures; false after printing an error. */
bool row_write(const row *r, const char *folder);

/* Whether all its runs have ended; the first of the rows that has the same runs. */
bool row_is_whole(row *r);
row *row_with_runs(row *rows, int count, const row *r);

/* "softmax", "softmax + OLÉ" or "OLÉ", which is then the only loss; "bf16". */
bool row_is_alone(const row *r);
const char *side_name(const row *r, int side);
const char *row_precision(const row *r);

/* Prints a word of a command after a space, quoted for the shell where needed. */
void put_word(FILE *out, const char *word);

/* Adds an item to a list of words, as "2 of 164 epochs, bf16". */
void add_item(char list[ROW_TEXT], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Finds the data and weights it needs; false with the reason.  Where they come from, in few words.
 */
bool row_locate(row *r, char why[ROW_WHY]);
const char *row_missing(const row *r, char out[ROW_WHY]);

/* "1600 of 8000 test images" if the data here are a part of what is published; else "". */
void row_part(const row *r, char out[ROW_TEXT]);

/* Records in the folder of the runs how many samples the data have, once; reads that, training and
 * test, and the part. */
bool row_note_samples(row *r, int threads);
void row_read_samples(const row *r, int64_t samples[2], char part[ROW_TEXT]);

/* ---- plan.c ------------------------------------------------------------------------------- */

/* --list and --dry-run: what could or would be run, on stdout; the exit code. */
int plan_rows(row *rows, int count, bool list, bool json);

/* "ole reproduce: NAME, Table 2, row 7: TITLE; 4 runs to train, about ..." of each row, on stderr.
 */
void announce_rows(row *rows, int count, const reproduction *how);

/* ---- results.c ---------------------------------------------------------------------------- */

/* Writes results.json, results.md and report.html of everything in the folder. */
bool write_results(const char *out);

/* Prints the paper's numbers and ours of these rows. */
void print_results(const char *out, const char *const *names, int count);

/* ---- figures.c ---------------------------------------------------------------------------- */

/* Measures and draws trained runs as the recipe asks, where that was not done yet.  False after
 * printing an error, or after an interruption. */
bool show_runs(row *r, int threads);

/* Whether the novel classes of a row exist and are not known ones, before anything is trained;
 * false with the reason.  Rows without novel classes pass. */
bool check_novel(row *r, int threads, char why[ROW_WHY]);

#endif
