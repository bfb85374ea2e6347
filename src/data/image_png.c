/*
 * src/data/image_png.c - png through libpng's simplified interface, which handles palettes, depths,
 * interlacing and transparency, and reports errors by value.
 */
#include "data/image.h"

#include "base/error.h"

#ifndef OLE_HAVE_PNG

ole_status ole_image_read_png(FILE *file, const char *name, bool pixels, ole_image *out,
                              ole_error *error) {
    (void)file, (void)pixels, (void)out;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%s: this build cannot read png: install libpng (libpng-dev) and build again",
                    name);
}

#else

#include "base/show.h"

#include <png.h>
#include <stdlib.h>

static ole_status fail_png(FILE *file, const char *name, const png_image *png, ole_error *error) {
    ole_shown shown;
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: damaged png, at or before byte %ld: %s", name,
                    ftell(file), ole_show_string(&shown, png->message));
}

/* What is transparent is black; by hand, on the bytes: libpng does it in linear light of eight
 * bits. */
static void drop_alpha(uint8_t *row, int width, int channels) {
    uint8_t *to = row;
    for (const uint8_t *from = row; from < row + (channels + 1) * width; from += channels + 1)
        for (int c = 0; c < channels; c++)
            *to++ = (uint8_t)((from[c] * from[channels] + 127) / 255);
}

static ole_status read_pixels(FILE *file, const char *name, png_image *png, ole_image *out,
                              ole_error *error) {
    bool alpha = png->format & PNG_FORMAT_FLAG_ALPHA;
    png->format = (png->format & PNG_FORMAT_FLAG_COLOR ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY) |
                  (alpha ? PNG_FORMAT_FLAG_ALPHA : 0);
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(*png));
    if (!pixels) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    ole_status status = OLE_OK;
    if (!png_image_finish_read(png, NULL, pixels, 0, NULL))
        status = fail_png(file, name, png, error);
    for (int y = 0; status == OLE_OK && y < out->height; y++) {
        uint8_t *row = pixels + (size_t)y * PNG_IMAGE_ROW_STRIDE(*png);
        if (alpha) drop_alpha(row, out->width, out->channels);
        ole_image_set_row(out, y, row);
    }
    free(pixels);
    return status;
}

ole_status ole_image_read_png(FILE *file, const char *name, bool pixels, ole_image *out,
                              ole_error *error) {
    png_image png = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_stdio(&png, file)) return fail_png(file, name, &png, error);
    png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* which libpng takes for linear light otherwise */
    int channels = png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
    ole_status status =
        ole_image_allocate(out, png.width, png.height, channels, pixels, name, error);
    if (status == OLE_OK && pixels) status = read_pixels(file, name, &png, out, error);
    png_image_free(&png);
    return status;
}

#endif
