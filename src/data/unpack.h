/* src/data/unpack.h - folders made and archives unpacked. */
#ifndef OLE_SRC_DATA_UNPACK_H
#define OLE_SRC_DATA_UNPACK_H

#include "ole/data.h"

/* Makes a folder and those above it that are missing. */
ole_status ole_make_folder(const char *folder, ole_error *error);

/* Whether a file's name says that it is an archive this can unpack. */
bool ole_is_archive(const char *name);

/*
 * Unpacks the files of a tar.gz or zip archive into `folder`.  With a list, only the files on it,
 * and without the folders they lie in.  Names that lead out of the folder are an error; links and
 * devices are left out.  A file appears under its name only when it is complete.
 */
ole_status ole_unpack(const char *archive, const char *folder, const ole_known_file *only,
                      ole_error *error);

#endif
