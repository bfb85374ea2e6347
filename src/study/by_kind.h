/* src/study/by_kind.h - a study whose kind is a variable: conducting it, and its curve on a page
 * that is not its own. */
#ifndef OLE_SRC_STUDY_BY_KIND_H
#define OLE_SRC_STUDY_BY_KIND_H

#include "ole/train/study.h"

#include "report/page.h"

/* ole_tune(), ole_sweep() or ole_compare(). */
OLE_INTERNAL ole_status ole_study_conduct(ole_study_kind kind, const ole_study_options *options,
                                          ole_study_result *result, ole_error *error);

/* Adds the curve so far of the study in the folder train.out to a page; nothing if no run has
 * ended. */
OLE_INTERNAL ole_status ole_study_add_curve(ole_page *page, ole_study_kind kind,
                                            const ole_study_options *options, ole_error *error);

/*
 * The time of the unfinished runs on this machine, one after the other, whether or not the study
 * has begun.  A few steps of its network are timed, for a second or two unless `stopped`; with
 * `flops` above 0, what ole_machine_flops() measured is taken instead: quick, and rougher.
 */
typedef struct ole_study_time {
    int64_t runs;   /* that have not ended; -1: not known */
    double seconds; /* NaN: not known, with the reason in `error` */
} ole_study_time;

OLE_INTERNAL ole_study_time ole_study_estimate(ole_study_kind kind,
                                               const ole_study_options *options, double flops,
                                               bool (*stopped)(void), ole_error *error);

/* FLOP per second of training steps of the CNN-5 on the device of these options; NaN: not known. */
OLE_INTERNAL double ole_machine_flops(const ole_train_options *train, bool (*stopped)(void),
                                      ole_error *error);

/*
 * A number of each epoch as a figure, for `add`: a line for each λ, mean and standard deviation
 * over the runs that did not diverge.  Nothing if no epoch has the number.  `train` has the study's
 * folder, epochs and loss.
 */
typedef struct ole_epoch_number {
    size_t offset; /* in ole_epoch */
    bool accuracy; /* 100 less the number, which is an error in % */
    const char *y_label;
} ole_epoch_number;

typedef void ole_figure_sink(void *context, const ole_figure *figure);

OLE_INTERNAL ole_status ole_study_draw_epochs(const ole_study_result *study,
                                              const ole_train_options *train,
                                              const ole_epoch_number *number, ole_figure_sink *add,
                                              void *context, ole_error *error);

/* "7.22 ± 0.14" with its unit, or "" without a number. */
OLE_INTERNAL ole_short_text ole_study_error_text(ole_study_error error, const char *unit);

#endif
