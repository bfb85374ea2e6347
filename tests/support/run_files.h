/*
 * tests/support/run_files.h - a small run, and comparing what two runs left in their folders, times
 * aside.
 */
#ifndef OLE_TESTS_RUN_FILES_H
#define OLE_TESTS_RUN_FILES_H

#include "ole/train/train.h"
#include "temporary.h"

#include <stdint.h>

/* Three epochs of 200 digits, augmented: 6 batches of 32 and one of 8; one thread. */
ole_train_options small_run(const char *net, const char *device);

/* The lines of out/metrics.jsonl without the keys that hold times; free() it. */
char *run_metrics(const char *out);

/* The tensors of both files are the same, bit for bit, but for train.sums. Fails the test if not.
 */
void assert_same_tensors(const char *path_a, const char *path_b);

/* Whether the tensor `name` of out/best.safetensors has the same bits in both folders. */
bool same_tensor(const char *a, const char *b, const char *name);

/* Same weights, optimiser, counters and metrics in both folders. */
void assert_same_runs(const char *a, const char *b);

/* Epochs finished according to out/last.safetensors. */
int64_t run_epochs(const char *out);

/* A key of the last line of out/metrics.jsonl; NaN for null. */
double run_end(const char *out, const char *key);

/* Removes the folder and what is in it. */
void run_remove(const char *out);

/* A path in the temporary directory with nothing there; valid until the eighth next call. */
static inline const char *run_folder(const char *name) {
    static char paths[8][400];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, 400, "%s/%s", temporary_dir, name);
    run_remove(path);
    return path;
}

/* A test teardown: removes all of them. */
static inline int run_folders_remove(void **state) {
    (void)state;
    temporary_each(run_remove);
    return 0;
}

#endif
