/* src/base/read_file.h - a whole file in memory. */
#ifndef OLE_SRC_BASE_READ_FILE_H
#define OLE_SRC_BASE_READ_FILE_H

#include "ole/base.h"

/*
 * Reads a regular file of at most `limit` bytes; *bytes has a zero behind the last one and is to be
 * freed.  An error names the path and what the system says.
 */
ole_status ole_read_file(const char *path, size_t limit, char **bytes, size_t *size,
                         ole_error *error);

#endif
