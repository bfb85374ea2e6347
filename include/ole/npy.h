/*
 * ole/npy.h - NumPy's .npy files, versions 1 to 3: memory-mapped for reading, written atomically.
 *
 * Example: read an array as float32 in C order, converted where needed.
 *
 *     ole_npy *array;
 *     ole_error error;
 *     if (ole_npy_open(&array, "F.npy", &error) != OLE_OK) return puts(error.message), 1;
 *     const ole_npy_header *h = ole_npy_get_header(array);
 *     float *x = malloc(sizeof(float) * (size_t)h->count);
 *     if (x) ole_npy_read(array, OLE_F32, x, &error);
 *     ole_npy_close(array);
 *
 * Reads f2, f4, f8, i1 to i8 and u1 to u8, in either byte order and in C or Fortran order.
 * Structured, object, complex, bool and string arrays are OLE_ERROR_FORMAT; so is a file that is
 * shorter or longer than its header states.
 */
#ifndef OLE_NPY_H
#define OLE_NPY_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OLE_NPY_MAX_DIMS 8

typedef struct ole_npy ole_npy;

typedef struct ole_npy_header {
    ole_dtype dtype;
    int ndim; /* 0 to OLE_NPY_MAX_DIMS */
    int64_t shape[OLE_NPY_MAX_DIMS];
    int64_t count;      /* elements: the product of the shape, 1 for ndim = 0 */
    bool fortran_order; /* as stored */
    bool swapped;       /* stored in the other byte order */
} ole_npy_header;

/* Maps the file and checks its header. On success *array is the handle, else NULL. */
OLE_API ole_status ole_npy_open(ole_npy **array, const char *path, ole_error *error);

/* Unmaps. NULL is allowed. */
OLE_API void ole_npy_close(ole_npy *array);

OLE_API const ole_npy_header *ole_npy_get_header(const ole_npy *array);

/*
 * Copies all elements in C order into `out` as OLE_F32, OLE_F64 or OLE_I64, bytes also as OLE_U8.
 * Floating-point to OLE_I64 is OLE_ERROR_FORMAT; so is a u8 value over INT64_MAX, which the message
 * names.
 */
OLE_API ole_status ole_npy_read(const ole_npy *array, ole_dtype as, void *out, ole_error *error);

/*
 * The elements in place, valid until close, if they are usable as stored: native byte order, C
 * order (or at most one dimension), aligned for their type.  Otherwise NULL: use ole_npy_read().
 */
OLE_API const void *ole_npy_data(const ole_npy *array);

/*
 * Writes a version 1.0 file in C order and native byte order: to a temporary file next to `path`,
 * synced, then renamed, so `path` holds either the old content or the new.  All types but OLE_BF16.
 */
OLE_API ole_status ole_npy_write(const char *path, ole_dtype dtype, int ndim, const int64_t *shape,
                                 const void *data, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
