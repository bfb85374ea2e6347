/*
 * tests/unit/data/test_data_npy.c - data sets from .npy files: shapes, types, labels, and what is
 * refused.
 */
#include "data_files.h"
#include "ole/npy.h"

#include <math.h>

static void write_npy(const char *name, ole_dtype dtype, int ndim, const int64_t *shape,
                      const void *data) {
    ole_error error;
    assert_ok(ole_npy_write(data_path(name), dtype, ndim, shape, data, &error), &error);
}

static void write_labels(const char *name, const int64_t *labels, int64_t count) {
    write_npy(name, OLE_I64, 1, &count, labels);
}

/* "npy:" and the files' paths, comma-separated. */
static const char *name_of(const char *a, const char *b, const char *c, const char *d) {
    static char text[2600];
    int used = snprintf(text, sizeof text, "npy:%s,%s", data_path(a), data_path(b));
    if (c) snprintf(text + used, sizeof text - (size_t)used, ",%s,%s", data_path(c), data_path(d));
    return text;
}

static ole_dataset_options all_to_train(void) {
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.test_share = 0;
    return options;
}

static void check_sample(const ole_dataset *set, ole_split split, int64_t i, const float *expected,
                         int count) {
    float sample[64];
    ole_error error;
    assert_ok(ole_dataset_sample(set, split, i, sample, &error), &error);
    for (int k = 0; k < count; k++)
        assert_float_equal(sample[k], expected[k], 0);
}

static void check_shape(const ole_dataset *set, int channels, int height, int width) {
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->channels, channels);
    assert_int_equal(info->height, height);
    assert_int_equal(info->width, width);
}

static const int64_t two_labels[4] = {0, 1, 0, 1};

static void test_vectors(void **state) {
    (void)state;
    const double x[4][3] = {{1, 2, 3}, {-4, 5, 6}, {7, 8, 9.5}, {10, 11, 12}};
    const int64_t labels[4] = {30, 7, 30, 7};
    write_npy("X.npy", OLE_F64, 2, (const int64_t[]){4, 3}, x);
    write_labels("y.npy", labels, 4);
    ole_dataset_options options = all_to_train();
    ole_dataset *set = data_open(name_of("X.npy", "y.npy", NULL, NULL), &options);
    check_shape(set, 3, 1, 1);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_false(info->bytes);
    assert_int_equal(info->classes, 2); /* renumbered by value */
    assert_string_equal(info->class_names[0], "7");
    assert_string_equal(info->class_names[1], "30");
    assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TRAIN)[0], 1);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){-4, 5, 6}, 3);
    float mean[1], deviation[1];
    ole_error error;
    assert_ok(ole_dataset_statistics(set, mean, deviation, &error), &error);
    assert_float_equal(mean[0], 70.5 / 12, 1e-6);
    assert_float_equal(deviation[0], 4.519057, 1e-6);
    ole_dataset_close(set);
}

static void test_images(void **state) {
    (void)state;
    uint8_t bytes[4 * 2 * 5 * 3];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(2 * i);
    write_labels("y.npy", two_labels, 4);
    ole_dataset_options options = all_to_train();
    const char *name = name_of("X.npy", "y.npy", NULL, NULL);

    write_npy("X.npy", OLE_U8, 3, (const int64_t[]){4, 2, 5}, bytes); /* grey */
    ole_dataset *set = data_open(name, &options);
    check_shape(set, 1, 2, 5);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){20 / 255.0f, 22 / 255.0f}, 2);
    ole_dataset_close(set);

    write_npy("X.npy", OLE_U8, 4, (const int64_t[]){4, 3, 2, 5}, bytes); /* channels first */
    set = data_open(name, &options);
    check_shape(set, 3, 2, 5);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){60 / 255.0f, 62 / 255.0f}, 2);
    ole_dataset_close(set);

    write_npy("X.npy", OLE_U8, 4, (const int64_t[]){4, 5, 2, 3}, bytes); /* channels last */
    set = data_open(name, &options);
    check_shape(set, 3, 5, 2);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){60 / 255.0f, 66 / 255.0f, 72 / 255.0f},
                 3);
    ole_dataset_close(set);

    const float floats[4][1][2][2] = {{{{0, 0.5f}, {1, 2}}}, {{{3, 4}, {5, 6}}}};
    write_npy("X.npy", OLE_F32, 4, (const int64_t[]){4, 1, 2, 2}, floats);
    set = data_open(name, &options);
    check_shape(set, 1, 2, 2);
    assert_false(ole_dataset_get_info(set)->bytes);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){3, 4, 5, 6}, 4);
    ole_dataset_close(set);
}

static void test_test_part(void **state) {
    (void)state;
    const float x[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){4, 2}, x);
    write_labels("y.npy", two_labels, 4);
    write_npy("Xt.npy", OLE_F32, 2, (const int64_t[]){1, 2}, x[3]);
    write_labels("yt.npy", &two_labels[1], 1);
    ole_dataset *set = data_open(name_of("X.npy", "y.npy", "Xt.npy", "yt.npy"), NULL);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TRAIN], 4);
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TEST], 1);
    check_sample(set, OLE_SPLIT_TEST, 0, (const float[]){7, 8}, 2);
    ole_dataset_close(set);

    set =
        data_open(name_of("X.npy", "y.npy", NULL, NULL), NULL); /* one of each class is held out */
    assert_int_equal(ole_dataset_get_info(set)->count[OLE_SPLIT_TEST], 2);
    ole_dataset_close(set);

    const int64_t unknown = 5;
    write_labels("yt.npy", &unknown, 1);
    data_expect(name_of("X.npy", "y.npy", "Xt.npy", "yt.npy"), NULL, OLE_ERROR_DATA,
                "yt.npy: label 0 is 5, a class without training samples");
    write_npy("Xt.npy", OLE_U8, 2, (const int64_t[]){1, 2}, x);
    data_expect(name_of("X.npy", "y.npy", "Xt.npy", "yt.npy"), NULL, OLE_ERROR_FORMAT,
                "Xt.npy: 2x1x1 bytes, but the training samples are 2x1x1 floats");
}

static void test_refused(void **state) {
    (void)state;
    float x[4][2] = {{1, 2}, {3, NAN}, {5, 6}, {7, 8}};
    const char *name = name_of("X.npy", "y.npy", NULL, NULL);
    write_labels("y.npy", two_labels, 4);
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){4, 2}, x);
    data_expect(name, NULL, OLE_ERROR_DATA, "X.npy: row 1 holds NaN or Inf");
    x[1][1] = 0;
    write_npy("X.npy", OLE_I32, 2, (const int64_t[]){4, 2}, x);
    data_expect(name, NULL, OLE_ERROR_FORMAT,
                "X.npy: the elements are int32; save images as uint8");
    write_npy("X.npy", OLE_F32, 1, (const int64_t[]){8}, x);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "X.npy: the shape must be (N, D), (N, H, W)");
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){0, 2}, x);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "X.npy: dimension 0 is 0");
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){2, 4}, x);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "y.npy has 4 labels; they must match");
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){4, 2}, x);
    write_npy("y.npy", OLE_I64, 2, (const int64_t[]){2, 2}, two_labels);
    data_expect(name, NULL, OLE_ERROR_FORMAT,
                "y.npy: labels have shape (2, 2), not (N,) or (N, 1)");
    write_npy("y.npy", OLE_F32, 1, (const int64_t[]){4}, x);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "y.npy: labels are float32, not integers");
    const int64_t negative[4] = {0, 1, -2, 1};
    write_labels("y.npy", negative, 4);
    data_expect(name, NULL, OLE_ERROR_DATA, "y.npy: label 2 is -2; labels must be 0 or more");
    data_expect("npy", NULL, OLE_ERROR_ARGUMENT, "npy: name two or four files");
    data_expect("npy:a", NULL, OLE_ERROR_ARGUMENT, "npy: name two or four files");
    data_expect("npy:a,b,c", NULL, OLE_ERROR_ARGUMENT, "npy: name two or four files");
    data_expect("npy:a,,c,d", NULL, OLE_ERROR_ARGUMENT, "npy: name two or four files");
    data_expect("npy:a,b,c,d,e,f", NULL, OLE_ERROR_ARGUMENT, "npy: name two or four files");
    data_expect("npy:/no/X.npy,/no/y.npy", NULL, OLE_ERROR_IO, "/no/X.npy: cannot open");
}

static void write_text(const char *name, const char *text) {
    data_write(name, text, strlen(text));
}

/* Labels that are words, and features and labels in one table. */
static void test_words(void **state) {
    (void)state;
    const float x[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
    write_npy("X.npy", OLE_F32, 2, (const int64_t[]){4, 2}, x);
    write_text("y.txt", "owl\ncat\nowl\ncat\n");
    write_text("all.csv", "a,kind,b\n1,owl,2\n3,cat,4\n5,owl,6\n7,cat,8\n");
    const char *const pairs[][2] = {{"X.npy", "y.txt"}, {"all.csv", "all.csv:kind"}};
    ole_dataset_options options = all_to_train();
    for (int i = 0; i < 2; i++) {
        ole_dataset *set = data_open(name_of(pairs[i][0], pairs[i][1], NULL, NULL), &options);
        const ole_dataset_info *info = ole_dataset_get_info(set);
        assert_int_equal(info->classes, 2);
        assert_string_equal(info->class_names[0], "cat");
        assert_string_equal(info->class_names[1], "owl");
        assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TRAIN)[0], 1);
        assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TRAIN)[1], 0);
        check_sample(set, OLE_SPLIT_TRAIN, 3, (const float[]){7, 8}, 2);
        ole_dataset_close(set);
    }
    write_text("test.csv", "a,kind,b\n1,owl,2\n");
    ole_dataset *set = data_open(name_of("X.npy", "y.txt", "test.csv", "test.csv:kind"), NULL);
    assert_int_equal(ole_dataset_labels(set, OLE_SPLIT_TEST)[0], 1);
    ole_dataset_close(set);
    write_text("test.csv", "a,kind,b\n1,bat,2\n");
    data_expect(name_of("X.npy", "y.txt", "test.csv", "test.csv:kind"), NULL, OLE_ERROR_DATA,
                "test.csv:kind: label 0 is 'bat', a class without training samples");
    write_text("test.csv", "a,kind,b\n1,7,2\n");
    data_expect(name_of("X.npy", "y.txt", "test.csv", "test.csv:kind"), NULL, OLE_ERROR_FORMAT,
                "labels are words in one file and numbers in the other; use the same in both");
    data_expect(name_of("all.csv", "all.csv:sort", NULL, NULL), NULL, OLE_ERROR_FORMAT,
                "all.csv: no column 'sort'");
}

/* An array of bytes stored in Fortran order comes out in C order. */
static void test_fortran_bytes(void **state) {
    (void)state;
    unsigned char file[128 + 6] = "\x93NUMPY\x01\x00\x76\x00";
    memset(file + 10, ' ', 118);
    const char *header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }";
    memcpy(file + 10, header, strlen(header));
    file[127] = '\n';
    memcpy(file + 128, (const unsigned char[]){0, 3, 1, 4, 2, 5}, 6);
    data_write("X.npy", file, sizeof file);
    write_labels("y.npy", two_labels, 2);
    ole_dataset_options options = all_to_train();
    ole_dataset *set = data_open(name_of("X.npy", "y.npy", NULL, NULL), &options);
    check_sample(set, OLE_SPLIT_TRAIN, 1, (const float[]){3 / 255.0f, 4 / 255.0f, 5 / 255.0f}, 3);
    ole_dataset_close(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_vectors, data_dir_empty),
        cmocka_unit_test_setup(test_images, data_dir_empty),
        cmocka_unit_test_setup(test_test_part, data_dir_empty),
        cmocka_unit_test_setup(test_words, data_dir_empty),
        cmocka_unit_test_setup(test_refused, data_dir_empty),
        cmocka_unit_test_setup(test_fortran_bytes, data_dir_empty),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
