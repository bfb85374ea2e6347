/*
 * fuzz/fuzz_npy.c - .npy files that are nearly right: no crash, no leak, and an error is one line.
 *
 *     fuzz_npy [COUNT [SEED]]       COUNT mutated files (default 20000)
 *
 * The same target serves libFuzzer: clang -fsanitize=fuzzer -DOLE_LIBFUZZER.
 */
#include "files.h"
#include "ole/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_as(const ole_npy *array, ole_dtype as) {
    int64_t count = ole_npy_get_header(array)->count;
    void *out = malloc((size_t)count * ole_dtype_size(as) + 1);
    require(out != NULL, "out of memory");
    ole_error error = {0};
    ole_status status = ole_npy_read(array, as, out, &error);
    if (status != OLE_OK) check_error(status, &error);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    put_file(bytes, size);
    ole_npy *array;
    ole_error error = {0};
    ole_status status = ole_npy_open(&array, path, &error);
    if (status != OLE_OK) {
        require(array == NULL, "an array in spite of an error");
        check_error(status, &error);
        return 0;
    }
    const ole_npy_header *h = ole_npy_get_header(array);
    size_t data_size = (size_t)h->count * ole_dtype_size(h->dtype);
    require(h->ndim >= 0 && h->ndim <= OLE_NPY_MAX_DIMS, "the dimensions are out of range");
    require(data_size <= size, "more elements than the file has bytes");
    const unsigned char *data = ole_npy_data(array);
    for (size_t i = 0; data && i < data_size; i++)
        sink += data[i];
    read_as(array, OLE_F32);
    read_as(array, OLE_F64);
    read_as(array, OLE_I64);
    ole_npy_close(array);
    return 0;
}

#ifndef OLE_LIBFUZZER

enum { MAX_FILE = 1024 };

/* A good file of a random version, type, order and shape; returns its size. */
static size_t make_good(uint8_t *bytes) {
    static const char *const types[] = {"<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "|i1",
                                        "<i2", ">i4", "<i8", "|u1", ">u2", "<u4", ">u8"};
    const char *type = types[next_random(sizeof types / sizeof *types)];
    unsigned rows = (unsigned)next_random(5), cols = 1 + (unsigned)next_random(4);
    unsigned version = 1 + (unsigned)next_random(3);
    size_t begin = version == 1 ? 10 : 12;
    int length = snprintf((char *)bytes + begin, MAX_FILE - begin,
                          "{'descr': '%s', 'fortran_order': %s, 'shape': (%u, %u), }\n", type,
                          next_random(2) ? "True" : "False", rows, cols);
    memcpy(bytes, "\x93NUMPY", 6);
    memset(bytes + 6, 0, begin - 6);
    bytes[6] = (uint8_t)version;
    bytes[8] = (uint8_t)length;
    size_t size = begin + (size_t)length;
    size_t data = (size_t)rows * cols * (size_t)(type[2] - '0');
    for (size_t i = 0; i < data; i++)
        bytes[size++] = (uint8_t)next_random(256);
    return size;
}

/* What the format is made of, and what breaks it. */
static const char *const words[] = {"-1",         "99999999999999999999",
                                    "4294967296", "(",
                                    ")",          "'",
                                    "{",          "}",
                                    ",",          "|O",
                                    "[('a'",      "False",
                                    "\\",         ":",
                                    "L"};

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "fuzz_npy", MAX_FILE, make_good, words,
                      sizeof words / sizeof *words);
}

#endif
