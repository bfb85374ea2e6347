/*
 * tests/unit/data/test_data_real.c - the real files of the data sets, where OLE_DATA says they are:
 * published checksums, counts and statistics.  Each set that is not there is skipped.
 */
#include "data_files.h"

#include <math.h>

/* Opens the set out of $OLE_DATA, or skips the test. */
static ole_dataset *open_or_skip(const char *name) {
    const char *root = getenv("OLE_DATA");
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root ? root : "", name);
    if (!root || access(path, F_OK) != 0) {
        print_message("%s is not in OLE_DATA (%s): skipped\n", name, root ? root : "not set");
        skip();
    }
    return data_open(name, NULL);
}

static void check_statistics(const ole_dataset *set, const float *mean, const float *deviation) {
    float got_mean[OLE_MAX_CHANNELS], got_deviation[OLE_MAX_CHANNELS];
    ole_error error;
    assert_ok(ole_dataset_statistics(set, got_mean, got_deviation, &error), &error);
    for (int c = 0; c < ole_dataset_get_info(set)->channels; c++) {
        assert_float_equal(got_mean[c], mean[c], 1e-4);
        assert_float_equal(got_deviation[c], deviation[c], 1e-4);
    }
}

static void check_counts(const ole_dataset *set, int64_t train, int64_t test) {
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], train);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TEST], test);
}

static void count_good(void *context, const ole_file_check *file) {
    *(int *)context += file->state == OLE_FILE_GOOD;
}

static void check_files(const char *name, int good) {
    int count = 0;
    ole_error error;
    assert_ok(ole_dataset_check(name, count_good, &count, &error), &error);
    assert_int_equal(count, good);
}

static void test_mnist(void **state) {
    (void)state;
    ole_dataset *set = open_or_skip("mnist");
    check_files("mnist", 4);
    check_counts(set, 60000, 10000);
    check_statistics(set, (const float[]){0.13066f}, (const float[]){0.30811f});
    assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TRAIN)[0], 5);
    assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TEST)[0], 7);
    ole_dataset_close(set);
}

static void test_cifar10(void **state) {
    (void)state;
    ole_dataset *set = open_or_skip("cifar10");
    check_files("cifar10", 6);
    check_counts(set, 50000, 10000);
    check_statistics(set, (const float[]){0.49140f, 0.48216f, 0.44653f},
                     (const float[]){0.24703f, 0.24349f, 0.26159f});
    ole_dataset_close(set);
}

static void test_stl10(void **state) {
    (void)state;
    ole_dataset *set = open_or_skip("stl10");
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], 5000);
    check_statistics(set, (const float[]){0.44671f, 0.43981f, 0.40665f},
                     (const float[]){0.26034f, 0.25658f, 0.27127f});
    ole_dataset_close(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist),
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_stl10),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
