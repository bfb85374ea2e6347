/*
 * src/data/images/image.c - reading an image file: which decoder, grey or colour; and pgm/ppm by
 * hand.
 */
#include "data/images/image.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

ole_status ole_image_allocate(ole_image *image, FILE *file, int64_t width, int64_t height,
                              int channels, bool pixels, const char *name, ole_error *error) {
    enum { SMALL_FILE = 1 << 20 };
    struct stat about;
    bool small = fstat(fileno(file), &about) == 0 && about.st_size < SMALL_FILE;
    int64_t most = small ? OLE_IMAGE_MAX_PIXELS / 4 : OLE_IMAGE_MAX_PIXELS;
    if (width < 1 || height < 1 || width > most || height > most || width * height > most)
        return ole_fail(
            error, OLE_ERROR_FORMAT,
            "%s: the header says %" PRId64 "x%" PRId64 " pixels; images%s have 1 to %d million",
            name, width, height, small ? " in files this small" : "", (int)(most / 1000000));
    uint8_t *planar = pixels ? malloc((size_t)width * (size_t)height * (size_t)channels) : NULL;
    if (pixels && !planar)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "%s: out of memory for %" PRId64 "x%" PRId64 " pixels", name, width,
                        height);
    *image = (ole_image){(int)width, (int)height, channels, planar};
    return OLE_OK;
}

void ole_image_set_row(ole_image *image, int y, const uint8_t *interleaved) {
    size_t plane = (size_t)image->width * (size_t)image->height;
    uint8_t *row = image->planar + (size_t)y * (size_t)image->width;
    for (int c = 0; c < image->channels; c++)
        for (int x = 0; x < image->width; x++)
            row[(size_t)c * plane + (size_t)x] = interleaved[x * image->channels + c];
}

/* In 16-bit fixed point. */
void ole_image_grey(const uint8_t *planes, size_t size, uint8_t *out) {
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)((planes[i] * 19595u + planes[size + i] * 38470u +
                            planes[2 * size + i] * 7471u + 0x8000u) >>
                           16);
}

void ole_image_free(ole_image *image) {
    free(image->planar);
    *image = (ole_image){0};
}

/* ---- pgm and ppm -------------------------------------------------------------------------- */

/* A number of the header: white space and comments before it, one white space after it is left. */
static bool read_number(FILE *file, int *value) {
    int c = fgetc(file);
    while (c != EOF && (isspace(c) || c == '#')) {
        if (c == '#')
            while (c != EOF && c != '\n')
                c = fgetc(file);
        c = fgetc(file);
    }
    if (!isdigit(c)) return false;
    *value = 0;
    for (; isdigit(c); c = fgetc(file)) {
        if (*value > OLE_IMAGE_MAX_PIXELS) return false;
        *value = *value * 10 + (c - '0');
    }
    if (c != EOF) ungetc(c, file);
    return true;
}

/* One sample, as text (P2, P3) or as one or two bytes, the high one first. */
static bool read_sample(FILE *file, bool text, int maximum, int *value) {
    if (text) return read_number(file, value) && *value <= maximum;
    int high = maximum > 255 ? fgetc(file) : 0, low = fgetc(file);
    if (high == EOF || low == EOF) return false;
    *value = high * 256 + low;
    return *value <= maximum;
}

static ole_status fail_pnm(FILE *file, const char *name, const char *what, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: byte %ld: %s", name, ftell(file), what);
}

/* The file must be long enough for the pixels its header promises before memory is asked for. */
static bool is_long_enough(FILE *file, int64_t samples, bool text, int maximum) {
    struct stat about;
    if (fstat(fileno(file), &about) != 0) return false;
    int64_t least = text ? 2 * samples - 1 : samples * (maximum > 255 ? 2 : 1);
    return about.st_size - ftell(file) >= least;
}

static ole_status read_pixels(FILE *file, const char *name, bool text, int maximum, ole_image *out,
                              ole_error *error) {
    uint8_t *row = malloc((size_t)out->width * (size_t)out->channels);
    if (!row) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    ole_status status = OLE_OK;
    for (int y = 0; status == OLE_OK && y < out->height; y++) {
        for (int i = 0; status == OLE_OK && i < out->width * out->channels; i++) {
            int value;
            if (read_sample(file, text, maximum, &value))
                row[i] = (uint8_t)((value * 255 + maximum / 2) / maximum);
            else
                status = fail_pnm(file, name,
                                  "a pixel is missing or over the maximum: the image "
                                  "is cut off or damaged",
                                  error);
        }
        if (status == OLE_OK) ole_image_set_row(out, y, row);
    }
    free(row);
    return status;
}

static ole_status read_pnm(FILE *file, const char *name, bool pixels, ole_image *out,
                           ole_error *error) {
    char kind[2];
    int width, height, maximum;
    if (fread(kind, 1, 2, file) != 2 || !read_number(file, &width) || !read_number(file, &height) ||
        !read_number(file, &maximum) || maximum < 1 || maximum > 65535 || !isspace(fgetc(file)))
        return fail_pnm(file, name, "the header is not that of a pgm or ppm image", error);
    bool text = kind[1] == '2' || kind[1] == '3';
    int channels = kind[1] == '3' || kind[1] == '6' ? 3 : 1;
    if (!is_long_enough(file, (int64_t)width * height * channels, text, maximum))
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: byte %ld: the file ends before its %dx%d pixels do: it is cut off",
                        name, ftell(file), width, height);
    ole_status status = ole_image_allocate(out, file, width, height, channels, pixels, name, error);
    if (status == OLE_OK && pixels) status = read_pixels(file, name, text, maximum, out, error);
    return status;
}

/* ---- All formats -------------------------------------------------------------------------- */

static ole_status decode(FILE *file, const char *name, bool pixels, ole_image *out,
                         ole_error *error) {
    uint8_t magic[8] = {0};
    size_t got = fread(magic, 1, sizeof magic, file);
    if (ferror(file))
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot read: %s", name, strerror(errno));
    rewind(file);
    if (got == 8 && memcmp(magic, "\x89PNG\r\n\x1a\n", 8) == 0)
        return ole_image_read_png(file, name, pixels, out, error);
    if (magic[0] == 0xff && magic[1] == 0xd8 && magic[2] == 0xff)
        return ole_image_read_jpeg(file, name, pixels, out, error);
    if (magic[0] == 'P' && strchr("2356", magic[1]) && magic[1])
        return read_pnm(file, name, pixels, out, error);
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: byte 0: this is no png, jpeg, pgm or ppm image",
                    name);
}

static ole_status convert(ole_image *image, int channels, ole_error *error) {
    if (channels == 0 || channels == image->channels) return OLE_OK;
    size_t plane = (size_t)image->width * (size_t)image->height;
    uint8_t *planar = image->planar;
    if (channels == 1) {
        ole_image_grey(planar, plane, planar);
    } else {
        planar = realloc(planar, 3 * plane);
        if (!planar) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an image");
        memcpy(planar + plane, planar, plane);
        memcpy(planar + 2 * plane, planar, plane);
        image->planar = planar;
    }
    image->channels = channels;
    return OLE_OK;
}

static ole_status read_file(const char *path, const char *name, bool pixels, ole_image *out,
                            ole_error *error) {
    *out = (ole_image){0};
    FILE *file = ole_fopen_regular(path);
    if (!file)
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot open: %s", name, ole_open_reason(errno));
    ole_status status = decode(file, name, pixels, out, error);
    fclose(file);
    return status;
}

ole_status ole_image_probe(const char *path, ole_image *out, ole_error *error) {
    ole_quoted quoted;
    return read_file(path, ole_quote_string(&quoted, path), false, out, error);
}

ole_status ole_image_read(const char *path, int channels, ole_image *out, ole_error *error) {
    ole_quoted quoted;
    const char *name = ole_quote_string(&quoted, path);
    *out = (ole_image){0};
    if (channels != 0 && channels != 1 && channels != 3)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: an image has 1 or 3 channels, not %d", name,
                        channels);
    ole_status status = read_file(path, name, true, out, error);
    if (status == OLE_OK) status = convert(out, channels, error);
    if (status != OLE_OK) ole_image_free(out);
    return status;
}
