/*
 * fuzz/fuzz_input.c - features and labels in files that are nearly right, read as .npy, .npz, .csv
 * and .txt: no crash, no leak, and an error is one line.
 *
 *     fuzz_input [COUNT [SEED]]     COUNT mutated files (default 20000)
 */
#include "files.h"
#include "formats/input.h"

enum { KINDS = 4 };
static const char *const ends[KINDS] = {".npy", ".npz", ".csv", ".txt"};
static char links[KINDS][80];

static void remove_links(void) {
    for (int i = 0; i < KINDS; i++)
        unlink(links[i]);
}

static void read_features(const char *name, const char *labels) {
    ole_npy *array;
    ole_error error = {0};
    ole_status status = ole_features_open(&array, name, labels, &error);
    if (status != OLE_OK) {
        require(array == NULL, "an array in spite of an error");
        check_error(status, &error);
        return;
    }
    const ole_npy_header *h = ole_npy_get_header(array);
    double *out = malloc((size_t)h->count * sizeof *out + 1);
    require(out != NULL, "out of memory");
    require(ole_npy_read(array, OLE_F64, out, &error) == OLE_OK, "numbers that cannot be read");
    free(out);
    ole_npy_close(array);
}

static void read_labels(const char *name) {
    ole_labels labels;
    ole_error error = {0};
    for (int64_t rows = 0; rows < 6; rows++) {
        ole_status status = ole_labels_read(&labels, name, rows, "X.npy", &error);
        if (status != OLE_OK) check_error(status, &error);
        for (int64_t i = 0; status == OLE_OK && i < rows; i++)
            if (labels.names)
                sink += (unsigned)strlen(labels.names[labels.values[i]]);
            else
                sink += (unsigned)labels.values[i];
        ole_labels_free(&labels);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    put_file(bytes, size);
    for (int i = 0; i < KINDS; i++) {
        char column[400];
        if (!links[i][0]) {
            snprintf(links[i], sizeof links[i], "%s%s", path, ends[i]);
            require(symlink(path, links[i]) == 0, "cannot make a link");
            if (i == 0) atexit(remove_links);
        }
        snprintf(column, sizeof column, "%s:%s", links[i], i == 1 ? "x" : "kind");
        read_features(links[i], column);
        read_features(links[i], NULL);
        read_labels(links[i]);
        read_labels(column);
    }
    return 0;
}

#ifndef OLE_LIBFUZZER

enum { MAX_FILE = 1024 };

static size_t make_array(uint8_t *bytes) {
    static const char *const types[] = {"<U2", ">U1", "|S3", "<i2", "|u1", "<f4"};
    static const size_t sizes[] = {8, 4, 3, 2, 1, 4};
    size_t type = next_random(6), rows = next_random(6);
    int length =
        snprintf((char *)bytes + 10, MAX_FILE / 2,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%zu,), }\n", types[type], rows);
    memcpy(bytes, "\x93NUMPY\1\0", 8);
    bytes[8] = (uint8_t)length;
    bytes[9] = 0;
    size_t size = 10 + (size_t)length;
    for (size_t i = 0; i < rows * sizes[type]; i++)
        bytes[size++] = (uint8_t)(next_random(2) ? next_random(128) : 0);
    return size;
}

static void put_number(uint8_t *at, size_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* x.npy, stored. */
static size_t make_archive(uint8_t *bytes) {
    memset(bytes, 0, MAX_FILE);
    size_t array = make_array(bytes + 35), directory = 35 + array, end = directory + 51;
    const size_t heads[2] = {0, directory};
    for (int i = 0; i < 2; i++) {
        uint8_t *at = bytes + heads[i];
        memcpy(at, i ? "PK\1\2" : "PK\3\4", 4);
        put_number(at + 18 + 2 * i, array, 4);
        put_number(at + 22 + 2 * i, array, 4);
        put_number(at + 26 + 2 * i, 5, 2);
        memcpy(at + (i ? 46 : 30), "x.npy", 5);
    }
    memcpy(bytes + end, "PK\5\6", 4);
    put_number(bytes + end + 10, 1, 2);
    put_number(bytes + end + 16, directory, 4);
    return end + 22;
}

static size_t make_good(uint8_t *bytes) {
    static const char *const texts[] = {"a,kind,b\n1,\"x, \"\"y\"\"\",2.5\n-3,z,1e9\n",
                                        "1,2\n3,4\n5,6\n", "owl\ncat\r\n7\n", "1\n2\n-3\n"};
    size_t kind = next_random(6);
    if (kind == 4) return make_array(bytes);
    if (kind == 5) return make_archive(bytes);
    memcpy(bytes, texts[kind], strlen(texts[kind]));
    return strlen(texts[kind]);
}

static const char *const words[] = {",",      "\"",   "\n", "\r",    "kind", "PK\5\6",
                                    "PK\1\2", "<U",   "|O", "99999", "nan",  "\xff\xff\xff\xff",
                                    "-1",     "x.npy"};

int main(int argc, char **argv) {
    return fuzz_files(argc, argv, "fuzz_input", MAX_FILE, make_good, words,
                      sizeof words / sizeof *words);
}

#endif
