/*
 * tests/unit/data/test_data_idx.c - MNIST and Fashion-MNIST: raw and gzipped files, their places,
 * and every way they can be wrong.
 */
#include "data_files.h"

enum { TRAIN = 20, TEST = 10, SIDE = 3, PIXELS = SIDE * SIDE };

static size_t put_header(unsigned char *at, unsigned magic, const unsigned *size, int dims) {
    unsigned words[4] = {magic};
    for (int i = 0; i < dims; i++)
        words[i + 1] = size[i];
    for (int i = 0; i <= dims; i++)
        for (int k = 0; k < 4; k++)
            at[4 * i + k] = (unsigned char)(words[i] >> (24 - 8 * k));
    return 4 + 4 * (size_t)dims;
}

static unsigned char pixel(int sample, int k) {
    return (unsigned char)(sample * 7 + k * 11);
}

/* One part: `count` images, labels i % 10. */
static void write_part(const char *prefix, int count, bool packed) {
    unsigned char bytes[16 + TRAIN * PIXELS];
    const unsigned size[3] = {(unsigned)count, SIDE, SIDE};
    char name[100];
    size_t length = put_header(bytes, 0x803, size, 3);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < PIXELS; k++)
            bytes[length++] = pixel(i, k);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte%s", prefix, packed ? ".gz" : "");
    packed ? data_write_gz(name, bytes, (unsigned)length) : data_write(name, bytes, length);
    length = put_header(bytes, 0x801, size, 1);
    for (int i = 0; i < count; i++)
        bytes[length++] = (unsigned char)(i % 10);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte%s", prefix, packed ? ".gz" : "");
    packed ? data_write_gz(name, bytes, (unsigned)length) : data_write(name, bytes, length);
}

static int write_set(void **state) {
    if (data_dir_empty(state) != 0) return -1;
    write_part("train", TRAIN, false);
    write_part("t10k", TEST, false);
    return 0;
}

static void check_contents(const ole_dataset *set) {
    const ole_dataset_info *info = ole_dataset_get_info(set);
    assert_int_equal(info->count[OLE_SPLIT_TRAIN], TRAIN);
    assert_int_equal(info->count[OLE_SPLIT_TEST], TEST);
    assert_int_equal(info->count[OLE_SPLIT_VALIDATION], 0);
    assert_int_equal(info->channels, 1);
    assert_int_equal(info->height, SIDE);
    assert_int_equal(info->width, SIDE);
    assert_true(info->bytes);
    for (int split = 0; split < 2; split++)
        for (int i = 0; i < info->count[split]; i++) {
            float sample[PIXELS];
            ole_error error;
            assert_ok(ole_dataset_sample(set, split, i, sample, &error), &error);
            for (int k = 0; k < PIXELS; k++)
                assert_float_equal(sample[k], (float)pixel(i, k) / 255.0f, 0);
            assert_int_equal(ole_dataset_labels(set, split)[i], i % 10);
        }
}

static void test_raw(void **state) {
    (void)state;
    ole_dataset *set = data_open(data_name("mnist", ""), NULL);
    check_contents(set);
    assert_string_equal(ole_dataset_get_info(set)->name, "mnist");
    assert_string_equal(ole_dataset_get_info(set)->class_names[7], "7");
    ole_dataset_close(set);
    set = data_open(data_name("fashion-mnist", ""), NULL);
    assert_string_equal(ole_dataset_get_info(set)->class_names[9], "Ankle boot");
    ole_dataset_close(set);
}

static void test_gzipped(void **state) {
    data_dir_empty(state);
    write_part("train", TRAIN, true);
    write_part("t10k", TEST, true);
    ole_dataset *set = data_open(data_name("mnist", ""), NULL);
    check_contents(set);
    ole_dataset_close(set);
}

static void test_dotted_names(void **state) {
    (void)state;
    rename(data_path("train-images-idx3-ubyte"), data_path("train-images.idx3-ubyte"));
    rename(data_path("t10k-labels-idx1-ubyte"), data_path("t10k-labels.idx1-ubyte"));
    ole_dataset *set = data_open(data_name("mnist", ""), NULL);
    check_contents(set);
    ole_dataset_close(set);
}

static void test_places(void **state) {
    (void)state;
    const char *before = getenv("OLE_DATA");
    char *kept = before ? strdup(before) : NULL;
    mkdir(data_path("sets"), 0700);
    mkdir(data_path("sets/mnist"), 0700);
    static const char *const files[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char moved[100];
    for (int i = 0; i < 4; i++) {
        snprintf(moved, sizeof moved, "sets/mnist/%s", files[i]);
        rename(data_path(files[i]), data_path(moved));
    }
    setenv("OLE_DATA", data_path("sets"), 1);
    ole_dataset *set = data_open("mnist", NULL);
    check_contents(set);
    ole_dataset_close(set);
    char folder[600];
    ole_error error;
    assert_ok(ole_dataset_locate("mnist", folder, sizeof folder, &error), &error);
    assert_string_equal(folder, data_path("sets/mnist"));
    assert_int_equal(ole_dataset_locate("mnist", folder, 3, &error), OLE_ERROR_ARGUMENT);
    setenv("OLE_DATA", data_path("nothing"), 1);
    setenv("XDG_CACHE_HOME", data_path("cache"), 1);
    setenv("HOME", data_path("home"), 1);
    data_expect("mnist", NULL, OLE_ERROR_IO, "nothing/mnist, ");
    data_expect("mnist", NULL, OLE_ERROR_IO, "cache/ole/mnist, data/mnist, data, ");
    data_expect("mnist", NULL, OLE_ERROR_IO, "get it with 'ole data get mnist'");
    if (kept)
        setenv("OLE_DATA", kept, 1);
    else
        unsetenv("OLE_DATA");
    free(kept);
}

static void test_names(void **state) {
    (void)state;
    data_expect("mnits", NULL, OLE_ERROR_ARGUMENT, "mnits: unknown data set; choose digits");
    data_expect("digits:here", NULL, OLE_ERROR_ARGUMENT, "take no path");
    data_expect("mnist:/no/where", NULL, OLE_ERROR_IO,
                "/no/where: there is no train-images-idx3-ubyte(.gz) here");
    ole_error error;
    assert_int_equal(ole_dataset_open(NULL, "digits", NULL, &error), OLE_ERROR_ARGUMENT);
    ole_dataset *set;
    assert_int_equal(ole_dataset_open(&set, NULL, NULL, &error), OLE_ERROR_ARGUMENT);
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void bad(const char *words) {
    data_expect(data_name("mnist", ""), NULL, OLE_ERROR_FORMAT, words);
}

static void test_missing_file(void **state) {
    (void)state;
    unlink(data_path("t10k-labels-idx1-ubyte"));
    data_expect(data_name("mnist", ""), NULL, OLE_ERROR_IO, "no t10k-labels-idx1-ubyte(.gz) here");
    mkdir(data_path("t10k-labels-idx1-ubyte"), 0700);
    data_expect(data_name("mnist", ""), NULL, OLE_ERROR_IO, "cannot open: Is a directory");
}

static void test_magic(void **state) {
    (void)state;
    data_poke("train-images-idx3-ubyte", 3, 1);
    bad("train-images-idx3-ubyte: begins with 0x00000801, not 0x00000803: not an idx file of "
        "images");
}

static void test_short(void **state) {
    (void)state;
    data_cut("t10k-images-idx3-ubyte", 16 + TEST * PIXELS - 1);
    bad("t10k-images-idx3-ubyte: truncated at byte 105, in the images; get it again");
    data_cut("t10k-images-idx3-ubyte", 10);
    bad("t10k-images-idx3-ubyte: truncated at byte 10, in the header; get it again");
    data_cut("t10k-images-idx3-ubyte", 0);
    bad("truncated at byte 0, in the header");
}

static void test_long(void **state) {
    (void)state;
    data_poke("train-labels-idx1-ubyte", 8 + TRAIN, 0);
    bad("train-labels-idx1-ubyte: continues after byte 28, where it should end");
}

static void test_huge_header(void **state) {
    (void)state;
    data_poke("train-images-idx3-ubyte", 4, 0xff);
    bad("train-images-idx3-ubyte: byte 4: 4278190100 does not fit the file");
    data_poke("train-images-idx3-ubyte", 4, 0);
    data_poke("train-images-idx3-ubyte", 8, 0xff);
    bad("byte 8: 4278190083");
    data_poke("train-images-idx3-ubyte", 8, 0);
    data_poke("train-images-idx3-ubyte", 11, 0);
    bad("byte 8: 0");
}

static void test_counts(void **state) {
    (void)state;
    data_poke("train-labels-idx1-ubyte", 7, TRAIN - 1);
    bad("train-labels-idx1-ubyte: byte 4: 19 labels, but there are 20 images");
}

static void test_shapes(void **state) {
    (void)state;
    data_poke("t10k-images-idx3-ubyte", 11, 1);
    bad("t10k-images-idx3-ubyte: byte 8: images of 1x3, but the training images are 3x3");
}

static void test_label(void **state) {
    (void)state;
    data_poke("train-labels-idx1-ubyte", 8 + 5, 10);
    bad("train-labels-idx1-ubyte: byte 13: label 10, not 0 to 9");
}

static void test_empty_class(void **state) {
    (void)state;
    data_poke("train-labels-idx1-ubyte", 8 + 4, 3);
    data_poke("train-labels-idx1-ubyte", 8 + 14, 3);
    data_expect(data_name("mnist", ""), NULL, OLE_ERROR_DATA,
                "mnist: class 4 '4' has no training samples");
}

static void test_damaged_gzip(void **state) {
    data_dir_empty(state);
    write_part("train", TRAIN, true);
    write_part("t10k", TEST, true);
    size_t size;
    free(data_read("train-images-idx3-ubyte.gz", &size));
    data_cut("train-images-idx3-ubyte.gz", size - 12);
    bad("train-images-idx3-ubyte.gz: truncated at byte ");
    write_part("train", TRAIN, true);
    data_poke("train-images-idx3-ubyte.gz", (long)size / 2, 0xff);
    data_poke("train-images-idx3-ubyte.gz", (long)size / 2 + 1, 0xff);
    bad("train-images-idx3-ubyte.gz: ");
    bad("get it again");
}

/* Zeros pack a thousandfold: their number is refused before memory is taken for them. */
static void test_packed_zeros(void **state) {
    enum { IMAGES = 90000, BYTES = 16 + IMAGES * 28 * 28 };
    data_dir_empty(state);
    write_part("train", TRAIN, true);
    write_part("t10k", TEST, true);
    uint8_t *bytes = calloc(BYTES, 1);
    assert_non_null(bytes);
    const uint8_t header[] = {0, 0,  8, 3, 0, 1, IMAGES >> 8 & 255, IMAGES & 255, 0, 0,
                              0, 28, 0, 0, 0, 28};
    memcpy(bytes, header, sizeof header);
    data_write_gz("train-images-idx3-ubyte.gz", bytes, BYTES);
    free(bytes);
    bad("train-images-idx3-ubyte.gz: byte 12: 28 does not fit the file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_raw, write_set),
        cmocka_unit_test_setup(test_gzipped, write_set),
        cmocka_unit_test_setup(test_dotted_names, write_set),
        cmocka_unit_test_setup(test_names, write_set),
        cmocka_unit_test_setup(test_missing_file, write_set),
        cmocka_unit_test_setup(test_magic, write_set),
        cmocka_unit_test_setup(test_short, write_set),
        cmocka_unit_test_setup(test_long, write_set),
        cmocka_unit_test_setup(test_huge_header, write_set),
        cmocka_unit_test_setup(test_counts, write_set),
        cmocka_unit_test_setup(test_shapes, write_set),
        cmocka_unit_test_setup(test_label, write_set),
        cmocka_unit_test_setup(test_empty_class, write_set),
        cmocka_unit_test_setup(test_damaged_gzip, write_set),
        cmocka_unit_test_setup(test_packed_zeros, write_set),
        cmocka_unit_test_setup(test_places, write_set),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
