/*
 * src/data/images/image_bmp.c - bmp as Windows and OS/2 write it: 1, 4 and 8 bits with a palette,
 * also run-length encoded (8 bits), and 16, 24 and 32 bits of colour, with masks or without.
 *
 * None of the project's libraries reads bmp, and a format of bytes as they are takes few lines.
 */
#include "data/images/image.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_HEAD = 14, OLD_HEAD = 12, HEAD = 40, MASKS_AT = FILE_HEAD + HEAD, MAX_HEAD = 256 };
enum { PLAIN = 0, RLE8 = 1, MASKS = 3, MASKS_ALPHA = 6 }; /* kinds of compression */

typedef struct bmp_file {
    FILE *file;
    const char *name;
    int64_t size;          /* of the file */
    uint32_t head, pixels; /* size of the second header; where the pixels begin */
    int64_t width, height; /* as stored: a negative height is from top to bottom */
    uint32_t bits, kind, used;
    uint32_t mask[4];        /* of red, green, blue and alpha */
    uint8_t palette[256][3]; /* red, green, blue */
    bool grey;               /* all colours of the palette are */
} bmp_file;

static ole_status fail_bmp(const bmp_file *b, const char *why, ole_error *error) {
    return ole_fail(error, OLE_ERROR_FORMAT, "%s: unreadable bmp of %lld bytes: %s", b->name,
                    (long long)b->size, why);
}

/* ---- Headers and palette ------------------------------------------------------------------- */

static ole_status check_kind(const bmp_file *b, ole_error *error) {
    bool palette = b->bits == 1 || b->bits == 4 || b->bits == 8;
    bool plain = b->kind == PLAIN && (palette || b->bits == 24);
    bool runs = b->kind == RLE8 && b->bits == 8;
    bool masks = (b->bits == 16 || b->bits == 32) &&
                 (b->kind == PLAIN || b->kind == MASKS || b->kind == MASKS_ALPHA);
    if (plain || runs || masks) return OLE_OK;
    return ole_fail(error, OLE_ERROR_FORMAT,
                    "%s: a bmp with %u bits and compression %u is not supported; save it as png",
                    b->name, b->bits, b->kind);
}

static void set_masks(bmp_file *b, const uint8_t *bytes) {
    static const uint32_t five[4] = {0x7c00, 0x03e0, 0x001f, 0};
    static const uint32_t eight[4] = {0xff0000, 0x00ff00, 0x0000ff, 0};
    memcpy(b->mask, b->bits == 16 ? five : eight, sizeof b->mask);
    if (b->kind == PLAIN) return;
    bool alpha = b->kind == MASKS_ALPHA || b->head > HEAD + 12;
    for (int c = 0; c < (alpha ? 4 : 3); c++)
        b->mask[c] = ole_image_number(bytes + MASKS_AT + 4 * c, 4, true);
}

/* Four bytes a colour, three with the old header. */
static bool read_palette(bmp_file *b) {
    int step = b->head == OLD_HEAD ? 3 : 4;
    uint32_t all = 1u << b->bits, count = b->used > 0 && b->used < all ? b->used : all;
    b->grey = true;
    if (fseek(b->file, FILE_HEAD + (long)b->head, SEEK_SET) != 0) return false;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t colour[4];
        if (fread(colour, 1, (size_t)step, b->file) != (size_t)step) return false;
        for (int c = 0; c < 3; c++)
            b->palette[i][c] = colour[2 - c];
        b->grey = b->grey && colour[0] == colour[1] && colour[1] == colour[2];
    }
    return true;
}

static ole_status read_header(bmp_file *b, ole_error *error) {
    uint8_t bytes[MAX_HEAD] = {0};
    size_t got = fread(bytes, 1, sizeof bytes, b->file);
    b->pixels = ole_image_number(bytes + 10, 4, true);
    b->head = ole_image_number(bytes + FILE_HEAD, 4, true);
    bool old = b->head == OLD_HEAD;
    if (!old && b->head < HEAD) return fail_bmp(b, "the header is damaged", error);
    if (got < (old ? FILE_HEAD + OLD_HEAD : MASKS_AT)) return fail_bmp(b, "it is cut off", error);
    b->width = old ? (int32_t)ole_image_number(bytes + 18, 2, true)
                   : (int32_t)ole_image_number(bytes + 18, 4, true);
    b->height = old ? (int32_t)ole_image_number(bytes + 20, 2, true)
                    : (int32_t)ole_image_number(bytes + 22, 4, true);
    b->bits = ole_image_number(bytes + (old ? 24 : 28), 2, true);
    b->kind = old ? PLAIN : ole_image_number(bytes + 30, 4, true);
    b->used = old ? 0 : ole_image_number(bytes + 46, 4, true);
    ole_status status = check_kind(b, error);
    if (status != OLE_OK) return status;
    if (b->bits > 8) set_masks(b, bytes);
    if (b->bits <= 8 && !read_palette(b)) return fail_bmp(b, "it is cut off", error);
    return OLE_OK;
}

/* ---- Pixels -------------------------------------------------------------------------------- */

/* The bits of a mask, scaled to a byte. */
static uint8_t masked(uint32_t value, uint32_t mask) {
    if (mask == 0) return 0;
    int shift = __builtin_ctz(mask);
    uint64_t most = mask >> shift, part = (value & mask) >> shift;
    return (uint8_t)((part * 255 + most / 2) / most);
}

/* A row as stored to interleaved channels. */
static void convert_row(const bmp_file *b, const uint8_t *from, int width, uint8_t *to) {
    for (int x = 0; x < width; x++) {
        if (b->bits <= 8) {
            int each = 8 / (int)b->bits, shift = 8 - (int)b->bits * (x % each + 1);
            const uint8_t *colour = b->palette[from[x / each] >> shift & ((1 << b->bits) - 1)];
            for (int c = 0; c < (b->grey ? 1 : 3); c++)
                *to++ = colour[c];
        } else if (b->bits == 24) {
            for (int c = 2; c >= 0; c--)
                *to++ = from[3 * x + c];
        } else {
            int bytes = (int)b->bits / 8;
            uint32_t value = ole_image_number(from + bytes * x, bytes, true);
            for (int c = 0; c < (b->mask[3] ? 4 : 3); c++)
                *to++ = masked(value, b->mask[c]);
        }
    }
}

/* Runs of one byte, literal bytes, and jumps, over an image that is initially 0. */
static bool unpack_runs(FILE *file, int64_t width, int64_t height, uint8_t *out) {
    enum { END_OF_LINE, END, JUMP };
    for (int64_t x = 0, y = 0;;) {
        int count = fgetc(file), value = fgetc(file);
        if (value == EOF) return false;
        if (count == 0 && value == END) return true;
        if (count == 0 && value == END_OF_LINE) {
            x = 0;
            y++;
        } else if (count == 0 && value == JUMP) {
            int right = fgetc(file), up = fgetc(file);
            if (up == EOF) return false;
            x += right;
            y += up;
        } else {
            bool run = count > 0;
            if (!run) count = value;
            if (y >= height || x + count > width) return false;
            uint8_t *at = out + y * width + x;
            if (run)
                memset(at, value, (size_t)count);
            else if (fread(at, 1, (size_t)count, file) != (size_t)count ||
                     (count % 2 && fgetc(file) == EOF))
                return false;
            x += count;
        }
    }
}

static ole_status read_pixels(const bmp_file *b, ole_image *out, ole_error *error) {
    size_t width = (size_t)out->width, height = (size_t)out->height;
    bool runs = b->kind == RLE8;
    size_t stride = runs ? width : (width * b->bits + 31) / 32 * 4;
    uint8_t *stored = calloc(runs ? height : 1, stride), *row = malloc(4 * width);
    ole_status status = OLE_OK;
    if (!stored || !row)
        status = ole_fail(error, OLE_ERROR_MEMORY, "%s: out of memory", b->name);
    else if (fseek(b->file, (long)b->pixels, SEEK_SET) != 0 ||
             (runs && !unpack_runs(b->file, out->width, out->height, stored)))
        status = fail_bmp(b, "its pixels are cut off or damaged", error);
    for (size_t i = 0; status == OLE_OK && i < height; i++) {
        if (!runs && fread(stored, 1, stride, b->file) != stride) {
            status = fail_bmp(b, "its pixels are cut off", error);
            break;
        }
        convert_row(b, stored + (runs ? i * stride : 0), out->width, row);
        if (b->bits > 8 && b->mask[3]) ole_image_drop_alpha(row, out->width, 3);
        ole_image_set_row(out, (int)(b->height < 0 ? i : height - 1 - i), row);
    }
    free(stored);
    free(row);
    return status;
}

ole_status ole_image_read_bmp(FILE *file, const char *name, bool pixels, ole_image *out,
                              ole_error *error) {
    bmp_file b = {.file = file, .name = name, .size = ole_image_file_size(file)};
    ole_status status = read_header(&b, error);
    if (status != OLE_OK) return status;
    int64_t height = b.height < 0 ? -b.height : b.height;
    bool plain = b.kind != RLE8 && b.width > 0;
    int64_t stride = plain ? (b.width * b.bits + 31) / 32 * 4 : 0;
    if (plain && (b.size - b.pixels) / stride < height)
        return fail_bmp(&b, "it ends before its pixels do", error);
    status = ole_image_allocate(out, file, b.width, height, b.bits <= 8 && b.grey ? 1 : 3, pixels,
                                name, error);
    if (status == OLE_OK && pixels) status = read_pixels(&b, out, error);
    return status;
}
