/*
 * src/train/run/metrics.h - metrics.jsonl: one JSON object per line, each on disk before the
 * checkpoint that counts it.
 */
#ifndef OLE_SRC_TRAIN_RUN_METRICS_H
#define OLE_SRC_TRAIN_RUN_METRICS_H

#include "model/checkpoint.h"
#include "train/run/evaluate.h"

typedef struct ole_metrics {
    int fd; /* -1: nothing is written */
    char *path;
    int64_t bytes; /* written so far */
    bool cut;      /* nothing is behind them */
    int ranks;     /* that train together: with several, lines also say how they waited */
} ole_metrics;

/*
 * Checks a file before it is opened: its first `keep` bytes are the lines of as many epochs, in
 * order, as a checkpoint says.  What follows them will be removed; *others says that it is not all
 * of a run's, which with `keep` = 0 is an error: then the file is somebody else's.
 */
ole_status ole_metrics_check(const char *path, int64_t keep, int64_t epochs, bool *others,
                             ole_error *error);

/* Opens the file, which was checked, to go on behind `keep` bytes (0: new); what follows them is
 * there until the first line is written, so that a run that had ended keeps its end. `path` NULL:
 * nothing is written. */
ole_status ole_metrics_open(ole_metrics *metrics, const char *path, int64_t keep, ole_error *error);
void ole_metrics_close(ole_metrics *metrics);

/* The line of an epoch; `epoch` from 1. Without `errors` they were not measured. */
ole_status ole_metrics_epoch(ole_metrics *metrics, int64_t epoch, double lr, const ole_sums *sums,
                             bool softmax, const ole_errors *errors, ole_error *error);

/* The last line of a run: how, where and when it ended. */
ole_status ole_metrics_end(ole_metrics *metrics, const ole_errors *errors, double seconds,
                           const char *device, ole_error *error);

#endif
