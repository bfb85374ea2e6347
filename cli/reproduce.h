/*
 * cli/reproduce.h - `ole reproduce`: what its files share.
 *
 * reproduce.c reads the command line, lists and plans; reproduce_row.c makes a recipe's runs;
 * reproduce_figures.c and reproduce_novelty.c look at what was trained; reproduce_numbers.c sets
 * paper against ours, and reproduce_results.c writes that down for all that is in the folder.
 *
 * The folder is the only state.  OUT/NAME holds recipe.yaml, the recipe as it was used; the study
 * of its runs (ole/study.h); numbers.csv, what was measured on them; and figures.
 */
#ifndef OLE_CLI_REPRODUCE_H
#define OLE_CLI_REPRODUCE_H

#include "paper.h"
#include "progress.h"

enum { ROW_PATH = 4096, ROW_MOST = 64 };

/* What the flags ask for; 0 and NULL: what the recipe says. */
typedef struct reproduction {
    const char *out;
    int seeds, epochs, eval_every, threads, jobs;
    const char *device, *precision;
    bool quick;       /* two epochs of a few samples, one seed */
    ole_ranks *ranks; /* that share the runs out; rank 0 does the rest */
} reproduction;

/* A recipe in a folder. */
typedef struct row {
    paper asked;
    paper source;       /* of asked.from; empty without */
    const paper *runs;  /* the one of both that says what is trained */
    ole_recipe *config; /* of runs that are there already; or NULL */
    ole_train_options train;
    int lambda_count, sample_count;
    double lambdas[PAPER_VALUES];
    int64_t samples[PAPER_VALUES];
    char folder[ROW_PATH], runs_folder[ROW_PATH];
    char data[ROW_PATH], novel[ROW_PATH], weights[ROW_PATH]; /* where they lie */
} row;

/* ---- reproduce_row.c ---------------------------------------------------------------------- */

/* A recipe with the flags; false after a mistake, which was explained.  Close it either way. */
bool row_open(row *r, const char *name, const reproduction *asked);

/* One that is in the folder, as it was begun; false where there is none. */
bool row_open_made(row *r, const char *name, const char *out);
void row_close(row *r);

/* Finds the data and weights it needs; false with the reason. */
bool row_locate(row *r, char why[600]);

/* The options of its study, but for callbacks; how it is conducted, and what kind it is. */
ole_study_options row_study(const row *r);
ole_status row_conduct(const row *r, const ole_study_options *options, ole_study_result *result,
                       ole_error *error);
ole_study_kind row_study_kind(const row *r);

/* What its folder holds, without running anything. */
bool row_look(const row *r, ole_study_result *result);

/* The folder of the run of a side with a seed. */
void row_run_folder(const row *r, int side, uint64_t seed, char out[ROW_PATH]);

/* "softmax", "softmax + OLÉ" or "OLÉ". */
const char *side_name(const row *r, int side);

/* "2 of 164 epochs, bf16": what differs from the recipe; "" for nothing. */
void row_changes(const row *r, char out[256]);

/* OUT/NAME of a path, in room for ROW_PATH; the whole text to a file beside, renamed. */
void join_path(char out[ROW_PATH], const char *folder, const char *name);
bool put_file(const char *path, const char *text, size_t size);
bool make_folders(const char *path);
bool is_there(const char *folder, const char *name);

/* ---- reproduce_numbers.c ------------------------------------------------------------------ */

/* A number measured on a run that training does not give. */
typedef struct measured {
    int side;
    uint64_t seed;
    char name[48]; /* "AUROC, softmax score" */
    double value;
} measured;

typedef struct numbers {
    measured *item;
    int count;
} numbers;

/* numbers.csv of a row; none is no error. */
bool numbers_read(numbers *n, const row *r);
bool numbers_write(const numbers *n, const row *r);
bool numbers_add(numbers *n, int side, uint64_t seed, const char *name, double value);
bool numbers_have(const numbers *n, int side, uint64_t seed, const char *name);
void numbers_free(numbers *n);

/* Paper against ours. */
typedef struct outcome {
    char measure[80];
    const char *unit; /* "%", "°" or "" */
    ole_study_error paper[SIDES], ours[SIDES];
    int64_t runs[SIDES];
} outcome;

enum { MOST_OUTCOMES = 24 };

typedef struct outcomes {
    outcome item[MOST_OUTCOMES];
    int count;
    int64_t ended, total; /* runs */
    double seconds;       /* of all that ended */
    double chosen;        /* λ of a tuning; NaN */
    int64_t samples[2];   /* of training and test; 0: not noted */
} outcomes;

/* Notes in samples.csv how many samples the data have here, which may be a part of them. */
bool row_note_samples(const row *r, int threads);

/* What came out so far; false where nothing can be read. */
bool row_outcomes(const row *r, outcomes *o);

/* "7.22 ± 0.14", or "" for what is not there. */
enum { NUMBER_ROOM = 48 };
const char *number_text(ole_study_error e, char out[NUMBER_ROOM]);

/* ---- reproduce_results.c ------------------------------------------------------------------ */

/* results.json, results.md and report.html of all that is in the folder. */
bool write_results(const char *out);

/* Paper against ours of some of it, on stdout. */
void print_results(const char *out, const char *const *names, int count);

/* ---- What is looked at after training ------------------------------------------------------ */

/* False after an error, which was explained, or an interruption. */
bool look_at_features(const row *r, int threads);
bool look_at_curves(const row *r);
bool look_at_novelty(const row *r, int threads);

#endif
