/*
 * src/data/images/image_fit.c - scaling an image to cover a rectangle, cutting out its
 * middle, and turning it upright.
 *
 * The filter is a triangle, one source pixel wide on each side of the centre where the image grows,
 * as wide as the scale where it shrinks (so that no pixel is skipped): what Pillow and
 * torchvision call bilinear with antialias.  Columns first, a row of output at a time, so that most
 * of the work runs along rows of memory; only where the middle lies.
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
    int64_t offset = (scaled - size) / 2; /* the margin before the middle */
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

/* The source pixels that the middle needs: few along the longer side of a tall or wide image. */
static int pixels_needed(const taps *along, int size) {
    return along[size - 1].first + along[size - 1].count - along[0].first;
}

/* The source rows of one output row, weighted and added; only the columns that the middle needs. */
static void add_rows(const uint8_t *plane, int width, const taps *t, int first, int columns,
                     float *restrict sum) {
    for (int k = 0; k < t->count; k++) {
        const uint8_t *from = plane + (size_t)(t->first + k) * (size_t)width + first;
        float weight = t->weight[k];
        for (int x = 0; x < columns; x++)
            sum[x] = (k ? sum[x] : 0.0f) + weight * from[x];
    }
}

/* One plane [source height, source width] to [height, width]; `sum` holds a row in between. */
static void scale_plane(const uint8_t *plane, const ole_image *image, const taps *across,
                        const taps *down, int height, int width, float *sum, uint8_t *out) {
    int first = across[0].first, columns = pixels_needed(across, width);
    for (int y = 0; y < height; y++) {
        add_rows(plane, image->width, &down[y], first, columns, sum);
        for (int x = 0; x < width; x++) {
            const taps *t = &across[x];
            const float *from = sum + (t->first - first);
            float pixel = 0;
            for (int k = 0; k < t->count; k++)
                pixel += t->weight[k] * from[k];
            *out++ = (uint8_t)(pixel + 0.5f);
        }
    }
}

void ole_image_take_channels(const uint8_t *planes, int from, size_t size, int to, uint8_t *out) {
    if (to == 1 && from == 3)
        ole_image_grey(planes, size, out);
    else
        for (int c = 0; c < to; c++)
            memcpy(out + (size_t)c * size, planes + (from == 1 ? 0 : (size_t)c * size), size);
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
    float *sum = across ? calloc((size_t)pixels_needed(across, width), sizeof *sum) : NULL;
    uint8_t *planes = malloc(size * (size_t)image->channels);
    bool done = down && sum && planes;
    for (int c = 0; done && c < image->channels; c++)
        scale_plane(image->planar + (size_t)c * plane, image, across, down, height, width, sum,
                    planes + (size_t)c * size);
    if (done) /* after scaling: fewer pixels */
        ole_image_take_channels(planes, image->channels, size, channels, out_planar);
    free(across);
    free(down);
    free(sum);
    free(planes);
    return done ? OLE_OK : OLE_ERROR_MEMORY;
}

/* ---- Which way up a photo is ----------------------------------------------------------------- */

/* Cameras store pixels in the sensor's orientation and record in the Exif block how the camera was
 * held; viewers turn the picture.  Training must see what people see. */

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

/* Orientations 5 to 8 swap height and width; the bits of the masks are those that mirror. */
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
