/* src/data/find.h - where the files of a data set lie. */
#ifndef OLE_SRC_DATA_FIND_H
#define OLE_SRC_DATA_FIND_H

#include "data/find_path.h"
#include "data/source.h"

/* "folder/name" into `path`; an error when that is too long. */
ole_status ole_join_path(char path[OLE_PATH_ROOM], const char *folder, const char *name,
                         ole_error *error);

/*
 * The file `name` in `folder`; one with "-idx" in its name also with .gz appended, and as ".idx",
 * as in some copies of MNIST.  An error names the files searched for.
 */
ole_status ole_find_file(char path[OLE_PATH_ROOM], const char *folder, const char *name,
                         ole_error *error);

/* The folder that has the reader's first file: in `given`, or for NULL in the places of
 * ole/train/data.h. */
ole_status ole_find_folder(char folder[OLE_PATH_ROOM], const ole_reader *reader, const char *given,
                           ole_error *error);

/* The destination of a data set's download: the cache, or $OLE_DATA/NAME if that is set. */
ole_status ole_default_folder(char folder[OLE_PATH_ROOM], const char *name, ole_error *error);

#endif
