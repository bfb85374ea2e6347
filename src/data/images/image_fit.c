/*
 * src/data/images/image_fit.c - scaling an image to cover a rectangle, cutting out its
 * middle, and turning it upright.
 *
 * The filter is a triangle, one source pixel wide on each side of the centre where the image grows,
 * as wide as the scale where it shrinks (so that no pixel is passed over): what Pillow and
 * torchvision call bilinear with antialias.  Rows first, then columns, only where the middle lies.
 */
#include "data/images/image.h"

#include "base/min_max.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one output position takes from the source. */
typedef struct taps {
    int first, count;
    float *weight; /* [count], their sum is 1 */
} taps;

/* The taps of the middle `size` outputs of `source` pixels scaled to `scaled`, in one block; NULL
 * without memory. */
static taps *make_taps(int source, int64_t scaled, int size) {
    int64_t offset = (scaled - size) / 2; /* what is left of the middle */
    double scale = (double)source / (double)scaled, support = scale > 1 ? scale : 1;
    size_t room = (size_t)ceil(support) * 2 + 1;
    taps *all = calloc((size_t)size, sizeof *all + room * sizeof(float));
    for (int i = 0; all && i < size; i++) {
        double centre = ((double)(offset + i) + 0.5) * scale, sum = 0;
        int first = (int)floor(centre - support + 0.5), end = (int)floor(centre + support + 0.5);
        if (first < 0) first = 0;
        if (end > source) end = source;
        taps *t = &all[i];
        *t = (taps){first, end - first, (float *)(all + size) + (size_t)i * room};
        for (int k = 0; k < t->count; k++) {
            double w = 1 - fabs((first + k + 0.5 - centre) / support);
            t->weight[k] = (float)(w > 0 ? w : 0);
            sum += w > 0 ? w : 0;
        }
        for (int k = 0; k < t->count; k++)
            t->weight[k] = (float)(t->weight[k] / sum);
    }
    return all;
}

/* The source rows that the middle lies in: few of a tall and narrow image. */
static int rows_needed(const taps *down, int height) {
    return down[height - 1].first + down[height - 1].count - down[0].first;
}

/* One plane [source height, source width] to [height, width]; `rows` holds the rows in between. */
static void scale_plane(const uint8_t *plane, const ole_image *image, const taps *across,
                        const taps *down, int height, int width, float *rows, uint8_t *out) {
    int first = down[0].first, end = first + rows_needed(down, height);
    for (int y = first; y < end; y++)
        for (int x = 0; x < width; x++) {
            const taps *t = &across[x];
            const uint8_t *from = plane + (size_t)y * (size_t)image->width + t->first;
            float sum = 0;
            for (int k = 0; k < t->count; k++)
                sum += t->weight[k] * from[k];
            rows[(size_t)(y - first) * (size_t)width + (size_t)x] = sum;
        }
    for (int y = 0; y < height; y++) {
        const taps *t = &down[y];
        for (int x = 0; x < width; x++) {
            const float *from = rows + (size_t)(t->first - first) * (size_t)width + x;
            float sum = 0;
            for (int k = 0; k < t->count; k++)
                sum += t->weight[k] * from[(size_t)k * (size_t)width];
            *out++ = (uint8_t)(sum + 0.5f);
        }
    }
}

ole_status ole_image_fit(const ole_image *image, int height, int width, int channels,
                         uint8_t *out_planar) {
    /* The size that covers height x width, with the image's proportions. */
    double scale = fmax((double)height / image->height, (double)width / image->width);
    int64_t scaled_height = ole_max((int64_t)(image->height * scale + 1e-9), height);
    int64_t scaled_width = ole_max((int64_t)(image->width * scale + 1e-9), width);
    size_t size = (size_t)height * (size_t)width;
    size_t plane = (size_t)image->width * (size_t)image->height;
    taps *across = make_taps(image->width, scaled_width, width);
    taps *down = make_taps(image->height, scaled_height, height);
    size_t room = down ? (size_t)rows_needed(down, height) * (size_t)width : 0;
    float *rows = calloc(room, sizeof *rows);
    uint8_t *planes = malloc(size * (size_t)image->channels);
    bool done = across && down && rows && planes;
    for (int c = 0; done && c < image->channels; c++)
        scale_plane(image->planar + (size_t)c * plane, image, across, down, height, width, rows,
                    planes + (size_t)c * size);
    if (done && channels == 1 && image->channels == 3)
        ole_image_grey(planes, size, out_planar); /* after scaling: fewer pixels */
    else if (done)
        for (int c = 0; c < channels; c++)
            memcpy(out_planar + (size_t)c * size,
                   planes + (image->channels == 1 ? 0 : (size_t)c * size), size);
    free(across);
    free(down);
    free(rows);
    free(planes);
    return done ? OLE_OK : OLE_ERROR_MEMORY;
}

/* ---- Which way up a photo is ----------------------------------------------------------------- */

/* Cameras store the pixels as their sensor lies, and say in the Exif block how it was held; viewers
 * turn the picture.  What is learned from must be what is seen. */

enum { UPRIGHT = 1, ORIENTATIONS = 8, TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY = 12 };

int ole_exif_orientation(const uint8_t *block, size_t size) {
    static const uint8_t head[6] = "Exif\0";
    bool headed = size >= sizeof head && memcmp(block, head, sizeof head) == 0;
    const uint8_t *tiff = block + (headed ? sizeof head : 0);
    size -= headed ? sizeof head : 0;
    if (size < 8) return UPRIGHT;
    bool little = tiff[0] == 'I';
    size_t first = ole_image_number(tiff + 4, 4, little); /* of the first directory */
    if (first > size || size - first < 2) return UPRIGHT;
    size_t entries = ole_image_number(tiff + first, 2, little), room = (size - first - 2) / ENTRY;
    for (size_t i = 0; i < entries && i < room; i++) {
        const uint8_t *entry = tiff + first + 2 + i * ENTRY;
        if (ole_image_number(entry, 2, little) != TAG_ORIENTATION) continue;
        size_t value = ole_image_number(entry + 8, 2, little);
        bool good = ole_image_number(entry + 2, 2, little) == TYPE_SHORT && value <= ORIENTATIONS;
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
