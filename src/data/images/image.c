/*
 * src/data/images/image.c - image files of all formats: which decoder, sizes, grey or colour.
 */
#include "data/images/image.h"

#include "base/error.h"
#include "base/quote.h"
#include "base/read_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

int64_t ole_image_file_size(FILE *file) {
    struct stat about;
    return fstat(fileno(file), &about) == 0 ? about.st_size : 0;
}

ole_status ole_image_allocate(ole_image *image, FILE *file, int64_t width, int64_t height,
                              int channels, bool pixels, const char *name, ole_error *error) {
    enum { SMALL_FILE = 1 << 20 };
    bool small = ole_image_file_size(file) < SMALL_FILE;
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

void ole_image_drop_alpha(uint8_t *row, int width, int channels) {
    uint8_t *to = row;
    for (const uint8_t *from = row; from < row + (channels + 1) * width; from += channels + 1)
        for (int c = 0; c < channels; c++)
            *to++ = (uint8_t)((from[c] * from[channels] + 127) / 255);
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

bool ole_image_has_name(const char *name) {
    static const char *const endings[] = {".png",  ".jpg", ".jpeg", ".webp", ".bmp",
                                          ".tiff", ".tif", ".pgm",  ".ppm",  ".pnm"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

/* ---- Formats ------------------------------------------------------------------------------- */

#ifndef OLE_HAVE_PNG
#define ole_image_read_png NULL
#endif
#ifndef OLE_HAVE_JPEG
#define ole_image_read_jpeg NULL
#endif
#ifndef OLE_HAVE_WEBP
#define ole_image_read_webp NULL
#endif
#ifndef OLE_HAVE_TIFF
#define ole_image_read_tiff NULL
#endif

static const struct {
    const char *magic; /* the file's first bytes; '?' is any */
    size_t length;
    ole_image_decoder *decode; /* NULL: not built */
    const char *name, *package;
} formats[] = {
    {"\x89PNG\r\n\x1a\n", 8, ole_image_read_png, "png", "libpng-dev"},
    {"\xff\xd8\xff", 3, ole_image_read_jpeg, "jpeg", "libjpeg-dev"},
    {"RIFF????WEBP", 12, ole_image_read_webp, "webp", "libwebp-dev"},
    {"II*\0", 4, ole_image_read_tiff, "tiff", "libtiff-dev"},
    {"MM\0*", 4, ole_image_read_tiff, "tiff", "libtiff-dev"},
    {"II+\0", 4, ole_image_read_tiff, "tiff", "libtiff-dev"}, /* BigTIFF */
    {"MM\0+", 4, ole_image_read_tiff, "tiff", "libtiff-dev"},
    {"BM", 2, ole_image_read_bmp, "", ""},
    {"P2", 2, ole_image_read_pnm, "", ""},
    {"P3", 2, ole_image_read_pnm, "", ""},
    {"P5", 2, ole_image_read_pnm, "", ""},
    {"P6", 2, ole_image_read_pnm, "", ""},
};

static bool begins_with(const char *bytes, const char *magic, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (magic[i] != '?' && bytes[i] != magic[i]) return false;
    return true;
}

static ole_status decode(FILE *file, const char *name, bool pixels, ole_image *out,
                         ole_error *error) {
    char first[12];
    size_t got = fread(first, 1, sizeof first, file);
    if (ferror(file))
        return ole_fail(error, OLE_ERROR_IO, "%s: cannot read: %s", name, strerror(errno));
    rewind(file);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (got < formats[i].length || !begins_with(first, formats[i].magic, formats[i].length))
            continue;
        if (formats[i].decode) return formats[i].decode(file, name, pixels, out, error);
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "%s: this build cannot read %s; install %s and rebuild", name,
                        formats[i].name, formats[i].package);
    }
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image", name);
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
    return read_file(path, ole_quote_string(path).text, false, out, error);
}

ole_status ole_image_read(const char *path, int channels, ole_image *out, ole_error *error) {
    const ole_quoted quoted = ole_quote_string(path);
    const char *name = quoted.text;
    *out = (ole_image){0};
    if (channels != 0 && channels != 1 && channels != 3)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: an image has 1 or 3 channels, not %d", name,
                        channels);
    ole_status status = read_file(path, name, true, out, error);
    if (status == OLE_OK) status = convert(out, channels, error);
    if (status != OLE_OK) ole_image_free(out);
    return status;
}
