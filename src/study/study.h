/*
 * src/study/study.h - a study at work: what its files share.
 *
 * plan.c says which runs there are, record.c what the folder was begun with, work.c runs them,
 * results.c and report.c write down what came out; study.c puts these together.
 */
#ifndef OLE_SRC_STUDY_STUDY_H
#define OLE_SRC_STUDY_STUDY_H

#include "data/download/checksum.h"
#include "model/run_folder.h"
#include "ole/train/study.h"
#include "ranks/ranks.h"
#include "report/page.h"

/* The values of a grid, ascending, no two the same. */
typedef struct ole_grid {
    int64_t lambda_count, sample_count;
    double *lambdas;
    int64_t *samples; /* of a tuning: one, that of the options */
} ole_grid;

/* How far a run is, as a share of its epochs: now, and when this process took it up. */
typedef struct ole_run_share {
    double now, before;
} ole_run_share;

/* The last messages that runs had: each of them would say the same again. */
enum { OLE_SAID = 8 };
typedef struct ole_said {
    int count;
    char text[OLE_SAID][600];
} ole_said;

typedef struct ole_study {
    ole_study_kind kind;
    const ole_study_options *given;
    ole_ranks *ranks;        /* that share the runs out; NULL: alone, or looking */
    ole_train_options train; /* checked */
    ole_grid grid;
    bool baseline;
    ole_study_result result;
    ole_run_share *shares; /* [room for runs] */
    ole_said said;
    double started; /* when this process had done the first step; 0 before */
    int lock;       /* the folder, locked against other processes; -1: not yet */
    char weights[OLE_SHA256_DIGITS + 1]; /* the sum of init_from; "": there is none, or looking */
    char *data_name;                     /* what a recipe calls the data; NULL: their path counts */
} ole_study;

/* The rank that writes the study's files. */
bool ole_study_leads(const ole_study *study);

/* A sentence for the caller's message function. */
void ole_study_say(const ole_study *study, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- plan.c ------------------------------------------------------------------------------- */

/* A copy of a grid's values, sorted; an error for one that is out of range or given twice. */
ole_status ole_grid_set_lambdas(ole_grid *grid, const double *values, int64_t count,
                                ole_error *error);
ole_status ole_grid_set_samples(ole_grid *grid, const int64_t *values, int64_t count,
                                ole_error *error);
void ole_grid_free(ole_grid *grid);

/* The points and runs of the grid; room for those that are trained again. */
ole_status ole_study_plan(ole_study *study, ole_error *error);

/* Adds the points that are trained again once λ is chosen. */
ole_status ole_study_plan_retraining(ole_study *study, ole_error *error);

/* The options of a run; out and resume are left to the caller. */
ole_train_options ole_study_run_options(const ole_study *study, const ole_study_run *run);

/* What a run costs, in units that are the same within the study. */
double ole_study_cost(const ole_study *study, const ole_study_point *point);

/* ---- record.c ----------------------------------------------------------------------------- */

/* Fills the grid; a study that is in the folder already must be this one. Writes nothing. */
ole_status ole_record_open(ole_study *study, ole_error *error);

/* The same on every rank, as rank 0 has it; all must have been given the same options. */
ole_status ole_record_share(ole_study *study, ole_error *error);

/* Makes the folder, keeps other processes out and notes what the study is. */
ole_status ole_record_write(ole_study *study, ole_error *error);
void ole_record_close(ole_study *study);

/* How the run ended, from its folder; it keeps waiting where it has not. */
ole_status ole_record_read_run(const ole_study *study, ole_study_run *run, ole_error *error);

/* Notes that the run diverged. */
ole_status ole_record_diverged(const ole_study *study, const ole_study_run *run,
                               const char *message, ole_error *error);

/* ---- work.c ------------------------------------------------------------------------------- */

/* Runs all that wait, until they have ended or the caller stops them (result.interrupted). */
ole_status ole_study_work(ole_study *study, ole_error *error);

/* ---- results.c, report.c ------------------------------------------------------------------ */

/* Means and deviations of all points, and how many runs have ended. */
void ole_study_sum_up(ole_study *study);

/* The point with the best mean validation error, -1 while runs of the grid wait; an error when
 * there is none to choose from. */
ole_status ole_study_pick(const ole_study *study, int64_t *picked, ole_error *error);

/* The first point of this part with this λ; NULL: there is none. */
const ole_study_point *ole_study_find(const ole_study_result *result, ole_study_part part,
                                      double lambda);

/* Everything that shows what came out, on the rank that leads: results.json and results.csv; the
 * curve and the page. */
ole_status ole_study_write(const ole_study *study, ole_error *error);
ole_status ole_study_write_results(const ole_study *study, ole_error *error);
ole_status ole_study_write_report(const ole_study *study, ole_error *error);

/* The curve alone, onto a page. */
ole_status ole_study_draw_curve(const ole_study *study, ole_page *page, ole_error *error);

/* "tune", "sweep", "compare"; "grid", "retrain"; "waiting", "finished", "diverged". */
const char *ole_study_kind_name(ole_study_kind kind);
const char *ole_study_part_name(ole_study_part part);
const char *ole_study_state_name(ole_study_state state);

#endif
