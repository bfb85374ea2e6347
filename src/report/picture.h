/*
 * src/report/picture.h - pixels as the bytes of a PNG or JPEG file, for SVG and pages.
 */
#ifndef OLE_SRC_REPORT_PICTURE_H
#define OLE_SRC_REPORT_PICTURE_H

#include "report/text.h"

#include <stdbool.h>

typedef struct ole_picture {
    int width, height;
    int channels;            /* 1 grey (or an index into the palette), 3 red, green, blue */
    const uint8_t *pixels;   /* [height, width, channels] */
    const uint32_t *palette; /* [256] 0xRRGGBB, or NULL */
} ole_picture;

ole_status ole_picture_png(const ole_picture *picture, ole_text *out, ole_error *error);

/* Whether this build writes JPEG; `quality` 1 to 100. */
bool ole_picture_has_jpeg(void);
ole_status ole_picture_jpeg(const ole_picture *picture, int quality, ole_text *out,
                            ole_error *error);

#endif
