/* src/data/download/unpack.h - folders made and archives unpacked. */
#ifndef OLE_SRC_DATA_DOWNLOAD_UNPACK_H
#define OLE_SRC_DATA_DOWNLOAD_UNPACK_H

#include "ole/train/data.h"

/* Makes a folder and those above it that are missing. */
ole_status ole_make_folder(const char *folder, ole_error *error);

/* Whether a file's name says that it is an archive this can unpack. */
bool ole_is_archive(const char *name);

/* The most that is taken from an archive nobody vouches for: 40 kB can unpack to 40 MB and more. */
typedef struct ole_unpack_limits {
    int64_t bytes; /* of all its files */
    int64_t files; /* entries of any kind */
} ole_unpack_limits;

/*
 * Unpacks the files of a tar.gz or zip archive into `folder`.  With a list, only the files on it,
 * without the folders they lie in, over what is there; else all files, and one that is there is
 * never changed: the same bytes are fine, others an error.  Names that lead out of the folder, also
 * through a link in it, are an error, and so are symbolic links and devices.  A file appears under
 * its name only when it is complete.  `limits` may be NULL.
 */
ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      const ole_unpack_limits *limits, ole_error *error);

#endif
