/*
 * src/data/images/image_webp.c - webp through libwebp; of an animation the first picture.
 *
 * A webp file is a list of chunks.  libwebp decodes still images out of the whole file.  The parts
 * that it leaves to others are found here by walking through the list: the Exif block, which stands
 * at the end, and the first picture of an animation, which may cover a part of the canvas only.
 */
#include "data/images/image.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>

enum { RIFF_HEAD = 12, CHUNK_HEAD = 8, FRAME_HEAD = 16, MAX_EXIF = 1 << 16 };

/* Bytes of the file. */
typedef struct range {
    long at;
    size_t size; /* 0: there is none */
} range;

typedef struct webp_file {
    FILE *file;
    const char *name;
    int64_t size;
    range exif, frame; /* the frame of an animation, with its head */
    WebPBitstreamFeatures features;
} webp_file;

static ole_status fail_webp(const webp_file *w, VP8StatusCode code, ole_error *error) {
    const char *why =
        code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED ? "it is cut off"
        : code == VP8_STATUS_UNSUPPORTED_FEATURE ? "it has a feature that libwebp does not know"
                                                 : "it is damaged";
    if (code == VP8_STATUS_OUT_OF_MEMORY)
        return ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", w->name);
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: unreadable webp of %lld bytes: %s", w->name,
                    (long long)w->size, why);
}

/* Finds the first Exif block and the first frame; a truncated list ends the search. */
static void walk_chunks(webp_file *w) {
    uint8_t head[CHUNK_HEAD];
    for (int64_t at = RIFF_HEAD; at + CHUNK_HEAD <= w->size;) {
        if (fseek(w->file, (long)at, SEEK_SET) != 0 ||
            fread(head, 1, sizeof head, w->file) != sizeof head)
            return;
        at += CHUNK_HEAD;
        int64_t size = ole_image_number(head + 4, 4, true), left = w->size - at;
        range body = {(long)at, (size_t)(size < left ? size : left)};
        if (memcmp(head, "EXIF", 4) == 0 && w->exif.size == 0) w->exif = body;
        if (memcmp(head, "ANMF", 4) == 0 && w->frame.size == 0) w->frame = body;
        at += size + size % 2;
    }
}

/* The bytes of a range, to be freed; NULL without memory, or where they cannot be read. */
static uint8_t *read_range(const webp_file *w, range r) {
    uint8_t *bytes = malloc(r.size + 1);
    if (bytes && fseek(w->file, r.at, SEEK_SET) == 0 && fread(bytes, 1, r.size, w->file) == r.size)
        return bytes;
    free(bytes);
    return NULL;
}

static int find_orientation(const webp_file *w) {
    range exif = w->exif;
    if (exif.size > MAX_EXIF) exif.size = MAX_EXIF;
    uint8_t *block = exif.size > 0 ? read_range(w, exif) : NULL;
    int orientation = block ? ole_exif_orientation(block, exif.size) : 1;
    free(block);
    return orientation;
}

/* Decodes one picture into the canvas [height, width, step], whose corner it has at x, y. */
static VP8StatusCode decode_at(const webp_file *w, const uint8_t *bytes, size_t size, int x, int y,
                               uint8_t *canvas, int step) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return VP8_STATUS_INVALID_PARAM;
    VP8StatusCode code = WebPGetFeatures(bytes, size, &config.input);
    if (code != VP8_STATUS_OK) return code;
    int width = w->features.width, height = w->features.height;
    if (x + config.input.width > width || y + config.input.height > height)
        return VP8_STATUS_BITSTREAM_ERROR;
    size_t stride = (size_t)width * (size_t)step;
    size_t start = (size_t)y * stride + (size_t)x * (size_t)step;
    config.output.colorspace = step == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = canvas + start;
    config.output.u.RGBA.stride = (int)stride;
    config.output.u.RGBA.size = (size_t)height * stride - start;
    code = WebPDecode(bytes, size, &config);
    WebPFreeDecBuffer(&config.output);
    return code;
}

static VP8StatusCode decode_canvas(const webp_file *w, uint8_t *canvas, int step) {
    bool animated = w->features.has_animation;
    range r = animated ? w->frame : (range){0, (size_t)w->size};
    if (animated && r.size <= FRAME_HEAD) return VP8_STATUS_NOT_ENOUGH_DATA;
    uint8_t *bytes = read_range(w, r);
    if (!bytes) return VP8_STATUS_OUT_OF_MEMORY;
    VP8StatusCode code;
    if (animated) /* corners are stored halved */
        code = decode_at(w, bytes + FRAME_HEAD, r.size - FRAME_HEAD,
                         2 * (int)ole_image_number(bytes, 3, true),
                         2 * (int)ole_image_number(bytes + 3, 3, true), canvas, step);
    else
        code = decode_at(w, bytes, r.size, 0, 0, canvas, step);
    free(bytes);
    return code;
}

/* libwebp needs as much memory again as the canvas, so the planes come after it. */
static ole_status read_pixels(const webp_file *w, ole_image *out, ole_error *error) {
    int width = out->width, height = out->height;
    bool alpha = w->features.has_alpha || w->features.has_animation;
    int step = alpha ? 4 : 3;
    uint8_t *canvas = calloc((size_t)width * (size_t)height, (size_t)step);
    if (!canvas) return fail_webp(w, VP8_STATUS_OUT_OF_MEMORY, error);
    VP8StatusCode code = decode_canvas(w, canvas, step);
    ole_status status = code == VP8_STATUS_OK ? OLE_OK : fail_webp(w, code, error);
    if (status == OLE_OK)
        status = ole_image_allocate(out, w->file, width, height, 3, true, w->name, error);
    for (int y = 0; status == OLE_OK && y < height; y++) {
        uint8_t *row = canvas + (size_t)y * (size_t)width * (size_t)step;
        if (alpha) ole_image_drop_alpha(row, width, 3);
        ole_image_set_row(out, y, row);
    }
    free(canvas);
    return status;
}

ole_status ole_image_read_webp(FILE *file, const char *name, bool pixels, ole_image *out,
                               ole_error *error) {
    uint8_t head[4096]; /* libwebp says from these how large the image is */
    webp_file w = {.file = file, .name = name, .size = ole_image_file_size(file)};
    size_t got = fread(head, 1, sizeof head, file);
    VP8StatusCode code = WebPGetFeatures(head, got, &w.features);
    if (code != VP8_STATUS_OK) return fail_webp(&w, code, error);
    ole_status status =
        ole_image_allocate(out, file, w.features.width, w.features.height, 3, false, name, error);
    if (status != OLE_OK) return status;
    walk_chunks(&w);
    if (pixels) status = read_pixels(&w, out, error);
    if (status == OLE_OK && !ole_image_turn(out, find_orientation(&w)))
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", name);
    return status;
}
