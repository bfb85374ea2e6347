/* fuzz/fuzz_cifar.c - CIFAR-10 and CIFAR-100. */
#include "check_set.h"

void fuzz_one(const uint8_t *bytes, size_t size) {
    static const uint8_t record[2 + 3 * 32 * 32];
    for (int i = 1; i <= 5; i++) {
        char name[20];
        snprintf(name, sizeof name, "data_batch_%d.bin", i);
        put_file(name, record, sizeof record - 1);
    }
    put_file("test_batch.bin", record, sizeof record - 1);
    put_file("data_batch_3.bin", bytes, size);
    check_set("cifar10");
    put_file("train.bin", record, sizeof record);
    put_file("test.bin", bytes, size);
    check_set("cifar100");
}
