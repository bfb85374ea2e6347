/* fuzz/fuzz_stl10.c - STL-10: labels, and images, which are long, so most inputs repeat a few. */
#include "check_set.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    static uint8_t images[2 * 3 * 96 * 96];
    static const uint8_t labels[] = {1, 10};
    put_file("test_X.bin", images, sizeof images);
    put_file("test_y.bin", labels, sizeof labels);
    put_file("train_X.bin", images, sizeof images);
    put_file("train_y.bin", bytes, size);
    check_set("stl10");
    put_file("train_X.bin", bytes, size);
    put_file("train_y.bin", labels, sizeof labels);
    check_set("stl10");
}
