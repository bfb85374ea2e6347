/*
 * src/base/safetensors.c - reading and writing safetensors files.
 *
 * The header is read by jansson and written by ole/json.h.  The checksum (CRC-32 of all elements,
 * in hexadecimal) stands among the metadata under "checksum"; files of other writers have none.
 */
#include "base/safetensors.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/memory_file.h"
#include "base/read_file.h"
#include "base/show.h"
#include "ole/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <zlib.h>

enum { PREFIX = 8, MAX_HEADER = 100 * 1000 * 1000 }; /* the limit of the format's own library */

static const struct {
    const char *name;
    ole_dtype dtype;
} types[] = {
    {"F16", OLE_F16}, {"BF16", OLE_BF16}, {"F32", OLE_F32}, {"F64", OLE_F64}, {"I8", OLE_I8},
    {"I16", OLE_I16}, {"I32", OLE_I32},   {"I64", OLE_I64}, {"U8", OLE_U8},   {"U16", OLE_U16},
    {"U32", OLE_U32}, {"U64", OLE_U64},   {"BOOL", OLE_U8},
};
enum { TYPES = sizeof types / sizeof *types };

int64_t ole_tensor_count(const ole_tensor *tensor) {
    int64_t count = 1;
    for (int i = 0; i < tensor->ndim; i++)
        count *= tensor->shape[i];
    return count;
}

static size_t tensor_bytes(const ole_tensor *tensor) {
    return (size_t)ole_tensor_count(tensor) * ole_dtype_size(tensor->dtype);
}

bool ole_tensor_read(const ole_tensor *tensor, ole_dtype as, void *out) {
    size_t count = (size_t)ole_tensor_count(tensor);
    if (tensor->dtype == as) {
        if (count > 0) memcpy(out, tensor->data, count * ole_dtype_size(as));
        return true;
    }
    if (tensor->dtype != OLE_F64 || as != OLE_F32) return false;
    for (size_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, (const char *)tensor->data + i * sizeof value, sizeof value);
        ((float *)out)[i] = (float)value;
    }
    return true;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static uint32_t checksum_of(const ole_tensor *tensors, size_t count) {
    uLong sum = crc32_z(0, NULL, 0);
    for (size_t i = 0; i < count; i++)
        if (tensors[i].data) sum = crc32_z(sum, tensors[i].data, tensor_bytes(&tensors[i]));
    return (uint32_t)sum;
}

static const char *type_name(ole_dtype dtype) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return "unknown";
}

static void write_entry(ole_json *w, const ole_tensor *tensor, int64_t *offset) {
    ole_json_open(w, tensor->name, '{');
    ole_json_string(w, "dtype", type_name(tensor->dtype));
    ole_json_open(w, "shape", '[');
    for (int i = 0; i < tensor->ndim; i++)
        ole_json_integer(w, NULL, tensor->shape[i]);
    ole_json_close(w);
    ole_json_open(w, "data_offsets", '[');
    ole_json_integer(w, NULL, *offset);
    *offset += (int64_t)tensor_bytes(tensor);
    ole_json_integer(w, NULL, *offset);
    ole_json_close(w);
    ole_json_close(w);
}

/* The prefix and the header, padded with spaces to whole eight bytes; NULL without memory. */
static char *make_header(const ole_tensor *tensors, size_t count, const ole_metadata *metadata,
                         size_t metadata_count, size_t *size) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    fwrite("\0\0\0\0\0\0\0", 1, PREFIX, memory.file);
    char checksum[16];
    snprintf(checksum, sizeof checksum, "%08" PRIx32, checksum_of(tensors, count));
    int64_t offset = 0;
    ole_json w;
    ole_json_init(&w, memory.file, 0);
    ole_json_open(&w, NULL, '{');
    ole_json_open(&w, "__metadata__", '{');
    ole_json_string(&w, "checksum", checksum);
    for (size_t i = 0; i < metadata_count; i++)
        ole_json_string(&w, metadata[i].key, metadata[i].value);
    ole_json_close(&w);
    for (size_t i = 0; i < count; i++)
        write_entry(&w, &tensors[i], &offset);
    ole_json_close(&w);
    memory.failed |= !ole_json_good(&w); /* which flushes */
    for (size_t at = memory.size; at % PREFIX != 0; at++)
        fputc(' ', memory.file);
    char *text = ole_memory_file_close(&memory);
    *size = memory.size;
    for (size_t i = 0; text && i < PREFIX; i++)
        text[i] = (char)(unsigned char)((uint64_t)(*size - PREFIX) >> (8 * i));
    return text;
}

ole_status ole_safetensors_write(const char *path, const ole_tensor *tensors, size_t count,
                                 const ole_metadata *metadata, size_t metadata_count,
                                 ole_error *error) {
    size_t size = 0;
    char *header = make_header(tensors, count, metadata, metadata_count, &size);
    if (!header) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a header");
    ole_atomic_file file;
    ole_status status = ole_atomic_file_begin(&file, path, error);
    if (status == OLE_OK) status = ole_atomic_file_write(&file, header, size, error);
    for (size_t i = 0; i < count && status == OLE_OK; i++)
        status = ole_atomic_file_write(&file, tensors[i].data, tensor_bytes(&tensors[i]), error);
    if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
    ole_atomic_file_abort(&file);
    free(header);
    return status;
}

/* ---- Reading: the file -------------------------------------------------------------------- */

struct ole_safetensors {
    ole_shown name; /* of the file, for messages */
    char *bytes;
    size_t size;
    json_t *header;
    const char *data;
    size_t data_size;
    size_t count;
    ole_tensor *tensors; /* [count], by rising offset */
};

#define DAMAGED "the file is damaged or not a safetensors file"

static ole_status parse_json(ole_safetensors *file, ole_error *error) {
    if (file->size < PREFIX)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: cut off after %zu bytes: " DAMAGED,
                        file->name.text, file->size);
    uint64_t length = 0;
    for (size_t i = 0; i < PREFIX; i++)
        length |= (uint64_t)(unsigned char)file->bytes[i] << (8 * i);
    if (length > MAX_HEADER || length > file->size - PREFIX)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the header is said to have %" PRIu64
                        " bytes, the file has %zu in all: " DAMAGED,
                        file->name.text, length, file->size);
    json_error_t where;
    file->header = json_loadb(file->bytes + PREFIX, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (!file->header) {
        ole_shown shown;
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: header, byte %d: %s: " DAMAGED,
                        file->name.text, PREFIX + where.position,
                        ole_show_string(&shown, where.text));
    }
    if (!json_is_object(file->header))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: the header is no JSON object: " DAMAGED,
                        file->name.text);
    file->data = file->bytes + PREFIX + length;
    file->data_size = file->size - PREFIX - (size_t)length;
    return OLE_OK;
}

/* ---- Reading: the tensors ----------------------------------------------------------------- */

static ole_status fail_tensor(const ole_safetensors *file, const char *name, const char *what,
                              ole_error *error) {
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: tensor '%s': %s: " DAMAGED, file->name.text,
                    ole_show_string(&shown, name), what);
}

static bool find_type(const json_t *text, ole_dtype *dtype) {
    const char *name = json_string_value(text);
    for (size_t i = 0; name && i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *dtype = types[i].dtype;
            return true;
        }
    return false;
}

/* The shape, and the bytes that so many elements take; false when it is none or overflows. */
static bool parse_shape(const json_t *array, ole_tensor *tensor, size_t *bytes) {
    if (!json_is_array(array) || json_array_size(array) > OLE_TENSOR_MAX_DIMS) return false;
    tensor->ndim = (int)json_array_size(array);
    *bytes = ole_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->ndim; i++) {
        const json_t *entry = json_array_get(array, (size_t)i);
        int64_t size = json_integer_value(entry);
        if (!json_is_integer(entry) || size < 0) return false;
        tensor->shape[i] = size;
        /* Zero dimensions are left out, so that every partial product of the shape is safe. */
        if (size > 0 && __builtin_mul_overflow(*bytes, (size_t)size, bytes)) return false;
        if (*bytes > (size_t)PTRDIFF_MAX) return false;
    }
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] == 0) *bytes = 0;
    return true;
}

static ole_status parse_tensor(ole_safetensors *file, const char *name, const json_t *entry,
                               ole_tensor *tensor, ole_error *error) {
    size_t bytes = 0;
    *tensor = (ole_tensor){.name = name};
    if (!find_type(json_object_get(entry, "dtype"), &tensor->dtype))
        return fail_tensor(file, name, "its dtype is missing or not known", error);
    if (!parse_shape(json_object_get(entry, "shape"), tensor, &bytes))
        return fail_tensor(file, name, "its shape is missing, wrong or too large", error);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail_tensor(file, name, "its data_offsets are missing or wrong", error);
    int64_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > file->data_size)
        return fail_tensor(file, name, "its elements lie outside the file (is it cut off?)", error);
    if ((uint64_t)(to - from) != bytes)
        return fail_tensor(file, name, "its shape and its data_offsets do not fit", error);
    tensor->data = file->data + from;
    return OLE_OK;
}

/* By offset; an empty tensor goes before the one that starts at the same place. */
static int compare_offsets(const void *a, const void *b) {
    const ole_tensor *x = a, *y = b;
    const char *p = x->data, *q = y->data;
    if (p != q) return (p > q) - (p < q);
    size_t m = tensor_bytes(x), n = tensor_bytes(y);
    return (m > n) - (m < n);
}

/* The elements follow each other without gap or overlap and fill the file. */
static ole_status check_layout(const ole_safetensors *file, ole_error *error) {
    const char *next = file->data;
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].data != next)
            return fail_tensor(file, file->tensors[i].name,
                               "its elements do not follow those of the tensor before it", error);
        next += tensor_bytes(&file->tensors[i]);
    }
    if (next != file->data + file->data_size)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %zu bytes at the end belong to no tensor: " DAMAGED, file->name.text,
                        (size_t)(file->data + file->data_size - next));
    return OLE_OK;
}

static ole_status check_metadata(const ole_safetensors *file, ole_error *error) {
    json_t *metadata = json_object_get(file->header, "__metadata__"), *value;
    const char *key;
    if (metadata && !json_is_object(metadata))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: __metadata__ is no object: " DAMAGED,
                        file->name.text);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) {
        ole_shown shown;
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: metadata '%s' is no string: " DAMAGED,
                        file->name.text, ole_show_string(&shown, key));
    }
    const char *checksum = ole_safetensors_metadata(file, "checksum");
    if (!checksum) return OLE_OK;
    char expected[16];
    snprintf(expected, sizeof expected, "%08" PRIx32, checksum_of(file->tensors, file->count));
    if (strcmp(checksum, expected) == 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the checksum does not fit: the elements are damaged, copy the file again",
                    file->name.text);
}

static ole_status parse_tensors(ole_safetensors *file, ole_error *error) {
    const char *name;
    json_t *entry;
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors)
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", file->name.text);
    json_object_foreach(file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) continue;
        ole_status status = parse_tensor(file, name, entry, &file->tensors[file->count], error);
        if (status != OLE_OK) return status;
        file->count++;
    }
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_offsets);
    ole_status status = check_layout(file, error);
    return status == OLE_OK ? check_metadata(file, error) : status;
}

ole_status ole_safetensors_open(ole_safetensors **result, const char *path, ole_error *error) {
    *result = NULL;
    ole_safetensors *file = calloc(1, sizeof *file);
    if (!file) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_show_string(&file->name, path);
    ole_status status = ole_read_file(path, PTRDIFF_MAX - 1, &file->bytes, &file->size, error);
    if (status == OLE_OK) status = parse_json(file, error);
    if (status == OLE_OK) status = parse_tensors(file, error);
    if (status == OLE_OK)
        *result = file;
    else
        ole_safetensors_close(file);
    return status;
}

void ole_safetensors_close(ole_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    free(file->tensors);
    free(file->bytes);
    free(file);
}

size_t ole_safetensors_count(const ole_safetensors *file) {
    return file->count;
}

const ole_tensor *ole_safetensors_get(const ole_safetensors *file, size_t i) {
    return i < file->count ? &file->tensors[i] : NULL;
}

const ole_tensor *ole_safetensors_find(const ole_safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

static json_t *metadata_of(const ole_safetensors *file) {
    return json_object_get(file->header, "__metadata__");
}

const char *ole_safetensors_metadata(const ole_safetensors *file, const char *key) {
    return json_string_value(json_object_get(metadata_of(file), key));
}

size_t ole_safetensors_texts(const ole_safetensors *file) {
    return json_object_size(metadata_of(file));
}

ole_metadata ole_safetensors_text(const ole_safetensors *file, size_t i) {
    void *at = json_object_iter(metadata_of(file));
    while (at && i-- > 0)
        at = json_object_iter_next(metadata_of(file), at);
    if (!at) return (ole_metadata){0};
    return (ole_metadata){json_object_iter_key(at), json_string_value(json_object_iter_value(at))};
}
