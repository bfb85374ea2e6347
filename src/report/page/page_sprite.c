/*
 * src/report/page/page_sprite.c - thumbnails by the thousand in one image, small enough for a page.
 *
 * PNG for drawings and digits, with grey levels rounded to 16, which nobody sees at this size;
 * JPEG for photographs.  Several sizes and qualities are tried, the best first, until one
 * fits.
 */
#include "report/page/page_parts.h"
#include "report/picture.h"

#include <stdlib.h>

static const struct attempt {
    int side;    /* at most, of a tile */
    int quality; /* of JPEG; 0: PNG */
} attempts[] = {{48, 0}, {48, 80}, {32, 0},  {32, 80}, {32, 60}, {24, 60},
                {24, 0}, {16, 60}, {16, 40}, {16, 0},  {8, 40},  {8, 0}};
enum { ATTEMPTS = sizeof attempts / sizeof *attempts };

/* ---- Pixels -------------------------------------------------------------------------------- */

/* The mean of the source pixels under pixel (x, y) of a tile. */
static uint8_t shrunk(const ole_page_images *images, const uint8_t *image, const ole_sprite *s,
                      int x, int y, int channel) {
    int left = x * images->width / s->width, right = (x + 1) * images->width / s->width;
    int top = y * images->height / s->height, bottom = (y + 1) * images->height / s->height;
    unsigned sum = 0, count = 0;
    for (int py = top; py < bottom || py == top; py++)
        for (int px = left; px < right || px == left; px++) {
            size_t at = (size_t)py * (size_t)images->width + (size_t)px;
            sum += image[at * (size_t)images->channels + (size_t)channel];
            count++;
        }
    return (uint8_t)((sum + count / 2) / count);
}

static uint8_t rounded(uint8_t grey) {
    return (uint8_t)((grey + 8) / 17 * 17);
}

/* All tiles, [rows * height, columns * width, channels]. */
static void fill_tiles(const ole_page_images *images, const ole_sprite *s, bool sixteen,
                       uint8_t *pixels) {
    size_t channels = (size_t)images->channels;
    size_t size = (size_t)images->width * (size_t)images->height * channels;
    size_t stride = (size_t)s->columns * (size_t)s->width * channels;
    for (int64_t i = 0; i < images->count; i++) {
        const uint8_t *image = images->pixels + (size_t)i * size;
        uint8_t *tile = pixels + (size_t)(i / s->columns) * (size_t)s->height * stride +
                        (size_t)(i % s->columns) * (size_t)s->width * channels;
        for (int y = 0; y < s->height; y++)
            for (int x = 0; x < s->width; x++)
                for (int c = 0; c < images->channels; c++) {
                    uint8_t value = shrunk(images, image, s, x, y, c);
                    tile[(size_t)y * stride + (size_t)x * channels + (size_t)c] =
                        sixteen ? rounded(value) : value;
                }
    }
}

/* ---- Packing ------------------------------------------------------------------------------- */

static void set_tile(ole_sprite *s, const ole_page_images *images, int side) {
    int longest = images->width > images->height ? images->width : images->height;
    int to = longest < side ? longest : side;
    s->width = (images->width * to + longest / 2) / longest;
    s->height = (images->height * to + longest / 2) / longest;
    if (s->width < 1) s->width = 1;
    if (s->height < 1) s->height = 1;
    s->columns = 1;
    while ((int64_t)s->columns * s->columns * s->width < images->count * s->height)
        s->columns++;
}

static ole_status try_one(ole_sprite *s, const ole_page_images *images, const struct attempt *a,
                          ole_text *bytes, ole_error *error) {
    int64_t rows = (images->count + s->columns - 1) / s->columns;
    size_t size = (size_t)rows * (size_t)s->height * (size_t)s->columns * (size_t)s->width *
                  (size_t)images->channels;
    uint8_t *pixels = calloc(size, 1);
    if (!pixels) return ole_fail(error, OLE_ERROR_MEMORY, "a page's thumbnails: out of memory");
    fill_tiles(images, s, a->quality == 0 && images->channels == 1, pixels);
    const ole_picture picture = {.width = s->columns * s->width,
                                 .height = (int)(rows * s->height),
                                 .channels = images->channels,
                                 .pixels = pixels};
    s->type = a->quality ? "image/jpeg" : "image/png";
    ole_status status = a->quality ? ole_picture_jpeg(&picture, a->quality, bytes, error)
                                   : ole_picture_png(&picture, bytes, error);
    free(pixels);
    return status;
}

/* Whether an attempt is worthwhile: PNG shrinks photographs to about half, digits to a sixth.
 */
static bool worth_trying(const ole_sprite *s, const ole_page_images *images,
                         const struct attempt *a, size_t budget) {
    if (a->quality) return ole_picture_has_jpeg();
    double raw = (double)images->count * s->width * s->height * images->channels;
    return raw < (images->channels == 1 ? 6.0 : 2.0) * (double)budget;
}

ole_status ole_sprite_make(ole_sprite *s, const ole_page_images *images, size_t budget,
                           ole_text *bytes, ole_error *error) {
    *s = (ole_sprite){0};
    for (int i = 0; i < ATTEMPTS; i++) {
        set_tile(s, images, attempts[i].side);
        if (!worth_trying(s, images, &attempts[i], budget)) continue;
        ole_status status = try_one(s, images, &attempts[i], bytes, error);
        if (status == OLE_OK && bytes->size <= budget) return OLE_OK;
        ole_text_free(bytes);
        if (status != OLE_OK) return status;
    }
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "a page's map: %lld thumbnails do not fit; omit them, or use fewer points",
                    (long long)images->count);
}
