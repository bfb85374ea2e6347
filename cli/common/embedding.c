/*
 * cli/common/embedding.c - opening features and labels, and explaining what is wrong with them.
 */
#include "common/embedding.h"

#include "common/common.h"

#include "base/number.h"
#include "base/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "(3, 4)", as Python writes it. */
static const char *shape_text(const ole_npy_header *header, char out[256]) {
    int used = snprintf(out, 256, "(");
    for (int i = 0; i < header->ndim; i++)
        used +=
            snprintf(out + used, 256 - (size_t)used, "%s%" PRId64, i ? ", " : "", header->shape[i]);
    snprintf(out + used, 256 - (size_t)used, header->ndim == 1 ? ",)" : ")");
    return out;
}

static bool is_float(ole_dtype dtype) {
    return dtype == OLE_F16 || dtype == OLE_F32 || dtype == OLE_F64;
}

/* Sets rows, dim and dtype from the header of the features. */
static bool check_features(embedding *e, const embedding_reader *reader, const char *path) {
    const char *command = reader->command;
    const ole_npy_header *h = ole_npy_get_header(e->feature_file.npy);
    char shape[256];
    if (h->ndim != 2) {
        fail_command(command,
                     "%s: features must be 2-D (rows, dimensions), this is %s; features come "
                     "first, then labels",
                     path, shape_text(h, shape));
        return false;
    }
    if (h->count == 0) {
        fail_command(command, "%s: there are no features, the shape is %s", path,
                     shape_text(h, shape));
        return false;
    }
    static const ole_dtype choices[] = {0, OLE_F32, OLE_F64};
    ole_dtype dtype = choices[reader->dtype];
    if (dtype == 0 && !is_float(h->dtype)) {
        fail_command(command, "%s: features are %s; %s", path, ole_dtype_name(h->dtype),
                     reader->converts ? "convert them with --dtype float32 or float64"
                                      : "save them with .astype('float32')");
        return false;
    }
    e->rows = h->shape[0];
    e->dim = h->shape[1];
    e->dtype = dtype ? dtype : h->dtype == OLE_F64 ? OLE_F64 : OLE_F32;
    return true;
}

static bool check_labels(const embedding *e, const char *command, const char *feature_path,
                         const char *path) {
    const ole_npy_header *h = ole_npy_get_header(e->label_file.npy);
    char shape[256];
    if (is_float(h->dtype)) {
        fail_command(command,
                     "%s: labels are %s, integers are needed; save them with .astype('int64')",
                     path, ole_dtype_name(h->dtype));
        return false;
    }
    if (h->ndim != 1 && !(h->ndim == 2 && h->shape[1] == 1)) {
        fail_command(command, "%s: labels must be (N,) or (N, 1), this is %s; one integer per row",
                     path, shape_text(h, shape));
        return false;
    }
    if (h->count != e->rows) {
        fail_command(command,
                     "%s has %" PRId64 " rows and %s has %" PRId64 " labels; they must match",
                     feature_path, e->rows, path, h->count);
        return false;
    }
    return true;
}

/* The elements as `as`: in place where they can be, else a copy that *copy owns. NULL on error. */
static const void *elements(const ole_npy *file, ole_dtype as, const char *command, void **copy) {
    const ole_npy_header *h = ole_npy_get_header(file);
    const void *in_place = h->dtype == as ? ole_npy_data(file) : NULL;
    if (in_place) return in_place;
    *copy = malloc((size_t)h->count * ole_dtype_size(as));
    if (!*copy) {
        fail_command(command, "out of memory for %" PRId64 " elements of %s", h->count,
                     ole_dtype_name(as));
        return NULL;
    }
    ole_error error;
    if (ole_npy_read(file, as, *copy, &error) == OLE_OK) return *copy;
    fail_command(command, "%s", error.message);
    return NULL;
}

/* There is a row that counts. */
static bool check_used(const embedding *e, const char *command, const char *label_path) {
    for (int64_t i = 0; i < e->rows; i++)
        if (e->labels[i] >= 0) return true;
    fail_command(command, "%s: every label is negative, so every row is ignored", label_path);
    return false;
}

/* ---- Text --------------------------------------------------------------------------------- */

/* "line 7", or of an array "label 6"; returns `room`. */
static const char *row_text(const input_file *file, int64_t row, char room[48]) {
    bool is_line = file->first_line > 0;
    snprintf(room, 48, "%s %" PRId64, is_line ? "line" : "label", row + file->first_line);
    return room;
}

/* Features from a table of numbers: float64 unless --dtype says otherwise. */
static bool read_table(embedding *e, const embedding_reader *reader, const char *path) {
    const input_file *file = &e->feature_file;
    e->rows = file->rows;
    e->dim = file->columns;
    e->dtype = reader->dtype == 1 ? OLE_F32 : OLE_F64;
    e->feature_copy = malloc((size_t)(e->rows * e->dim) * ole_dtype_size(e->dtype));
    if (!e->feature_copy) return fail_command(reader->command, "%s: out of memory", path), false;
    for (int64_t i = 0; i < e->rows * e->dim; i++) {
        char *end, row[48];
        double value = ole_number_read(file->cells[i], &end);
        if (end == file->cells[i] || end[strspn(end, " \t")]) {
            ole_quoted quoted;
            fail_command(reader->command, "%s, %s: '%s' is not a number", path,
                         row_text(file, i / e->dim, row),
                         ole_quote_string(&quoted, file->cells[i]));
            return false;
        }
        if (e->dtype == OLE_F32)
            ((float *)e->feature_copy)[i] = (float)value;
        else
            ((double *)e->feature_copy)[i] = value;
    }
    e->features = e->feature_copy;
    return true;
}

static bool parse_label(const char *text, int64_t *label) {
    char *end;
    errno = 0;
    *label = strtoll(text, &end, 10);
    return end > text && !*end && errno == 0;
}

static int compare_words(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts words and drops those that come again; how many are left. */
static int64_t sort_words(const char **words, int64_t count) {
    int64_t different = 0;
    qsort(words, (size_t)count, sizeof *words, compare_words);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || strcmp(words[i], words[different - 1]) != 0) words[different++] = words[i];
    return different;
}

static int64_t find_word(const embedding *e, const char *word) {
    const char **found =
        bsearch(&word, e->names, (size_t)e->classes, sizeof *e->names, compare_words);
    return found - e->names;
}

/* Labels from text: whole numbers if all of them are, else words. */
static bool read_words(embedding *e, const char *command, const char *feature_path,
                       const char *path) {
    const input_file *file = &e->label_file;
    if (file->rows != e->rows) {
        fail_command(command,
                     "%s has %" PRId64 " rows and %s has %" PRId64 " labels; they must match",
                     feature_path, e->rows, path, file->rows);
        return false;
    }
    int64_t *labels = malloc((size_t)e->rows * sizeof *labels), numbers = 0;
    e->label_copy = labels;
    e->names = malloc((size_t)e->rows * sizeof *e->names);
    if (!labels || !e->names) return fail_command(command, "%s: out of memory", path), false;
    for (int64_t i = 0; i < e->rows; i++) {
        char row[48];
        if (!*file->cells[i])
            return fail_command(command, "%s, %s is empty", path, row_text(file, i, row)), false;
        numbers += parse_label(file->cells[i], &labels[i]);
    }
    e->labels = labels;
    if (numbers == e->rows) {
        free(e->names);
        e->names = NULL;
        return true;
    }
    memcpy(e->names, file->cells, (size_t)e->rows * sizeof *e->names);
    e->classes = sort_words(e->names, e->rows);
    for (int64_t i = 0; i < e->rows; i++)
        labels[i] = find_word(e, file->cells[i]);
    return true;
}

bool embedding_share_names(embedding *e, embedding *other, const char *command) {
    if (!e->names && !other->names) return true;
    if (!e->names || !other->names)
        return fail_command(command, "labels are words in one file and numbers in the other"),
               false;
    size_t own = (size_t)e->classes, others = (size_t)other->classes;
    const char **first = malloc((own + others) * sizeof *first);
    const char **second = malloc((own + others) * sizeof *second);
    if (!first || !second) {
        free(first);
        free(second);
        return fail_command(command, "out of memory"), false;
    }
    memcpy(first, e->names, own * sizeof *first);
    memcpy(first + own, other->names, others * sizeof *first);
    int64_t classes = sort_words(first, (int64_t)(own + others));
    memcpy(second, first, (size_t)classes * sizeof *second);
    free(e->names);
    free(other->names);
    e->names = first;
    other->names = second;
    e->classes = other->classes = classes;
    embedding *const both[] = {e, other};
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < both[k]->rows; i++)
            ((int64_t *)both[k]->label_copy)[i] = find_word(both[k], both[k]->label_file.cells[i]);
    return true;
}

const char *embedding_label(const embedding *e, int64_t label, char room[LABEL_ROOM]) {
    if (e->names && label >= 0 && label < e->classes) return e->names[label];
    snprintf(room, LABEL_ROOM, "%" PRId64, label);
    return room;
}

/* ---- Opening ------------------------------------------------------------------------------ */

bool embedding_open(embedding *e, const embedding_reader *reader, const char *feature_path,
                    const char *label_path) {
    const char *command = reader->command;
    ole_error error;
    *e = (embedding){0};
    if (!input_file_open(&e->feature_file, feature_path, label_path, &error))
        return fail_command(command, "%s", error.message), false;
    const ole_npy *features = e->feature_file.npy;
    if (features ? !check_features(e, reader, feature_path) : !read_table(e, reader, feature_path))
        return false;
    if (label_path && !input_file_open(&e->label_file, NULL, label_path, &error))
        return fail_command(command, "%s", error.message), false;
    const ole_npy *labels = e->label_file.npy;
    if (labels && !check_labels(e, command, feature_path, label_path)) return false;
    if (features) e->features = elements(features, e->dtype, command, &e->feature_copy);
    if (!e->features || !label_path) return e->features != NULL;
    if (!labels && !read_words(e, command, feature_path, label_path)) return false;
    if (labels) e->labels = elements(labels, OLE_I64, command, &e->label_copy);
    return e->labels && (reader->keeps_all || check_used(e, command, label_path));
}

void embedding_close(embedding *e) {
    input_file_close(&e->feature_file);
    input_file_close(&e->label_file);
    free(e->feature_copy);
    free(e->label_copy);
    free(e->names);
    *e = (embedding){0};
}
