/*
 * cli/reproduce/reproduce.h - `ole reproduce`: the paper's table rows and figures, each a study
 * that a recipe describes.
 *
 * reproduce.c reads the command line and conducts the studies; row.c turns a recipe into a study in
 * a folder; plan.c lists recipes and plans, with the time they take; outcomes.c compares the paper
 * with what a folder holds, and results.c writes that; figures.c measures and draws trained runs.
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
#include "reproduce/recipe_catalogue.h"

#include <stdio.h>

enum { ROW_PATH = OLE_RUN_PATH, ROW_MOST = 64, QUICK_EPOCHS = 2 };
enum { PART_ROOM = 128, CHANGES_ROOM = 256 };

/* What the flags ask for; 0 and NULL: as in the recipe. */
typedef struct reproduction {
    const char *out;
    int seeds, epochs, eval_every, threads, jobs;
    const char *device, *precision;
    bool quick;       /* two epochs of a few samples, one seed */
    ole_ranks *ranks; /* share the runs; rank 0 does the rest */
} reproduction;

/* ---- row.c -------------------------------------------------------------------------------- */

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
    /* What was read last: */
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

/* A figure takes the runs of another row of the command, which must outlive it. */
void row_share(row *r, const row *with);

/* The options of its study, without callbacks, and its kind. */
ole_study_options row_study(const row *r);
ole_study_kind row_study_kind(const row *r);

/* Reads `study`; the same with marks, and measures from a folder.  Nothing is run. */
bool row_look(row *r, ole_error *error);
bool row_read(row *r, const char *folder, ole_error *error);

/* Writes the measures; false after printing an error. */
bool row_write(const row *r, const char *folder);

/* Whether all its runs have ended; all its runs, those after λ is chosen included. */
bool row_is_whole(row *r);
int64_t row_count_runs(const row *r);

/* The first of the rows that has the runs of `r`: itself, or one that shares them. */
row *row_with_runs(row *rows, int count, const row *r);

/* Whether OLÉ is the only loss; "softmax", "softmax + OLÉ" or "OLÉ"; "bf16". */
bool row_is_alone(const row *r);
const char *side_name(const row *r, int side);
const char *row_precision(const row *r);

/* "2 of 164 epochs, bf16": the differences from the recipe, `part` of the data last. */
void row_changes(const row *r, const char *part, char out[CHANGES_ROOM]);

/* Prints a word of a command after a space, quoted for the shell where needed; the command that
 * makes a row again. */
void put_word(FILE *out, const char *word);
void put_command(FILE *to, const row *r, const char *out, bool quick);

/* Finds the data and weights it needs; false with the reason.  Where they come from, in few words.
 */
bool row_locate(row *r, char why[600]);
const char *row_missing(const row *r, char out[600]);

/* "1600 of 8000 test images" if the data here are a part of what is published; else "". */
void row_part(const row *r, char out[PART_ROOM]);

/* Records in the folder of the runs how many samples the data have, once; reads that, training and
 * test, and the part. */
bool row_note_samples(row *r, int threads);
void row_read_samples(const row *r, int64_t samples[2], char part[PART_ROOM]);

/* ---- plan.c ------------------------------------------------------------------------------- */

/* --list and --dry-run: what could or would be run, on stdout; the exit code. */
int plan_rows(row *rows, int count, bool list, bool json);

/* "ole reproduce: NAME, Table 2, row 7: TITLE" on stderr; the same of all rows with their runs and
 * time. */
void name_row(const row *r);
void announce_rows(row *rows, int count, const reproduction *how);

/* ---- outcomes.c --------------------------------------------------------------------------- */

/* A line of the table: the paper's numbers and ours. */
typedef struct outcome {
    char measure[80];
    const char *unit; /* "%", "°" or "" */
    ole_study_error paper[SIDES], ours[SIDES];
    int64_t runs[SIDES], diverged[SIDES]; /* in the mean; not in it */
} outcome;

typedef enum figures_state { FIGURES_NONE, FIGURES_CURRENT, FIGURES_OLD } figures_state;

/* What a row's folder holds.  One that cannot be read has a reason in `why`, and no command. */
enum { MOST_OUTCOMES = 24 };
typedef struct outcomes {
    char name[RECIPE_NAME];
    ole_error why;
    row row;
    outcome item[MOST_OUTCOMES];
    int count;
    int64_t diverged;           /* runs */
    double seconds;             /* of all that ended */
    double chosen;              /* λ of a tuning; NaN */
    int64_t samples[2];         /* of training and test; 0: not recorded */
    char part[PART_ROOM];       /* of the published data that these are; "": all */
    char changes[CHANGES_ROOM]; /* from the recipe */
    char devices[64], date[32]; /* "cpu and cuda"; of the last run */
    figures_state figures;      /* OLD: of runs that were trained again since */
    char *command;              /* that makes it again */
} outcomes;

/* False: the row has not begun.  Free it either way. */
bool outcomes_read(outcomes *o, const char *name, const char *out);
void outcomes_free(outcomes *o);

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
bool check_novel(row *r, int threads, char why[600]);

#endif
