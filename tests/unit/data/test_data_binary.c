/*
 * tests/unit/data/test_data_binary.c - CIFAR-10, CIFAR-100, STL-10 and SVHN in their native files,
 * whole and damaged; and the embedded digits.
 */
#include "data_files.h"

#ifdef OLE_HAVE_MATIO
#include <matio.h>
#endif

static unsigned char pixel(int sample, int c, int y, int x) {
    return (unsigned char)(sample * 31 + c * 101 + y * 7 + x * 3);
}

/* Every sample of the split has the pixels above, counted from `first`, and label i % classes. */
static void check_split(const ole_dataset *set, ole_split split, int count, int first) {
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->count[split], count);
    float *sample = malloc(sizeof(float) * (size_t)(3 * info->height * info->width));
    for (int i = 0; i < count; i++) {
        ole_error error;
        assert_ok(ole_dataset_sample(set, split, i, sample, &error), &error);
        const float *at = sample;
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < info->height; y++)
                for (int x = 0; x < info->width; x++)
                    assert_float_equal(*at++, (float)pixel(first + i, c, y, x) / 255.0f, 0);
        assert_int_equal(ole_dataset_labels(set, split)[i], (first + i) % info->classes);
    }
    free(sample);
}

/* ---- CIFAR -------------------------------------------------------------------------------- */

enum { CIFAR_PIXELS = 3072 };

static void write_records(const char *name, int first, int count, int classes) {
    int labels = classes == 100 ? 2 : 1;
    unsigned char *bytes = malloc((size_t)count * (CIFAR_PIXELS + 2)), *at = bytes;
    for (int i = first; i < first + count; i++) {
        if (labels == 2) *at++ = 255; /* the coarse label does not count */
        *at++ = (unsigned char)(i % classes);
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 32; y++)
                for (int x = 0; x < 32; x++)
                    *at++ = pixel(i, c, y, x);
    }
    data_write(name, bytes, (size_t)(at - bytes));
    free(bytes);
}

static int write_cifar(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    char name[100];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "ten/data_batch_%d.bin", i + 1);
        write_records(name, i * 4, 4, 10);
    }
    write_records("ten/test_batch.bin", 20, 3, 10);
    write_records("hundred/cifar-100-binary/train.bin", 0, 100, 100);
    write_records("hundred/cifar-100-binary/test.bin", 100, 3, 100);
    return 0;
}

static void test_cifar(void **state) {
    (void)state;
    ole_dataset *set = data_open(data_name("cifar10", "ten"), NULL);
    check_split(set, OLE_SPLIT_TRAIN, 20, 0);
    check_split(set, OLE_SPLIT_TEST, 3, 20);
    assert_string_equal(ole_dataset_get_info(set)->class_names[1], "automobile");
    ole_dataset_close(set);
    set = data_open(data_name("cifar100", "hundred"), NULL);
    check_split(set, OLE_SPLIT_TRAIN, 100, 0);
    check_split(set, OLE_SPLIT_TEST, 3, 100);
    assert_string_equal(ole_dataset_get_info(set)->class_names[99], "worm");
    assert_string_equal(ole_dataset_get_info(set)->class_names[58], "pickup_truck");
    ole_dataset_close(set);
}

static void test_cifar_damage(void **state) {
    (void)state;
    const char *ten = "ten", *hundred = "hundred";
    data_poke("ten/data_batch_3.bin", 3073, 10);
    data_expect(data_name("cifar10", ten), NULL, OLE_ERROR_FORMAT,
                "data_batch_3.bin: byte 3073: label 10, not 0 to 9");
    data_cut("ten/data_batch_2.bin", 4 * 3073 - 1);
    data_expect(data_name("cifar10", ten), NULL, OLE_ERROR_FORMAT,
                "data_batch_2.bin: 12291 bytes, not a multiple of 3073");
    data_cut("ten/data_batch_2.bin", 0);
    data_expect(data_name("cifar10", ten), NULL, OLE_ERROR_FORMAT, "data_batch_2.bin: 0 bytes");
    unlink(data_path("ten/data_batch_2.bin"));
    data_expect(data_name("cifar10", ten), NULL, OLE_ERROR_IO, "there is no data_batch_2.bin here");
    data_poke("hundred/cifar-100-binary/train.bin", 1, 100);
    data_expect(data_name("cifar100", hundred), NULL, OLE_ERROR_FORMAT,
                "train.bin: byte 1: label 100, not 0 to 99");
    data_poke("hundred/cifar-100-binary/train.bin", 1, 1);
    data_expect(data_name("cifar100", hundred), NULL, OLE_ERROR_DATA,
                "cifar100: class 0 'apple' has no training samples");
}

/* ---- STL-10 ------------------------------------------------------------------------------- */

enum { STL_PIXELS = 3 * 96 * 96 };

static void write_stl_part(const char *images, const char *labels, int first, int count) {
    unsigned char *bytes = malloc((size_t)count * STL_PIXELS), *at = bytes, label[16];
    for (int i = 0; i < count; i++) {
        label[i] = (unsigned char)((first + i) % 10 + 1);
        for (int c = 0; c < 3; c++)
            for (int x = 0; x < 96; x++)
                for (int y = 0; y < 96; y++)
                    *at++ = pixel(first + i, c, y, x);
    }
    data_write(images, bytes, (size_t)count * STL_PIXELS);
    data_write(labels, label, (size_t)count);
    free(bytes);
}

static int write_stl(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    write_stl_part("train_X.bin", "train_y.bin", 0, 10);
    write_stl_part("test_X.bin", "test_y.bin", 10, 2);
    return 0;
}

static void test_stl(void **state) {
    (void)state;
    ole_dataset *set = data_open(data_name("stl10", ""), NULL);
    check_split(set, OLE_SPLIT_TRAIN, 10, 0);
    check_split(set, OLE_SPLIT_TEST, 2, 10);
    assert_string_equal(ole_dataset_get_info(set)->class_names[7], "monkey");
    ole_dataset_close(set);
}

static void test_stl_damage(void **state) {
    (void)state;
    const char *name = data_name("stl10", "");
    data_poke("train_y.bin", 3, 0);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_y.bin: byte 3: label 0, not 1 to 10");
    data_poke("train_y.bin", 3, 11);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_y.bin: byte 3: label 11, not 1 to 10");
    data_cut("train_y.bin", 9);
    data_expect(name, NULL, OLE_ERROR_FORMAT,
                "train_y.bin: 9 bytes, one per label, but there are 10 images");
    data_cut("train_X.bin", 10 * STL_PIXELS - 5);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_X.bin: 276475 bytes, not a multiple of ");
    unlink(data_path("train_X.bin"));
    data_expect(name, NULL, OLE_ERROR_IO, "there is no train_X.bin here");
}

/* ---- SVHN --------------------------------------------------------------------------------- */

#ifdef OLE_HAVE_MATIO

/* Writes X with `side` pixels a side, and y, as packed bytes or plain doubles. */
static void write_mat(const char *name, int first, int count, int side, bool doubles) {
    size_t plane = (size_t)(side * side);
    unsigned char *x = malloc(3 * plane * (size_t)count), *at = x, small[32];
    double large[32];
    for (int i = 0; i < count; i++) {
        int label = (first + i) % 10;
        small[i] = (unsigned char)(label ? label : 10);
        large[i] = small[i];
        for (int c = 0; c < 3; c++)
            for (int column = 0; column < side; column++)
                for (int row = 0; row < side; row++)
                    *at++ = pixel(first + i, c, row, column);
    }
    size_t x_dims[4] = {(size_t)side, (size_t)side, 3, (size_t)count},
           y_dims[2] = {(size_t)count, 1};
    mat_t *mat = Mat_CreateVer(data_path(name), NULL, MAT_FT_MAT5);
    assert_non_null(mat);
    matvar_t *vx = Mat_VarCreate("X", MAT_C_UINT8, MAT_T_UINT8, 4, x_dims, x, 0);
    matvar_t *vy = doubles ? Mat_VarCreate("y", MAT_C_DOUBLE, MAT_T_DOUBLE, 2, y_dims, large, 0)
                           : Mat_VarCreate("y", MAT_C_UINT8, MAT_T_UINT8, 2, y_dims, small, 0);
    enum matio_compression packing = doubles ? MAT_COMPRESSION_NONE : MAT_COMPRESSION_ZLIB;
    assert_int_equal(Mat_VarWrite(mat, vx, packing), 0);
    assert_int_equal(Mat_VarWrite(mat, vy, packing), 0);
    Mat_VarFree(vx);
    Mat_VarFree(vy);
    Mat_Close(mat);
    free(x);
}

static int write_svhn(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    write_mat("train_32x32.mat", 0, 20, 32, false);
    write_mat("test_32x32.mat", 20, 3, 32, true);
    return 0;
}

static void test_svhn(void **state) {
    (void)state;
    ole_dataset *set = data_open(data_name("svhn", ""), NULL);
    check_split(set, OLE_SPLIT_TRAIN, 20, 0); /* 10 stands for the digit 0 */
    check_split(set, OLE_SPLIT_TEST, 3, 20);
    ole_dataset_close(set);
}

static void test_svhn_damage(void **state) {
    (void)state;
    const char *name = data_name("svhn", "");
    size_t size;
    unsigned char *whole = data_read("train_32x32.mat", &size);
    for (size_t cut = 0; cut + 32 < size; cut += size / 16) { /* wherever it ends */
        data_write("train_32x32.mat", whole, cut);
        data_expect(name, NULL, OLE_ERROR_FORMAT, "train_32x32.mat: ");
    }
    data_write("train_32x32.mat", whole, size);
    data_poke("train_32x32.mat", (long)(size / 2), whole[size / 2] ^ 0x55);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_32x32.mat: truncated or damaged");
    for (size_t at = 130; at < size; at += size / 64) { /* no damage may do worse than an error */
        data_write("train_32x32.mat", whole, size);
        data_poke("train_32x32.mat", (long)at, whole[at] ^ 0x55);
        ole_dataset *set;
        ole_dataset_open(&set, name, NULL, NULL);
        ole_dataset_close(set);
    }
    free(whole);
    write_mat("train_32x32.mat", 0, 20, 32, false);
    data_poke("train_32x32.mat", 125, 2); /* version 7.3 */
    data_expect(name, NULL, OLE_ERROR_FORMAT, "byte 0: not a MATLAB file of version 5 to 7");
    write_mat("train_32x32.mat", 0, 20, 32, false);
    whole = data_read("test_32x32.mat", &size); /* it ends with y: a tag and three doubles */
    data_poke("test_32x32.mat", (long)(size - 28), 8);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "test_32x32.mat: truncated or damaged");
    data_write("test_32x32.mat", whole, size);
    free(whole);
    write_mat("train_32x32.mat", 0, 10, 16, false);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_32x32.mat: variable X is not 32x32x3xN bytes");
    data_write("train_32x32.mat", "no MATLAB file", 14);
    data_expect(name, NULL, OLE_ERROR_FORMAT, "train_32x32.mat: byte 0: not a MATLAB file");
    unlink(data_path("train_32x32.mat"));
    data_expect(name, NULL, OLE_ERROR_IO, "there is no train_32x32.mat here");
}

#endif

/* ---- Digits ------------------------------------------------------------------------------- */

static void test_digits(void **state) {
    (void)state;
    ole_dataset *set = data_open("digits", NULL);
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->count[OLE_SPLIT_TRAIN], 1258);
    assert_int_equal(info->count[OLE_SPLIT_TEST], 539);
    assert_int_equal(info->classes, 10);
    assert_int_equal(info->height * 10 + info->width, 88);
    int64_t of_class[10] = {0};
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < info->count[split]; i++)
            of_class[ole_dataset_labels(set, split)[i]]++;
    const int64_t published[10] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
    assert_memory_equal(of_class, published, sizeof of_class);
    double sum = 0;
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < info->count[split]; i++) {
            float sample[64];
            ole_dataset_sample(set, split, i, sample, NULL);
            for (int k = 0; k < 64; k++)
                sum += (int)(sample[k] * 16 + 0.5f);
        }
    assert_int_equal((int64_t)sum, 561718); /* of all values 0 to 16 */
    ole_dataset_close(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cifar, write_cifar),
        cmocka_unit_test_setup(test_cifar_damage, write_cifar),
        cmocka_unit_test_setup(test_stl, write_stl),
        cmocka_unit_test_setup(test_stl_damage, write_stl),
#ifdef OLE_HAVE_MATIO
        cmocka_unit_test_setup(test_svhn, write_svhn),
        cmocka_unit_test_setup(test_svhn_damage, write_svhn),
#endif
        cmocka_unit_test(test_digits),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
