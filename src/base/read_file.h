/* src/base/read_file.h - opening a file that a user has named, and reading all of it. */
#ifndef OLE_SRC_BASE_READ_FILE_H
#define OLE_SRC_BASE_READ_FILE_H

#include "base/export.h"

#include <stdio.h>

/*
 * Opens a regular file for reading, without ever waiting: open() alone blocks on a pipe until
 * somebody writes to it.  A descriptor, or -1 with errno: EISDIR for a folder, EINVAL for a pipe, a
 * socket or a device.
 */
OLE_INTERNAL int ole_open_regular(const char *path);

/* The same as a stream to read bytes from; NULL with errno. */
OLE_INTERNAL FILE *ole_fopen_regular(const char *path);

/* What an error message says after ole_open_regular() or ole_fopen_regular() has failed with this
 * errno. */
OLE_INTERNAL const char *ole_open_reason(int number);

/*
 * Reads a regular file of at most `limit` bytes; *bytes has a zero behind the last one and is to be
 * freed.  An error names the path and what the system says.
 */
OLE_INTERNAL ole_status ole_read_file(const char *path, size_t limit, char **bytes, size_t *size,
                                      ole_error *error);

#endif
