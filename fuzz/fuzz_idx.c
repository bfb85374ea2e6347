/* fuzz/fuzz_idx.c - MNIST's images and labels, plain or gzipped. */
#include "check_set.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const uint8_t images[16 + 40] = {0, 0, 8, 3, 0, 0, 0, 10, 0, 0, 0, 2, 0, 0, 0, 2};
    static const uint8_t labels[8 + 10] = {0, 0, 8, 1, 0, 0, 0, 10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    put_file("t10k-images-idx3-ubyte", images, sizeof images);
    put_file("t10k-labels-idx1-ubyte", labels, sizeof labels);
    put_file("train-images-idx3-ubyte", bytes, size);
    put_file("train-labels-idx1-ubyte", labels, sizeof labels);
    check_set("mnist");
    put_file("train-images-idx3-ubyte", images, sizeof images);
    put_file("train-labels-idx1-ubyte", bytes, size);
    check_set("mnist");
}
