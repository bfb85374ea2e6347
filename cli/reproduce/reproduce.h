/*
 * cli/reproduce/reproduce.h - `ole reproduce`: what its files share.
 *
 * reproduce.c reads the command line and lists; reproduce_plan.c tells what would be run, and
 * reproduce_time.c how long that takes; reproduce_row.c makes a recipe's runs, on data that
 * reproduce_data.c finds;
 * reproduce_runs.c says which there are; reproduce_figures.c and reproduce_novelty.c look at what
 * was trained; reproduce_numbers.c sets paper against ours, and reproduce_results.c writes that
 * down for all that is in the folder, each with its command, by reproduce_command.c.
 *
 * The folder is the only state.  OUT/NAME holds recipe.yaml, the recipe as it was used; the study
 * of its runs (ole/train/study.h); numbers.csv, what was measured on them; figures, and drawn.csv,
 * what they were drawn from.
 */
#ifndef OLE_CLI_REPRODUCE_REPRODUCE_H
#define OLE_CLI_REPRODUCE_REPRODUCE_H

#include "common/progress.h"
#include "reproduce/recipe_catalogue.h"

#include <stdio.h>

enum { ROW_PATH = 4096, ROW_MOST = 64, QUICK_EPOCHS = 2 };

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

/* A figure takes the runs that another row of the command makes, which must outlive it. */
void row_share(row *r, const row *with);

/* The options of its study, but for callbacks; how it is conducted, and what kind it is. */
ole_study_options row_study(const row *r);
ole_status row_conduct(const row *r, const ole_study_options *options, ole_study_result *result,
                       ole_error *error);
ole_study_kind row_study_kind(const row *r);

/* What its folder holds, without running anything. */
bool row_look(const row *r, ole_study_result *result, ole_error *error);

/* Whether all its runs have ended. */
bool row_is_whole(const row *r);

/* The first of the rows that makes the runs of one of them: itself, or one it shares them with. */
row *row_with_runs(row *rows, int count, const row *r);

/* All its runs, those that follow a choice included. */
int64_t row_count_runs(const row *r);

/* "softmax", "softmax + OLÉ" or "OLÉ". */
const char *side_name(const row *r, int side);

/* "2 of 164 epochs, bf16": what differs from the recipe; "" for nothing.  `part` of the data is put
 * behind it. */
void row_changes(const row *r, const char *part, char out[256]);

/* OUT/NAME of a path, in room for ROW_PATH; the whole text to a file beside, renamed. */
void join_path(char out[ROW_PATH], const char *folder, const char *name);
bool put_file(const char *path, const char *text, size_t size);
bool make_folders(const char *path);
bool is_there(const char *folder, const char *name);

/* ---- reproduce_data.c --------------------------------------------------------------------- */

/* Finds the data and weights it needs; false with the reason. */
bool row_locate(row *r, char why[600]);

/* "1600 of 8000 test images", where the data here are a part of what is published; else "". */
enum { PART_ROOM = 128 };
void row_part(const row *r, char out[PART_ROOM]);

/* The same of runs that noted no more than their samples of training and test. */
void row_part_of(const row *r, const int64_t samples[2], char out[PART_ROOM]);

/* ---- reproduce_time.c --------------------------------------------------------------------- */

typedef struct row_time {
    int64_t runs;    /* that are left to make */
    double seconds;  /* that they take here, about, one after the other; NaN: not known */
    ole_error error; /* then: why */
} row_time;

/* ", about 12 min 00 s each on an H200 in bf16", or "" where the recipe does not know. */
enum { USUAL_ROOM = 80 };
const char *row_usual_time(const row *r, char out[USUAL_ROOM]);

/* Times a few steps, for a second or two; Ctrl-C ends that.  The data must have been found. */
row_time row_time_left(const row *r);

/* ---- reproduce_plan.c --------------------------------------------------------------------- */

/* What would be run, on stdout; false after an error, which was explained. */
bool plan_rows(row *rows, int count, bool json);

/* ---- reproduce_runs.c --------------------------------------------------------------------- */

enum { MARK_ROOM = 20, DEVICES_ROOM = 64, DATE_ROOM = 32 };

/* The sides' names in files. */
extern const char *const side_words[SIDES];

typedef struct made_run {
    int side;
    uint64_t seed;
    ole_study_state state;
    double knn1_error;
    char mark[MARK_ROOM]; /* each training has another; "" of one that is not finished */
    char folder[ROW_PATH];
} made_run;

typedef struct made_runs {
    made_run *item;
    int count;
} made_runs;

/* The runs of a row, by sides and seeds; false after an error, which was explained. */
bool runs_read(made_runs *runs, const row *r);
void runs_free(made_runs *runs);

/* The first of a side that finished; NULL: there is none. */
const made_run *runs_first(const made_runs *runs, int side);

/* Whether one of a side finished; where none did, stderr says why. */
bool runs_have_side(const made_runs *runs, const row *r, int side);

/* Whether the run of a side and a seed has this mark. */
bool runs_hold(const made_runs *runs, int side, uint64_t seed, const char *mark);

/* Whether the figures in the folder are of these runs, of which some may be NULL; and noting that
 * they are. */
bool figures_show(const row *r, const made_run *const *shown, int count);
bool figures_note(const row *r, const made_run *const *shown, int count);

/* Whether the figures in the folder are of runs that are still there. */
typedef enum figures_state { FIGURES_NONE, FIGURES_CURRENT, FIGURES_OLD } figures_state;
figures_state figures_look(const row *r);

/* "cpu and cuda", and when the last run ended, "" of no run. */
void runs_place(const row *r, const ole_study_result *s, char devices[DEVICES_ROOM],
                char date[DATE_ROOM]);

/* ---- reproduce_numbers.c ------------------------------------------------------------------ */

/* A number measured on a run that training does not give. */
typedef struct measured {
    int side;
    uint64_t seed;
    char mark[MARK_ROOM]; /* of the run */
    char name[48];        /* "AUROC, softmax score" */
    double value;
} measured;

typedef struct numbers {
    measured *item;
    int count;
} numbers;

/* numbers.csv of a row, less those of runs that were trained again since; none is no error. */
bool numbers_read(numbers *n, const row *r);
bool numbers_write(const numbers *n, const row *r);
bool numbers_add(numbers *n, const made_run *run, const char *name, double value);
bool numbers_have(const numbers *n, const made_run *run, const char *name);
void numbers_free(numbers *n);

/* Paper against ours. */
typedef struct outcome {
    char measure[80];
    const char *unit; /* "%", "°" or "" */
    ole_study_error paper[SIDES], ours[SIDES];
    int64_t runs[SIDES], diverged[SIDES]; /* that the mean is of; that it is not of */
} outcome;

enum { MOST_OUTCOMES = 24 };

typedef struct outcomes {
    outcome item[MOST_OUTCOMES];
    int count;
    int64_t ended, total, diverged; /* runs; diverged ones have ended */
    double seconds;                 /* of all that ended */
    double chosen;                  /* λ of a tuning; NaN */
    int64_t samples[2];             /* of training and test; 0: not noted */
    char part[PART_ROOM];           /* of the published data, that these are; "": all */
    bool quick;                     /* made with --quick */
    char devices[DEVICES_ROOM], date[DATE_ROOM];
} outcomes;

/* Notes in samples.csv how many samples the data have here, and which part of them that is. */
bool row_note_samples(const row *r, int threads);

/* What came out so far; false where nothing can be read. */
bool row_outcomes(const row *r, outcomes *o, ole_error *error);

/* "7.22 ± 0.14", or "" for what is not there. */
enum { NUMBER_ROOM = 48 };
const char *number_text(ole_study_error e, char out[NUMBER_ROOM]);

/* ---- reproduce_command.c ------------------------------------------------------------------ */

/* A word of a command after a space, in quotes where a shell would take it apart. */
void put_word(FILE *out, const char *word);

/* The command that makes a row again; free() it.  NULL without memory. */
char *row_command(const row *r, const char *out, bool quick);

/* ---- reproduce_results.c ------------------------------------------------------------------ */

/* results.json, results.md and report.html of all that is in the folder. */
bool write_results(const char *out);

/* Paper against ours of some of it, on stdout. */
void print_results(const char *out, const char *const *names, int count);

/* ---- What is looked at after training ------------------------------------------------------ */

/* Figures that show these runs already are left as they are.  False after an error, which was
 * explained, or an interruption. */
bool look_at_features(const row *r, int threads);
bool look_at_curves(const row *r);
bool look_at_novelty(const row *r, int threads);

/* Whether the novel classes of a row are there and are not known ones, before anything is trained;
 * false with the reason.  Of rows that have none nothing is looked at. */
bool check_novel(const row *r, int threads, char why[600]);

#endif
