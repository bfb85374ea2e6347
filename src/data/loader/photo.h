/*
 * src/data/loader/photo.h - augmentation for photos: random resized crop, rotation, colour jitter
 * and erasing, one output pixel at a time.
 *
 * The loader and the CUDA kernel that assembles batches both compile this arithmetic and draw from
 * the same Philox counters, so their pixels agree within rounding.  Rectangles are drawn in whole
 * pixels by integer arithmetic and agree exactly.
 *
 * An output pixel is mirrored, shifted by the padded crop, mapped into the resized crop, then
 * rotated about the image's centre; bilinear interpolation reads the image there, black outside.
 * Jitter follows, then normalisation; erased pixels are 0 after that, the mean.
 */
#ifndef OLE_SRC_DATA_LOADER_PHOTO_H
#define OLE_SRC_DATA_LOADER_PHOTO_H

#include "base/philox.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OLE_PHOTO_CHANNELS = 4 };

/* a = epoch, b = sample, four words each. */
enum { OLE_RANDOM_WINDOW = 2 };   /* the padded crop's row and column, mirror, angle */
enum { OLE_RANDOM_RESIZED = 10 }; /* the resized crop's area, aspect ratio, row, column */
enum { OLE_RANDOM_JITTER = 11 };  /* brightness, contrast, saturation, whether to erase */
enum { OLE_RANDOM_ERASE = 12 };   /* the erased rectangle's height, width, row, column */
enum { OLE_RANDOM_CUTOUT = 13 };  /* the cut square's centre: row, column */

/* What to do to each image, beyond padded crops and mirroring.  0 switches each off. */
typedef struct ole_photo {
    float resized; /* least share of the area that a resized crop takes */
    float rotate;  /* largest angle, degrees */
    float jitter;  /* factors of brightness, contrast and saturation: 1 - jitter to 1 + jitter */
    float erase;   /* probability of erasing a rectangle */
    int cutout;    /* side of a square to cut out, pixels */
} ole_photo;

/* Rows and columns from first to before end. */
typedef struct ole_photo_box {
    int top, left, bottom, right;
} ole_photo_box;

/* What was drawn for one image. */
typedef struct ole_photo_draw {
    int top, left; /* shift by the padded crop */
    bool mirror;
    /* rest: output pixel (y, x), mirrored and shifted, comes from (row[0] + row[1] y + row[2] x,
     * column[0] + column[1] y + column[2] x). */
    float row[3], column[3];
    float brightness, contrast, saturation;
    ole_photo_box erased, cut; /* empty: right <= left */
} ole_photo_draw;

OLE_PHILOX bool ole_photo_is_on(const ole_photo *photo) {
    return photo->resized > 0 || photo->rotate > 0 || photo->jitter > 0 || photo->erase > 0 ||
           photo->cutout > 0;
}

/* The padded crop and the mirror. */
OLE_PHILOX void ole_photo_window(const uint32_t words[4], int crop, bool flip,
                                 ole_photo_draw *draw) {
    uint32_t places = 2 * (uint32_t)crop + 1;
    draw->top = (int)ole_below(words[0], places) - crop;
    draw->left = (int)ole_below(words[1], places) - crop;
    draw->mirror = flip && words[2] >> 31;
}

/* Position within the resized crop of an image of h x w, then rotated. */
OLE_PHILOX void ole_photo_place(const ole_photo *photo, const uint32_t words[4], float turn, int h,
                                int w, ole_photo_draw *draw) {
    float scale_y = 1, scale_x = 1, y0 = 0, x0 = 0;
    if (photo->resized > 0) {
        float area = photo->resized + (1 - photo->resized) * ole_uniform(words[0]);
        float aspect = 2 * ole_uniform(words[1]) - 1; /* width to height, 3:4 to 4:3 */
        float ratio = aspect >= 0 ? 1 + aspect / 3 : 1 / (1 - aspect / 3);
        scale_y = fminf(sqrtf(area / ratio), 1);
        scale_x = fminf(sqrtf(area * ratio), 1);
        y0 = (1 - scale_y) * ole_uniform(words[2]) * (float)h + 0.5f * scale_y - 0.5f;
        x0 = (1 - scale_x) * ole_uniform(words[3]) * (float)w + 0.5f * scale_x - 0.5f;
    }
    float angle = photo->rotate * turn * 0.017453293f;
    float cosine = cosf(angle), sine = sinf(angle);
    float middle_y = 0.5f * (float)(h - 1), middle_x = 0.5f * (float)(w - 1);
    float from_y = y0 - middle_y, from_x = x0 - middle_x;
    draw->row[0] = middle_y + cosine * from_y - sine * from_x;
    draw->row[1] = cosine * scale_y;
    draw->row[2] = -sine * scale_x;
    draw->column[0] = middle_x + sine * from_y + cosine * from_x;
    draw->column[1] = sine * scale_y;
    draw->column[2] = cosine * scale_x;
}

/* A side of 1/8 to 1/2 of `whole`, at least 1. */
OLE_PHILOX int ole_photo_side(uint32_t word, int whole) {
    int least = whole >= 8 ? whole / 8 : 1, most = whole >= 2 ? whole / 2 : 1;
    return least + (int)ole_below(word, (uint32_t)(most - least + 1));
}

OLE_PHILOX ole_photo_box ole_photo_rectangle(const uint32_t words[4], int h, int w) {
    int height = ole_photo_side(words[0], h), width = ole_photo_side(words[1], w);
    ole_photo_box box;
    box.top = (int)ole_below(words[2], (uint32_t)(h - height + 1));
    box.left = (int)ole_below(words[3], (uint32_t)(w - width + 1));
    box.bottom = box.top + height;
    box.right = box.left + width;
    return box;
}

/* A square whose centre is any pixel; what lies outside the image is not there. */
OLE_PHILOX ole_photo_box ole_photo_square(const uint32_t words[4], int side, int h, int w) {
    ole_photo_box box;
    box.top = (int)ole_below(words[0], (uint32_t)h) - side / 2;
    box.left = (int)ole_below(words[1], (uint32_t)w) - side / 2;
    box.bottom = box.top + side;
    box.right = box.left + side;
    return box;
}

/* All that is drawn for a sample of h x w pixels in an epoch. */
OLE_PHILOX void ole_photo_draw_sample(const ole_photo *photo, uint64_t seed, int crop, bool flip,
                                      int h, int w, int64_t epoch, int64_t sample,
                                      ole_photo_draw *draw) {
    const ole_photo_box none = {0, 0, 0, 0};
    uint32_t words[4];
    uint64_t a = (uint64_t)epoch, b = (uint64_t)sample;
    ole_philox(seed, OLE_RANDOM_WINDOW, a, b, words);
    ole_photo_window(words, crop, flip, draw);
    float turn = 2 * ole_uniform(words[3]) - 1;
    ole_philox(seed, OLE_RANDOM_RESIZED, a, b, words);
    ole_photo_place(photo, words, turn, h, w, draw);
    ole_philox(seed, OLE_RANDOM_JITTER, a, b, words);
    draw->brightness = 1 + photo->jitter * (2 * ole_uniform(words[0]) - 1);
    draw->contrast = 1 + photo->jitter * (2 * ole_uniform(words[1]) - 1);
    draw->saturation = 1 + photo->jitter * (2 * ole_uniform(words[2]) - 1);
    bool erases = ole_uniform(words[3]) < photo->erase;
    draw->erased = draw->cut = none;
    if (erases) {
        ole_philox(seed, OLE_RANDOM_ERASE, a, b, words);
        draw->erased = ole_photo_rectangle(words, h, w);
    }
    if (photo->cutout > 0) {
        ole_philox(seed, OLE_RANDOM_CUTOUT, a, b, words);
        draw->cut = ole_photo_square(words, photo->cutout, h, w);
    }
}

OLE_PHILOX bool ole_photo_in(const ole_photo_box *box, int y, int x) {
    return y >= box->top && y < box->bottom && x >= box->left && x < box->right;
}

/* Pixel (y, x) of a plane of h x w bytes (as 0 to 1) or floats; 0 outside. */
OLE_PHILOX float ole_photo_tap(const uint8_t *bytes, const float *floats, int h, int w, int y,
                               int x) {
    if (y < 0 || y >= h || x < 0 || x >= w) return 0;
    int64_t at = (int64_t)y * w + x;
    if (bytes) return (float)bytes[at] / 255.0f;
    return floats ? floats[at] : 0;
}

/* The plane at (y, x), interpolated. */
OLE_PHILOX float ole_photo_read(const uint8_t *bytes, const float *floats, int h, int w, float y,
                                float x) {
    float top = floorf(y), left = floorf(x), down = y - top, along = x - left;
    int row = (int)top, column = (int)left;
    float upper = (1 - along) * ole_photo_tap(bytes, floats, h, w, row, column) +
                  along * ole_photo_tap(bytes, floats, h, w, row, column + 1);
    float lower = (1 - along) * ole_photo_tap(bytes, floats, h, w, row + 1, column) +
                  along * ole_photo_tap(bytes, floats, h, w, row + 1, column + 1);
    return (1 - down) * upper + down * lower;
}

/* Jitter of one pixel of values 0 to 1: contrast about mid-grey, saturation about its own grey. */
OLE_PHILOX void ole_photo_jitter(const ole_photo_draw *draw, int channels, float value[]) {
    for (int c = 0; c < channels; c++)
        value[c] = 0.5f + draw->contrast * (draw->brightness * value[c] - 0.5f);
    if (channels == 3) {
        float grey = 0.299f * value[0] + 0.587f * value[1] + 0.114f * value[2];
        for (int c = 0; c < 3; c++)
            value[c] = grey + draw->saturation * (value[c] - grey);
    }
    for (int c = 0; c < channels; c++)
        value[c] = fminf(fmaxf(value[c], 0), 1);
}

/*
 * Output pixel (y, x) of an image of c planes of h x w that begin at `bytes` or, without those,
 * `floats`: up to OLE_PHOTO_CHANNELS values before normalisation.  False: it is erased.
 */
OLE_PHILOX bool ole_photo_pixel(const ole_photo_draw *draw, bool jitter, const uint8_t *bytes,
                                const float *floats, int c, int h, int w, int y, int x,
                                float value[]) {
    if (ole_photo_in(&draw->erased, y, x) || ole_photo_in(&draw->cut, y, x)) return false;
    float down = (float)(y + draw->top),
          along = (float)((draw->mirror ? w - 1 - x : x) + draw->left);
    float row = draw->row[0] + draw->row[1] * down + draw->row[2] * along;
    float column = draw->column[0] + draw->column[1] * down + draw->column[2] * along;
    for (int k = 0; k < c; k++) {
        int64_t plane = (int64_t)k * h * w;
        value[k] = ole_photo_read(bytes ? bytes + plane : NULL, floats ? floats + plane : NULL, h,
                                  w, row, column);
    }
    if (jitter) ole_photo_jitter(draw, c, value);
    return true;
}

#endif
