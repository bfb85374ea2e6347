/*
 * cli/reproduce/reproduce.h - `ole reproduce`: the paper's table rows and figures, each a study
 * that a recipe describes.
 *
 * reproduce.c reads the command line and conducts the studies; row.c turns a recipe into a study in
 * a folder; plan.c lists recipes and plans, with the time they take; made.c reads what a folder
 * holds and compares the paper with ours, and results.c writes that; figures.c
 * measures and draws trained runs.
 *
 * The folder is the only state.  OUT/NAME holds recipe.yaml, the recipe as it was used; the study
 * of its runs (ole/train/study.h); figures; and numbers.csv, what was measured (study/measures.h).
 */
#ifndef OLE_CLI_REPRODUCE_REPRODUCE_H
#define OLE_CLI_REPRODUCE_REPRODUCE_H

#include "common/progress.h"
#include "common/study_command.h"
#include "model/run_folder.h"
#include "reproduce/recipe_catalogue.h"

#include <stdio.h>

enum { ROW_PATH = OLE_RUN_PATH, ROW_MOST = 64, QUICK_EPOCHS = 2, PART_ROOM = 128 };

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
    char data[ROW_PATH], novel[ROW_PATH], weights[ROW_PATH]; /* where they are */
} row;

/* ---- row.c -------------------------------------------------------------------------------- */

/* "FOLDER/NAME"; "" where that is too long. */
void join_path(char out[ROW_PATH], const char *folder, const char *name);

/* A recipe with the flags; false after printing a mistake.  Close it either way. */
bool row_open(row *r, const char *name, const reproduction *asked);

/* One that is in the folder, as it was begun; false where there is none. */
bool row_open_made(row *r, const char *name, const char *out);
void row_close(row *r);

/* A figure takes the runs of another row of the command, which must outlive it. */
void row_share(row *r, const row *with);

/* The options of its study, without callbacks; its kind, and the function that conducts it. */
ole_study_options row_study(const row *r);
ole_study_kind row_study_kind(const row *r);
study_function *row_study_function(const row *r);

/* What its folder holds; nothing is run. */
bool row_look(const row *r, ole_study_result *result, ole_error *error);

/* Whether all its runs have ended. */
bool row_is_whole(const row *r);

/* The first of the rows that has the runs of `r`: itself, or one that shares them. */
row *row_with_runs(row *rows, int count, const row *r);

/* All its runs, those after λ is chosen included. */
int64_t row_count_runs(const row *r);

/* "softmax", "softmax + OLÉ" or "OLÉ"; "bf16". */
const char *side_name(const row *r, int side);
const char *row_precision(const row *r);

/* "2 of 164 epochs, bf16": the differences from the recipe, `part` of the data last. */
void row_changes(const row *r, const char *part, char out[256]);

/* Prints a word of a command after a space, quoted for the shell where needed; the command that
 * makes a row again. */
void put_word(FILE *out, const char *word);
void put_command(FILE *to, const row *r, const char *out, bool quick);

/* Finds the data and weights it needs; false with the reason. */
bool row_locate(row *r, char why[600]);

/* "1600 of 8000 test images" if the data here are a part of what is published; else "".  The second
 * is for runs that recorded only the number of test samples. */
void row_part(const row *r, char out[PART_ROOM]);
void row_part_of_test(const row *r, int64_t samples, char out[PART_ROOM]);

/* ---- plan.c ------------------------------------------------------------------------------- */

/* --list: recipes, those of the program or `names`, on stdout; the exit code. */
int list_rows(const char *const *names, int count, const reproduction *how, bool json);

/* --dry-run: what would be run, on stdout; the exit code. */
int plan_rows(row *rows, int count, bool json);

/* "ole reproduce: NAME, Table 2, row 7: TITLE" on stderr; the same of all rows with their runs and
 * time. */
void name_row(const row *r);
void announce_rows(row *rows, int count, const reproduction *how);

/* ---- made.c ------------------------------------------------------------------------------- */

/* The runs of a row as they are, and what was measured on them. */
typedef struct made {
    ole_study_result study;
    ole_run_mark *marks; /* [study.run_count] */
    ole_measures measures;
} made;

/* Free it either way. */
bool made_read(made *m, const row *r, ole_error *error);
void made_free(made *m);

/* The first run of a side that finished; -1: there is none. */
int64_t made_first(const made *m, int side);

/* Whether one of a side finished; if not, stderr says why there is nothing to show. */
bool made_has_side(const made *m, const row *r, int side);

/* Whether the row's figures show these runs, -1s aside; replaces the note of what they show. */
bool made_shows(const made *m, const row *r, const int64_t *runs, int count);
void made_note_shown(made *m, const row *r, const int64_t *runs, int count);

/* Writes its measures; false after printing an error. */
bool made_write(const made *m, const char *folder);

/* Records in the folder of the runs how many samples the data have, once. */
bool row_note_samples(const row *r, int threads);

/* A line of the table: the paper's numbers and ours. */
typedef struct outcome {
    char measure[80];
    const char *unit; /* "%", "°" or "" */
    ole_study_error paper[SIDES], ours[SIDES];
    int64_t runs[SIDES], diverged[SIDES]; /* in the mean; not in it */
} outcome;

enum { MOST_OUTCOMES = 24, DEVICES_ROOM = 64, DATE_ROOM = 32 };

typedef enum figures_state { FIGURES_NONE, FIGURES_CURRENT, FIGURES_OLD } figures_state;

typedef struct outcomes {
    outcome item[MOST_OUTCOMES];
    int count;
    int64_t ended, total, diverged;              /* runs; diverged ones have ended */
    double seconds;                              /* of all that ended */
    double chosen;                               /* λ of a tuning; NaN */
    int64_t samples[2];                          /* of training and test; 0: not recorded */
    char part[PART_ROOM];                        /* of the published data that these are; "": all */
    bool quick;                                  /* made with --quick */
    figures_state figures;                       /* OLD: of runs that were trained again since */
    char devices[DEVICES_ROOM], date[DATE_ROOM]; /* "cpu and cuda"; of the last run */
} outcomes;

/* What came out so far; false where the folder cannot be read. */
bool row_outcomes(const row *r, outcomes *o, ole_error *error);

/* ---- results.c ---------------------------------------------------------------------------- */

/* Writes results.json, results.md and report.html of everything in the folder. */
bool write_results(const char *out);

/* Prints the paper's numbers and ours of these rows. */
void print_results(const char *out, const char *const *names, int count);

/* ---- figures.c ---------------------------------------------------------------------------- */

/* Measures and draws trained runs as the recipe asks, where that was not done yet.  False after
 * printing an error, or after an interruption. */
bool show_runs(const row *r, int threads);

/* Whether the novel classes of a row exist and are not known ones, before anything is trained;
 * false with the reason.  Rows without novel classes pass. */
bool check_novel(const row *r, int threads, char why[600]);

#endif
