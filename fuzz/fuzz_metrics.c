/* fuzz/fuzz_metrics.c - metrics.jsonl, as the history of a run and as what a resumed run appends
 * to; what is appended is read as it was written, behind the epochs that are kept. */
#include "fuzz.h"
#include "ole/train/history.h"
#include "train/run/metrics.h"

#include <math.h>
#include <string.h>

static bool is_same(double a, double b) {
    return a == b || (!isfinite(a) && !isfinite(b)); /* what is not finite is written as null */
}

static bool read_history(ole_history *history) {
    ole_error error = {0};
    ole_status status = ole_history_read(history, fuzz_folder(), &error);
    if (status != OLE_OK) check_error(status, &error);
    return status == OLE_OK;
}

/* Appends an epoch with the numbers of `e`, and the end of the run. */
static void append(ole_metrics *metrics, int64_t epoch, const ole_epoch *e) {
    const ole_sums sums = {.loss = e->loss,
                           .softmax_loss = e->softmax_loss,
                           .ole_loss = e->ole_loss,
                           .steps = 1,
                           .images = 1,
                           .seconds = e->seconds};
    const ole_errors errors = {e->test_error, e->validation_error, e->knn1_error};
    ole_error error = {0};
    require(ole_metrics_epoch(metrics, epoch, e->lr, &sums, false, &errors, &error) == OLE_OK,
            error.message);
    require(ole_metrics_end(metrics, &errors, e->seconds, "cpu", &error) == OLE_OK, error.message);
}

/* `before` is what the file said; nothing where a line behind the kept ones cannot be read. */
static void check_appended(const ole_history *before, int64_t epochs, const ole_epoch *e) {
    ole_history h;
    require(read_history(&h), "it cannot be read after writing");
    require(h.count == epochs + 1, "another number of epochs after writing");
    for (int64_t i = 0; i < epochs; i++)
        require(h.epochs[i].epoch == i + 1 &&
                    (before->count == 0 ||
                     (is_same(h.epochs[i].loss, before->epochs[i].loss) &&
                      is_same(h.epochs[i].test_error, before->epochs[i].test_error))),
                "another epoch is kept");
    const ole_epoch *last = &h.epochs[epochs];
    require(last->epoch == epochs + 1 && is_same(last->lr, e->lr) && is_same(last->loss, e->loss) &&
                is_same(last->softmax_loss, e->softmax_loss) &&
                is_same(last->ole_loss, e->ole_loss) && is_same(last->test_error, e->test_error) &&
                is_same(last->validation_error, e->validation_error) &&
                is_same(last->knn1_error, e->knn1_error) && is_same(last->seconds, e->seconds),
            "another number after writing");
    require(h.ended && is_same(h.test_error, e->test_error) && is_same(h.seconds, e->seconds) &&
                strcmp(h.device, "cpu") == 0 && h.date[0],
            "another end after writing");
    ole_history_free(&h);
}

/* As a run resumes that has a checkpoint of so many epochs, which end at the byte `keep`. */
static void resume(const char *path, int64_t keep, int64_t epochs, const ole_history *history) {
    static const ole_epoch none = {.lr = 0.1, .loss = NAN, .test_error = 5.0, .seconds = 0.25};
    ole_metrics metrics;
    ole_error error = {0};
    bool others;
    ole_status status = ole_metrics_open(&metrics, path, keep, epochs, &others, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    const ole_epoch *e = history->count ? &history->epochs[history->count - 1] : &none;
    append(&metrics, epochs + 1, e);
    ole_metrics_close(&metrics);
    check_appended(history, epochs, e);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_history history = {0};
    const char *path = put_file("metrics.jsonl", bytes, size);
    if (read_history(&history))
        touch(history.epochs, (size_t)history.count * sizeof *history.epochs);
    touch(&history, sizeof history);
    resume(path, 0, 0, &history);
    const uint8_t *end = memchr(bytes, '\n', size);
    for (int64_t epochs = 1; end && epochs <= 3; epochs++) { /* three are like many */
        int64_t keep = end + 1 - bytes;
        resume(put_file("metrics.jsonl", bytes, size), keep, epochs, &history);
        end = memchr(bytes + keep, '\n', size - (size_t)keep);
    }
    ole_history_free(&history);
}
