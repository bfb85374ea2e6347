/* src/data/images/image_name.h - which files are called as images are. */
#ifndef OLE_SRC_DATA_IMAGES_IMAGE_NAME_H
#define OLE_SRC_DATA_IMAGES_IMAGE_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* By the ending of its name, "12.JPG"; what is in it shows when it is read. */
static inline bool ole_image_named(const char *name) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".pgm", ".ppm", ".pnm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

#endif
