/*
 * src/data/images/image_png.c - png through libpng's simplified interface, which handles palettes,
 * depths, interlacing and transparency, and reports errors by value.
 *
 * That interface unpacks every text chunk before the pixels, up to 8 MB out of 8 kB a thousand
 * times over.  Nobody here reads text, so libpng gets a stream without those chunks.
 */
#include "data/images/image.h"

#include "base/error.h"
#include "base/quote.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* A png file as libpng sees it: the chunks that are not text. */
typedef struct chunks {
    FILE *file;
    uint8_t head[8];  /* of the chunk: length and type, or the signature of the file */
    size_t head_left; /* bytes of it that libpng has not read yet, */
    size_t body_left; /* and of what follows it: data and checksum */
} chunks;

static bool is_text(const uint8_t *type) {
    return memcmp(type, "tEXt", 4) == 0 || memcmp(type, "zTXt", 4) == 0 ||
           memcmp(type, "iTXt", 4) == 0;
}

/* Reads the head of the next chunk that is no text; false at the end of the file. */
static bool next_chunk(chunks *c) {
    for (;;) {
        if (fread(c->head, 1, sizeof c->head, c->file) != sizeof c->head) return false;
        size_t body = ((size_t)c->head[0] << 24 | (size_t)c->head[1] << 16 |
                       (size_t)c->head[2] << 8 | c->head[3]) +
                      4;
        if (!is_text(c->head + 4)) {
            c->head_left = sizeof c->head;
            c->body_left = body;
            return true;
        }
        if (fseeko(c->file, (off_t)body, SEEK_CUR) != 0) return false;
    }
}

static ssize_t read_chunks(void *context, char *out, size_t size) {
    chunks *c = context;
    if (c->head_left == 0 && c->body_left == 0 && !next_chunk(c)) return 0;
    if (c->head_left > 0) {
        size_t part = size < c->head_left ? size : c->head_left;
        memcpy(out, c->head + sizeof c->head - c->head_left, part);
        c->head_left -= part;
        return (ssize_t)part;
    }
    size_t got = fread(out, 1, size < c->body_left ? size : c->body_left, c->file);
    c->body_left -= got;
    return (ssize_t)got;
}

/* NULL without memory. */
static FILE *without_text(chunks *c, FILE *file) {
    *c = (chunks){.file = file, .body_left = 8}; /* the signature passes as it is */
    return fopencookie(c, "rb", (cookie_io_functions_t){.read = read_chunks});
}

/*
 * The photo's orientation, from the eXIf chunk, which may come before or after the pixels: walks
 * through all chunks, then rewinds the file.
 */
static int find_orientation(FILE *file) {
    enum { UPRIGHT = 1, LONGEST = 1 << 16 };
    uint8_t head[8], *block = NULL;
    int orientation = UPRIGHT;
    off_t at = 8;
    while (!block && fseeko(file, at, SEEK_SET) == 0 && fread(head, 1, 8, file) == 8) {
        size_t size = ole_image_number(head, 4, false);
        if (memcmp(head + 4, "eXIf", 4) == 0 && size <= LONGEST && (block = malloc(size + 1)))
            orientation = ole_exif_orientation(block, fread(block, 1, size, file));
        at += 8 + (off_t)size + 4;
    }
    free(block);
    rewind(file);
    return orientation;
}

static ole_status fail_png(FILE *file, const char *name, const png_image *png, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: damaged png, at or before byte %ld: %s", name,
                    ftell(file), ole_quote_string(png->message).text);
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
        if (alpha) ole_image_drop_alpha(row, out->width, out->channels);
        ole_image_set_row(out, y, row);
    }
    free(pixels);
    return status;
}

ole_status ole_image_read_png(FILE *file, const char *name, bool pixels, ole_image *out,
                              ole_error *error) {
    chunks c;
    int orientation = find_orientation(file);
    FILE *stream = without_text(&c, file);
    if (!stream) return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    png_image png = {.version = PNG_IMAGE_VERSION};
    ole_status status = OLE_OK;
    if (!png_image_begin_read_from_stdio(&png, stream)) status = fail_png(file, name, &png, error);
    if (status == OLE_OK) {
        png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB; /* which libpng takes for linear light otherwise */
        int channels = png.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
        status =
            ole_image_allocate(out, file, png.width, png.height, channels, pixels, name, error);
    }
    if (status == OLE_OK && pixels) status = read_pixels(file, name, &png, out, error);
    if (status == OLE_OK && !ole_image_turn(out, orientation))
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    png_image_free(&png);
    fclose(stream);
    return status;
}
