/*
 * src/data/images/image.h - image files (png, jpeg, webp, bmp, tiff, pgm and ppm) as planes of
 * bytes.
 *
 *     ole_image image;
 *     if (ole_image_read("cat.png", 3, &image, error) != OLE_OK) ...
 *     uint8_t input[3 * 32 * 32];
 *     status = ole_image_fit(&image, 32, 32, 3, input);
 *     ole_image_free(&image);
 *
 * A file's first bytes determine its format, not its name.
 */
#ifndef OLE_SRC_DATA_IMAGES_IMAGE_H
#define OLE_SRC_DATA_IMAGES_IMAGE_H

#include "data/images/image_name.h"
#include "ole/base.h"

#include <stdbool.h>
#include <stdio.h>

enum { OLE_IMAGE_MAX_PIXELS = 1 << 26 };

typedef struct ole_image {
    int width, height;
    int channels;    /* 1 grey, 3 red, green, blue */
    uint8_t *planar; /* [channels][height][width] */
} ole_image;

/* `channels`: 1 or 3 converts the image, 0 keeps the file's own.  Transparency is shown on black;
 * photos are turned upright. */
ole_status ole_image_read(const char *path, int channels, ole_image *out, ole_error *error);
void ole_image_free(ole_image *image);

/* Size, upright, and channels alone, as the file's header says; `planar` is NULL. */
ole_status ole_image_probe(const char *path, ole_image *out, ole_error *error);

/*
 * Scales the image (bilinear, with the filter as wide as the scale where it shrinks) until it
 * covers height x width, and copies the middle of it, as grey or colour, into
 * [channels][height][width]. OLE_ERROR_MEMORY is the only failure.
 */
ole_status ole_image_fit(const ole_image *image, int height, int width, int channels,
                         uint8_t *out_planar);

/* Output pixel (x, y) shows the source at (cosine x - sine y + x0, sine x + cosine y + y0). */
typedef struct ole_similarity {
    double cosine, sine; /* both times the scale */
    double x, y;         /* x0, y0 */
} ole_similarity;

/* As ole_image_fit(), with the pixels that the transform leads to. */
ole_status ole_image_align(const ole_image *image, const ole_similarity *to_source, int height,
                           int width, int channels, uint8_t *out_planar);

/*
 * Private to image*.c: one decoder per format. `name` is for messages; the file is at its start.
 * Without `pixels` only the header is read.
 */
typedef ole_status ole_image_decoder(FILE *file, const char *name, bool pixels, ole_image *out,
                                     ole_error *error);
ole_image_decoder ole_image_read_png, ole_image_read_jpeg, ole_image_read_webp, ole_image_read_tiff,
    ole_image_read_bmp, ole_image_read_pnm;

/* Bytes of the file; 0 if it cannot be told. */
int64_t ole_image_file_size(FILE *file);

/*
 * Checks the size and allocates the planes if `pixels`.  An image has at most OLE_IMAGE_MAX_PIXELS,
 * and one of a file under a megabyte a quarter of that: photos of that size have larger files, and
 * a file of a few hundred bytes must not take half a gigabyte to decode.
 */
ole_status ole_image_allocate(ole_image *image, FILE *file, int64_t width, int64_t height,
                              int channels, bool pixels, const char *name, ole_error *error);

/* A number of up to four bytes, in either order. */
static inline uint32_t ole_image_number(const uint8_t *at, int bytes, bool little) {
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[little ? bytes - 1 - i : i];
    return value;
}

/* Grey from three planes of `size` bytes by the weights of ITU-R 601; `out` may be `planes`. */
void ole_image_grey(const uint8_t *planes, size_t size, uint8_t *out);

/* `from` planes of `size` bytes as grey or colour (`to` of 1 or 3). */
void ole_image_take_channels(const uint8_t *planes, int from, size_t size, int to, uint8_t *out);

/* One row of interleaved pixels into the planes. */
void ole_image_set_row(ole_image *image, int y, const uint8_t *interleaved);

/* Takes the last of channels + 1 samples per pixel as alpha; transparent pixels become black.
 * Works on the bytes, as viewers do; libpng would do it in linear light of eight bits. */
void ole_image_drop_alpha(uint8_t *row, int width, int channels);

/* Orientation, 1 to 8, from an Exif block, with "Exif" before it or not; 1, upright, if it has
 * none. */
int ole_exif_orientation(const uint8_t *block, size_t size);

/* Turns and mirrors an image of that orientation upright; false without memory. */
bool ole_image_turn(ole_image *image, int orientation);

#endif
