/*
 * tests/unit/data/test_data_image.c - image files: each format, conversions, damage; and fitting.
 */
#include "image_files.h"

#include <time.h>

#ifdef OLE_HAVE_PNG
#include <png.h>
#endif
#ifdef OLE_HAVE_JPEG
#include <jpeglib.h>
#endif

static void write_text(const char *name, const char *text) {
    data_write(name, text, strlen(text));
}

/* ---- pgm and ppm -------------------------------------------------------------------------- */

static void test_pnm(void **state) {
    (void)state;
    const uint8_t grey[6] = {0, 10, 255, 3, 4, 5};
    write_text("a.pgm", "P2\n# a comment\n3 2 # another\n255\n0 10 255\n3 4 5\n");
    check_file("a.pgm", 1, 2, 3, grey);
    data_write("b.pgm", "P5 3 2 255\n\0\012\377\3\4\5", 17);
    check_file("b.pgm", 1, 2, 3, grey);
    data_write("c.ppm", "P6\n1 2\n255\n\1\2\3\4\5\6", 17);
    check_file("c.ppm", 3, 2, 1, (const uint8_t[]){1, 4, 2, 5, 3, 6});
    write_text("d.ppm", "P3 1 1 3 0 1 3");
    check_file("d.ppm", 3, 1, 1, (const uint8_t[]){0, 85, 255});
    data_write("e.pgm", "P5 2 1 65535\n\377\377\200\0", 17);
    check_file("e.pgm", 1, 1, 2, (const uint8_t[]){255, 128});
}

static void test_channels(void **state) {
    (void)state;
    data_write("c.ppm", "P6 2 1 255\n\377\0\0\0\377\0", 17);
    ole_image image = read_good("c.ppm", 1);
    check_image(&image, 1, 1, 2, (const uint8_t[]){76, 150}); /* ITU-R 601 */
    data_write("g.pgm", "P5 2 1 255\n\7\11", 13);
    image = read_good("g.pgm", 3);
    check_image(&image, 3, 1, 2, (const uint8_t[]){7, 9, 7, 9, 7, 9});
    ole_error error;
    assert_int_equal(ole_image_read(data_path("g.pgm"), 2, &image, &error), OLE_ERROR_ARGUMENT);
}

static void test_pnm_damage(void **state) {
    (void)state;
    write_text("a.pgm", "P5 3 2 255\nabcde");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "a.pgm: byte 11: the file ends before its 3x2 pixels do");
    write_text("a.pgm", "P5 99999 99999 255\nabcde");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "the file ends before its 99999x99999 pixels do");
    write_text("a.pgm", "P5 999999999999 2 255\nabcde");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "the header is not that of a pgm or ppm image");
    write_text("a.pgm", "P5 0 2 255\n");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "the header says 0x2 pixels");
    write_text("a.pgm", "P5 2 2 0\n1234");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "byte 8: the header is not that");
    write_text("a.pgm", "P5 two");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "the header is not that");
    write_text("a.pgm", "P2 2 2 9 1 2 3 10");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "byte 17: a pixel is missing or over the maximum");
    write_text("a.pgm", "P2 2 2 9 1 2 3 x");
    read_bad("a.pgm", OLE_ERROR_FORMAT, "a pixel is missing or over the maximum");
    write_text("a.png", "GIF89a not an image we read");
    read_bad("a.png", OLE_ERROR_FORMAT,
             "a.png: byte 0: not a png, jpeg, webp, bmp, tiff, pgm or ppm image");
    write_text("a.png", "");
    read_bad("a.png", OLE_ERROR_FORMAT, "a.png: byte 0: not a png");
    read_bad("missing.png", OLE_ERROR_IO, "missing.png: cannot open: No such file");
    mkdir(data_path("folder.png"), 0700);
    read_bad("folder.png", OLE_ERROR_IO, "folder.png: cannot open: Is a directory");
    assert_int_equal(mkfifo(data_path("pipe.png"), 0600), 0); /* that nobody writes to */
    read_bad("pipe.png", OLE_ERROR_IO, "pipe.png: cannot open: a pipe or a device; copy it to a");
    assert_int_equal(symlink("/dev/zero", data_path("zero.png")), 0);
    read_bad("zero.png", OLE_ERROR_IO, "zero.png: cannot open: a pipe or a device");
}

/* ---- png and jpeg ------------------------------------------------------------------------- */

#ifdef OLE_HAVE_PNG

static void write_png(const char *name, unsigned format, int width, int height,
                      const uint8_t *pixels) {
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .format = format,
                     .width = (unsigned)width,
                     .height = (unsigned)height};
    assert_true(png_image_write_to_file(&png, data_path(name), 0, pixels, 0, NULL));
}

static void test_png(void **state) {
    (void)state;
    const uint8_t pixels[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
    write_png("c.png", PNG_FORMAT_RGB, 2, 2, pixels);
    check_file("c.png", 3, 2, 2, (const uint8_t[]){1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 255});
    write_png("g.png", PNG_FORMAT_GRAY, 3, 1, pixels);
    check_file("g.png", 1, 1, 3, pixels);
    const uint8_t clear[8] = {200, 100, 50, 255, 200, 100, 50, 0};
    write_png("a.png", PNG_FORMAT_RGBA, 2, 1, clear); /* what is transparent is black */
    check_file("a.png", 3, 1, 2, (const uint8_t[]){200, 0, 100, 0, 50, 0});
    const uint8_t faint[8] = {200, 128, 101, 128,
                              77,  254, 3,   1}; /* and half of it half as bright */
    write_png("f.png", PNG_FORMAT_GA, 4, 1, faint);
    check_file("f.png", 1, 1, 4, (const uint8_t[]){100, 51, 77, 0});
}

/* A photo that lies: the eXIf chunk stands before the pixels, or after them. */
static void test_png_orientation(void **state) {
    (void)state;
    static const uint8_t pixels[] = "abcdef";
    uint8_t block[26] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 6};
    for (int after = 0; after < 2; after++) {
        FILE *file = fopen(data_path("turned.png"), "wb");
        png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
        png_infop info = png_create_info_struct(png);
        png_init_io(png, file);
        png_set_IHDR(png, info, 3, 2, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_write_info(png, info);
        if (!after) png_write_chunk(png, (png_const_bytep) "eXIf", block, sizeof block);
        png_write_row(png, pixels);
        png_write_row(png, pixels + 3);
        if (after) png_write_chunk(png, (png_const_bytep) "eXIf", block, sizeof block);
        png_write_end(png, NULL);
        png_destroy_write_struct(&png, &info);
        fclose(file);
        check_file("turned.png", 1, 3, 2, (const uint8_t *)"daebfc");
    }
}

/* 16 bits a pixel, as most programs write them: not a word about their gamma. */
static void test_png_deep(void **state) {
    (void)state;
    FILE *file = fopen(data_path("deep.png"), "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_IHDR(png, info, 3, 1, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    png_write_row(png, (const uint8_t[]){50, 50, 128, 128, 204, 204});
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    fclose(file);
    check_file("deep.png", 1, 1, 3, (const uint8_t[]){50, 128, 204});
}

static void test_png_damage(void **state) {
    (void)state;
    uint8_t pixels[32 * 32];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i * 31);
    write_png("g.png", PNG_FORMAT_GRAY, 32, 32, pixels);
    size_t size;
    unsigned char *whole = data_read("g.png", &size);
    for (size_t cut = 8; cut < size - 16; cut += size / 16) {
        data_write("cut.png", whole, cut);
        read_bad("cut.png", OLE_ERROR_FORMAT, "cut.png: damaged png, at or before byte ");
    }
    data_poke("g.png", (long)size / 2, whole[size / 2] ^ 1);
    read_bad("g.png", OLE_ERROR_FORMAT, "g.png: damaged png");
    data_write("huge.png", whole, size);
    data_poke("huge.png", 16, 0x7f); /* a width of 2^31, and a wrong checksum of the header */
    read_bad("huge.png", OLE_ERROR_FORMAT, "huge.png: ");
    free(whole);
}

/* A small file may not unpack to what only a large photo has. */
static void test_png_dense(void **state) {
    (void)state;
    uint8_t *black = calloc(5000, 4000);
    assert_non_null(black);
    write_png("black.png", PNG_FORMAT_GRAY, 5000, 4000, black);
    read_bad("black.png", OLE_ERROR_FORMAT,
             "black.png: the header says 5000x4000 pixels; images in files this small have 1 to 16 "
             "million");
    write_png("black.png", PNG_FORMAT_GRAY, 4000, 4000, black);
    check_file("black.png", 1, 4000, 4000, black);
    free(black);
}

/* A chunk of a png file; returns where it ends. */
static uint8_t *put_chunk(uint8_t *at, const char *type, const uint8_t *body, size_t size) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(size >> (24 - 8 * i));
    memcpy(at + 4, type, 4);
    memcpy(at + 8, body, size);
    uLong sum = crc32(0, at + 4, (uInt)size + 4);
    for (int i = 0; i < 4; i++)
        at[8 + size + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
    return at + 12 + size;
}

/*
 * Text of 8 MB in each of a thousand chunks, 8 kB packed: libpng would unpack all of it, for a
 * minute, before it says how large the picture is.
 */
static void test_png_text(void **state) {
    (void)state;
    enum { CHUNKS = 1000, TEXT = 7900000, HEAD = 33 }; /* HEAD: signature and IHDR */
    static const char *const kinds[] = {"zTXt", "iTXt"};
    static const uint8_t starts[2][7] = {"k\0", "k\0\1\0\0"};
    static const size_t lengths[2] = {3, 6};
    const uint8_t pixels[2] = {7, 9};
    write_png("g.png", PNG_FORMAT_GRAY, 2, 1, pixels);
    size_t size;
    unsigned char *whole = data_read("g.png", &size);
    uint8_t *text = calloc(1, TEXT), *packed = malloc(compressBound(TEXT) + 8);
    for (int kind = 0; kind < 2; kind++) {
        uLongf length = compressBound(TEXT);
        memcpy(packed, starts[kind], lengths[kind]);
        assert_int_equal(compress2(packed + lengths[kind], &length, text, TEXT, 9), Z_OK);
        length += lengths[kind];
        uint8_t *bomb = malloc(size + CHUNKS * (length + 12)), *end = bomb + HEAD;
        memcpy(bomb, whole, HEAD);
        for (int i = 0; i < CHUNKS; i++)
            end = put_chunk(end, kinds[kind], packed, length);
        memcpy(end, whole + HEAD, size - HEAD);
        data_write("bomb.png", bomb, (size_t)(end - bomb) + size - HEAD);
        free(bomb);
        clock_t began = clock();
        ole_image image = read_good("bomb.png", 0);
        check_image(&image, 1, 1, 2, pixels);
        assert_true((clock() - began) / CLOCKS_PER_SEC < 5);
    }
    free(text);
    free(packed);
    free(whole);
}

#endif

#ifdef OLE_HAVE_JPEG

static void write_jpeg(const char *name, int side, int channels, J_COLOR_SPACE space) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(data_path(name), "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = (unsigned)side;
    jpeg.input_components = channels;
    jpeg.in_color_space = space;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < side; y++) {
        uint8_t pixels[256 * 4];
        for (int i = 0; i < side * channels; i++)
            pixels[i] = (uint8_t)(100 + 10 * (i % channels) + y);
        JSAMPROW row = pixels;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

static void test_jpeg(void **state) {
    (void)state;
    write_jpeg("c.jpg", 32, 3, JCS_RGB);
    ole_image image = read_good("c.jpg", 0);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 32 * 32; i++)
            assert_true(abs(image.planar[c * 1024 + i] - (100 + 10 * c + i / 32)) <= 3);
    check_image(&image, 3, 32, 32, NULL);
    write_jpeg("g.jpg", 16, 1, JCS_GRAYSCALE);
    check_file("g.jpg", 1, 16, 16, NULL);
}

static void test_jpeg_damage(void **state) {
    (void)state;
    write_jpeg("c.jpg", 64, 3, JCS_RGB);
    size_t size;
    unsigned char *whole = data_read("c.jpg", &size);
    for (size_t cut = 4; cut < size - 2; cut += size / 16) {
        data_write("cut.jpg", whole, cut);
        read_bad("cut.jpg", OLE_ERROR_FORMAT, "cut.jpg: unreadable jpeg, at or before byte ");
    }
    for (size_t at = 2; at < size; at += 7) { /* no damage may do worse than an error */
        data_write("odd.jpg", whole, size);
        data_poke("odd.jpg", (long)at, whole[at] ^ 0xa5);
        ole_image image;
        ole_image_read(data_path("odd.jpg"), 0, &image, NULL);
        ole_image_free(&image);
    }
    free(whole);
}

/* A grey progressive jpeg of 1 + 63 * `levels` scans: each frequency alone, bit by bit. */
static void write_scans(const char *name, int levels) {
    static jpeg_scan_info scans[1 + 63 * 10];
    int count = 0;
    scans[count++] = (jpeg_scan_info){.comps_in_scan = 1};
    for (int k = 1; k < 64; k++)
        for (int low = levels - 1; low >= 0; low--)
            scans[count++] = (jpeg_scan_info){.comps_in_scan = 1,
                                              .Ss = k,
                                              .Se = k,
                                              .Ah = low == levels - 1 ? 0 : low + 1,
                                              .Al = low};
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(data_path(name), "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = 16;
    jpeg.input_components = 1;
    jpeg.in_color_space = JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg.scan_info = scans;
    jpeg.num_scans = count;
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < 16; y++) {
        uint8_t pixels[16] = {0};
        JSAMPROW row = pixels;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
}

/* Each scan is a pass over all pixels, in a few bytes. */
static void test_jpeg_scans(void **state) {
    (void)state;
    write_scans("few.jpg", 1);
    check_file("few.jpg", 1, 16, 16, (const uint8_t[256]){0});
    for (int levels = 2; levels <= 10; levels += 8) {
        write_scans("many.jpg", levels);
        read_bad("many.jpg", OLE_ERROR_FORMAT,
                 ": more than 100 scans take too long to read; save it as a baseline jpeg");
        assert_int_equal(ole_image_probe(data_path("many.jpg"), &(ole_image){0}, NULL), OLE_OK);
    }
}

/* Ink c leaves 100 + 10 c + y of 255 of the light, black 130 + y, by Adobe's marker. */
static void test_jpeg_inks(void **state) {
    (void)state;
    write_jpeg("inks.jpg", 32, 4, JCS_CMYK);
    ole_image image = read_good("inks.jpg", 0);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 32 * 32; i++) {
            int light = 100 + 10 * c + i / 32, black = 130 + i / 32;
            assert_true(abs(image.planar[c * 1024 + i] - light * black / 255) <= 3);
        }
    check_image(&image, 3, 32, 32, NULL);
}

/* The jpeg of a name with an Exif block behind its first two bytes. */
static void add_exif(const char *from, const char *to, int orientation, bool little) {
    size_t size;
    unsigned char *whole = data_read(from, &size), *with = malloc(size + 36);
    unsigned char block[36] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0};
    static const unsigned char tiff[2][26] = {
        {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1},
        {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0}};
    memcpy(block + 10, tiff[little], 26);
    block[10 + 18 + (little ? 0 : 1)] = (unsigned char)orientation;
    memcpy(with, whole, 2);
    memcpy(with + 2, block, sizeof block);
    memcpy(with + 38, whole + 2, size - 2);
    data_write(to, with, size + 36);
    free(whole);
    free(with);
}

/* A picture whose stored rows grow brighter, which may be its columns, or the other way round. */
static void test_jpeg_orientation(void **state) {
    (void)state;
    static const int down[10] = {1, 1, 1, -1, -1, 0, 0, 0, 0, 1}; /* 0 and 9 are none */
    static const int right[10] = {0, 0, 0, 0, 0, 1, -1, -1, 1, 0};
    write_jpeg("c.jpg", 32, 1, JCS_GRAYSCALE);
    for (int o = 0; o <= 9; o++) {
        add_exif("c.jpg", "o.jpg", o, o % 2);
        ole_image image = read_good("o.jpg", 0);
        const uint8_t *p = image.planar;
        int rows = p[31 * 32] - p[0], columns = p[31] - p[0];
        assert_true(abs(rows - 31 * down[o]) <= 3);
        assert_true(abs(columns - 31 * right[o]) <= 3);
        check_image(&image, 1, 32, 32, NULL);
    }
}

#endif

/* All eight of a picture whose six pixels differ. */
static void test_turn(void **state) {
    (void)state;
    static const char *const upright[9] = {NULL,     "abcdef", "cbafed", "fedcba", "defabc",
                                           "adbecf", "daebfc", "fcebda", "cfbead"};
    for (int o = 1; o <= 8; o++) {
        ole_image image = {.width = 3, .height = 2, .channels = 1, .planar = malloc(6)};
        memcpy(image.planar, "abcdef", 6);
        assert_true(ole_image_turn(&image, o));
        assert_int_equal(image.width, o < 5 ? 3 : 2);
        assert_int_equal(image.height, o < 5 ? 2 : 3);
        assert_memory_equal(image.planar, upright[o], 6);
        ole_image_free(&image);
    }
    ole_image looked = {.width = 3, .height = 2, .channels = 1};
    assert_true(ole_image_turn(&looked, 6));
    assert_true(looked.width == 2 && looked.height == 3 && !looked.planar);
}

/* ---- Fitting ------------------------------------------------------------------------------ */

static void test_fit_same(void **state) {
    (void)state;
    uint8_t pixels[2 * 3 * 3], out[18];
    for (int i = 0; i < 18; i++)
        pixels[i] = (uint8_t)(i * 13);
    const ole_image image = {3, 2, 3, pixels};
    assert_int_equal(ole_image_fit(&image, 2, 3, 3, out), OLE_OK);
    assert_memory_equal(out, pixels, 18);
    assert_int_equal(ole_image_fit(&image, 2, 2, 3, out), OLE_OK); /* the middle, rounded down */
    assert_memory_equal(out, ((const uint8_t[]){0, 13, 39, 52}), 4);
}

static void test_fit_scale(void **state) {
    (void)state;
    uint8_t steps[8] = {0, 0, 0, 0, 200, 200, 200, 200}, out[16];
    const ole_image wide = {8, 1, 1, steps};
    uint8_t column[64];
    for (int i = 0; i < 64; i++)
        column[i] = steps[i % 8];
    const ole_image image = {8, 8, 1, column};
    /* halved: output x takes source 2x-1 .. 2x+2 with weights 1, 3, 3, 1, fewer at the border */
    assert_int_equal(ole_image_fit(&image, 4, 4, 1, out), OLE_OK);
    for (int y = 0; y < 4; y++)
        assert_memory_equal(out + 4 * y, ((const uint8_t[]){0, 25, 175, 200}), 4);
    /* doubled: plain bilinear between pixel centres */
    const uint8_t two[4] = {0, 100, 0, 100};
    const ole_image small = {2, 2, 1, (uint8_t *)two};
    assert_int_equal(ole_image_fit(&small, 4, 4, 1, out), OLE_OK);
    assert_memory_equal(out, ((const uint8_t[]){0, 25, 75, 100}), 4);
    /* covering 1x2 out of 1x8 leaves its middle as it is */
    assert_int_equal(ole_image_fit(&wide, 1, 2, 1, out), OLE_OK);
    assert_memory_equal(out, ((const uint8_t[]){0, 200}), 2);
}

/* So long that its scaled width is more than an int holds: the middle of it all the same. */
static void test_fit_long(void **state) {
    (void)state;
    const int width = 1 << 26;
    uint8_t *row = calloc((size_t)width, 1), out[32 * 32], white[32 * 32];
    assert_non_null(row);
    memset(row + width / 3, 255, (size_t)(width / 3));
    memset(white, 255, sizeof white);
    const ole_image image = {width, 1, 1, row};
    assert_int_equal(ole_image_fit(&image, 32, 32, 1, out), OLE_OK);
    assert_memory_equal(out, white, sizeof white);
    free(row);
}

/* Memory follows what is kept of a tall image, not its height: here that would be 4 TB. */
static void test_fit_tall(void **state) {
    (void)state;
    enum { TALL = 1 << 26, WIDE = 1 << 14 };
    const ole_image tall = {1, TALL, 1, calloc(TALL, 1)};
    uint8_t out[2 * WIDE] = {1};
    tall.planar[TALL / 2] = tall.planar[TALL / 2 - 1] = 50;
    assert_int_equal(ole_image_fit(&tall, 2, WIDE, 1, out), OLE_OK);
    for (int i = 0; i < 2 * WIDE; i++)
        assert_int_equal(out[i], 50);
    free(tall.planar);
}

static void test_fit_channels(void **state) {
    (void)state;
    uint8_t red[3] = {255, 0, 0}, out[3], grey[1] = {9};
    const ole_image colour = {1, 1, 3, red}, plain = {1, 1, 1, grey};
    assert_int_equal(ole_image_fit(&colour, 1, 1, 1, out), OLE_OK);
    assert_int_equal(out[0], 76);
    assert_int_equal(ole_image_fit(&plain, 1, 1, 3, out), OLE_OK);
    assert_memory_equal(out, ((const uint8_t[]){9, 9, 9}), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pnm, data_dir_empty),
        cmocka_unit_test_setup(test_channels, data_dir_empty),
        cmocka_unit_test_setup(test_pnm_damage, data_dir_empty),
#ifdef OLE_HAVE_PNG
        cmocka_unit_test_setup(test_png, data_dir_empty),
        cmocka_unit_test_setup(test_png_orientation, data_dir_empty),
        cmocka_unit_test_setup(test_png_deep, data_dir_empty),
        cmocka_unit_test_setup(test_png_damage, data_dir_empty),
        cmocka_unit_test_setup(test_png_dense, data_dir_empty),
        cmocka_unit_test_setup(test_png_text, data_dir_empty),
#endif
#ifdef OLE_HAVE_JPEG
        cmocka_unit_test_setup(test_jpeg, data_dir_empty),
        cmocka_unit_test_setup(test_jpeg_damage, data_dir_empty),
        cmocka_unit_test_setup(test_jpeg_scans, data_dir_empty),
        cmocka_unit_test_setup(test_jpeg_inks, data_dir_empty),
        cmocka_unit_test_setup(test_jpeg_orientation, data_dir_empty),
#endif
        cmocka_unit_test(test_turn),
        cmocka_unit_test(test_fit_same),
        cmocka_unit_test(test_fit_scale),
        cmocka_unit_test(test_fit_long),
        cmocka_unit_test(test_fit_tall),
        cmocka_unit_test(test_fit_channels),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
