/*
 * src/model/caffe.c - a reader for as much of the protobuf wire format as a .caffemodel takes.
 *
 * A message is a row of fields, each a number and a type behind one key: 0 a varint, 1 eight bytes,
 * 2 a length and so many bytes (a text, numbers packed, or a message), 5 four bytes.  The numbers
 * used here are those of caffe.proto: NetParameter, LayerParameter (and its older form V1),
 * BlobProto.
 */
#include "model/caffe.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wire {
    const unsigned char *at, *end;
} wire;

typedef struct field {
    unsigned number, type;
    uint64_t value; /* of a varint */
    wire bytes;     /* of the other types */
} field;

/* Which field of a layer message holds what. */
typedef struct layer_form {
    unsigned in_net, name, type, blobs;
} layer_form;

static const layer_form forms[] = {
    {.in_net = 100, .name = 1, .type = 2, .blobs = 7}, /* LayerParameter: the type is a text */
    {.in_net = 2, .name = 4, .type = 5, .blobs = 6},   /* V1LayerParameter: the type is a number */
};
enum { V1_CONVOLUTION = 4, V1_INNER_PRODUCT = 14, BLOB_DATA = 5, BLOB_DOUBLE_DATA = 8 };

/* ---- The wire format ---------------------------------------------------------------------- */

static bool take_varint(wire *w, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        unsigned char byte = *w->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

static bool take_bytes(wire *w, uint64_t size, wire *bytes) {
    if (size > (uint64_t)(w->end - w->at)) return false;
    *bytes = (wire){w->at, w->at + size};
    w->at += size;
    return true;
}

/* Reads the next field; false at the end, or with w->at before w->end if it is malformed. */
static bool take_field(wire *w, field *f) {
    const unsigned char *start = w->at;
    uint64_t key, size;
    bool good = w->at < w->end && take_varint(w, &key);
    if (good) {
        *f = (field){.number = (unsigned)(key >> 3), .type = (unsigned)(key & 7)};
        switch (f->type) {
        case 0:
            good = take_varint(w, &f->value);
            break;
        case 1:
            good = take_bytes(w, 8, &f->bytes);
            break;
        case 2:
            good = take_varint(w, &size) && take_bytes(w, size, &f->bytes);
            break;
        case 5:
            good = take_bytes(w, 4, &f->bytes);
            break;
        default:
            good = false;
        }
    }
    if (!good) w->at = start;
    return good;
}

/* ---- Layers ------------------------------------------------------------------------------- */

static bool is_text(wire bytes, const char *text) {
    size_t length = strlen(text);
    return (size_t)(bytes.end - bytes.at) == length && memcmp(bytes.at, text, length) == 0;
}

/* Whether a layer's type is convolution or linear. */
static bool is_wanted(const field *f) {
    if (f->type == 0) return f->value == V1_CONVOLUTION || f->value == V1_INNER_PRODUCT;
    return is_text(f->bytes, "Convolution") || is_text(f->bytes, "InnerProduct");
}

/* Appends the numbers of a blob's field to `out` (NULL: only counts them). */
static void take_numbers(const field *f, float *out, int64_t *count) {
    size_t size = f->number == BLOB_DATA ? sizeof(float) : sizeof(double);
    if ((f->number != BLOB_DATA && f->number != BLOB_DOUBLE_DATA) || f->type == 0) return;
    for (const unsigned char *at = f->bytes.at; (size_t)(f->bytes.end - at) >= size; at += size) {
        if (out) {
            float single;
            double wide;
            memcpy(&single, at, sizeof single);
            if (size == sizeof wide) {
                memcpy(&wide, at, sizeof wide);
                single = (float)wide;
            }
            out[*count] = single;
        }
        ++*count;
    }
}

static bool read_blob(wire bytes, int64_t *count, float **data) {
    for (int pass = 0; pass < 2; pass++) {
        wire w = bytes;
        field f;
        *count = 0;
        while (take_field(&w, &f))
            take_numbers(&f, *data, count);
        if (w.at != w.end) return false;
        if (pass == 0) {
            *data = malloc((size_t)(*count + 1) * sizeof **data);
            if (!*data) return false;
        }
    }
    return true;
}

/* Fills a layer; *wanted: it is a convolution or linear. */
static bool read_layer(wire w, const layer_form *form, ole_caffe_layer *layer, bool *wanted) {
    field f;
    int blobs = 0;
    *wanted = false;
    while (take_field(&w, &f)) {
        if (f.number == form->name && f.type == 2) {
            const ole_quoted quoted =
                ole_quote((const char *)f.bytes.at, (size_t)(f.bytes.end - f.bytes.at));
            snprintf(layer->name, sizeof layer->name, "%.*s", OLE_CAFFE_NAME - 1, quoted.text);
        } else if (f.number == form->type) {
            *wanted = is_wanted(&f);
        } else if (f.number == form->blobs && f.type == 2 && blobs < OLE_CAFFE_BLOBS) {
            if (!read_blob(f.bytes, &layer->count[blobs], &layer->data[blobs])) return false;
            blobs++;
        }
    }
    *wanted = *wanted && blobs > 0;
    return w.at == w.end;
}

static void free_layer(ole_caffe_layer *layer) {
    for (int b = 0; b < OLE_CAFFE_BLOBS; b++)
        free(layer->data[b]);
    *layer = (ole_caffe_layer){0};
}

static bool add_layer(ole_caffe *model, wire bytes, const layer_form *form) {
    ole_caffe_layer *grown =
        realloc(model->layer, ((size_t)model->layers + 1) * sizeof *model->layer);
    if (!grown) return false;
    model->layer = grown;
    ole_caffe_layer *layer = &grown[model->layers];
    *layer = (ole_caffe_layer){0};
    bool wanted;
    bool good = read_layer(bytes, form, layer, &wanted);
    if (good && wanted)
        model->layers++;
    else
        free_layer(layer);
    return good;
}

/* ---- The file ----------------------------------------------------------------------------- */

ole_status ole_caffe_read(ole_caffe *model, const char *path, ole_error *error) {
    *model = (ole_caffe){0};
    size_t size;
    char *bytes;
    ole_status status = ole_read_file(path, PTRDIFF_MAX - 1, &bytes, &size, error);
    if (status != OLE_OK) return status;
    const unsigned char *start = (const unsigned char *)bytes;
    wire w = {start, start + size};
    field f;
    bool good = true;
    while (good && take_field(&w, &f))
        for (size_t i = 0; i < sizeof forms / sizeof *forms && good; i++)
            if (f.number == forms[i].in_net && f.type == 2)
                good = add_layer(model, f.bytes, &forms[i]);
    long long stopped = w.at - start;
    good = good && w.at == w.end && model->layers > 0;
    free(bytes);
    if (good) return OLE_OK;
    ole_caffe_free(model);
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: not a Caffe model with weights, or damaged, near byte %lld",
                    ole_quote_string(path).text, stopped);
}

void ole_caffe_free(ole_caffe *model) {
    for (int i = 0; i < model->layers; i++)
        free_layer(&model->layer[i]);
    free(model->layer);
    *model = (ole_caffe){0};
}
