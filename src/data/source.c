/* src/data/source.c - the memory of a data set: grown by its reader, freed in one place. */
#include "data/source.h"

#include "base/error.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static ole_status out_of_memory(ole_error *error, const char *what, double bytes) {
    return ole_fail(error, OLE_ERROR_MEMORY,
                    "out of memory: the %s of the data set need %.0f MB; use fewer or smaller ones",
                    what, bytes / 1e6);
}

int64_t ole_source_sample_size(const ole_source *source) {
    return (int64_t)source->channels * source->height * source->width;
}

void ole_source_as_floats(const ole_source *source, int64_t first, int64_t count, float *out) {
    size_t size = (size_t)ole_source_sample_size(source);
    size_t start = (size_t)first * size, total = (size_t)count * size;
    if (source->floating)
        memcpy(out, source->floats + start, total * sizeof *out);
    else
        for (size_t k = 0; k < total; k++)
            out[k] = (float)source->bytes[start + k] / 255.0f;
}

ole_status ole_source_grow(ole_source *source, int64_t more, ole_error *error) {
    size_t item = source->floating ? sizeof(float) : 1;
    int64_t total;
    size_t bytes;
    if (__builtin_add_overflow(source->count, more, &total) ||
        __builtin_mul_overflow((size_t)total, (size_t)ole_source_sample_size(source), &bytes) ||
        __builtin_mul_overflow(bytes, item, &bytes))
        return out_of_memory(error, "samples", 1e300);
    void *samples =
        realloc(source->floating ? (void *)source->floats : source->bytes, bytes ? bytes : 1);
    if (!samples) return out_of_memory(error, "samples", (double)bytes);
    if (source->floating)
        source->floats = samples;
    else
        source->bytes = samples;
    int32_t *labels = realloc(source->labels, (size_t)(total ? total : 1) * sizeof *labels);
    if (!labels) return out_of_memory(error, "labels", (double)total * sizeof *labels);
    source->labels = labels;
    source->count = total;
    return OLE_OK;
}

void ole_transpose_planes(const uint8_t *columns, int side, uint8_t *rows) {
    for (int c = 0; c < 3; c++, columns += side * side)
        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                *rows++ = columns[x * side + y];
}

ole_status ole_source_set_classes(ole_source *source, int classes, ole_error *error) {
    source->class_names = calloc((size_t)classes, sizeof *source->class_names);
    if (!source->class_names)
        return out_of_memory(error, "classes", (double)classes * sizeof *source->class_names);
    source->classes = classes;
    return OLE_OK;
}

/* Of names in UTF-8; others have the replacement character for each byte that is none, as a model's
 * file and JSON will show them. */
ole_status ole_source_name_class(ole_source *source, int index, const char *name,
                                 ole_error *error) {
    char *to = malloc(strlen(name) * strlen(OLE_UTF8_REPLACEMENT) + 1);
    if (!to) return out_of_memory(error, "classes", 0);
    source->class_names[index] = to;
    while (*name) {
        size_t length = ole_utf8_sequence(name), size = length ? length : 3;
        memcpy(to, length ? name : OLE_UTF8_REPLACEMENT, size);
        name += length ? length : 1;
        to += size;
    }
    *to = '\0';
    return OLE_OK;
}

ole_status ole_source_name_all(ole_source *source, int classes, const char *const *names,
                               ole_error *error) {
    ole_status status = ole_source_set_classes(source, classes, error);
    for (int i = 0; status == OLE_OK && i < classes; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        status = ole_source_name_class(source, i, names ? names[i] : number, error);
    }
    return status;
}

void ole_source_free(ole_source *source) {
    for (int i = 0; i < source->classes; i++)
        free(source->class_names[i]);
    free(source->class_names);
    if (source->map) {
        munmap(source->map, source->map_bytes);
    } else {
        free(source->bytes);
        free(source->floats);
    }
    free(source->labels);
    for (int64_t i = 0; i < source->file_count; i++)
        free(source->files[i]);
    free(source->files);
    *source = (ole_source){0};
}
