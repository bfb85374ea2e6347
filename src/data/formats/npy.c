/*
 * src/data/formats/npy.c - data sets from NumPy arrays: "X.npy,y.npy" or
 * "X.npy,y.npy,Xt.npy,yt.npy".
 *
 * X is [N, D] vectors, [N, H, W] grey images, [N, C, H, W] or [N, H, W, C] images; bytes stay
 * bytes, floating-point numbers become float32.  y is N integers from 0 up; the classes are the
 * numbers that occur in it, in ascending order.
 */
#include "ole/npy.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/find.h"

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
                            "%s: dimension %d is %" PRId64 ": at most %d are taken", name, i,
                            h->shape[i], MAX_DIM);
    for (int i = 0; i < h->ndim; i++)
        if (h->shape[i] < 1)
            return ole_fail(error, OLE_ERROR_FORMAT,
                            "%s: dimension %d is %" PRId64 ": there are no samples", name, i,
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
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %dx%dx%d %s, but those to train on are %dx%dx%d %s", name, l->channels,
                        l->height, l->width, bytes ? "bytes" : "floats", source->channels,
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
                            "%s: row %" PRId64 " holds NaN or Inf: look at what produced it", name,
                            i / one);
    return OLE_OK;
}

/* Bytes in C order, whatever order they are stored in. */
static ole_status read_bytes(const ole_npy *array, uint8_t *out, ole_error *error) {
    const ole_npy_header *h = ole_npy_get_header(array);
    const void *data = ole_npy_data(array);
    if (data) {
        memcpy(out, data, (size_t)h->count);
        return OLE_OK;
    }
    float *wide = malloc((size_t)h->count * sizeof *wide);
    if (!wide) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an array of bytes");
    ole_status status = ole_npy_read(array, OLE_F32, wide, error);
    for (int64_t i = 0; status == OLE_OK && i < h->count; i++)
        out[i] = (uint8_t)wide[i];
    free(wide);
    return status;
}

ole_status ole_read_npy_samples(const char *path, ole_source *source, ole_error *error) {
    ole_quoted quoted;
    const char *name = ole_quote_string(&quoted, path);
    ole_npy *array;
    ole_status status = ole_npy_open(&array, path, error);
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
        status = source->floating ? ole_npy_read(array, OLE_F32, samples, error)
                                  : read_bytes(array, samples, error);
    }
    if (status == OLE_OK && source->floating)
        status = check_finite((const float *)samples, &l, name, error);
    if (status == OLE_OK && l.channels_last) status = move_channels(samples, &l, size, error);
    ole_npy_close(array);
    return status;
}

/* ---- Labels ------------------------------------------------------------------------------- */

typedef struct label_list {
    int64_t *values;
    int64_t count;
} label_list;

static ole_status check_labels(const label_list *list, int64_t expected, const char *name,
                               ole_error *error) {
    if (list->count != expected)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %" PRId64 " labels, but there are %" PRId64 " samples", name,
                        list->count, expected);
    for (int64_t i = 0; i < list->count; i++)
        if (list->values[i] < 0)
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: label %" PRId64 " is %" PRId64 ": labels are 0 or more", name, i,
                            list->values[i]);
    return OLE_OK;
}

static ole_status read_labels(const char *path, int64_t expected, label_list *list,
                              ole_error *error) {
    ole_quoted quoted;
    const char *name = ole_quote_string(&quoted, path);
    ole_npy *array;
    ole_status status = ole_npy_open(&array, path, error);
    if (status != OLE_OK) return status;
    const ole_npy_header *h = ole_npy_get_header(array);
    if (h->ndim != 1 && !(h->ndim == 2 && h->shape[1] == 1))
        status = ole_fail(error, OLE_ERROR_FORMAT,
                          "%s: labels must be (N,) or (N, 1): one integer a sample", name);
    list->count = h->count;
    list->values = malloc((size_t)(h->count + 1) * sizeof *list->values);
    if (status == OLE_OK && !list->values)
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    if (status == OLE_OK) status = ole_npy_read(array, OLE_I64, list->values, error);
    if (status == OLE_OK) status = check_labels(list, expected, name, error);
    ole_npy_close(array);
    return status;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The distinct values of the list, ascending, as the source's classes; *values is their table. */
static ole_status make_classes(const label_list *list, ole_source *source, int64_t **values,
                               ole_error *error) {
    int64_t *sorted = malloc((size_t)list->count * sizeof *sorted);
    if (!sorted) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the labels");
    *values = sorted;
    memcpy(sorted, list->values, (size_t)list->count * sizeof *sorted);
    qsort(sorted, (size_t)list->count, sizeof *sorted, compare);
    int64_t distinct = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (i == 0 || sorted[i] != sorted[i - 1]) sorted[distinct++] = sorted[i];
    if (distinct > MAX_CLASSES)
        return ole_fail(error, OLE_ERROR_DATA, "%" PRId64 " different labels: at most %d classes",
                        distinct, MAX_CLASSES);
    ole_status status = ole_source_set_classes(source, (int)distinct, error);
    for (int64_t i = 0; status == OLE_OK && i < distinct; i++) {
        char name[24];
        snprintf(name, sizeof name, "%" PRId64, sorted[i]);
        status = ole_source_name_class(source, (int)i, name, error);
    }
    return status;
}

/* Class numbers of the list's labels into the source, from sample `first` on. */
static ole_status number_labels(const label_list *list, const int64_t *values, const char *path,
                                int64_t first, ole_source *source, ole_error *error) {
    for (int64_t i = 0; i < list->count; i++) {
        const int64_t *found =
            bsearch(&list->values[i], values, (size_t)source->classes, sizeof *values, compare);
        if (!found) {
            ole_quoted quoted;
            return ole_fail(error, OLE_ERROR_DATA,
                            "%s: label %" PRId64 " is %" PRId64 ", a class without training "
                            "samples",
                            ole_quote_string(&quoted, path), i, list->values[i]);
        }
        source->labels[first + i] = (int32_t)(found - values);
    }
    return OLE_OK;
}

/* ---- Both --------------------------------------------------------------------------------- */

/* Cuts "a,b" or "a,b,c,d" into its names; returns how many there are, 0 when that is wrong. */
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
                    "npy: give two or four files, as in npy:X.npy,y.npy or "
                    "npy:X.npy,y.npy,Xtest.npy,ytest.npy");
}

static ole_status read_parts(const char *const *paths, int count, ole_source *source,
                             ole_error *error) {
    int64_t *values = NULL;
    ole_status status = OLE_OK;
    for (int i = 0; status == OLE_OK && i < count; i += 2) {
        label_list list = {0};
        int64_t first = source->count;
        status = ole_read_npy_samples(paths[i], source, error);
        if (status == OLE_OK)
            status = read_labels(paths[i + 1], source->count - first, &list, error);
        if (status == OLE_OK && i == 0) {
            source->train_count = source->count;
            status = make_classes(&list, source, &values, error);
        }
        if (status == OLE_OK)
            status = number_labels(&list, values, paths[i + 1], first, source, error);
        free(list.values);
    }
    free(values);
    return status;
}

ole_status ole_probe_npy(const char *path, const char *apart, ole_probe *probe, ole_error *error) {
    (void)apart;
    char *text = strdup(path ? path : "");
    if (!text) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    const char *paths[4];
    ole_quoted quoted;
    ole_npy *array = NULL;
    layout l = {0};
    int count = cut_paths(text, paths);
    ole_status status = count ? OLE_OK : fail_paths(error);
    if (status == OLE_OK) status = ole_npy_open(&array, paths[0], error);
    if (status == OLE_OK)
        status =
            find_layout(ole_npy_get_header(array), ole_quote_string(&quoted, paths[0]), &l, error);
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
