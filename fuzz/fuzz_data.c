/*
 * fuzz/fuzz_data.c - damaged data files: whatever the bytes are, reading ends with images in order
 * or with an error of one line.
 *
 * The cases are small whole files (pgm, ppm, bmp, and where the libraries are there png, jpeg, webp
 * and tiff; idx; .npy), changed at random: bytes replaced, pieces cut out, doubled or cut off.
 *
 *     fuzz_data [COUNT [SEED]]
 */
#include "data/images/image.h"
#include "ole/npy.h"
#include "ole/train/data.h"
#include "random.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OLE_HAVE_PNG
#include <png.h>
#endif
#ifdef OLE_HAVE_JPEG
#include <jpeglib.h>
#endif
#ifdef OLE_HAVE_WEBP
#include <webp/encode.h>
#endif
#ifdef OLE_HAVE_TIFF
#include <tiffio.h>
#endif

enum { MAX_FILE = 4096, MAX_SEEDS = 16 };

typedef struct seed_file {
    const char *name;
    bool image; /* else a part of a data set */
    size_t size;
    unsigned char bytes[MAX_FILE];
} seed_file;

static seed_file seeds[MAX_SEEDS];
static int seed_count;
static char folder[] = "/tmp/ole-fuzz-XXXXXX";
static const char *working = "nothing";

static void require(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz_data: %s: %s; the files are in %s\n", working, what, folder);
    abort();
}

static const char *path_of(const char *name) {
    static char paths[4][200];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", folder, name);
    return paths[turn];
}

static void write_bytes(const char *name, const void *bytes, size_t size) {
    FILE *file = fopen(path_of(name), "wb");
    require(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0, "cannot write");
}

/* ---- Whole files -------------------------------------------------------------------------- */

static void add_seed(const char *name, bool image, const void *bytes, size_t size) {
    require(size <= MAX_FILE && seed_count < MAX_SEEDS, "a seed is too large");
    seed_file *seed = &seeds[seed_count++];
    seed->name = name;
    seed->image = image;
    seed->size = size;
    memcpy(seed->bytes, bytes, size);
}

/* Takes a file that was written as a seed. */
static void adopt(const char *name, bool image) {
    unsigned char bytes[MAX_FILE];
    FILE *file = fopen(path_of(name), "rb");
    require(file != NULL, "a seed is missing");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    add_seed(name, image, bytes, size);
}

/* A bmp of 8 bits, 16 colours and 16 x 16 pixels, plain or run-length encoded. */
static void make_bmp(const char *name, bool runs) {
    unsigned char bytes[54 + 64 + 256] = {
        'B', 'M', [10] = 54 + 64, [14] = 40, [18] = 16, [22] = 16, [26] = 1, [28] = 8, [46] = 16};
    bytes[30] = runs;
    for (int i = 54; i < 54 + 64 + 256; i++)
        bytes[i] = (unsigned char)(runs && i % 2 == 0 ? 1 + i % 16 : i % 16);
    add_seed(name, true, bytes, sizeof bytes);
}

#ifdef OLE_HAVE_TIFF
/* A tiff of 16 x 16 colours, packed. */
static void make_tiff(const char *name, int packing, unsigned char *pixels) {
    TIFF *tiff = TIFFOpen(path_of(name), "w");
    require(tiff != NULL, "cannot write");
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 16);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 16);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, packing);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 8);
    for (unsigned strip = 0; strip < 2; strip++)
        require(TIFFWriteEncodedStrip(tiff, strip, pixels + strip * 384, 384) == 384,
                "cannot write");
    TIFFClose(tiff);
    adopt(name, true);
}
#endif

static void make_images(void) {
    unsigned char pixels[16 * 16 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (unsigned char)(i * 7);
    char grey[300] = "P5 16 16 255\n";
    memcpy(grey + 13, pixels, 256);
    add_seed("g.pgm", true, grey, 13 + 256);
    add_seed("t.ppm", true, "P3 # text\n2 1 9\n1 2 3 4 5 6\n", 28);
    make_bmp("p.bmp", false);
    make_bmp("r.bmp", true);
#ifdef OLE_HAVE_WEBP
    uint8_t *webp;
    size_t size = WebPEncodeLosslessRGB(pixels, 16, 16, 48, &webp);
    add_seed("l.webp", true, webp, size);
    WebPFree(webp);
    size = WebPEncodeRGB(pixels, 16, 16, 48, 80, &webp);
    add_seed("v.webp", true, webp, size);
    WebPFree(webp);
#endif
#ifdef OLE_HAVE_TIFF
    make_tiff("n.tif", COMPRESSION_NONE, pixels);
    make_tiff("z.tif", COMPRESSION_LZW, pixels);
#endif
#ifdef OLE_HAVE_PNG
    png_image png = {
        .version = PNG_IMAGE_VERSION, .format = PNG_FORMAT_RGB, .width = 16, .height = 16};
    png_image_write_to_file(&png, path_of("c.png"), 0, pixels, 0, NULL);
    adopt("c.png", true);
#endif
#ifdef OLE_HAVE_JPEG
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    FILE *file = fopen(path_of("c.jpg"), "wb");
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = jpeg.image_height = 16;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < 16; y++) {
        JSAMPROW row = pixels + y * 16 * 3;
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    fclose(file);
    adopt("c.jpg", true);
#endif
}

/* MNIST of ten images, the test part the same, and two .npy files. */
static void make_sets(void) {
    unsigned char images[16 + 40] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 2};
    unsigned char labels[8 + 10] = {0, 0, 8, 1, 0, 0, 0, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    write_bytes("t10k-images-idx3-ubyte", images, sizeof images);
    write_bytes("t10k-labels-idx1-ubyte", labels, sizeof labels);
    add_seed("train-images-idx3-ubyte", false, images, sizeof images);
    add_seed("train-labels-idx1-ubyte", false, labels, sizeof labels);
    const float x[4][3] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {1, 1, 1}};
    const int64_t y[4] = {0, 1, 0, 1}, shape[2] = {4, 3};
    require(ole_npy_write(path_of("X.npy"), OLE_F32, 2, shape, x, NULL) == OLE_OK, "cannot write");
    require(ole_npy_write(path_of("y.npy"), OLE_I64, 1, shape, y, NULL) == OLE_OK, "cannot write");
    adopt("X.npy", false);
    adopt("y.npy", false);
    for (int i = 0; i < seed_count; i++)
        write_bytes(seeds[i].name, seeds[i].bytes, seeds[i].size);
}

/* ---- One case ----------------------------------------------------------------------------- */

/* Changes the bytes in place; returns the new size. */
static size_t change(test_random *r, unsigned char *bytes, size_t size) {
    for (int64_t n = 1 + random_below(r, 4); n > 0 && size > 0; n--) {
        size_t at = (size_t)random_below(r, (int64_t)size);
        size_t length = (size_t)random_below(r, (int64_t)(size - at < 16 ? size - at : 16) + 1);
        switch (random_below(r, 5)) {
        case 0:
            bytes[at] = (unsigned char)random_bits(r);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1u << random_below(r, 8));
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        case 3:
            if (size + length > MAX_FILE) break;
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
            break;
        default:
            size = at;
        }
    }
    return size;
}

static void check_error(ole_status status, const ole_error *error) {
    require(error->status == status, "the error has another status");
    require(memchr(error->message, '\0', sizeof error->message) != NULL, "no end of the message");
    require(strpbrk(error->message, "\n\r\x1b") == NULL, "the message is not one plain line");
    require(strstr(error->message, folder) || status != OLE_ERROR_FORMAT, "no file is named");
}

static void check_image(const char *path) {
    ole_image image;
    ole_error error;
    ole_status status = ole_image_read(path, 0, &image, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        require(image.planar == NULL, "an image after an error");
        return;
    }
    uint8_t out[3 * 5 * 7];
    require(image.width > 0 && image.height > 0, "an empty image");
    require((int64_t)image.width * image.height <= OLE_IMAGE_MAX_PIXELS, "a huge image");
    if ((int64_t)image.width * image.height < 1 << 20)
        require(ole_image_fit(&image, 5, 7, 3, out) == OLE_OK, "it cannot be fitted");
    ole_image_free(&image);
}

static void check_set(const char *name) {
    ole_dataset *set;
    ole_error error;
    ole_status status = ole_dataset_open(&set, name, NULL, &error);
    if (status != OLE_OK) {
        check_error(status, &error);
        return;
    }
    const ole_dataset_info *info = ole_dataset_get_info(set);
    for (int split = 0; split < 3; split++)
        for (int64_t i = 0; i < info->count[split]; i++) {
            int32_t label = ole_dataset_labels(set, split)[i];
            require(label >= 0 && label < info->classes, "a label out of range");
        }
    ole_dataset_close(set);
}

static void run_case(test_random *r) {
    seed_file *seed = &seeds[random_below(r, seed_count)];
    unsigned char bytes[MAX_FILE];
    memcpy(bytes, seed->bytes, seed->size);
    working = seed->name;
    write_bytes(seed->name, bytes, change(r, bytes, seed->size));
    char name[500];
    if (strstr(seed->name, ".npy"))
        snprintf(name, sizeof name, "npy:%s,%s", path_of("X.npy"), path_of("y.npy"));
    else
        snprintf(name, sizeof name, "mnist:%s", folder);
    if (seed->image)
        check_image(path_of(seed->name));
    else
        check_set(name);
    write_bytes(seed->name, seed->bytes, seed->size);
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 20000;
    test_random r = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    require(mkdtemp(folder) != NULL, "cannot make a folder");
    make_images();
    make_sets();
    for (long i = 0; i < count; i++)
        run_case(&r);
    for (int i = 0; i < seed_count; i++)
        unlink(path_of(seeds[i].name));
    unlink(path_of("t10k-images-idx3-ubyte"));
    unlink(path_of("t10k-labels-idx1-ubyte"));
    rmdir(folder);
    printf("%ld cases\n", count);
    return 0;
}
