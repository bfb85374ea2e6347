/*
 * src/train/options/schedule.h - the learning rate of each step.
 *
 * Time is in epochs, a step being a fraction of one.  The rate is multiplied by gamma at each
 * milestone, or drops to 0 along half a cosine; during warm-up it rises linearly.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_SCHEDULE_H
#define OLE_SRC_TRAIN_OPTIONS_SCHEDULE_H

#include "ole/train/train.h"

enum { OLE_MAX_MILESTONES = 32 };

typedef struct ole_schedule {
    double lr, gamma;
    int64_t probe;         /* epochs at lr, before all else */
    double warmup, epochs; /* in epochs */
    int64_t steps_per_epoch;
    bool cosine;
    int milestones;
    double milestone[OLE_MAX_MILESTONES]; /* in epochs */
} ole_schedule;

/* From lr, gamma, warmup, epochs, milestones and probe_epochs, after which the rest begins:
 * "50%,75%" of all epochs, "81,122", ... */
ole_status ole_schedule_init(ole_schedule *schedule, const ole_train_options *options,
                             int64_t steps_per_epoch, ole_error *error);

/* The learning rate of step `step` of epoch `epoch`, both from 0. After `epochs` a cosine keeps its
 * last value. */
double ole_schedule_rate(const ole_schedule *schedule, int64_t epoch, int64_t step);

#endif
