/* src/train/run/history.c - reading metrics.jsonl back; metrics.c writes it. */
#include "train/run/history.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/parse_json.h"
#include "model/run_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 28 };

/* A number of a line; NaN where it is null or missing. */
static double number(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* A text of a line; "" where it is missing. */
static void copy_text(char *to, size_t room, const json_t *line, const char *key) {
    const char *text = json_string_value(json_object_get(line, key));
    snprintf(to, room, "%s", text ? text : "");
}

static ole_epoch epoch_of(const json_t *line) {
    return (ole_epoch){
        .epoch = json_integer_value(json_object_get(line, "epoch")),
        .lr = number(line, "lr"),
        .loss = number(line, "loss"),
        .softmax_loss = number(line, "softmax_loss"),
        .ole_loss = number(line, "ole_loss"),
        .train_error = number(line, "train_error"),
        .test_error = number(line, "test_error"),
        .validation_error = number(line, "validation_error"),
        .knn1_error = number(line, "knn1_error"),
        .seconds = number(line, "seconds"),
        .images_per_second = number(line, "images_per_s"),
    };
}

static ole_status add_line(ole_history *h, int64_t *room, const json_t *line, ole_error *error) {
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event && strcmp(event, "end") == 0) {
        h->ended = true;
        h->test_error = number(line, "test_error");
        h->validation_error = number(line, "validation_error");
        h->knn1_error = number(line, "knn1_error");
        h->seconds = number(line, "seconds");
        copy_text(h->device, sizeof h->device, line, "device");
        copy_text(h->date, sizeof h->date, line, "date");
    }
    if (!event || strcmp(event, "epoch") != 0) return OLE_OK;
    if (h->count == *room) {
        *room = *room ? 2 * *room : 64;
        ole_epoch *more = realloc(h->epochs, (size_t)*room * sizeof *more);
        if (!more) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a run's history");
        h->epochs = more;
    }
    h->epochs[h->count++] = epoch_of(line);
    return OLE_OK;
}

ole_status ole_history_read(ole_history *history, const char *folder, ole_error *error) {
    char path[OLE_RUN_PATH], *bytes = NULL;
    size_t size;
    if (!history || !folder)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_history_read: history or folder is NULL");
    ole_history h = {.test_error = NAN, .validation_error = NAN, .knn1_error = NAN, .seconds = NAN};
    ole_status status = ole_run_path(path, folder, "metrics.jsonl", error);
    if (status == OLE_OK) status = ole_read_file(path, LARGEST, &bytes, &size, error);
    int64_t room = 0, number_of_line = 1;
    for (const char *at = bytes, *end;
         status == OLE_OK && (end = memchr(at, '\n', size - (size_t)(at - bytes)));
         number_of_line++, at = end + 1) {
        bool no_memory;
        json_t *line = ole_parse_json(at, (size_t)(end - at), 0, NULL, &no_memory);
        if (json_is_object(line))
            status = add_line(&h, &room, line, error);
        else if (no_memory)
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a run's history");
        else
            status = ole_fail(error, OLE_ERROR_FORMAT, "%s: line %lld is not a JSON object",
                              ole_quote_string(path).text, (long long)number_of_line);
        json_decref(line);
    }
    free(bytes);
    if (status == OLE_OK)
        *history = h;
    else
        ole_history_free(&h);
    return status;
}

const ole_epoch *ole_history_best(const ole_history *history) {
    const ole_epoch *best = NULL;
    for (int64_t i = 0; i < history->count; i++) {
        const ole_epoch *e = &history->epochs[i];
        if (isfinite(e->validation_error) &&
            (!best || e->validation_error < best->validation_error))
            best = e;
    }
    return best;
}

void ole_history_free(ole_history *history) {
    free(history->epochs);
    *history = (ole_history){0};
}
