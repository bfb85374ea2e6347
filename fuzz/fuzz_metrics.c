/* fuzz/fuzz_metrics.c - metrics.jsonl, as the history of a run and as what a resumed run appends
 * to. */
#include "fuzz.h"
#include "ole/train/history.h"
#include "train/run/metrics.h"

static void read_history(void) {
    ole_history history;
    ole_error error = {0};
    ole_status status = ole_history_read(&history, fuzz_folder(), &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    touch(history.epochs, (size_t)history.count * sizeof *history.epochs);
    touch(&history, sizeof history);
    ole_history_free(&history);
}

/* The first two bytes say how much of it a checkpoint knows. */
static void resume(const char *path, const uint8_t *bytes, size_t size) {
    ole_metrics metrics;
    ole_error error = {0};
    bool others;
    int64_t keep = size > 1 ? bytes[0] + 256 * (int64_t)bytes[1] : 0;
    ole_status status = ole_metrics_open(&metrics, path, keep, keep > 0, &others, &error);
    if (status != OLE_OK) check_error(status, &error);
    if (status == OLE_OK) ole_metrics_close(&metrics);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    const char *path = put_file("metrics.jsonl", bytes, size);
    read_history();
    resume(path, bytes, size);
}
