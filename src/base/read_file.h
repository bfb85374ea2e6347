/* src/base/read_file.h - opening and reading files that the user named. */
#ifndef OLE_SRC_BASE_READ_FILE_H
#define OLE_SRC_BASE_READ_FILE_H

#include "base/export.h"

#include <stdio.h>

/*
 * Opens a regular file for reading and never blocks, as open() does on a pipe that nobody writes
 * to. Returns a descriptor, or -1 with errno: EISDIR for a folder, EINVAL for a pipe, a socket or a
 * device.
 */
OLE_INTERNAL int ole_open_regular(const char *path);

/* The same as a stream to read bytes from; NULL with errno. */
OLE_INTERNAL FILE *ole_fopen_regular(const char *path);

/* The reason to report after ole_open_regular() or ole_fopen_regular() failed with this errno. */
OLE_INTERNAL const char *ole_open_reason(int number);

/*
 * Reads a regular file of at most `limit` bytes; *bytes is zero-terminated; free() it.  An
 * error names the path and the system's reason.
 */
OLE_INTERNAL ole_status ole_read_file(const char *path, size_t limit, char **bytes, size_t *size,
                                      ole_error *error);

#endif
