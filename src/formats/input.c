/*
 * src/formats/input.c - features and labels from files, whatever their kind, and what is wrong with
 * them.
 */
#include "formats/input.h"

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "formats/npy_header.h"
#include "formats/npz.h"
#include "formats/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ole_input_file(const char *path, char file[PATH_MAX]) {
    static const char *const ends[] = {".npz:", ".csv:"};
    const char *part = NULL;
    for (int i = 0; i < 2; i++)
        for (const char *at = path; (at = strstr(at, ends[i])); at++)
            part = at + 5;
    snprintf(file, PATH_MAX, "%.*s", part ? (int)(part - 1 - path) : INT_MAX, path);
    return part;
}

static bool ends_in(const char *path, const char *end) {
    size_t length = strlen(path), part = strlen(end);
    return length > part && strcmp(path + length - part, end) == 0;
}

bool ole_input_is_array(const char *path) {
    char file[PATH_MAX];
    ole_input_file(path, file);
    return ends_in(file, ".npy") || ends_in(file, ".npz") || ends_in(file, ".csv");
}

/* ---- Features ------------------------------------------------------------------------------ */

static ole_status read_numbers(const ole_table *t, const char *name, double *out,
                               ole_error *error) {
    for (int64_t i = 0; i < t->rows * t->columns; i++) {
        char *end;
        out[i] = ole_number_read(t->cells[i], &end);
        if (end == t->cells[i] || end[strspn(end, " \t")])
            return ole_fail(
                error, OLE_ERROR_FORMAT, "%s, line %" PRId64 ": '%s' is not a number%s", name,
                t->first_line + i / t->columns, ole_quote_string(t->cells[i]).text,
                t->first_line + i / t->columns > 1 ? ""
                : t->rows > 1 ? " (a first line with numbers in it is no header, unless the "
                                "labels' column is named after a cell of it)"
                              : "");
    }
    return OLE_OK;
}

static ole_status open_table(ole_npy **features, const char *path, const char *label_column,
                             ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    const char *name = quoted.text;
    ole_table table;
    double *numbers = NULL;
    size_t size = 0;
    ole_status status = ole_table_read(&table, path, OLE_TABLE_OTHERS, label_column, error);
    const ole_npy_header header = {.dtype = OLE_F64,
                                   .ndim = 2,
                                   .shape = {table.rows, table.columns},
                                   .count = table.rows * table.columns};
    if (status == OLE_OK) {
        size = (size_t)header.count * sizeof *numbers;
        numbers = malloc(size);
        status = numbers ? read_numbers(&table, name, numbers, error)
                         : ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    }
    ole_table_free(&table);
    if (status == OLE_OK)
        return ole_npy_adopt(features, path, numbers, size, &header, false, error);
    free(numbers);
    return status;
}

ole_status ole_features_open(ole_npy **features, const char *path, const char *labels,
                             ole_error *error) {
    char file[PATH_MAX], other[PATH_MAX];
    const char *part = ole_input_file(path, file);
    *features = NULL;
    if (ends_in(file, ".npz")) return ole_npz_open(features, file, part, false, error);
    if (!ends_in(file, ".csv")) return ole_npy_open(features, file, error);
    const char *column = labels ? ole_input_file(labels, other) : NULL;
    return open_table(features, file, column && strcmp(file, other) == 0 ? column : NULL, error);
}

static bool is_word(const char *cell) {
    char *end;
    ole_number_read(cell, &end);
    return *cell && (end == cell || end[strspn(end, " \t")]);
}

int64_t ole_table_word_column(const char *path, int64_t *columns) {
    ole_table t;
    int64_t found = 0, words = 0;
    bool good = ole_table_read(&t, path, OLE_TABLE_OTHERS, NULL, NULL) == OLE_OK;
    *columns = good ? t.columns : 0;
    for (int64_t c = 0; c < *columns; c++) {
        int64_t row = 0;
        while (row < t.rows && is_word(t.cells[row * t.columns + c]))
            row++;
        if (row < t.rows) continue;
        found = c + 1;
        words++;
    }
    ole_table_free(&t);
    return words == 1 ? found : 0;
}

/* ---- Labels -------------------------------------------------------------------------------- */

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

static int64_t find_word(const ole_labels *l, const char *word) {
    const char **found =
        bsearch(&word, l->names, (size_t)l->classes, sizeof *l->names, compare_words);
    return found - l->names;
}

/* Labels from text: whole numbers if all of them are, else words.  `first`: the line of the first
 * one; 0: they are not lines. */
static ole_status count_words(ole_labels *l, const char **words, int64_t first, const char *name,
                              ole_error *error) {
    int64_t numbers = 0;
    for (int64_t i = 0; i < l->count; i++) {
        if (!*words[i])
            return ole_fail(error, OLE_ERROR_FORMAT, "%s, %s %" PRId64 " is empty", name,
                            first > 0 ? "line" : "label", first + i);
        numbers += parse_label(words[i], &l->values[i]);
    }
    if (numbers == l->count) return OLE_OK;
    l->names = malloc((size_t)l->count * sizeof *l->names);
    if (!l->names) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    memcpy(l->names, words, (size_t)l->count * sizeof *l->names);
    l->classes = sort_words(l->names, l->count);
    for (int64_t i = 0; i < l->count; i++)
        l->values[i] = find_word(l, words[i]);
    return OLE_OK;
}

/* As many as rows, and room for their numbers. */
static ole_status expect(ole_labels *l, int64_t count, int64_t rows, const char *of,
                         const char *name, ole_error *error) {
    if (count != rows)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s has %" PRId64 " rows and %s has %" PRId64 " labels; they must match",
                        ole_quote_string(of).text, rows, name, count);
    l->count = count;
    l->values = malloc((size_t)(count + 1) * sizeof *l->values);
    return l->values ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
}

static ole_status read_strings(ole_labels *l, const ole_npy *array, const char *name,
                               ole_error *error) {
    const char **words = malloc((size_t)(l->count + 1) * sizeof *words);
    l->text = words ? ole_npy_strings(array) : NULL;
    ole_status status =
        l->text ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    const char *at = l->text;
    for (int64_t i = 0; i < l->count && at; i++, at += strlen(at) + 1)
        words[i] = at;
    if (status == OLE_OK) status = count_words(l, words, 0, name, error);
    free(words);
    return status;
}

static ole_status read_array(ole_labels *l, const ole_npy *array, int64_t rows, const char *of,
                             const char *name, ole_error *error) {
    const ole_npy_header *h = ole_npy_get_header(array);
    bool is_float = h->dtype == OLE_F16 || h->dtype == OLE_F32 || h->dtype == OLE_F64;
    char shape[OLE_SHAPE_ROOM];
    if (is_float)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: labels are %s, not integers; save them with .astype('int64')", name,
                        ole_dtype_name(h->dtype));
    if (h->ndim != 1 && !(h->ndim == 2 && h->shape[1] == 1))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: labels have shape %s, not (N,) or (N, 1); save one label per row",
                        name, ole_shape_text(shape, h->ndim, h->shape));
    ole_status status = expect(l, h->count, rows, of, name, error);
    if (status != OLE_OK) return status;
    return h->dtype == 0 ? read_strings(l, array, name, error)
                         : ole_npy_read(array, OLE_I64, l->values, error);
}

ole_status ole_labels_read(ole_labels *labels, const char *path, int64_t rows, const char *of,
                           ole_error *error) {
    char file[PATH_MAX];
    const char *part = ole_input_file(path, file);
    const ole_quoted quoted = ole_quote_string(file);
    const char *name = quoted.text;
    bool lines = ends_in(file, ".txt");
    *labels = (ole_labels){0};
    if (!lines && !ends_in(file, ".csv")) {
        ole_npy *array;
        ole_status status = ends_in(file, ".npz") ? ole_npz_open(&array, file, part, true, error)
                                                  : ole_npy_open_text(&array, file, error);
        if (status == OLE_OK) status = read_array(labels, array, rows, of, name, error);
        ole_npy_close(array);
        return status;
    }
    ole_table table;
    ole_status status =
        ole_table_read(&table, file, lines ? OLE_TABLE_LINES : OLE_TABLE_COLUMN, part, error);
    if (status == OLE_OK) status = expect(labels, table.rows, rows, of, name, error);
    if (status == OLE_OK) status = count_words(labels, table.cells, table.first_line, name, error);
    labels->text = table.text; /* the names are in it */
    table.text = NULL;
    ole_table_free(&table);
    return status;
}

ole_status ole_labels_unite(ole_labels *a, ole_labels *b, ole_error *error) {
    if (!a->names && !b->names) return OLE_OK;
    if (!a->names || !b->names)
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "labels are words in one file and numbers in the other; use the same in both");
    ole_labels *const both[] = {a, b};
    size_t most = (size_t)(a->classes + b->classes);
    const char **names[2] = {malloc(most * sizeof **names), malloc(most * sizeof **names)};
    if (!names[0] || !names[1]) {
        free(names[0]);
        free(names[1]);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the labels");
    }
    memcpy(names[0], a->names, (size_t)a->classes * sizeof **names);
    memcpy(names[0] + a->classes, b->names, (size_t)b->classes * sizeof **names);
    int64_t classes = sort_words(names[0], (int64_t)most);
    memcpy(names[1], names[0], (size_t)classes * sizeof **names);
    for (int k = 0; k < 2; k++) {
        ole_labels *l = both[k];
        const ole_labels united = {.names = names[k], .classes = classes};
        for (int64_t i = 0; i < l->count; i++)
            l->values[i] = find_word(&united, l->names[l->values[i]]);
        free(l->names);
        l->names = names[k];
        l->classes = classes;
    }
    return OLE_OK;
}

void ole_labels_free(ole_labels *labels) {
    free(labels->values);
    free(labels->names);
    free(labels->text);
    *labels = (ole_labels){0};
}
