/* fuzz/fuzz_svhn.c - SVHN's MATLAB files. */
#include "check_set.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    put_file("train_32x32.mat", bytes, size);
    put_file("test_32x32.mat", bytes, size);
    check_set("svhn");
}
