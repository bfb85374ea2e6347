/*
 * cli/common/embedding.c - opening features and labels, and explaining what is wrong with them.
 */
#include "common/embedding.h"

#include "common/common.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Sets rows, dim and dtype from the header of the features. */
static bool check_features(embedding *e, const embedding_reader *reader, const char *path) {
    const char *command = reader->command;
    const ole_npy_header *h = ole_npy_get_header(e->file);
    char shape[OLE_SHAPE_ROOM];
    ole_shape_text(shape, h->ndim, h->shape);
    if (h->ndim != 2)
        return refuse(
            command,
            "%s: features have shape %s, not (rows, dimensions); name the features first, "
            "then the labels",
            path, shape);
    if (h->count == 0) return refuse(command, "%s: no features: the shape is %s", path, shape);
    static const ole_dtype choices[] = {0, OLE_F32, OLE_F64};
    ole_dtype dtype = choices[reader->dtype];
    bool is_float = h->dtype == OLE_F16 || h->dtype == OLE_F32 || h->dtype == OLE_F64;
    if (dtype == 0 && !is_float)
        return refuse(command, "%s: features are %s; %s", path, ole_dtype_name(h->dtype),
                      reader->converts ? "convert them with --dtype float32 or float64"
                                       : "save them with .astype('float32')");
    e->rows = h->shape[0];
    e->dim = h->shape[1];
    e->dtype = dtype ? dtype : h->dtype == OLE_F64 ? OLE_F64 : OLE_F32;
    return true;
}

/* The elements as e->dtype: in place where they can be, else a copy. */
static bool read_features(embedding *e, const char *command) {
    const ole_npy_header *h = ole_npy_get_header(e->file);
    ole_error error;
    e->features = h->dtype == e->dtype ? ole_npy_data(e->file) : NULL;
    if (e->features) return true;
    e->features = e->copy = malloc((size_t)h->count * ole_dtype_size(e->dtype));
    if (!e->copy)
        fail_command(command, "out of memory for %" PRId64 " elements of %s", h->count,
                     ole_dtype_name(e->dtype));
    else if (ole_npy_read(e->file, e->dtype, e->copy, &error) == OLE_OK)
        return true;
    else
        fail_command(command, "%s", error.message);
    return false;
}

/* Whether there is a row that counts. */
static bool check_used(const embedding *e, const char *command, const char *label_path) {
    for (int64_t i = 0; i < e->rows; i++)
        if (e->labels[i] >= 0) return true;
    return refuse(command, "%s: every label is negative, so every row is ignored", label_path);
}

static void take_labels(embedding *e) {
    e->labels = e->read.values;
    e->names = e->read.names;
    e->classes = e->read.classes;
}

bool embedding_open(embedding *e, const embedding_reader *reader, const char *feature_path,
                    const char *label_path) {
    const char *command = reader->command;
    ole_error error;
    *e = (embedding){0};
    if (ole_features_open(&e->file, feature_path, label_path, &error) != OLE_OK) {
        bool swapped = error.status == OLE_ERROR_FORMAT && label_path &&
                       ole_input_is_array(label_path) && !ole_input_is_array(feature_path);
        return refuse(command, "%s%s", error.message,
                      swapped ? "; name the features first, then the labels" : "");
    }
    if (!check_features(e, reader, feature_path)) return false;
    if (label_path &&
        ole_labels_read(&e->read, label_path, e->rows, feature_path, &error) != OLE_OK)
        return refuse(command, "%s", error.message);
    take_labels(e);
    return read_features(e, command) &&
           (!label_path || reader->keeps_all || check_used(e, command, label_path));
}

void embedding_close(embedding *e) {
    ole_npy_close(e->file);
    ole_labels_free(&e->read);
    free(e->copy);
    *e = (embedding){0};
}

ole_embedding embedding_view(const embedding *e) {
    return (ole_embedding){e->rows, e->dim, e->dtype, e->features, e->labels};
}

int embedding_fail(const char *command, const char *path, const ole_error *error) {
    if (error->status != OLE_ERROR_DATA) return fail_command(command, "%s", error->message);
    return fail_command(command, "%s: %s", path, error->message);
}

int64_t embedding_bad_row(const float *rows, int64_t count, int64_t dim) {
    for (int64_t i = 0; i < count * dim; i++)
        if (!isfinite(rows[i])) return i / dim;
    return -1;
}

bool embedding_share_names(embedding *e, embedding *other, const char *command) {
    ole_error error;
    if (ole_labels_unite(&e->read, &other->read, &error) != OLE_OK)
        return refuse(command, "%s", error.message);
    take_labels(e);
    take_labels(other);
    return true;
}

const char *embedding_label(const embedding *e, int64_t label, char room[LABEL_ROOM]) {
    if (e->names && label >= 0 && label < e->classes) return e->names[label];
    snprintf(room, LABEL_ROOM, "%" PRId64, label);
    return room;
}

void print_overlaps(const embedding *e, const ole_overlap *pairs, int64_t count) {
    if (count > 0)
        printf("\nclasses that overlap most, by principal angle (90 degrees: orthogonal)\n");
    for (int64_t i = 0; i < count && i < OVERLAPS_PRINTED; i++) {
        char names[64], first[LABEL_ROOM], second[LABEL_ROOM];
        snprintf(names, sizeof names, "%.28s and %.28s",
                 embedding_label(e, pairs[i].label_a, first),
                 embedding_label(e, pairs[i].label_b, second));
        print_lines("  %-16s %6.2f degrees\n", names, pairs[i].angle);
    }
}

void json_overlaps(ole_json *w, const ole_overlap *pairs, int64_t count) {
    ole_json_open(w, "principal_angles", '[');
    for (int64_t i = 0; i < count; i++)
        ole_json_object(w, NULL, J("a", pairs[i].label_a), J("b", pairs[i].label_b),
                        J("angle", pairs[i].angle));
    ole_json_close(w);
}
