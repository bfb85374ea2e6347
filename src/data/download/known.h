/* src/data/download/known.h - looking up the table of known data sets. */
#ifndef OLE_SRC_DATA_DOWNLOAD_KNOWN_H
#define OLE_SRC_DATA_DOWNLOAD_KNOWN_H

#include "ole/train/data.h"

/* The known data set of that name; NULL, with an error, if there is none. */
const ole_known_dataset *ole_known_find(const char *name, size_t length, ole_error *error);

/* Compares a file in a folder with the published one. */
ole_status ole_known_file_check(const char *folder, const ole_known_file *file,
                                ole_file_check *check, ole_error *error);

/* The entry of a list with that name, or NULL. */
const ole_known_file *ole_known_file_find(const ole_known_file *list, const char *name);

#endif
