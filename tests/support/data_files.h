/*
 * tests/support/data_files.h - files of data sets made by the tests themselves, in a directory that
 * is removed with all it holds; and opening them.
 */
#ifndef OLE_TESTS_DATA_FILES_H
#define OLE_TESTS_DATA_FILES_H

#include "ole/train/data.h"
#include "test.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char data_dir[256];

/* A group setup: makes the directory. */
static inline int data_dir_make(void **state) {
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(data_dir, sizeof data_dir, "%s/ole-data-XXXXXX", base ? base : "/tmp");
    return mkdtemp(data_dir) ? 0 : -1;
}

static inline int data_remove_entry(const char *path, const struct stat *about, int kind,
                                    struct FTW *at) {
    (void)about, (void)kind, (void)at;
    return remove(path);
}

/* A group teardown. */
static inline int data_dir_remove(void **state) {
    (void)state;
    return nftw(data_dir, data_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A test setup: an empty directory. */
static inline int data_dir_empty(void **state) {
    return data_dir_remove(state) == 0 ? mkdir(data_dir, 0700) : -1;
}

/* The path of a file in the directory; valid until the eighth next call. */
static inline const char *data_path(const char *name) {
    static char paths[8][600];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", data_dir, name);
    return paths[turn];
}

/* Writes a file, and the folders above it. */
static inline void data_write(const char *name, const void *bytes, size_t size) {
    char path[600];
    snprintf(path, sizeof path, "%s", data_path(name));
    for (char *slash = path + strlen(data_dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static inline void data_write_gz(const char *name, const void *bytes, unsigned size) {
    gzFile file = gzopen(data_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, size), size);
    assert_int_equal(gzclose(file), Z_OK);
}

/* The whole of a file; free() it. */
static inline unsigned char *data_read(const char *name, size_t *size) {
    FILE *file = fopen(data_path(name), "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size + 1);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

/* A copy of a file that ends early, or with one byte changed. */
static inline void data_cut(const char *name, size_t size) {
    assert_int_equal(truncate(data_path(name), (off_t)size), 0);
}

static inline void data_poke(const char *name, long offset, int value) {
    FILE *file = fopen(data_path(name), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, offset, SEEK_SET), 0);
    assert_int_equal(fputc(value, file), value);
    fclose(file);
}

/* "NAME:directory/rest". */
static inline const char *data_name(const char *name, const char *rest) {
    static char text[700];
    snprintf(text, sizeof text, "%s:%s%s%s", name, data_dir, *rest ? "/" : "", rest);
    return text;
}

static inline ole_dataset *data_open(const char *name, const ole_dataset_options *options) {
    ole_dataset *set = NULL;
    ole_error error = {0};
    assert_ok(ole_dataset_open(&set, name, options, &error), &error);
    assert_non_null(set);
    return set;
}

/* The data set cannot be opened, and the message holds these words. */
static inline void data_expect(const char *name, const ole_dataset_options *options,
                               ole_status status, const char *words) {
    ole_dataset *set = (ole_dataset *)1;
    ole_error error = {0};
    ole_status got = ole_dataset_open(&set, name, options, &error);
    assert_null(set);
    if (got != status || !strstr(error.message, words))
        fail_msg("%s: status %s, message \"%s\", which should have \"%s\"", name,
                 ole_status_name(got), error.message, words);
    assert_null(strchr(error.message, '\n'));
}

#endif
