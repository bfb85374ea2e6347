/* src/data/find_path.h - searches the places where data sets are kept for a file or folder. */
#ifndef OLE_SRC_DATA_FIND_PATH_H
#define OLE_SRC_DATA_FIND_PATH_H

#include "base/export.h"

#include <stdbool.h>

enum { OLE_PATH_ROOM = 4096 };

/* The path of `name`: as given, or else in one of the places listed in ole/train/data.h.  False:
 * it is in none of them. */
OLE_INTERNAL bool ole_find_path(char path[OLE_PATH_ROOM], const char *name);

#endif
