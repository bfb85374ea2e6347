/* src/data/download/unpack.h - makes folders and unpacks archives. */
#ifndef OLE_SRC_DATA_DOWNLOAD_UNPACK_H
#define OLE_SRC_DATA_DOWNLOAD_UNPACK_H

#include "ole/train/data.h"

/* Makes a folder and those above it that are missing. */
ole_status ole_make_folder(const char *folder, ole_error *error);

/* Whether a file has the name of an archive that ole_unpack() reads. */
bool ole_is_archive(const char *name);

/* Limits for an untrusted archive: 40 kB can unpack to 40 MB and more. */
typedef struct ole_unpack_limits {
    int64_t bytes; /* of all its files */
    int64_t files; /* entries of any kind */
} ole_unpack_limits;

/*
 * Unpacks the files of a tar.gz or zip archive into `folder`.  With a list: only the files on it,
 * without their folders, replacing existing ones.  Without: all files; an existing one is never
 * changed, and is an error if its bytes differ.  Names that lead out of the folder, also through a
 * link in it, are an error, and so are symbolic links and devices.  A file appears under its name
 * only when complete.  `limits` may be NULL.
 */
ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      const ole_unpack_limits *limits, ole_error *error);

#endif
