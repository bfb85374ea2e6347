/*
 * src/data/images/orientation.c - which way up a photo is.
 *
 * Cameras store the pixels as their sensor lies, and say in the Exif block how it was held; viewers
 * turn the picture.  What is learned from must be what is seen.
 */
#include "data/images/image.h"

#include <stdlib.h>
#include <string.h>

enum { UPRIGHT = 1, ORIENTATIONS = 8, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY = 12 };

/* A number of a TIFF block in its byte order. */
static size_t number(const uint8_t *at, int bytes, bool little) {
    size_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[little ? bytes - 1 - i : i];
    return value;
}

int ole_exif_orientation(const uint8_t *block, size_t size) {
    static const uint8_t head[6] = "Exif\0";
    if (size < sizeof head + 8 || memcmp(block, head, sizeof head) != 0) return UPRIGHT;
    const uint8_t *tiff = block + sizeof head;
    size -= sizeof head;
    bool little = tiff[0] == 'I';
    size_t first = number(tiff + 4, 4, little); /* of the first directory */
    if (first > size || size - first < 2) return UPRIGHT;
    size_t entries = number(tiff + first, 2, little), room = (size - first - 2) / ENTRY;
    for (size_t i = 0; i < entries && i < room; i++) {
        const uint8_t *entry = tiff + first + 2 + i * ENTRY;
        if (number(entry, 2, little) != TAG_ORIENTATION) continue;
        size_t value = number(entry + 8, 2, little);
        bool good = number(entry + 2, 2, little) == TYPE_SHORT && value <= ORIENTATIONS;
        return good && value > 0 ? (int)value : UPRIGHT;
    }
    return UPRIGHT;
}

/* Sides change places from the fifth orientation on; others are mirrored. */
bool ole_image_turn(ole_image *image, int orientation) {
    int width = image->width, height = image->height;
    bool turned = orientation >= 5, mirror_x = (0x18c >> orientation) & 1, /* 2, 3, 7, 8 */
        mirror_y = (0xd8 >> orientation) & 1;                              /* 3, 4, 6, 7 */
    if (orientation == UPRIGHT) return true;
    if (turned) {
        image->width = height;
        image->height = width;
    }
    if (!image->planar) return true;
    size_t plane = (size_t)width * (size_t)height;
    uint8_t *upright = malloc(plane * (size_t)image->channels), *to = upright;
    if (!upright) return false;
    for (int c = 0; c < image->channels; c++) {
        const uint8_t *from = image->planar + (size_t)c * plane;
        for (int y = 0; y < image->height; y++)
            for (int x = 0; x < image->width; x++) {
                int sx = turned ? y : x, sy = turned ? x : y;
                if (mirror_x) sx = width - 1 - sx;
                if (mirror_y) sy = height - 1 - sy;
                *to++ = from[(size_t)sy * (size_t)width + (size_t)sx];
            }
    }
    free(image->planar);
    image->planar = upright;
    return true;
}
