/*
 * ole/train/history.h - what a run folder tells about its training: metrics.jsonl, epoch by epoch.
 *
 *     ole_history h;
 *     if (ole_history_read(&h, "runs/first", &error) != OLE_OK) ...
 *     for (int64_t i = 0; i < h.count; i++)
 *         printf("%lld %g\n", (long long)h.epochs[i].epoch, h.epochs[i].test_error);
 *     ole_history_free(&h);
 *
 * A run that is still at work may be read too.
 */
#ifndef OLE_TRAIN_HISTORY_H
#define OLE_TRAIN_HISTORY_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Errors in %; NaN where not measured. Losses are means over the epoch. */
typedef struct ole_epoch {
    int64_t epoch; /* from 1 */
    double lr;
    double loss, softmax_loss, ole_loss;
    double train_error, test_error, validation_error, knn1_error;
    double seconds, images_per_second;
} ole_epoch;

typedef struct ole_history {
    int64_t count;
    ole_epoch *epochs;                               /* [count] */
    bool ended;                                      /* the run is complete; then at its end: */
    double test_error, validation_error, knn1_error; /* NaN before */
    double seconds;
    char device[16]; /* that it ended on: "cpu", "cuda"; "" before, or where it is not noted */
    char date[32];   /* when it ended, in UTC: "2018-06-18T09:30:00Z"; likewise */
} ole_history;

/*
 * Reads FOLDER/metrics.jsonl.  A last line without its end is left out: it is being written.  On
 * failure there is nothing to free.
 */
OLE_API ole_status ole_history_read(ole_history *history, const char *folder, ole_error *error);
OLE_API void ole_history_free(ole_history *history);

#ifdef __cplusplus
}
#endif
#endif
