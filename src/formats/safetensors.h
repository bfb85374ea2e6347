/*
 * src/formats/safetensors.h - named tensors in one file, in the safetensors format: eight bytes
 * with the length of a JSON header, the header, then the elements of all tensors without gaps.
 *
 *     ole_tensor w = {.name = "1.weight", .dtype = OLE_F32, .ndim = 2, .shape = {3, 4}, .data = x};
 *     ole_safetensors_write("w.safetensors", &w, 1, NULL, 0, error);
 *
 * Written atomically, with a checksum of the elements among the metadata.  A malformed file is an
 * error that names the place; so is a wrong checksum.
 */
#ifndef OLE_SRC_FORMATS_SAFETENSORS_H
#define OLE_SRC_FORMATS_SAFETENSORS_H

#include "ole/base.h"

#include <stdbool.h>

enum { OLE_TENSOR_MAX_DIMS = 8 };

typedef struct ole_tensor {
    const char *name;
    ole_dtype dtype;
    int ndim;
    int64_t shape[OLE_TENSOR_MAX_DIMS];
    const void *data; /* of a tensor that was read: not aligned, use ole_tensor_read() */
} ole_tensor;

/* A text stored with the tensors (under "__metadata__"). */
typedef struct ole_metadata {
    const char *key;
    const char *value; /* UTF-8 */
} ole_metadata;

/* Elements: the product of the shape. */
int64_t ole_tensor_count(const ole_tensor *tensor);

/*
 * Copies the elements as OLE_F32 (from any float type), OLE_F64 or OLE_I64 (from the same type).
 * False for any other type.
 */
bool ole_tensor_read(const ole_tensor *tensor, ole_dtype as, void *out);

ole_status ole_safetensors_write(const char *path, const ole_tensor *tensors, size_t count,
                                 const ole_metadata *metadata, size_t metadata_count,
                                 ole_error *error);

typedef struct ole_safetensors ole_safetensors;

/*
 * Checks the header, then reads the elements into memory and checks those.  On success *file is the
 * handle, else NULL.  Time and memory are in proportion to the file's size.
 */
ole_status ole_safetensors_open(ole_safetensors **file, const char *path, ole_error *error);
void ole_safetensors_close(ole_safetensors *file);

/* The tensors in the order of their elements, and one by name (NULL if there is none). */
size_t ole_safetensors_count(const ole_safetensors *file);
const ole_tensor *ole_safetensors_get(const ole_safetensors *file, size_t i);
const ole_tensor *ole_safetensors_find(const ole_safetensors *file, const char *name);

/* The index for ole_safetensors_get() of a tensor that ole_safetensors_find() returned. */
size_t ole_safetensors_index(const ole_safetensors *file, const ole_tensor *tensor);

/* A text of the metadata, or NULL. Valid until close. */
const char *ole_safetensors_metadata(const ole_safetensors *file, const char *key);

/* The number of texts, and the i-th (key NULL if out of range). Valid until close. */
size_t ole_safetensors_texts(const ole_safetensors *file);
ole_metadata ole_safetensors_text(const ole_safetensors *file, size_t i);

#endif
