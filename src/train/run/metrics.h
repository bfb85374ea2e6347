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
    int ranks;     /* with several, lines also have the time spent waiting */
} ole_metrics;

/*
 * Opens the file to continue after `keep` bytes (0: new), which must be the lines of `epochs`
 * epochs, in order.  The rest stays until the first line is written, so that a finished run keeps
 * its last line; *others: some of it is not a run's, which for `keep` = 0 is an error, as the file
 * is somebody else's.
 */
ole_status ole_metrics_open(ole_metrics *metrics, const char *path, int64_t keep, int64_t epochs,
                            bool *others, ole_error *error);
void ole_metrics_close(ole_metrics *metrics);

/* Writes the line of an epoch, counted from 1. `errors` NULL: they were not measured. */
ole_status ole_metrics_epoch(ole_metrics *metrics, int64_t epoch, double lr, const ole_sums *sums,
                             bool softmax, const ole_errors *errors, ole_error *error);

/* Writes the last line of a run: how, where and when it ended. */
ole_status ole_metrics_end(ole_metrics *metrics, const ole_errors *errors, double seconds,
                           const char *device, ole_error *error);

#endif
