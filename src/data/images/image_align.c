/*
 * src/data/images/image_align.c - reading an image through a similarity transform.
 *
 * Where the image shrinks, each output pixel is the mean of a grid of bilinear readings, as many
 * each way as source pixels come to one, so that none is skipped.  Beyond the border the nearest
 * pixel counts; landmarks far outside the image cost no more than others.
 */
#include "data/images/image.h"

#include "base/min_max.h"

#include <math.h>
#include <stdlib.h>

/* Each way, of an output pixel: as many source pixels as come to one, if all is read of an image
 * twice as large. */
static int count_readings(const ole_image *image, const ole_similarity *t, int height, int width) {
    double scale = hypot(t->cosine, t->sine);
    double most = 2.0 * ole_max(image->height, image->width) / ole_min(height, width);
    return (int)ceil(fmax(fmin(scale, most), 1));
}

static float read_pixel(const uint8_t *plane, int height, int width, double y, double x) {
    y = fmin(fmax(y, 0), height - 1);
    x = fmin(fmax(x, 0), width - 1);
    int top = (int)y, left = (int)x;
    int below = ole_min(top + 1, height - 1), right = ole_min(left + 1, width - 1);
    float down = (float)(y - top), along = (float)(x - left);
    const uint8_t *upper = plane + (size_t)top * (size_t)width;
    const uint8_t *lower = plane + (size_t)below * (size_t)width;
    return (1 - down) * ((1 - along) * upper[left] + along * upper[right]) +
           down * ((1 - along) * lower[left] + along * lower[right]);
}

static uint8_t read_mean(const uint8_t *plane, const ole_image *image, const ole_similarity *t,
                         int readings, int v, int u) {
    float sum = 0;
    for (int i = 0; i < readings; i++)
        for (int k = 0; k < readings; k++) {
            double y = v + (i + 0.5) / readings - 0.5, x = u + (k + 0.5) / readings - 0.5;
            sum +=
                read_pixel(plane, image->height, image->width, t->sine * x + t->cosine * y + t->y,
                           t->cosine * x - t->sine * y + t->x);
        }
    return (uint8_t)(sum / (float)(readings * readings) + 0.5f);
}

ole_status ole_image_align(const ole_image *image, const ole_similarity *to_source, int height,
                           int width, int channels, uint8_t *out_planar) {
    int readings = count_readings(image, to_source, height, width);
    size_t size = (size_t)height * (size_t)width;
    size_t plane = (size_t)image->width * (size_t)image->height;
    uint8_t *planes = malloc(size * (size_t)image->channels), *out = planes;
    if (!planes) return OLE_ERROR_MEMORY;
    for (int c = 0; c < image->channels; c++)
        for (int v = 0; v < height; v++)
            for (int u = 0; u < width; u++)
                *out++ =
                    read_mean(image->planar + (size_t)c * plane, image, to_source, readings, v, u);
    ole_image_take_channels(planes, image->channels, size, channels, out_planar);
    free(planes);
    return OLE_OK;
}
