/*
 * cli/common/embedding.c - opening features and labels, and explaining what is wrong with them.
 */
#include "common/embedding.h"

#include "common/common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
    const ole_npy_header *h = ole_npy_get_header(e->feature_file);
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
    const ole_npy_header *h = ole_npy_get_header(e->label_file);
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

static ole_npy *open_file(const char *command, const char *path) {
    ole_npy *file;
    ole_error error;
    if (ole_npy_open(&file, path, &error) != OLE_OK) fail_command(command, "%s", error.message);
    return file;
}

bool embedding_open(embedding *e, const embedding_reader *reader, const char *feature_path,
                    const char *label_path) {
    const char *command = reader->command;
    *e = (embedding){0};
    e->feature_file = open_file(command, feature_path);
    if (!e->feature_file || !check_features(e, reader, feature_path)) return false;
    if (label_path) {
        e->label_file = open_file(command, label_path);
        if (!e->label_file || !check_labels(e, command, feature_path, label_path)) return false;
    }
    e->features = elements(e->feature_file, e->dtype, command, &e->feature_copy);
    if (!label_path) return e->features != NULL;
    if (e->features) e->labels = elements(e->label_file, OLE_I64, command, &e->label_copy);
    if (!e->features || !e->labels) return false;
    return reader->keeps_all || check_used(e, command, label_path);
}

void embedding_close(embedding *e) {
    ole_npy_close(e->feature_file);
    ole_npy_close(e->label_file);
    free(e->feature_copy);
    free(e->label_copy);
    *e = (embedding){0};
}
