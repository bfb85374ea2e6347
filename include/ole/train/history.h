/*
 * ole/train/history.h - the epochs of a run, from metrics.jsonl in its folder.
 *
 * Example: print the test error of each epoch.
 *
 *     ole_history h;
 *     if (ole_history_read(&h, "runs/first", &error) != OLE_OK) return puts(error.message), 1;
 *     for (int64_t i = 0; i < h.count; i++)
 *         printf("%lld %g\n", (long long)h.epochs[i].epoch, h.epochs[i].test_error);
 *     ole_history_free(&h);
 *
 * The run may still be in progress.
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
    bool ended;                                      /* the run is complete; then, at its end: */
    double test_error, validation_error, knn1_error; /* NaN before */
    double seconds;
    char device[16]; /* it ended on: "cpu", "cuda"; "" before, or if not recorded */
    char date[32];   /* it ended at, in UTC: "2018-06-18T09:30:00Z"; likewise */
} ole_history;

/*
 * Reads FOLDER/metrics.jsonl.  An incomplete last line is ignored: the run is writing it.  On
 * failure there is nothing to free.
 */
OLE_API ole_status ole_history_read(ole_history *history, const char *folder, ole_error *error);
OLE_API void ole_history_free(ole_history *history);

#ifdef __cplusplus
}
#endif
#endif
