/*
 * src/train/run/metrics.c - writing metrics.jsonl, and checking it before a run resumes; history.c
 * reads it.
 */
#include "train/run/metrics.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/json.h"
#include "formats/parse_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

enum { LARGEST = 1 << 28 };

static ole_status fail_write(const ole_metrics *metrics, int number, ole_error *error) {
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot write: %s",
                    ole_quote_string(metrics->path).text, strerror(number));
}

/* ---- Checks before a run resumes ---------------------------------------------------------- */

/* Whether the line at `bytes` belongs to a run: to this epoch or, for 0, to any epoch or the end.
 * *next is the line after it; NULL: this one is cut off, which is fine if it starts like one. */
static bool is_of_run(const char *bytes, const char *end, int64_t epoch, const char **next,
                      bool *no_memory) {
    static const char start[] = "{\"event\":";
    const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));
    size_t length = (size_t)((newline ? newline : end) - bytes);
    *next = newline ? newline + 1 : NULL;
    if (!newline)
        return epoch == 0 &&
               memcmp(bytes, start, length < sizeof start ? length : sizeof start - 1) == 0;
    json_t *line = ole_parse_json(bytes, length, 0, NULL, no_memory);
    const char *event = json_string_value(json_object_get(line, "event"));
    bool of_epoch = event && strcmp(event, "epoch") == 0;
    bool good = epoch == 0
                    ? of_epoch || (event && strcmp(event, "end") == 0)
                    : of_epoch && json_integer_value(json_object_get(line, "epoch")) == epoch;
    json_decref(line);
    return good;
}

static ole_status check_lines(const char *path, const char *bytes, size_t size, size_t keep,
                              int64_t epochs, bool *others, ole_error *error) {
    static const char advice[] = "it has been changed since; restore it, or start another run";
    const char *end = bytes + size, *next;
    bool no_memory = false;
    const ole_quoted quoted = ole_quote_string(path);
    if (size < keep)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: shorter than when the checkpoint was saved: %s", quoted.text, advice);
    const char *checked = bytes + keep;
    for (int64_t epoch = 1; epoch <= epochs && !no_memory; epoch++, bytes = next)
        if (!is_of_run(bytes, checked, epoch, &next, &no_memory) && !no_memory)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s, line %lld: not the line of epoch %lld: %s", quoted.text,
                            (long long)epoch, (long long)epoch, advice);
    if (bytes != checked && !no_memory)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: has more lines than the checkpoint has epochs: %s", quoted.text,
                        advice);
    *others = false;
    for (; bytes && bytes < end && !*others && !no_memory; bytes = next)
        *others = !is_of_run(bytes, end, 0, &next, &no_memory);
    if (no_memory) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", quoted.text);
    if (*others && keep == 0)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: not a file of a run; move it away, or choose another folder",
                        quoted.text);
    return OLE_OK;
}

/* ---- Opening and writing ------------------------------------------------------------------ */

ole_status ole_metrics_open(ole_metrics *metrics, const char *path, int64_t keep, int64_t epochs,
                            bool *others, ole_error *error) {
    char *bytes = NULL;
    size_t size = 0;
    struct stat about;
    bool there = lstat(path, &about) == 0;
    ole_status status = there ? ole_read_file(path, LARGEST, &bytes, &size, error) : OLE_OK;
    if (status == OLE_OK)
        status = check_lines(path, bytes ? bytes : "", size, (size_t)keep, epochs, others, error);
    free(bytes);
    if (status != OLE_OK) return status;
    *metrics = (ole_metrics){.fd = -1, .path = strdup(path), .bytes = keep};
    if (!metrics->path) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_append_open(&metrics->fd, path, error);
    if (status != OLE_OK) ole_metrics_close(metrics);
    return status;
}

void ole_metrics_close(ole_metrics *metrics) {
    if (metrics->fd >= 0) close(metrics->fd);
    free(metrics->path);
    *metrics = (ole_metrics){.fd = -1};
}

/* Writes and syncs a whole line; if it does not fit on the disk, nothing of it stays. */
static ole_status append(ole_metrics *metrics, const char *line, size_t size, ole_error *error) {
    if (!metrics->cut && ftruncate(metrics->fd, metrics->bytes) != 0)
        return fail_write(metrics, errno, error);
    metrics->cut = true;
    for (size_t done = 0; done < size;) {
        ssize_t written = write(metrics->fd, line + done, size - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            int number = errno;
            if (ftruncate(metrics->fd, metrics->bytes) != 0) number = errno;
            return fail_write(metrics, number, error);
        }
        done += (size_t)written;
    }
    if (fsync(metrics->fd) != 0 && errno != EINVAL) return fail_write(metrics, errno, error);
    metrics->bytes += (int64_t)size;
    return OLE_OK;
}

/* A line under construction: JSON into memory. */
typedef struct line {
    ole_memory_file memory;
    ole_json json;
} line;

static bool line_begin(line *l, const char *event) {
    if (!ole_memory_file_open(&l->memory)) return false;
    l->json = ole_json_begin(l->memory.file, 0, '{');
    ole_json_string(&l->json, "event", event);
    return true;
}

static ole_status line_end(line *l, ole_metrics *metrics, ole_error *error) {
    ole_json_close(&l->json);
    l->memory.failed |= !ole_json_good(&l->json);
    char *text = ole_memory_file_close(&l->memory);
    ole_status status = text ? append(metrics, text, l->memory.size, error)
                             : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    free(text);
    return status;
}

static void put_errors(ole_json *w, const ole_errors *errors) {
    ole_json_put(w, J("test_error", errors->test), J("validation_error", errors->validation),
                 J("knn1_error", errors->knn1));
}

ole_status ole_metrics_epoch(ole_metrics *metrics, int64_t epoch, double lr, const ole_sums *sums,
                             bool softmax, const ole_errors *errors, ole_error *error) {
    if (metrics->fd < 0) return OLE_OK;
    line l;
    if (!line_begin(&l, "epoch")) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    double steps = (double)sums->steps, images = (double)sums->images;
    ole_json_put(
        &l.json, J("epoch", epoch), J("lr", lr), J("loss", sums->loss / steps),
        J("softmax_loss", sums->softmax_loss / steps), J("ole_loss", sums->ole_loss / steps),
        J("train_error", softmax ? 100.0 * (images - (double)sums->correct) / images : NAN));
    if (sums->feature_loss != 0.0)
        ole_json_number(&l.json, "feature_loss", sums->feature_loss / steps);
    if (errors) put_errors(&l.json, errors);
    ole_json_put(&l.json, J("images_per_s", images / sums->seconds),
                 J("ole_share", sums->ole_seconds / sums->seconds), J("seconds", sums->seconds));
    if (metrics->ranks > 1)
        ole_json_put(&l.json, J("ranks", metrics->ranks), J("comm_seconds", sums->comm_seconds));
    return line_end(&l, metrics, error);
}

ole_status ole_metrics_end(ole_metrics *metrics, const ole_errors *errors, double seconds,
                           const char *device, ole_error *error) {
    if (metrics->fd < 0) return OLE_OK;
    line l;
    char date[32];
    time_t now = time(NULL);
    struct tm parts;
    if (!line_begin(&l, "end")) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    put_errors(&l.json, errors);
    ole_json_number(&l.json, "seconds", seconds);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    ole_json_put(&l.json, J("device", device), J("date", date));
    return line_end(&l, metrics, error);
}
