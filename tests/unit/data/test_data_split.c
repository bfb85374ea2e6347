/*
 * tests/unit/data/test_data_split.c - stratified splits, samples per class, choice of classes,
 * statistics, and the random numbers and checksums under them.
 */
#include "base/philox.h"
#include "data/download/checksum.h"
#include "data/loader/augment.h"
#include "data/loader/order.h"
#include "data_files.h"

#include <math.h>

static ole_dataset_options defaults(void) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    return options;
}

static void count_classes(const ole_dataset *set, ole_split split, int64_t count[10]) {
    memset(count, 0, 10 * sizeof *count);
    for (int64_t i = 0; i < ole_dataset_get_info(set)->count[split]; i++)
        count[ole_dataset_labels(set, split)[i]]++;
}

/* A sample's pixels as one number; different digits differ. */
static uint64_t fingerprint(const ole_dataset *set, ole_split split, int64_t i) {
    float sample[64];
    ole_error error;
    assert_ok(ole_dataset_sample(set, split, i, sample, &error), &error);
    uint64_t hash = 14695981039346656037u;
    for (int k = 0; k < 64; k++)
        hash = (hash ^ (uint64_t)(sample[k] * 255.0f + 0.5f)) * 1099511628211u;
    return hash;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The fingerprints of a split, sorted; free() them. */
static uint64_t *prints(const ole_dataset *set, ole_split split, int64_t *count) {
    *count = ole_dataset_get_info(set)->count[split];
    uint64_t *list = malloc((size_t)(*count + 1) * sizeof *list);
    for (int64_t i = 0; i < *count; i++)
        list[i] = fingerprint(set, split, i);
    qsort(list, (size_t)*count, sizeof *list, compare);
    return list;
}

static int64_t common(const uint64_t *a, int64_t count_a, const uint64_t *b, int64_t count_b) {
    int64_t shared = 0;
    for (int64_t i = 0; i < count_a; i++)
        shared += bsearch(&a[i], b, (size_t)count_b, sizeof *b, compare) != NULL;
    return shared;
}

/* ---- Validation --------------------------------------------------------------------------- */

static void test_validation(void **state) {
    (void)state;
    ole_dataset *whole = data_open("digits", NULL);
    ole_dataset_options options = defaults();
    options.validation = 0.1;
    ole_dataset *set = data_open("digits", &options);
    int64_t all[10], train[10], validation[10], n_all, n_train, n_validation, n_test;
    count_classes(whole, OLE_SPLIT_TRAIN, all);
    count_classes(set, OLE_SPLIT_TRAIN, train);
    count_classes(set, OLE_SPLIT_VALIDATION, validation);
    for (int c = 0; c < 10; c++) {
        assert_int_equal(train[c] + validation[c], all[c]);
        assert_true(fabs((double)validation[c] - 0.1 * (double)all[c]) <= 0.5);
    }
    uint64_t *in_all = prints(whole, OLE_SPLIT_TRAIN, &n_all);
    uint64_t *in_train = prints(set, OLE_SPLIT_TRAIN, &n_train);
    uint64_t *in_validation = prints(set, OLE_SPLIT_VALIDATION, &n_validation);
    uint64_t *in_test = prints(set, OLE_SPLIT_TEST, &n_test);
    assert_int_equal(common(in_train, n_train, in_all, n_all), n_train);
    assert_int_equal(common(in_validation, n_validation, in_all, n_all), n_validation);
    assert_int_equal(common(in_train, n_train, in_validation, n_validation), 0);
    assert_int_equal(common(in_train, n_train, in_test, n_test), 0);
    free(in_all), free(in_train), free(in_validation), free(in_test);
    ole_dataset_close(whole);
    ole_dataset_close(set);
}

/* What is held out to calibrate are the samples that validation would take, or none. */
static void test_calibration(void **state) {
    (void)state;
    static const struct {
        double validation, calibration;
        int64_t samples_per_class;
        double as; /* the share of validation alone that holds out the same */
    } cases[] = {{0.0, 0.1, 0, 0.1}, {0.2, 0.1, 0, 0.2}, {0.0, 0.1, 5, 0.0}, {0.1, 0.2, 5, 0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ole_dataset_options options = defaults();
        options.validation = cases[i].validation;
        options.calibration = cases[i].calibration;
        options.samples_per_class = cases[i].samples_per_class;
        ole_dataset *set = data_open("digits", &options);
        options.validation = cases[i].as;
        options.calibration = 0.0;
        ole_dataset *other = data_open("digits", &options);
        for (int s = 0; s < 3; s++) {
            int64_t count, others;
            uint64_t *list = prints(set, (ole_split)s, &count);
            uint64_t *expected = prints(other, (ole_split)s, &others);
            assert_int_equal(count, others);
            assert_memory_equal(list, expected, (size_t)count * sizeof *list);
            free(list);
            free(expected);
        }
        ole_dataset_close(set);
        ole_dataset_close(other);
    }
}

static void test_seed(void **state) {
    (void)state;
    ole_dataset_options options = defaults();
    options.validation = 0.3;
    uint64_t *validation[3], *test[3];
    int64_t n_validation, n_test;
    for (int i = 0; i < 3; i++) {
        options.seed = i == 2; /* 0, 0, 1 */
        ole_dataset *set = data_open("digits", &options);
        validation[i] = prints(set, OLE_SPLIT_VALIDATION, &n_validation);
        test[i] = prints(set, OLE_SPLIT_TEST, &n_test);
        ole_dataset_close(set);
    }
    size_t bytes = (size_t)n_validation * sizeof **validation;
    assert_memory_equal(validation[0], validation[1], bytes);
    assert_memory_not_equal(validation[0], validation[2], bytes);
    assert_memory_equal(test[0], test[2], (size_t)n_test * sizeof **test); /* never by the seed */
    for (int i = 0; i < 3; i++)
        free(validation[i]), free(test[i]);
}

/* ---- Samples a class ---------------------------------------------------------------------- */

static void test_samples_per_class(void **state) {
    (void)state;
    ole_dataset_options options = defaults();
    int64_t count[10], n_few, n_more;
    options.validation = 0.1;
    options.samples_per_class = 5;
    ole_dataset *few = data_open("digits", &options);
    options.samples_per_class = 20;
    ole_dataset *more = data_open("digits", &options);
    count_classes(few, OLE_SPLIT_TRAIN, count);
    for (int c = 0; c < 10; c++)
        assert_int_equal(count[c], 5);
    uint64_t *in_few = prints(few, OLE_SPLIT_TRAIN, &n_few);
    uint64_t *in_more = prints(more, OLE_SPLIT_TRAIN, &n_more);
    assert_int_equal(n_more, 200);
    assert_int_equal(common(in_few, n_few, in_more, n_more), n_few); /* the same and some more */
    free(in_few), free(in_more);
    assert_int_equal(ole_dataset_get_info(few)->count[OLE_SPLIT_VALIDATION],
                     ole_dataset_get_info(more)->count[OLE_SPLIT_VALIDATION]);
    ole_dataset_close(few);
    ole_dataset_close(more);
    options.samples_per_class = 1000;
    data_expect("digits", &options, OLE_ERROR_ARGUMENT,
                "digits: class 0 '0' has 112 training samples, not the requested 1000");
}

/* ---- Classes ------------------------------------------------------------------------------ */

static void test_classes(void **state) {
    (void)state;
    ole_dataset_options options = defaults();
    options.validation = 0.2;
    ole_dataset *whole = data_open("digits", &options);
    options.classes = "7,3,0";
    ole_dataset *set = data_open("digits", &options);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->classes, 3);
    assert_string_equal(info->class_names[0], "7"); /* in the order given */
    assert_string_equal(info->class_names[2], "0");
    int64_t all[10], some[10], n_all, n_some;
    for (ole_split split = 0; split < 3; split++) {
        count_classes(whole, split, all);
        count_classes(set, split, some);
        assert_int_equal(some[0], all[7]);
        assert_int_equal(some[1], all[3]);
        assert_int_equal(some[2], all[0]);
        assert_int_equal(info->count[split], all[7] + all[3] + all[0]);
        uint64_t *in_all = prints(whole, split, &n_all), *in_some = prints(set, split, &n_some);
        assert_int_equal(common(in_some, n_some, in_all, n_all), n_some); /* the same choice */
        free(in_all), free(in_some);
    }
    ole_dataset_close(whole);
    ole_dataset_close(set);
}

/* Without the test split the others stay as they were. */
static void test_skip_test(void **state) {
    (void)state;
    ole_dataset_options options = defaults();
    options.validation = 0.1;
    ole_dataset *whole = data_open("digits", &options);
    options.skip_test = true;
    ole_dataset *set = data_open("digits", &options);
    const ole_dataset_info *all = ole_dataset_get_info(whole), *rest = ole_dataset_get_info(set);
    assert_true(all->count[OLE_SPLIT_TEST] > 0);
    assert_int_equal(rest->count[OLE_SPLIT_TEST], 0);
    static const ole_split kept[] = {OLE_SPLIT_TRAIN, OLE_SPLIT_VALIDATION};
    for (int k = 0; k < 2; k++) {
        int64_t count_a, count_b;
        uint64_t *a = prints(whole, kept[k], &count_a), *b = prints(set, kept[k], &count_b);
        assert_int_equal(count_a, count_b);
        assert_memory_equal(a, b, (size_t)count_a * sizeof *a);
        free(a);
        free(b);
    }
    ole_dataset_close(whole);
    ole_dataset_close(set);
}

static void test_class_errors(void **state) {
    (void)state;
    ole_dataset_options options = defaults();
    options.classes = "1,cat";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT,
                "digits: no class 'cat'; its 10 classes are 0 '0' to 9 '9'");
    options.classes = "1,10";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "no class '10'");
    options.classes = "1,,2";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "no class ''");
    options.classes = "";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "no class ''");
    options.classes = "1,-2";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "no class '-2'");
    options.classes = "1,2,1";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "class '1' is given twice");
    options.classes = "99999999999999999999";
    data_expect("digits", &options, OLE_ERROR_ARGUMENT, "no class '9999");
}

static void test_options(void **state) {
    (void)state;
    struct {
        ole_dataset_options options;
        const char *words;
    } cases[] = {
        {defaults(), "options.validation is 1; must be a share"},
        {defaults(), "options.validation is nan"},
        {defaults(), "options.test_share is -0.1"},
        {defaults(), "options.samples_per_class is -1"},
        {defaults(), "options.resize is -1"},
        {defaults(), "options.channels is 2"},
        {defaults(), "options.threads is 0"},
        {defaults(), "options.struct_size is 0"},
    };
    cases[0].options.validation = 1;
    cases[1].options.validation = (double)NAN;
    cases[2].options.test_share = -0.1;
    cases[3].options.samples_per_class = -1;
    cases[4].options.resize = -1;
    cases[5].options.channels = 2;
    cases[6].options.threads = 0;
    cases[7].options.struct_size = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        data_expect("digits", &cases[i].options, OLE_ERROR_ARGUMENT, cases[i].words);
    ole_dataset *set = data_open("digits", NULL);
    float sample[64];
    assert_int_equal(ole_dataset_sample(set, OLE_SPLIT_TRAIN, -1, sample, NULL),
                     OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_dataset_sample(set, OLE_SPLIT_TRAIN, 9999, sample, NULL),
                     OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_dataset_sample(set, 3, 0, sample, NULL), OLE_ERROR_ARGUMENT);
    assert_null(ole_dataset_labels(set, 3));
    ole_dataset_close(set);
}

static void test_statistics(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    int64_t count = ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN];
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        float sample[64];
        ole_dataset_sample(set, OLE_SPLIT_TRAIN, i, sample, NULL);
        for (int k = 0; k < 64; k++) {
            sum += sample[k];
            squares += (double)sample[k] * sample[k];
        }
    }
    double mean = sum / (double)(count * 64),
           variance = squares / (double)(count * 64) - mean * mean;
    float got_mean[1], got_deviation[1];
    ole_error error;
    assert_ok(ole_dataset_statistics(set, got_mean, got_deviation, &error), &error);
    assert_float_equal(got_mean[0], mean, 1e-6);
    assert_float_equal(got_deviation[0], sqrt(variance), 1e-6);
    ole_dataset_close(set);
}

/* ---- What lies under it ------------------------------------------------------------------- */

/* Random123's known answers; its counter is (b low, b high, a low, a high), its key the seed. */
static void test_philox(void **state) {
    (void)state;
    const uint32_t none = 0;
    uint32_t words[4];
    ole_philox(0, none, 0, 0, words);
    assert_memory_equal(words, ((const uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}),
                        16);
    ole_philox(UINT64_MAX, none, UINT64_MAX, UINT64_MAX, words);
    assert_memory_equal(words, ((const uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}),
                        16);
    ole_philox(UINT64_C(0x299f31d0a4093822), none, UINT64_C(0x0370734413198a2e),
               UINT64_C(0x85a308d3243f6a88), words);
    assert_memory_equal(words, ((const uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}),
                        16);
    uint32_t other[4];
    ole_philox(7, OLE_RANDOM_SHUFFLE, 1, 2, words);
    ole_philox(7, OLE_RANDOM_WINDOW, 1, 2, other);
    assert_memory_not_equal(words, other, 16);
    assert_int_equal(ole_below(UINT32_MAX, 10), 9);
    assert_int_equal(ole_below(0, 10), 0);
    assert_true(ole_uniform(UINT32_MAX) < 1.0f);
}

static void expect_sum(const char *text, int digits, const char *expected) {
    for (size_t piece = 1; piece < 70; piece += 23) { /* however it is cut */
        ole_checksum sum;
        char got[OLE_SHA256_DIGITS + 1];
        ole_checksum_begin(&sum, digits);
        for (size_t at = 0; at < strlen(text); at += piece) {
            size_t left = strlen(text) - at;
            ole_checksum_add(&sum, text + at, left < piece ? left : piece);
        }
        ole_checksum_end(&sum, got);
        assert_string_equal(got, expected);
    }
}

static void test_checksums(void **state) {
    (void)state;
    const char *digits =
        "12345678901234567890123456789012345678901234567890123456789012345678901234"
        "567890";
    expect_sum("", 32, "d41d8cd98f00b204e9800998ecf8427e");
    expect_sum("abc", 32, "900150983cd24fb0d6963f7d28e17f72");
    expect_sum(digits, 32, "57edf4a22be3c955ac49da2e2107b67a");
    expect_sum("", 64, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect_sum("abc", 64, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect_sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 64,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect_sum("0123456789012345678901234567890123456789012345678901234567890123", 32,
               "7f7bfd348709deeaace19e3f535f8c54");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_validation),   cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_seed),         cmocka_unit_test(test_samples_per_class),
        cmocka_unit_test(test_classes),      cmocka_unit_test(test_skip_test),
        cmocka_unit_test(test_class_errors), cmocka_unit_test(test_options),
        cmocka_unit_test(test_statistics),   cmocka_unit_test(test_philox),
        cmocka_unit_test(test_checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
