/* src/formats/npy_header.h - parses and formats the header of a .npy file. */
#ifndef OLE_SRC_FORMATS_NPY_HEADER_H
#define OLE_SRC_FORMATS_NPY_HEADER_H

#include "ole/npy.h"

/*
 * Parses the start of a file of `size` bytes and checks that the elements fill the rest exactly.
 * `name` is the file's name for messages.  On success *offset is where the elements begin.
 */
ole_status ole_npy_parse(const unsigned char *bytes, size_t size, const char *name,
                         ole_npy_header *header, size_t *offset, ole_error *error);

/*
 * Multiplies the shape into *count.  False when a dimension is negative or count * item overflows
 * int64 (ignoring zero dimensions, so that every partial product is safe too).
 */
bool ole_npy_count(int ndim, const int64_t *shape, size_t item, int64_t *count);

enum { OLE_NPY_HEADER_ROOM = 512 }; /* enough for OLE_NPY_MAX_DIMS dimensions */

/* The header of a version 1.0 file, a multiple of 64 bytes, into `out`; returns its length. */
size_t ole_npy_format_header(char out[OLE_NPY_HEADER_ROOM], ole_dtype dtype, int ndim,
                             const int64_t *shape);

#endif
