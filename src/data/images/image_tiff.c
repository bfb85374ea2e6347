/*
 * src/data/images/image_tiff.c - tiff through libtiff: the first page of a file.
 *
 * libtiff turns what a tiff file may hold (1 to 16 bits, grey, palettes, inks, strips and tiles,
 * its many compressions) into red, green, blue and alpha of eight bits.  It reports errors to a
 * handler; the first one is the reason given here.
 */
#include "data/images/image.h"

#include "base/error.h"
#include "base/quote.h"
#include "data/formats/stream.h"

#include <stdlib.h>
#include <unistd.h>

#include <tiffio.h>

typedef struct decoder {
    const char *name;
    FILE *file;
    TIFF *tiff;
    char message[200]; /* the first error; "": none */
} decoder;

static int keep_error(TIFF *tiff, void *context, const char *module, const char *format,
                      va_list args) {
    (void)tiff, (void)module;
    decoder *d = context;
    if (!*d->message) vsnprintf(d->message, sizeof d->message, format, args);
    return 1; /* so that libtiff prints nothing */
}

static int ignore_warning(TIFF *tiff, void *context, const char *module, const char *format,
                          va_list args) {
    (void)tiff, (void)context, (void)module, (void)format, (void)args;
    return 1;
}

static ole_status fail_tiff(const decoder *d, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: unreadable tiff: %s", d->name,
                    ole_quote_string(*d->message ? d->message : "it is damaged").text);
}

/* `room`: the largest piece of memory that libtiff may ask for. */
static void open_tiff(decoder *d, int64_t room) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    int fd = options ? dup(fileno(d->file)) : -1;
    if (fd >= 0) {
        TIFFOpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)room);
        TIFFOpenOptionsSetErrorHandlerExtR(options, keep_error, d);
        TIFFOpenOptionsSetWarningHandlerExtR(options, ignore_warning, d);
        d->tiff = TIFFFdOpenExt(fd, d->name, "r", options);
        if (!d->tiff) close(fd);
    }
    TIFFOpenOptionsFree(options);
}

/* A small file may not unpack to gigabytes, whatever its samples are. */
static ole_status check_room(decoder *d, uint32_t height, int64_t room, ole_error *error) {
    uint16_t planes = 1, config = PLANARCONFIG_CONTIG;
    TIFFGetFieldDefaulted(d->tiff, TIFFTAG_PLANARCONFIG, &config);
    if (config == PLANARCONFIG_SEPARATE)
        TIFFGetFieldDefaulted(d->tiff, TIFFTAG_SAMPLESPERPIXEL, &planes);
    double bytes = (double)TIFFScanlineSize64(d->tiff) * height * planes;
    double piece =
        (double)(TIFFIsTiled(d->tiff) ? TIFFTileSize64(d->tiff) : TIFFStripSize64(d->tiff));
    if (bytes <= (double)room && piece <= (double)room) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: the header promises %.0f MB, more than a file of its size holds", d->name,
                    (bytes > piece ? bytes : piece) / 1e6);
}

/* Grey with alpha comes as it is in the file, colours come multiplied by their alpha. */
static bool has_plain_alpha(TIFF *tiff) {
    uint16_t samples, extra, *kinds;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds);
    return samples == 2 && extra == 1 && kinds[0] == EXTRASAMPLE_UNASSALPHA;
}

static ole_status read_pixels(decoder *d, ole_image *out, ole_error *error) {
    int width = out->width, height = out->height, channels = out->channels;
    TIFFRGBAImage rgba;
    char reason[1024] = "";
    uint32_t *raster = malloc((size_t)width * (size_t)height * sizeof *raster);
    uint8_t *row = malloc((size_t)width * 4);
    ole_status status = OLE_OK;
    if (!raster || !row) {
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", d->name);
    } else if (!TIFFRGBAImageBegin(&rgba, d->tiff, 1, reason)) {
        if (!*d->message) snprintf(d->message, sizeof d->message, "%.199s", reason);
        status = fail_tiff(d, error);
    } else {
        rgba.req_orientation = rgba.orientation; /* rows as stored */
        if (!TIFFRGBAImageGet(&rgba, raster, (uint32_t)width, (uint32_t)height))
            status = fail_tiff(d, error);
        TIFFRGBAImageEnd(&rgba);
    }
    bool plain = has_plain_alpha(d->tiff);
    if (status == OLE_OK)
        status = ole_image_allocate(out, d->file, width, height, channels, true, d->name, error);
    for (int y = 0; status == OLE_OK && y < height; y++) {
        uint8_t *to = row;
        for (const uint32_t *p = raster + (size_t)y * (size_t)width, *end = p + width; p < end;
             p++) {
            *to++ = (uint8_t)TIFFGetR(*p);
            if (channels == 3) *to++ = (uint8_t)TIFFGetG(*p);
            if (channels == 3) *to++ = (uint8_t)TIFFGetB(*p);
            if (plain) *to++ = (uint8_t)TIFFGetA(*p);
        }
        if (plain) ole_image_drop_alpha(row, width, channels);
        ole_image_set_row(out, y, row);
    }
    free(raster);
    free(row);
    return status;
}

static ole_status read_page(decoder *d, int64_t room, bool pixels, ole_image *out,
                            ole_error *error) {
    uint32_t width = 0, height = 0;
    uint16_t colours = PHOTOMETRIC_RGB, orientation = ORIENTATION_TOPLEFT;
    TIFFGetField(d->tiff, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(d->tiff, TIFFTAG_IMAGELENGTH, &height);
    TIFFGetField(d->tiff, TIFFTAG_PHOTOMETRIC, &colours);
    TIFFGetFieldDefaulted(d->tiff, TIFFTAG_ORIENTATION, &orientation);
    bool grey = colours == PHOTOMETRIC_MINISBLACK || colours == PHOTOMETRIC_MINISWHITE;
    ole_status status =
        ole_image_allocate(out, d->file, width, height, grey ? 1 : 3, false, d->name, error);
    if (status == OLE_OK) status = check_room(d, height, room, error);
    if (status == OLE_OK && pixels) status = read_pixels(d, out, error);
    bool known = orientation >= ORIENTATION_TOPLEFT && orientation <= ORIENTATION_LEFTBOT;
    if (status == OLE_OK && known && !ole_image_turn(out, orientation))
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", d->name);
    return status;
}

ole_status ole_image_read_tiff(FILE *file, const char *name, bool pixels, ole_image *out,
                               ole_error *error) {
    decoder d = {.name = name, .file = file};
    int64_t room = ole_unpack_room(ole_image_file_size(file));
    open_tiff(&d, room);
    if (!d.tiff) return fail_tiff(&d, error);
    ole_status status = read_page(&d, room, pixels, out, error);
    TIFFClose(d.tiff);
    return status;
}
