/* fuzz/fuzz_npy.c - a .npy file, read as each type. */
#include "fuzz.h"
#include "ole/npy.h"

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

/* What is written is read back, byte for byte. */
static void check_round_trip(const ole_npy *array) {
    const ole_npy_header *h = ole_npy_get_header(array);
    size_t size = (size_t)h->count * sizeof(double);
    double *out = malloc(size + 1), *again = malloc(size + 1);
    const char *path = fuzz_path("again.npy");
    ole_error error = {0};
    ole_npy *copy = NULL;
    require(out && again, "out of memory");
    if (h->count > 0 && ole_npy_read(array, OLE_F64, out, &error) == OLE_OK) {
        require(ole_npy_write(path, OLE_F64, h->ndim, h->shape, out, &error) == OLE_OK &&
                    ole_npy_open(&copy, path, &error) == OLE_OK,
                "what was read cannot be written and read again");
        require(ole_npy_get_header(copy)->count == h->count &&
                    ole_npy_read(copy, OLE_F64, again, &error) == OLE_OK &&
                    memcmp(out, again, size) == 0,
                "other numbers after writing");
        ole_npy_close(copy);
    }
    free(out);
    free(again);
}

void fuzz_one(const uint8_t *bytes, size_t size) {
    ole_npy *array;
    ole_error error = {0};
    ole_status status = ole_npy_open(&array, put_file("x.npy", bytes, size), &error);
    if (status != OLE_OK) {
        require(array == NULL, "an array in spite of an error");
        check_error(status, &error);
        return;
    }
    const ole_npy_header *h = ole_npy_get_header(array);
    size_t data_size = (size_t)h->count * ole_dtype_size(h->dtype);
    require(h->ndim >= 0 && h->ndim <= OLE_NPY_MAX_DIMS, "the dimensions are out of range");
    require(data_size <= size, "more elements than the file has bytes");
    if (ole_npy_data(array)) touch(ole_npy_data(array), data_size);
    read_as(array, OLE_F32);
    read_as(array, OLE_F64);
    read_as(array, OLE_I64);
    check_round_trip(array);
    ole_npy_close(array);
}
