/*
 * src/formats/npy_header.h - parses and formats the header of a .npy file, and makes arrays from
 * what is not one: members of archives, tables, strings.
 */
#ifndef OLE_SRC_FORMATS_NPY_HEADER_H
#define OLE_SRC_FORMATS_NPY_HEADER_H

#include "ole/npy.h"

/* Strings of fixed width, padded with zeros. */
typedef struct ole_npy_text {
    size_t width; /* characters; 0: the elements are numbers */
    size_t unit;  /* bytes of a character: 4 (UTF-32) or 1 */
} ole_npy_text;

/*
 * Parses the start of a file of `size` bytes and checks that the elements fill the rest exactly.
 * `name` is the file's name for messages.  Strings, whose dtype is 0, are refused where `text` is
 * NULL.  On success *offset is where the elements begin.
 */
ole_status ole_npy_parse(const unsigned char *bytes, size_t size, const char *name,
                         ole_npy_header *header, ole_npy_text *text, size_t *offset,
                         ole_error *error);

/*
 * Multiplies the shape into *count.  False when a dimension is negative or count * item overflows
 * int64 (ignoring zero dimensions, so that every partial product is safe too).
 */
bool ole_npy_count(int ndim, const int64_t *shape, size_t item, int64_t *count);

enum { OLE_NPY_HEADER_ROOM = 512 }; /* enough for OLE_NPY_MAX_DIMS dimensions */

/* The header of a version 1.0 file, a multiple of 64 bytes, into `out`; returns its length. */
size_t ole_npy_format_header(char out[OLE_NPY_HEADER_ROOM], ole_dtype dtype, int ndim,
                             const int64_t *shape);

/* ole_npy_open() that also takes strings. */
ole_status ole_npy_open_text(ole_npy **array, const char *path, ole_error *error);

/*
 * An array of bytes in memory, which it frees, also after an error: the elements of `header`, or
 * (NULL) a whole .npy file, of strings too where `text` allows them.
 */
ole_status ole_npy_adopt(ole_npy **array, const char *path, void *bytes, size_t size,
                         const ole_npy_header *header, bool text, ole_error *error);

/* Strings in UTF-8, each ended by a zero; free() them.  NULL without memory, or for numbers. */
char *ole_npy_strings(const ole_npy *array);

#endif
