/* fuzz/fuzz_input.c - features and labels in one file, read as .npy, .npz, .csv and .txt. */
#include "formats/input.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        for (int64_t i = 0; status == OLE_OK && i < rows && labels.names; i++) {
            const char *label = labels.names[labels.values[i]];
            touch(label, strlen(label));
        }
        if (status == OLE_OK) touch(labels.values, (size_t)rows * sizeof *labels.values);
        ole_labels_free(&labels);
    }
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const char *const files[] = {"x.npy", "x.npz", "x.csv", "x.txt"};
    for (int i = 0; i < 4; i++) {
        char column[120], path[100];
        snprintf(path, sizeof path, "%s", put_file(files[i], bytes, size));
        snprintf(column, sizeof column, "%s:%s", path, i == 1 ? "x" : "kind");
        read_features(path, column);
        read_features(path, NULL);
        read_labels(path);
        read_labels(column);
    }
}
