/* src/data/images/image_name.h - which files are called as images are. */
#ifndef OLE_SRC_DATA_IMAGES_IMAGE_NAME_H
#define OLE_SRC_DATA_IMAGES_IMAGE_NAME_H

#include "base/export.h"

#include <stdbool.h>

/* By the extension of the name, "12.JPG"; the format is recognised when the file is read. */
OLE_INTERNAL bool ole_image_has_name(const char *name);

#endif
