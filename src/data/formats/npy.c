/*
 * src/data/formats/npy.c - data sets from arrays and tables (formats/input.h): "X.npy,y.npy" or
 * "X.npy,y.npy,Xt.npy,yt.npy", also as .npz, .csv and .txt files.
 *
 * X is [N, D] vectors, [N, H, W] grey images, [N, C, H, W] or [N, H, W, C] images; bytes stay
 * bytes, floating-point numbers become float32.  y is N integers from 0 up, or N words; the classes
 * are those that occur in it, in ascending order.
 */
#include "base/error.h"
#include "base/quote.h"
#include "base/sort.h"
#include "data/find.h"
#include "formats/input.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIM = 1 << 24, MAX_CLASSES = 1 << 20 };

/* How an array's dimensions are meant. */
typedef struct layout {
    int64_t count;
    int channels, height, width;
    bool channels_last;
} layout;

/* ---- Images and vectors ------------------------------------------------------------------- */

static bool is_channels(int64_t n) {
    return n >= 1 && n <= OLE_MAX_CHANNELS;
}

static ole_status find_layout(const ole_npy_header *h, const char *name, layout *l,
                              ole_error *error) {
    for (int i = 1; i < h->ndim; i++)
        if (h->shape[i] > MAX_DIM)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: dimension %d is %" PRId64 "; the limit is %d", name, i,
                            h->shape[i], MAX_DIM);
    for (int i = 0; i < h->ndim; i++)
        if (h->shape[i] < 1)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: dimension %d is %" PRId64 ", so there are no samples", name, i,
                            h->shape[i]);
    l->count = h->shape[0];
    const int64_t *s = h->shape;
    if (h->ndim == 2) {
        l->channels = (int)s[1];
        l->height = l->width = 1;
    } else if (h->ndim == 3) {
        l->channels = 1;
        l->height = (int)s[1];
        l->width = (int)s[2];
    } else if (h->ndim == 4 && is_channels(s[3]) && !is_channels(s[1])) {
        l->channels_last = true;
        l->channels = (int)s[3];
        l->height = (int)s[1];
        l->width = (int)s[2];
    } else if (h->ndim == 4 && is_channels(s[1])) {
        l->channels = (int)s[1];
        l->height = (int)s[2];
        l->width = (int)s[3];
    } else {
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the shape must be (N, D), (N, H, W), (N, C, H, W) or (N, H, W, C) "
                        "with 1 to 4 channels C",
                        name);
    }
    return OLE_OK;
}

static ole_status check_layout(const ole_npy_header *h, const char *name, const layout *l,
                               const ole_source *source, ole_error *error) {
    bool bytes = h->dtype == OLE_U8;
    if (!bytes && h->dtype != OLE_F16 && h->dtype != OLE_F32 && h->dtype != OLE_F64)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the elements are %s; save images as uint8 or float32, vectors as "
                        "float32",
                        name, ole_dtype_name(h->dtype));
    if (source->count == 0) return OLE_OK;
    if (l->channels != source->channels || l->height != source->height ||
        l->width != source->width || bytes == source->floating)
        return ole_fail(
            error, OLE_ERROR_FORMAT, "%s: %dx%dx%d %s, but the training samples are %dx%dx%d %s",
            name, l->channels, l->height, l->width, bytes ? "bytes" : "floats", source->channels,
            source->height, source->width, source->floating ? "floats" : "bytes");
    return OLE_OK;
}

/* [N, pixels, C] to [N, C, pixels], in place of `samples`, item by item of `size` bytes. */
static ole_status move_channels(unsigned char *samples, const layout *l, size_t size,
                                ole_error *error) {
    size_t pixels = (size_t)l->height * (size_t)l->width, channels = (size_t)l->channels;
    size_t bytes = pixels * channels * size;
    unsigned char *last = malloc(bytes);
    if (!last) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an image");
    for (int64_t n = 0; n < l->count; n++, samples += bytes) {
        memcpy(last, samples, bytes);
        for (size_t c = 0; c < channels; c++)
            for (size_t p = 0; p < pixels; p++)
                memcpy(samples + (c * pixels + p) * size, last + (p * channels + c) * size, size);
    }
    free(last);
    return OLE_OK;
}

static ole_status check_finite(const float *samples, const layout *l, const char *name,
                               ole_error *error) {
    int64_t one = (int64_t)l->channels * l->height * l->width;
    for (int64_t i = 0; i < l->count * one; i++)
        if (!isfinite(samples[i]))
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: row %" PRId64 " holds NaN or Inf; check what produced it", name,
                            i / one);
    return OLE_OK;
}

ole_status ole_read_npy_samples(const char *path, const char *labels, ole_source *source,
                                ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    const char *name = quoted.text;
    ole_npy *array;
    ole_status status = ole_features_open(&array, path, labels, error);
    if (status != OLE_OK) return status;
    const ole_npy_header *h = ole_npy_get_header(array);
    layout l = {0};
    int64_t first = source->count;
    status = find_layout(h, name, &l, error);
    if (status == OLE_OK) status = check_layout(h, name, &l, source, error);
    if (status == OLE_OK) {
        source->channels = l.channels;
        source->height = l.height;
        source->width = l.width;
        source->floating = h->dtype != OLE_U8;
        status = ole_source_grow(source, l.count, error);
    }
    size_t size = source->floating ? sizeof(float) : 1;
    unsigned char *samples = source->floating ? (unsigned char *)source->floats : source->bytes;
    if (status == OLE_OK) {
        samples += (size_t)first * (size_t)ole_source_sample_size(source) * size;
        status = ole_npy_read(array, source->floating ? OLE_F32 : OLE_U8, samples, error);
    }
    if (status == OLE_OK && source->floating)
        status = check_finite((const float *)samples, &l, name, error);
    if (status == OLE_OK && l.channels_last) status = move_channels(samples, &l, size, error);
    ole_npy_close(array);
    return status;
}

/* ---- Labels ------------------------------------------------------------------------------- */

/* The different labels, ascending, as the source's classes; *values is their table. */
static ole_status make_classes(const ole_labels *labels, ole_source *source, int64_t **values,
                               ole_error *error) {
    if (!labels->values) return ole_fail(error, OLE_ERROR_DATA, "there are no labels");
    int64_t *sorted = malloc((size_t)labels->count * sizeof *sorted);
    if (!sorted) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the labels");
    *values = sorted;
    memcpy(sorted, labels->values, (size_t)labels->count * sizeof *sorted);
    int64_t distinct = ole_distinct(sorted, labels->count);
    if (distinct > MAX_CLASSES)
        return ole_fail(error, OLE_ERROR_DATA,
                        "%" PRId64 " different labels; the limit is %d classes", distinct,
                        MAX_CLASSES);
    ole_status status = ole_source_set_classes(source, (int)distinct, error);
    for (int64_t i = 0; status == OLE_OK && i < distinct; i++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, sorted[i]);
        status = ole_source_name_class(source, (int)i,
                                       labels->names ? labels->names[sorted[i]] : number, error);
    }
    return status;
}

/* Class numbers of the labels into the source, from sample `first` on. */
static ole_status number_labels(const ole_labels *labels, const int64_t *values, const char *path,
                                int64_t first, ole_source *source, ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    const char *name = quoted.text;
    for (int64_t i = 0; i < labels->count; i++) {
        int64_t label = labels->values[i];
        if (label < 0)
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: label %" PRId64 " is %" PRId64 "; labels must be 0 or more", name,
                            i, label);
        const int64_t *found =
            bsearch(&label, values, (size_t)source->classes, sizeof *values, ole_by_rising_integer);
        if (!found && labels->names)
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: label %" PRId64 " is '%s', a class without training samples", name,
                            i, ole_quote_string(labels->names[label]).text);
        if (!found)
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: label %" PRId64 " is %" PRId64
                            ", a class without training samples",
                            name, i, label);
        source->labels[first + i] = (int32_t)(found - values);
    }
    return OLE_OK;
}

/* ---- Both --------------------------------------------------------------------------------- */

/* Cuts "a,b" or "a,b,c,d" into its names; returns their number, 0 if it is wrong. */
static int cut_paths(char *text, const char *paths[4]) {
    int count = 0;
    for (char *at = text; at; count++) {
        char *comma = strchr(at, ',');
        if (comma) *comma = '\0';
        if (count == 4 || !*at) return 0;
        paths[count] = at;
        at = comma ? comma + 1 : NULL;
    }
    return count % 2 ? 0 : count;
}

static ole_status fail_paths(ole_error *error) {
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "npy: name two or four files, as in npy:X.npy,y.npy or "
                    "npy:X.npy,y.npy,Xtest.npy,ytest.npy");
}

/* Samples and labels of the training part and, of four files, of the test part.  Words mean the
 * same in both. */
static ole_status read_parts(const char *const *paths, int count, ole_source *source,
                             ole_error *error) {
    ole_labels labels[2] = {0};
    int64_t *values = NULL;
    ole_status status = OLE_OK;
    for (int i = 0; status == OLE_OK && i < count / 2; i++) {
        const char *samples = paths[2 * i], *names = paths[2 * i + 1];
        int64_t first = source->count;
        status = ole_read_npy_samples(samples, names, source, error);
        if (status == OLE_OK)
            status = ole_labels_read(&labels[i], names, source->count - first, samples, error);
        if (i == 0) source->train_count = source->count;
    }
    if (status == OLE_OK && count > 2) status = ole_labels_unite(&labels[0], &labels[1], error);
    if (status == OLE_OK) status = make_classes(&labels[0], source, &values, error);
    for (int i = 0; status == OLE_OK && i < count / 2; i++)
        status = number_labels(&labels[i], values, paths[2 * i + 1], i ? source->train_count : 0,
                               source, error);
    for (int i = 0; i < 2; i++)
        ole_labels_free(&labels[i]);
    free(values);
    return status;
}

ole_status ole_probe_npy(const char *path, const char *apart, ole_probe *probe, ole_error *error) {
    (void)apart;
    char *text = strdup(path ? path : "");
    if (!text) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    const char *paths[4];
    ole_npy *array = NULL;
    layout l = {0};
    int count = cut_paths(text, paths);
    ole_status status = count ? OLE_OK : fail_paths(error);
    if (status == OLE_OK) status = ole_features_open(&array, paths[0], paths[1], error);
    if (status == OLE_OK)
        status = find_layout(ole_npy_get_header(array), ole_quote_string(paths[0]).text, &l, error);
    *probe = (ole_probe){.channels = l.channels,
                         .height = l.height,
                         .width = l.width,
                         .samples = l.count,
                         .has_test = count > 2};
    ole_npy_close(array);
    free(text);
    return status;
}

ole_status ole_read_npy(const char *path, const ole_dataset_options *options, ole_source *source,
                        ole_error *error) {
    char *text = strdup(path ? path : "");
    if (!text) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    const char *paths[4];
    int count = cut_paths(text, paths);
    ole_status status = count ? read_parts(paths, count, source, error) : fail_paths(error);
    source->has_test = count > 2;
    source->test_share = options->test_share;
    free(text);
    return status;
}
