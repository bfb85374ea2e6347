/*
 * src/formats/safetensors.c - reading and writing safetensors files.
 *
 * The header is read by jansson and written by src/formats/json.h.  The checksum (CRC-32 of all
 * elements, in hexadecimal) stands among the metadata under "checksum"; files of other writers have
 * none.
 */
#include "formats/safetensors.h"

#include "base/atomic_file.h"
#include "base/available_memory.h"
#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/read_file.h"
#include "formats/half.h"
#include "formats/json.h"
#include "formats/parse_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
    if (as != OLE_F32) return false;
    for (size_t i = 0; i < count; i++) {
        const char *at = (const char *)tensor->data + i * ole_dtype_size(tensor->dtype);
        double value;
        uint16_t bits;
        switch (tensor->dtype) {
        case OLE_F64:
            memcpy(&value, at, sizeof value);
            break;
        case OLE_F16:
        case OLE_BF16:
            memcpy(&bits, at, sizeof bits);
            value = tensor->dtype == OLE_F16 ? ole_half_to_double(bits)
                                             : (double)ole_bfloat_to_float(bits);
            break;
        default:
            return false;
        }
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
    ole_json_integers(w, "shape", tensor->shape, tensor->ndim);
    int64_t offsets[] = {*offset, *offset + (int64_t)tensor_bytes(tensor)};
    ole_json_integers(w, "data_offsets", offsets, 2);
    ole_json_close(w);
    *offset = offsets[1];
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
    ole_json w = ole_json_begin(memory.file, 0, '{');
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

/* ---- Reading: the header ------------------------------------------------------------------ */

/* A tensor, and where its elements begin behind the header. */
typedef struct entry {
    ole_tensor tensor;
    uint64_t begin;
} entry;

struct ole_safetensors {
    ole_quoted name; /* of the file, for messages */
    json_t *header;  /* owns all names and texts */
    size_t count;
    entry *entries;             /* [count], by rising offset */
    const ole_tensor **by_name; /* [count], sorted */
    size_t text_count;
    ole_metadata *texts; /* [text_count] */
    size_t data_size;
    char *data; /* [data_size] read once the header is known to be good */
};

#define DAMAGED "the file is damaged or not a safetensors file"

static ole_status out_of_memory(const ole_safetensors *file, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", file->name.text);
}

static ole_status parse_header(ole_safetensors *file, const char *bytes, size_t length,
                               ole_error *error) {
    json_error_t where;
    bool no_memory;
    file->header = ole_parse_json(bytes, length, JSON_REJECT_DUPLICATES, &where, &no_memory);
    if (no_memory) return out_of_memory(file, error);
    if (!file->header)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: header, byte %d: %s: " DAMAGED,
                        file->name.text, PREFIX + where.position,
                        ole_quote_string(where.text).text);
    if (!json_is_object(file->header))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: the header is not a JSON object: " DAMAGED,
                        file->name.text);
    return OLE_OK;
}

/* Reads `length` bytes; fewer are there where the file was cut after we asked for its size. */
static ole_status read_bytes(const ole_safetensors *file, FILE *from, char *bytes, size_t length,
                             ole_error *error) {
    if (fread(bytes, 1, length, from) == length) return OLE_OK;
    return ole_fail(error, OLE_ERROR_IO, "%s: cannot read: %s", file->name.text,
                    ferror(from) ? strerror(errno) : "another program is truncating it");
}

/* The start of PyTorch's own files: a zip archive, or a pickle of version 2 to 5. */
static bool is_of_torch(const char prefix[PREFIX]) {
    return memcmp(prefix, "PK\3\4", 4) == 0 ||
           ((unsigned char)prefix[0] == 0x80 && prefix[1] >= 2 && prefix[1] <= 5);
}

/* The header of a file of `size` bytes; the elements follow. */
static ole_status read_header(ole_safetensors *file, FILE *from, uint64_t size, ole_error *error) {
    char prefix[PREFIX];
    if (size < PREFIX)
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: truncated after %" PRIu64 " bytes: " DAMAGED,
                        file->name.text, size);
    ole_status status = read_bytes(file, from, prefix, PREFIX, error);
    if (status != OLE_OK) return status;
    uint64_t length = 0;
    for (size_t i = 0; i < PREFIX; i++)
        length |= (uint64_t)(unsigned char)prefix[i] << (8 * i);
    bool too_long = length > MAX_HEADER || length > size - PREFIX;
    if (too_long && is_of_torch(prefix))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: a PyTorch checkpoint; convert it to safetensors first: python3 -m "
                        "ole.convert IN.pth OUT.safetensors",
                        file->name.text);
    if (too_long)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: the header should have %" PRIu64
                        " bytes, but the whole file has %" PRIu64 ": " DAMAGED,
                        file->name.text, length, size);
    file->data_size = size - PREFIX - length;
    char *bytes = malloc((size_t)length + 1);
    if (!bytes) return out_of_memory(file, error);
    status = read_bytes(file, from, bytes, (size_t)length, error);
    if (status == OLE_OK) status = parse_header(file, bytes, (size_t)length, error);
    free(bytes);
    return status;
}

/* ---- Reading: the tensors ----------------------------------------------------------------- */

static ole_status fail_tensor(const ole_safetensors *file, const char *name, const char *what,
                              ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: tensor '%s': %s: " DAMAGED, file->name.text,
                    ole_quote_string(name).text, what);
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
        const json_t *side = json_array_get(array, (size_t)i);
        int64_t size = json_integer_value(side);
        if (!json_is_integer(side) || size < 0) return false;
        tensor->shape[i] = size;
        /* Zero dimensions are left out, so that every partial product of the shape is safe. */
        if (size > 0 && __builtin_mul_overflow(*bytes, (size_t)size, bytes)) return false;
        if (*bytes > (size_t)PTRDIFF_MAX) return false;
    }
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] == 0) *bytes = 0;
    return true;
}

static ole_status parse_tensor(const ole_safetensors *file, const char *name, const json_t *json,
                               entry *e, ole_error *error) {
    size_t bytes = 0;
    e->tensor = (ole_tensor){.name = name};
    const json_t *type = json_object_get(json, "dtype");
    if (!json_is_string(type)) return fail_tensor(file, name, "its dtype is missing", error);
    if (!find_type(type, &e->tensor.dtype))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: tensor '%s': its dtype '%s' is unknown; convert it to F32",
                        file->name.text, ole_quote_string(name).text,
                        ole_quote_string(json_string_value(type)).text);
    if (!parse_shape(json_object_get(json, "shape"), &e->tensor, &bytes))
        return fail_tensor(file, name, "its shape is missing, wrong or too large", error);
    const json_t *offsets = json_object_get(json, "data_offsets");
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail_tensor(file, name, "its data_offsets are missing or wrong", error);
    int64_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > file->data_size)
        return fail_tensor(file, name, "its elements lie outside the file, which may be truncated",
                           error);
    if ((uint64_t)(to - from) != bytes)
        return fail_tensor(file, name, "its shape and data_offsets do not match", error);
    e->begin = (uint64_t)from;
    return OLE_OK;
}

/* By offset; an empty tensor goes before the one that starts at the same place. */
static int compare_offsets(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return (x->begin > y->begin) - (x->begin < y->begin);
    size_t m = tensor_bytes(&x->tensor), n = tensor_bytes(&y->tensor);
    return (m > n) - (m < n);
}

static int compare_names(const void *a, const void *b) {
    const ole_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The elements follow each other without gap or overlap and fill the file. */
static ole_status check_layout(const ole_safetensors *file, ole_error *error) {
    uint64_t next = 0;
    for (size_t i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != next)
            return fail_tensor(file, e->tensor.name,
                               "its elements do not follow those of the tensor before it", error);
        next += tensor_bytes(&e->tensor);
    }
    if (next != file->data_size)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: %zu bytes at the end belong to no tensor: " DAMAGED, file->name.text,
                        file->data_size - (size_t)next);
    return OLE_OK;
}

static ole_status parse_tensors(ole_safetensors *file, ole_error *error) {
    const char *name;
    json_t *json;
    size_t most = json_object_size(file->header);
    file->entries = calloc(most + 1, sizeof *file->entries);
    file->by_name = calloc(most + 1, sizeof *file->by_name);
    if (!file->entries || !file->by_name) return out_of_memory(file, error);
    json_object_foreach(file->header, name, json) {
        if (strcmp(name, "__metadata__") == 0) continue;
        ole_status status = parse_tensor(file, name, json, &file->entries[file->count], error);
        if (status != OLE_OK) return status;
        file->count++;
    }
    qsort(file->entries, file->count, sizeof *file->entries, compare_offsets);
    for (size_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->entries[i].tensor;
    qsort(file->by_name, file->count, sizeof *file->by_name, compare_names);
    return check_layout(file, error);
}

/* ---- Reading: the rest -------------------------------------------------------------------- */

static ole_status parse_metadata(ole_safetensors *file, ole_error *error) {
    json_t *metadata = json_object_get(file->header, "__metadata__"), *value;
    const char *key;
    if (metadata && !json_is_object(metadata))
        return ole_fail(error, OLE_ERROR_FORMAT, "%s: __metadata__ is not an object: " DAMAGED,
                        file->name.text);
    file->texts = calloc(json_object_size(metadata) + 1, sizeof *file->texts);
    if (!file->texts) return out_of_memory(file, error);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return ole_fail(error, OLE_ERROR_FORMAT, "%s: metadata '%s' is not a string: " DAMAGED,
                            file->name.text, ole_quote_string(key).text);
        file->texts[file->text_count++] = (ole_metadata){key, json_string_value(value)};
    }
    return OLE_OK;
}

static ole_status read_elements(ole_safetensors *file, FILE *from, ole_error *error) {
    ole_status status =
        ole_memory_check(file->data_size, file->name.text, "free some memory", error);
    if (status != OLE_OK) return status;
    file->data = malloc(file->data_size + 1);
    if (!file->data) return out_of_memory(file, error);
    status = read_bytes(file, from, file->data, file->data_size, error);
    for (size_t i = 0; i < file->count; i++)
        file->entries[i].tensor.data = file->data + file->entries[i].begin;
    return status;
}

static ole_status check_elements(const ole_safetensors *file, ole_error *error) {
    const char *checksum = ole_safetensors_metadata(file, "checksum");
    if (!checksum) return OLE_OK;
    /* The tensors fill the data in their order, so this is the sum of the writer's. */
    char expected[16];
    uLong sum = crc32_z(crc32_z(0, NULL, 0), (const Bytef *)file->data, file->data_size);
    snprintf(expected, sizeof expected, "%08" PRIx32, (uint32_t)sum);
    if (strcmp(checksum, expected) == 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: wrong checksum: the elements are damaged; copy the file again",
                    file->name.text);
}

/* Cheap checks first: the elements are read when all else is known to be good. */
static ole_status read_file(ole_safetensors *file, FILE *from, ole_error *error) {
    struct stat about;
    if (fstat(fileno(from), &about) != 0)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot read: %s", file->name.text,
                        strerror(errno));
    ole_status status = read_header(file, from, (uint64_t)about.st_size, error);
    if (status == OLE_OK) status = parse_tensors(file, error);
    if (status == OLE_OK) status = parse_metadata(file, error);
    if (status == OLE_OK) status = read_elements(file, from, error);
    return status == OLE_OK ? check_elements(file, error) : status;
}

ole_status ole_safetensors_open(ole_safetensors **result, const char *path, ole_error *error) {
    *result = NULL;
    ole_safetensors *file = calloc(1, sizeof *file);
    if (!file) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    file->name = ole_quote_string(path);
    FILE *from = ole_fopen_regular(path);
    ole_status status = OLE_OK;
    if (from)
        status = read_file(file, from, error);
    else
        status = ole_fail(error, errno == ENOMEM ? OLE_ERROR_MEMORY : OLE_ERROR_IO,
                          "%s: cannot read: %s", file->name.text, ole_open_reason(errno));
    if (from) fclose(from);
    if (status == OLE_OK)
        *result = file;
    else
        ole_safetensors_close(file);
    return status;
}

void ole_safetensors_close(ole_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    free(file->entries);
    free(file->by_name);
    free(file->texts);
    free(file->data);
    free(file);
}

size_t ole_safetensors_count(const ole_safetensors *file) {
    return file->count;
}

const ole_tensor *ole_safetensors_get(const ole_safetensors *file, size_t i) {
    return i < file->count ? &file->entries[i].tensor : NULL;
}

const ole_tensor *ole_safetensors_find(const ole_safetensors *file, const char *name) {
    const ole_tensor wanted = {.name = name}, *key = &wanted;
    const ole_tensor **found =
        bsearch(&key, file->by_name, file->count, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

size_t ole_safetensors_index(const ole_safetensors *file, const ole_tensor *tensor) {
    return (size_t)((const entry *)(const void *)tensor - file->entries); /* its first member */
}

const char *ole_safetensors_metadata(const ole_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, "__metadata__"), key));
}

size_t ole_safetensors_texts(const ole_safetensors *file) {
    return file->text_count;
}

ole_metadata ole_safetensors_text(const ole_safetensors *file, size_t i) {
    return i < file->text_count ? file->texts[i] : (ole_metadata){0};
}
