/*
 * tests/unit/data/test_data_image_formats.c - bmp, webp and tiff files: every kind that is read,
 * transparency, orientation, damage, and sizes made to do harm.
 */
#include "image_files.h"

#ifdef OLE_HAVE_WEBP
#include <webp/encode.h>
#endif
#ifdef OLE_HAVE_TIFF
#include <tiffio.h>
#endif

/* Bytes in the making. */
typedef struct buffer {
    uint8_t bytes[8192];
    size_t size;
} buffer;

static void put(buffer *b, const void *bytes, size_t size) {
    assert_true(b->size + size <= sizeof b->bytes);
    memcpy(b->bytes + b->size, bytes, size);
    b->size += size;
}

/* A number, its low byte first. */
static void put_number(buffer *b, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        put(b, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

/* ---- bmp ---------------------------------------------------------------------------------- */

typedef struct bmp {
    int width, height, bits, kind;
    const uint32_t *colours; /* 0xRRGGBB, or masks for kinds 3 and 6 */
    int count;
    const void *pixels;
    size_t size;
} bmp;

static void write_bmp(const char *name, const bmp *image) {
    buffer b = {0};
    uint32_t at = 54 + 4 * (uint32_t)image->count;
    put(&b, "BM", 2);
    put_number(&b, at + (uint32_t)image->size, 4);
    put_number(&b, 0, 4);
    put_number(&b, at, 4);
    put_number(&b, 40, 4);
    put_number(&b, (uint32_t)image->width, 4);
    put_number(&b, (uint32_t)image->height, 4);
    put_number(&b, 1, 2);
    put_number(&b, (uint32_t)image->bits, 2);
    put_number(&b, (uint32_t)image->kind, 4);
    for (int i = 0; i < 3; i++)
        put_number(&b, 0, 4);
    put_number(&b, image->bits <= 8 ? (uint32_t)image->count : 0, 4);
    put_number(&b, 0, 4);
    for (int i = 0; i < image->count; i++)
        put_number(&b, image->colours[i], 4);
    put(&b, image->pixels, image->size);
    data_write(name, b.bytes, b.size);
}

static void test_bmp_colours(void **state) {
    (void)state;
    const uint8_t planes[] = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};
    const uint8_t up[] = {9, 8, 7, 12, 11, 10, 0, 0, 3, 2, 1, 6, 5, 4, 0, 0};
    write_bmp("c.bmp", &(bmp){2, 2, 24, 0, NULL, 0, up, sizeof up});
    check_file("c.bmp", 3, 2, 2, planes);
    const uint8_t down[] = {3, 2, 1, 6, 5, 4, 0, 0, 9, 8, 7, 12, 11, 10, 0, 0};
    write_bmp("c.bmp", &(bmp){2, -2, 24, 0, NULL, 0, down, sizeof down});
    check_file("c.bmp", 3, 2, 2, planes);
    const uint8_t four[] = {3, 2, 1, 99, 6, 5, 4, 0, 9, 8, 7, 0, 12, 11, 10, 255};
    write_bmp("c.bmp", &(bmp){2, -2, 32, 0, NULL, 0, four, sizeof four});
    check_file("c.bmp", 3, 2, 2, planes); /* the fourth byte means nothing */
    const uint32_t masks[] = {0x000000ff, 0x0000ff00, 0x00ff0000, 0xff000000};
    const uint8_t clear[] = {200, 100, 50, 255, 200, 100, 50, 128, 200, 100, 50, 0};
    write_bmp("c.bmp", &(bmp){3, 1, 32, 6, masks, 4, clear, sizeof clear});
    check_file("c.bmp", 3, 1, 3, (const uint8_t[]){200, 100, 0, 100, 50, 0, 50, 25, 0});
    const uint16_t five[] = {0x7fff, 0x7c00, 0x03e0, 0x0010};
    write_bmp("c.bmp", &(bmp){4, 1, 16, 0, NULL, 0, five, sizeof five});
    check_file("c.bmp", 3, 1, 4, (const uint8_t[]){255, 255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 132});
    const uint32_t six[] = {0xf800, 0x07e0, 0x001f};
    const uint16_t pixels[] = {0xffff, 0x0400};
    write_bmp("c.bmp", &(bmp){2, 1, 16, 3, six, 3, pixels, sizeof pixels});
    check_file("c.bmp", 3, 1, 2, (const uint8_t[]){255, 0, 255, 130, 255, 0});
}

static void test_bmp_palettes(void **state) {
    (void)state;
    const uint32_t greys[] = {0x000000, 0x808080, 0xffffff}, colours[] = {0x010203, 0x0a0b0c};
    const uint8_t eight[] = {0, 1, 2, 1, 9, 0, 0, 0}; /* 9 is beyond the palette: black */
    write_bmp("p.bmp", &(bmp){5, 1, 8, 0, greys, 3, eight, sizeof eight});
    check_file("p.bmp", 1, 1, 5, (const uint8_t[]){0, 128, 255, 128, 0});
    const uint8_t nibbles[] = {0x01, 0x10, 0, 0};
    write_bmp("p.bmp", &(bmp){3, 1, 4, 0, colours, 2, nibbles, sizeof nibbles});
    check_file("p.bmp", 3, 1, 3, (const uint8_t[]){1, 10, 10, 2, 11, 11, 3, 12, 12});
    const uint8_t bits[] = {0xa0, 0x80, 0, 0};
    write_bmp("p.bmp", &(bmp){9, 1, 1, 0, (const uint32_t[]){0, 0xffffff}, 2, bits, sizeof bits});
    check_file("p.bmp", 1, 1, 9, (const uint8_t[]){255, 0, 255, 0, 0, 0, 0, 0, 255});
    /* Three of 1; the next row; 2, 0, 1 as they are; a jump by 1 and 1; one of 2; the end. */
    const uint8_t runs[] = {3, 1, 0, 0, 0, 3, 2, 0, 1, 0, 0, 2, 1, 1, 1, 2, 0, 1};
    const uint8_t rows[] = {0,   0, 0,   0, 0, 0,   0,   0,   0, 255, /* the last rows first */
                            255, 0, 128, 0, 0, 128, 128, 128, 0, 0};
    write_bmp("r.bmp", &(bmp){5, 4, 8, 1, greys, 3, runs, sizeof runs});
    check_file("r.bmp", 1, 4, 5, rows);
}

/* OS/2: sizes of two bytes, colours of three. */
static void test_bmp_old(void **state) {
    (void)state;
    buffer b = {0};
    put(&b, "BM", 2);
    put_number(&b, 0, 4);
    put_number(&b, 0, 4);
    put_number(&b, 32, 4);
    put_number(&b, 12, 4);
    put_number(&b, 2, 2);
    put_number(&b, 1, 2);
    put_number(&b, 1, 2);
    put_number(&b, 1, 2);
    put(&b, (const uint8_t[]){3, 2, 1, 6, 5, 4}, 6);
    put(&b, (const uint8_t[]){0x40, 0, 0, 0}, 4);
    data_write("old.bmp", b.bytes, b.size);
    check_file("old.bmp", 3, 1, 2, (const uint8_t[]){1, 4, 2, 5, 3, 6});
}

static void test_bmp_damage(void **state) {
    (void)state;
    uint8_t pixels[16 * 12];
    memset(pixels, 77, sizeof pixels);
    write_bmp("d.bmp", &(bmp){4, 16, 24, 0, NULL, 0, pixels, sizeof pixels});
    check_damage("d.bmp", 0, "d.bmp: unreadable bmp of ");
    const uint8_t runs[] = {9, 1, 0, 0, 0, 3, 2, 0, 1, 0, 0, 2, 2, 1, 2, 2, 0, 1};
    write_bmp("r.bmp", &(bmp){9, 4, 8, 1, (const uint32_t[]){1, 2, 3}, 3, runs, sizeof runs});
    check_damage("r.bmp", 0, "r.bmp: unreadable bmp of ");
    write_bmp("w.bmp", &(bmp){5, 4, 8, 1, (const uint32_t[]){1, 2, 3}, 3, runs, sizeof runs});
    read_bad("w.bmp", OLE_ERROR_FORMAT, "its pixels are cut off or damaged"); /* a run too long */
    write_bmp("h.bmp", &(bmp){1 << 30, 1 << 30, 24, 0, NULL, 0, pixels, 9});
    read_bad("h.bmp", OLE_ERROR_FORMAT, "it ends before its pixels do");
    write_bmp("h.bmp", &(bmp){1 << 30, 2, 8, 1, (const uint32_t[]){1, 2, 3}, 3, runs, sizeof runs});
    read_bad("h.bmp", OLE_ERROR_FORMAT, "the header says 1073741824x2 pixels");
    write_bmp("h.bmp", &(bmp){0, 2, 8, 0, NULL, 0, pixels, sizeof pixels});
    read_bad("h.bmp", OLE_ERROR_FORMAT, "h.bmp: ");
    write_bmp("k.bmp", &(bmp){2, 2, 8, 4, NULL, 0, pixels, sizeof pixels});
    read_bad("k.bmp", OLE_ERROR_FORMAT, "a bmp with 8 bits and compression 4 is not supported");
}

/* ---- webp --------------------------------------------------------------------------------- */

#ifdef OLE_HAVE_WEBP

enum { WIDE = 5, HIGH = 3 };

/* Lossless: [HIGH, WIDE, 4] to a file in memory; the chunk of the picture begins at byte 12. */
static uint8_t *encode(const uint8_t *pixels, size_t *size) {
    WebPPicture picture;
    WebPConfig config;
    WebPMemoryWriter writer;
    assert_true(WebPConfigInit(&config) && WebPPictureInit(&picture));
    WebPMemoryWriterInit(&writer);
    config.lossless = config.exact = 1;
    picture.use_argb = 1;
    picture.width = WIDE;
    picture.height = HIGH;
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    assert_true(WebPPictureImportRGBA(&picture, pixels, 4 * WIDE));
    assert_true(WebPEncode(&config, &picture));
    WebPPictureFree(&picture);
    *size = writer.size;
    return writer.mem;
}

/* Pixels and, as planes over black, what is to be read of them. */
static void make_pixels(bool alpha, uint8_t *pixels, uint8_t *planes) {
    for (int i = 0; i < WIDE * HIGH; i++) {
        pixels[4 * i + 3] = (uint8_t)(alpha ? 17 * i : 255);
        for (int c = 0; c < 3; c++) {
            pixels[4 * i + c] = (uint8_t)(40 * c + 7 * i);
            planes[c * WIDE * HIGH + i] =
                (uint8_t)((pixels[4 * i + c] * pixels[4 * i + 3] + 127) / 255);
        }
    }
}

static void put_chunk(buffer *b, const char *type, const void *bytes, size_t size) {
    put(b, type, 4);
    put_number(b, (uint32_t)size, 4);
    put(b, bytes, size);
    if (size % 2) put_number(b, 0, 1);
}

/* The extended format: its first chunk, with flags and the size of the canvas. */
static void begin_extended(buffer *b, uint32_t flags, int width, int height) {
    *b = (buffer){0};
    put(b, "RIFF\0\0\0\0WEBPVP8X\12\0\0\0", 20);
    put_number(b, flags, 4);
    put_number(b, (uint32_t)width - 1, 3);
    put_number(b, (uint32_t)height - 1, 3);
}

static void write_extended(buffer *b, const char *name) {
    size_t size = b->size;
    b->size = 4;
    put_number(b, (uint32_t)size - 8, 4);
    b->size = size;
    data_write(name, b->bytes, size);
}

static void test_webp(void **state) {
    (void)state;
    for (int alpha = 0; alpha < 2; alpha++) {
        uint8_t pixels[4 * WIDE * HIGH], planes[3 * WIDE * HIGH];
        make_pixels(alpha, pixels, planes);
        size_t size;
        uint8_t *file = encode(pixels, &size);
        data_write("a.webp", file, size);
        check_file("a.webp", 3, HIGH, WIDE, planes);
        WebPFree(file);
    }
    uint8_t grey[3 * 64 * 64], *lossy;
    memset(grey, 99, sizeof grey);
    size_t size = WebPEncodeRGB(grey, 64, 64, 3 * 64, 90, &lossy);
    data_write("lossy.webp", lossy, size);
    ole_image image = read_good("lossy.webp", 0);
    for (int i = 0; i < 3 * 64 * 64; i++)
        assert_true(abs(image.planar[i] - 99) <= 2);
    check_image(&image, 3, 64, 64, NULL);
    WebPFree(lossy);
}

/* Orientation 6: the camera was held to the right. */
static void test_webp_orientation(void **state) {
    (void)state;
    static const uint8_t exif[] = {'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                   0,   1,   0,   0, 0, 6, 0, 0, 0, 0, 0,    0, 0};
    uint8_t pixels[4 * WIDE * HIGH], planes[3 * WIDE * HIGH], turned[3 * WIDE * HIGH];
    make_pixels(false, pixels, planes);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < WIDE; y++)
            for (int x = 0; x < HIGH; x++)
                turned[(c * WIDE + y) * HIGH + x] = planes[(c * HIGH + HIGH - 1 - x) * WIDE + y];
    size_t size;
    uint8_t *file = encode(pixels, &size);
    buffer b;
    begin_extended(&b, 8, WIDE, HIGH);
    put(&b, file + 12, size - 12);
    put_chunk(&b, "EXIF", exif, sizeof exif);
    write_extended(&b, "o.webp");
    check_file("o.webp", 3, WIDE, HIGH, turned);
    WebPFree(file);
}

/* The first picture lies at 2, 4 of a canvas of 9 x 8; what it does not cover is black. */
static void test_webp_animation(void **state) {
    (void)state;
    enum { W = 9, H = 8, X = 2, Y = 4 };
    uint8_t pixels[4 * WIDE * HIGH], planes[3 * WIDE * HIGH], canvas[3 * W * H] = {0};
    make_pixels(true, pixels, planes);
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < HIGH; y++)
            memcpy(canvas + (c * H + Y + y) * W + X, planes + (c * HIGH + y) * WIDE, WIDE);
    size_t size;
    uint8_t *file = encode(pixels, &size);
    for (int corner = X; corner <= 6; corner += 4) { /* at 6 it reaches over the canvas */
        buffer b, frame = {0};
        begin_extended(&b, 0x12, W, H);
        put_chunk(&b, "ANIM", "\0\0\0\0\0", 6);
        put_number(&frame, (uint32_t)corner / 2, 3);
        put_number(&frame, Y / 2, 3);
        put_number(&frame, WIDE - 1, 3);
        put_number(&frame, HIGH - 1, 3);
        put_number(&frame, 100, 4);
        put(&frame, file + 12, size - 12);
        put_chunk(&b, "ANMF", frame.bytes, frame.size);
        put_chunk(&b, "ANMF", frame.bytes, frame.size);
        write_extended(&b, "m.webp");
        if (corner == X)
            check_file("m.webp", 3, H, W, canvas);
        else
            read_bad("m.webp", OLE_ERROR_FORMAT, "it is damaged");
    }
    WebPFree(file);
}

static void test_webp_damage(void **state) {
    (void)state;
    uint8_t pixels[4 * WIDE * HIGH], planes[3 * WIDE * HIGH];
    make_pixels(true, pixels, planes);
    size_t size;
    uint8_t *file = encode(pixels, &size);
    data_write("d.webp", file, size);
    check_damage("d.webp", 2, "d.webp: ");
    data_cut("d.webp", size - 8);
    read_bad("d.webp", OLE_ERROR_FORMAT, "d.webp: unreadable webp of ");
    data_write("d.webp", "RIFF\x10\0\0\0WEBPjunkjunkjunk", 24);
    read_bad("d.webp", OLE_ERROR_FORMAT, "d.webp: unreadable webp of 24 bytes: it is damaged");
    WebPFree(file);
    buffer b;
    begin_extended(&b, 2, 1 << 14, 1 << 14);
    write_extended(&b, "w.webp");
    read_bad("w.webp", OLE_ERROR_FORMAT, "the header says 16384x16384 pixels");
    begin_extended(&b, 2, 4, 4);
    write_extended(&b, "w.webp");
    read_bad("w.webp", OLE_ERROR_FORMAT, "it is cut off"); /* an animation of no pictures */
}

#endif

/* ---- tiff --------------------------------------------------------------------------------- */

#ifdef OLE_HAVE_TIFF

typedef struct tiff {
    int bits, samples, colours; /* colours: the photometric tag */
    int extra;                  /* -1: all samples are colours */
    int packing;
    int tile; /* side of its tiles; 0: strips */
    int orientation;
    bool separate; /* a plane per sample */
} tiff;

enum { TIFF_WIDE = 7, TIFF_HIGH = 5 };

static uint8_t tiff_sample(int x, int y, int c) {
    return (uint8_t)(3 + 29 * x + 41 * y + 83 * c);
}

static void put_sample(uint8_t *at, int bits, int index, uint8_t value) {
    for (int k = 0; k < bits / 8; k++)
        at[index * bits / 8 + k] = value; /* 16 bits: 257 times the value */
}

/* A page of TIFF_WIDE x TIFF_HIGH. */
static void write_page(TIFF *out, const tiff *t) {
    int planes = t->separate ? t->samples : 1, each = t->samples / planes;
    TIFFSetField(out, TIFFTAG_IMAGEWIDTH, TIFF_WIDE);
    TIFFSetField(out, TIFFTAG_IMAGELENGTH, TIFF_HIGH);
    TIFFSetField(out, TIFFTAG_BITSPERSAMPLE, t->bits);
    TIFFSetField(out, TIFFTAG_SAMPLESPERPIXEL, t->samples);
    TIFFSetField(out, TIFFTAG_PHOTOMETRIC, t->colours);
    TIFFSetField(out, TIFFTAG_PLANARCONFIG,
                 t->separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    TIFFSetField(out, TIFFTAG_COMPRESSION, t->packing);
    TIFFSetField(out, TIFFTAG_ORIENTATION, t->orientation);
    if (t->extra >= 0) TIFFSetField(out, TIFFTAG_EXTRASAMPLES, 1, &(uint16_t){(uint16_t)t->extra});
    if (t->colours == PHOTOMETRIC_PALETTE) {
        uint16_t map[3][256];
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 256; i++)
                map[c][i] = (uint16_t)(257 * (uint8_t)(i * (c + 1)));
        TIFFSetField(out, TIFFTAG_COLORMAP, map[0], map[1], map[2]);
    }
    int width = t->tile ? t->tile : TIFF_WIDE, height = t->tile ? t->tile : TIFF_HIGH;
    if (t->tile) {
        TIFFSetField(out, TIFFTAG_TILEWIDTH, t->tile);
        TIFFSetField(out, TIFFTAG_TILELENGTH, t->tile);
    } else {
        TIFFSetField(out, TIFFTAG_ROWSPERSTRIP, TIFF_HIGH);
    }
    for (int p = 0; p < planes; p++) {
        uint8_t bytes[16 * 16 * 8] = {0};
        for (int y = 0; y < TIFF_HIGH; y++)
            for (int x = 0; x < TIFF_WIDE; x++)
                for (int c = 0; c < each; c++)
                    put_sample(bytes, t->bits, (y * width + x) * each + c,
                               tiff_sample(x, y, p + c));
        tmsize_t size = width * height * each * t->bits / 8;
        if (t->tile)
            assert_int_equal(TIFFWriteEncodedTile(out, (uint32_t)p, bytes, size), size);
        else
            assert_int_equal(TIFFWriteEncodedStrip(out, (uint32_t)p, bytes, size), size);
    }
    assert_true(TIFFWriteDirectory(out));
}

static void write_tiff(const char *name, const tiff *t) {
    TIFF *out = TIFFOpen(data_path(name), "w");
    assert_non_null(out);
    write_page(out, t);
    write_page(out, &(tiff){8, 1, PHOTOMETRIC_MINISBLACK, -1, COMPRESSION_NONE, 0, 1, false});
    TIFFClose(out); /* the second page is not read */
}

/* What is to be read of sample c of a pixel. */
static int tiff_expected(const tiff *t, int x, int y, int c) {
    int value = tiff_sample(x, y, c), last = tiff_sample(x, y, t->samples - 1);
    switch (t->colours) {
    case PHOTOMETRIC_MINISWHITE:
        return 255 - value;
    case PHOTOMETRIC_PALETTE:
        return (uint8_t)(tiff_sample(x, y, 0) * (c + 1));
    case PHOTOMETRIC_SEPARATED:
        return (255 - value) * (255 - last) / 255;
    default:
        return t->extra == EXTRASAMPLE_UNASSALPHA ? (value * last + 127) / 255 : value;
    }
}

static void check_tiff(const tiff *t) {
    bool grey = t->colours == PHOTOMETRIC_MINISBLACK || t->colours == PHOTOMETRIC_MINISWHITE;
    uint8_t planes[3 * TIFF_WIDE * TIFF_HIGH], *to = planes;
    for (int c = 0; c < (grey ? 1 : 3); c++)
        for (int y = 0; y < TIFF_HIGH; y++)
            for (int x = 0; x < TIFF_WIDE; x++)
                *to++ = (uint8_t)tiff_expected(t, x, y, c);
    write_tiff("a.tif", t);
    check_file("a.tif", grey ? 1 : 3, TIFF_HIGH, TIFF_WIDE, planes);
}

static void test_tiff(void **state) {
    (void)state;
    enum { NONE = COMPRESSION_NONE, LZW = COMPRESSION_LZW, ZIP = COMPRESSION_ADOBE_DEFLATE };
    enum { BLACK = PHOTOMETRIC_MINISBLACK, WHITE = PHOTOMETRIC_MINISWHITE, RGB = PHOTOMETRIC_RGB };
    enum { ALPHA = EXTRASAMPLE_UNASSALPHA, INKS = PHOTOMETRIC_SEPARATED };
    static const tiff kinds[] = {
        {8, 1, BLACK, -1, NONE, 0, 1, false},
        {8, 1, WHITE, -1, LZW, 0, 1, false},
        {16, 1, BLACK, -1, ZIP, 0, 1, false},
        {8, 2, BLACK, ALPHA, NONE, 0, 1, false},
        {8, 3, RGB, -1, LZW, 0, 1, false},
        {16, 3, RGB, -1, NONE, 0, 1, false},
        {8, 4, RGB, ALPHA, ZIP, 0, 1, false},
        {16, 4, RGB, ALPHA, NONE, 0, 1, false},
        {8, 3, RGB, -1, NONE, 0, 1, true},
        {16, 3, RGB, -1, LZW, 0, 1, true},
        {8, 3, RGB, -1, ZIP, 16, 1, false},
        {8, 1, BLACK, -1, NONE, 16, 1, false},
        {8, 4, INKS, -1, NONE, 0, 1, false},
        {8, 1, PHOTOMETRIC_PALETTE, -1, LZW, 0, 1, false},
        {8, 4, RGB, EXTRASAMPLE_ASSOCALPHA, NONE, 0, 1, false},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_tiff(&kinds[i]);
}

static void test_tiff_orientation(void **state) {
    (void)state;
    uint8_t turned[TIFF_WIDE * TIFF_HIGH], mirrored[TIFF_WIDE * TIFF_HIGH];
    for (int y = 0; y < TIFF_HIGH; y++)
        for (int x = 0; x < TIFF_WIDE; x++) {
            turned[x * TIFF_HIGH + TIFF_HIGH - 1 - y] = tiff_sample(x, y, 0);
            mirrored[y * TIFF_WIDE + TIFF_WIDE - 1 - x] = tiff_sample(x, y, 0);
        }
    write_tiff("o.tif", &(tiff){8, 1, PHOTOMETRIC_MINISBLACK, -1, COMPRESSION_NONE, 0, 6, false});
    check_file("o.tif", 1, TIFF_WIDE, TIFF_HIGH, turned);
    write_tiff("o.tif", &(tiff){8, 1, PHOTOMETRIC_MINISBLACK, -1, COMPRESSION_NONE, 0, 2, false});
    check_file("o.tif", 1, TIFF_HIGH, TIFF_WIDE, mirrored);
}

static void test_tiff_damage(void **state) {
    (void)state;
    TIFF *out = TIFFOpen(data_path("d.tif"), "w");
    write_page(out, &(tiff){8, 3, PHOTOMETRIC_RGB, -1, COMPRESSION_LZW, 0, 1, false});
    TIFFClose(out);
    check_damage("d.tif", 0, "d.tif: ");
    data_write("d.tif", "II*\0\x08\0\0\0\0\0", 10);
    read_bad("d.tif", OLE_ERROR_FORMAT, "d.tif: unreadable tiff: ");
    const tiff deep = {32, 1, PHOTOMETRIC_MINISBLACK, -1, COMPRESSION_NONE, 0, 1, false};
    write_tiff("f.tif", &deep);
    read_bad("f.tif", OLE_ERROR_FORMAT, "f.tif: unreadable tiff: ");
}

/* A header may promise anything: `bits` a sample, four samples, so many pixels a side. */
static void write_promise(const char *name, uint32_t side, int bits) {
    TIFF *out = TIFFOpen(data_path(name), "w");
    TIFFSetField(out, TIFFTAG_IMAGEWIDTH, side);
    TIFFSetField(out, TIFFTAG_IMAGELENGTH, side);
    TIFFSetField(out, TIFFTAG_BITSPERSAMPLE, bits);
    TIFFSetField(out, TIFFTAG_SAMPLESPERPIXEL, 4);
    TIFFSetField(out, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(out, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(out, TIFFTAG_COMPRESSION, COMPRESSION_ADOBE_DEFLATE);
    TIFFSetField(out, TIFFTAG_ROWSPERSTRIP, side);
    assert_true(TIFFWriteRawStrip(out, 0, (uint8_t[]){0x78, 0x9c, 3, 0}, 4) == 4);
    TIFFClose(out);
}

static void test_tiff_promises(void **state) {
    (void)state;
    write_promise("p.tif", 1u << 30, 8);
    read_bad("p.tif", OLE_ERROR_FORMAT, "the header says 1073741824x1073741824 pixels");
    write_promise("p.tif", 4000, 16);
    read_bad("p.tif", OLE_ERROR_FORMAT,
             "p.tif: the header promises 128 MB, more than a file of its size holds");
    write_promise("p.tif", 400, 16);
    read_bad("p.tif", OLE_ERROR_FORMAT, "p.tif: unreadable tiff: ");
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bmp_colours),    cmocka_unit_test(test_bmp_palettes),
        cmocka_unit_test(test_bmp_old),        cmocka_unit_test(test_bmp_damage),
#ifdef OLE_HAVE_WEBP
        cmocka_unit_test(test_webp),           cmocka_unit_test(test_webp_orientation),
        cmocka_unit_test(test_webp_animation), cmocka_unit_test(test_webp_damage),
#endif
#ifdef OLE_HAVE_TIFF
        cmocka_unit_test(test_tiff),           cmocka_unit_test(test_tiff_orientation),
        cmocka_unit_test(test_tiff_damage),    cmocka_unit_test(test_tiff_promises),
#endif
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
