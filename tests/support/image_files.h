/* tests/support/image_files.h - reads image files of a test and compares their pixels. */
#ifndef OLE_TESTS_IMAGE_FILES_H
#define OLE_TESTS_IMAGE_FILES_H

#include "data/images/image.h"
#include "data_files.h"

static inline ole_image read_good(const char *name, int channels) {
    ole_image image;
    ole_error error;
    assert_ok(ole_image_read(data_path(name), channels, &image, &error), &error);
    return image;
}

static inline void read_bad(const char *name, ole_status status, const char *words) {
    ole_image image;
    ole_error error = {0};
    ole_status got = ole_image_read(data_path(name), 0, &image, &error);
    if (got != status || !strstr(error.message, words))
        fail_msg("%s: status %s, message \"%s\", which should have \"%s\"", name,
                 ole_status_name(got), error.message, words);
    assert_null(image.planar);
}

static inline void check_image(ole_image *image, int channels, int height, int width,
                               const uint8_t *expected) {
    assert_int_equal(image->channels, channels);
    assert_int_equal(image->height, height);
    assert_int_equal(image->width, width);
    if (expected) assert_memory_equal(image->planar, expected, (size_t)(channels * height * width));
    ole_image_free(image);
}

/* The pixels of a file, and that its header alone tells the same size. */
static inline void check_file(const char *name, int channels, int height, int width,
                              const uint8_t *expected) {
    ole_image image = read_good(name, 0), probed;
    check_image(&image, channels, height, width, expected);
    assert_ok(ole_image_probe(data_path(name), &probed, NULL), &(ole_error){0});
    assert_null(probed.planar);
    check_image(&probed, channels, height, width, NULL);
}

/* Whole, a file can be read; cut off anywhere before its last `spare` bytes it is an error with
 * `words`, and no changed byte does worse than an error. */
static inline void check_damage(const char *name, size_t spare, const char *words) {
    size_t size;
    unsigned char *whole = data_read(name, &size);
    for (size_t cut = 4; cut < size - spare; cut += 1 + size / 64) {
        data_write(name, whole, cut);
        read_bad(name, OLE_ERROR_FORMAT, words);
    }
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit += 3) {
            data_write(name, whole, size);
            data_poke(name, (long)at, whole[at] ^ (1 << bit));
            ole_image image;
            ole_error error = {0};
            if (ole_image_read(data_path(name), 0, &image, &error) != OLE_OK)
                assert_non_null(strstr(error.message, name));
            ole_image_free(&image);
        }
    data_write(name, whole, size);
    ole_image image = read_good(name, 0);
    ole_image_free(&image);
    free(whole);
}

#endif
