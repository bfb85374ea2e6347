/*
 * src/study/study.h - a running study, shared by its files.
 *
 * plan.c lists the runs, record.c keeps the options that the folder was started with, work.c trains
 * the runs, results.c and report.c write the results, and study.c puts these together.  measures.h
 * holds what is measured afterwards.
 */
#ifndef OLE_SRC_STUDY_STUDY_H
#define OLE_SRC_STUDY_STUDY_H

#include "data/download/checksum.h"
#include "model/run_folder.h"
#include "ole/train/study.h"
#include "ranks/ranks.h"
#include "report/page.h"

/* The values along one axis of a study's grid: ascending, no two equal. */
typedef struct ole_values {
    const char *name; /* in study.json and in messages */
    double min, max;  /* allowed */
    int64_t count;
    double *items;
} ole_values;

/* A run's progress, as a share of its epochs: now, and when this process started it. */
typedef struct ole_run_share {
    double now, before;
} ole_run_share;

/* The latest messages of runs, which other runs must not repeat. */
enum { OLE_SAID = 8 };
typedef struct ole_said {
    int count;
    char text[OLE_SAID][600];
} ole_said;

typedef struct ole_study {
    ole_study_kind kind;
    const ole_study_options *given;
    ole_ranks *ranks;            /* share the runs; NULL: alone, or looking */
    ole_train_options train;     /* checked */
    ole_values lambdas, samples; /* other studies than a sweep have one number of samples */
    bool baseline;
    ole_study_result result;
    ole_run_share *shares; /* [room for runs] */
    const char *vary;      /* the option that is tuned instead of λ; or NULL */
    char (*texts)[160];    /* [room for points] its text, of "loss_options:NAME" */
    ole_said said;
    double started;                      /* when this process had done its first step; 0 before */
    bool planned;                        /* to look at: it need not have begun */
    int lock;                            /* on the folder, against other processes; -1: none yet */
    char weights[OLE_SHA256_DIGITS + 1]; /* the checksum of init_from; "": none, or looking */
    char *data_name;                     /* a recipe's name for the data; NULL: their path counts */
} ole_study;

/* A study that has not begun. */
ole_study ole_study_make(ole_study_kind kind, const ole_study_options *options);

/* The rank that writes the study's files. */
bool ole_study_leads(const ole_study *study);

/* Passes a message to the caller. */
void ole_study_say(const ole_study *study, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- plan.c ------------------------------------------------------------------------------- */

/* Takes a sorted copy; an error for a value that is out of range or given twice. */
ole_status ole_values_set(ole_values *list, const double *values, int64_t count, ole_error *error);

/* The points and runs of the grid, with room for retraining. */
ole_status ole_study_plan(ole_study *study, ole_error *error);

/* Adds the points that are retrained once λ is chosen. */
ole_status ole_study_plan_retraining(ole_study *study, ole_error *error);

/* The options of a run; out and resume are left to the caller. */
ole_train_options ole_study_run_options(const ole_study *study, const ole_study_run *run);

/* The cost of a run, in units that are the same within the study. */
double ole_study_cost(const ole_study *study, const ole_study_point *point);

/* ---- record.c ----------------------------------------------------------------------------- */

/* Fills the grid; a study already in the folder must be this one. Writes nothing. */
ole_status ole_record_open(ole_study *study, ole_error *error);

/* Gives every rank the study of rank 0; all must have been given the same options. */
ole_status ole_record_share(ole_study *study, ole_error *error);

/* Makes and locks the folder, and records the study. */
ole_status ole_record_write(ole_study *study, ole_error *error);
void ole_record_close(ole_study *study);

/* How the run ended, from its folder; it stays OLE_STUDY_WAITS if it has not. */
ole_status ole_record_read_run(const ole_study *study, ole_study_run *run, ole_error *error);

/* Records that the run diverged. */
ole_status ole_record_diverged(const ole_study *study, const ole_study_run *run,
                               const char *message, ole_error *error);

/* ---- work.c ------------------------------------------------------------------------------- */

/* Trains all waiting runs, until they have ended or the caller stops them (result.interrupted). */
ole_status ole_study_work(ole_study *study, ole_error *error);

/* ---- estimate.c --------------------------------------------------------------------------- */

/* The time of the waiting runs on this machine, one after the other; NaN: unknown, with the reason.
 */
double ole_study_seconds_left(const ole_study *study, double flops, bool (*stopped)(void),
                              ole_error *error);

/* ---- results.c, report.c ------------------------------------------------------------------ */

/* Means and deviations of all points, and how many runs have ended. */
void ole_study_sum_up(ole_study *study);

/* The point with the best mean validation error, -1 while runs of the grid wait; an error when
 * there is none to choose from. */
ole_status ole_study_pick(const ole_study *study, int64_t *picked, ole_error *error);

/* The first point of this part with this λ; NULL: there is none. */
const ole_study_point *ole_study_find(const ole_study_result *result, ole_study_part part,
                                      double lambda);

/* Writes the results on the rank that leads: results.json and results.csv; the curve and the page.
 */
ole_status ole_study_write(const ole_study *study, ole_error *error);
ole_status ole_study_write_results(const ole_study *study, ole_error *error);
ole_status ole_study_write_report(const ole_study *study, ole_error *error);

/* The curve alone, onto a page. */
ole_status ole_study_draw_curve(const ole_study *study, ole_page *page, ole_error *error);

/* "tune", "sweep", "compare" */
const char *ole_study_kind_name(ole_study_kind kind);

#endif
