/*
 * src/base/atomic_file.h - writing a file so that a crash leaves the old content or the new.
 *
 *     ole_atomic_file file;
 *     ole_status status = ole_atomic_file_begin(&file, path, error);
 *     if (status == OLE_OK) status = ole_atomic_file_write(&file, bytes, size, error);
 *     if (status == OLE_OK) status = ole_atomic_file_commit(&file, error);
 *     ole_atomic_file_abort(&file); // removes what was not committed; nothing after a commit
 *
 * The bytes go to a file beside `path`, which is synced and renamed over it; then the directory is
 * synced.  A symbolic link is followed, and an existing file keeps its permissions.  Something that
 * is not a regular file (/dev/null, a pipe) is written in place: renaming would replace the device.
 */
#ifndef OLE_SRC_BASE_ATOMIC_FILE_H
#define OLE_SRC_BASE_ATOMIC_FILE_H

#include "base/export.h"

#include <stdbool.h>

typedef struct ole_atomic_file {
    int fd;           /* -1 when not open */
    const char *path; /* as given, for messages; the caller keeps it alive */
    char *target;     /* the file to replace, links resolved; NULL when writing in place */
    char *directory;  /* of the target, taken before anything is written */
    char *temporary;  /* its name beside the target, while it has one */
} ole_atomic_file;

/* On failure the file is as after an abort, so that the sequence above is always right. */
OLE_INTERNAL ole_status ole_atomic_file_begin(ole_atomic_file *file, const char *path,
                                              ole_error *error);
OLE_INTERNAL ole_status ole_atomic_file_write(ole_atomic_file *file, const void *bytes, size_t size,
                                              ole_error *error);
OLE_INTERNAL ole_status ole_atomic_file_commit(ole_atomic_file *file, ole_error *error);
OLE_INTERNAL void ole_atomic_file_abort(ole_atomic_file *file);

/* All of the above for bytes that are in memory. */
OLE_INTERNAL ole_status ole_atomic_file_put(const char *path, const void *bytes, size_t size,
                                            ole_error *error);

/*
 * Opens a file to append to, created if it is not there; close *fd, -1 on failure.  Nothing is
 * written through links: a symbolic link is an error, and a file that has other names too (`cp -al`
 * makes such backups) is first replaced by a copy, so that those keep what they have.
 */
OLE_INTERNAL ole_status ole_append_open(int *fd, const char *path, ole_error *error);

#endif
