/*
 * tests/unit/data/test_data_shared.c - a data set that was published and attached to is the same
 * one.
 */
#include "data/dataset.h"
#include "data/shared.h"
#include "data_files.h"

static ole_dataset *open_digits(void) {
    ole_dataset *set;
    ole_error error;
    assert_ok(ole_dataset_open(&set, "digits", NULL, &error), &error);
    return set;
}

static void assert_same_source(const ole_source *a, const ole_source *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->train_count, b->train_count);
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->floating, b->floating);
    assert_float_equal(a->test_share, b->test_share, 0);
    for (int c = 0; c < a->classes; c++)
        assert_string_equal(a->class_names[c], b->class_names[c]);
    assert_memory_equal(a->labels, b->labels, (size_t)a->count * sizeof *a->labels);
    assert_memory_equal(a->bytes, b->bytes, (size_t)(a->count * ole_source_sample_size(a)));
}

static void test_attach(void **state) {
    (void)state;
    ole_dataset *set = open_digits(), *plain = open_digits();
    ole_source first, second;
    ole_shared_name name;
    ole_error error;
    int fd;
    assert_ok(ole_source_publish(&set->source, &name, &fd, &error), &error);
    assert_same_source(&set->source, &plain->source);
    assert_ok(ole_source_attach(&first, &name, &error), &error);
    assert_ok(ole_source_attach(&second, &name, &error), &error);
    assert_true(first.bytes != set->source.bytes);
    close(fd);
    ole_dataset_close(set); /* those that have attached do not need it any more */
    assert_same_source(&first, &plain->source);
    ole_source_free(&first);
    ole_dataset *taken;
    assert_ok(ole_dataset_take(&taken, "digits", &second, NULL, &error), &error);
    float a[64], b[64];
    for (int64_t i = 0; i < 20; i++) {
        assert_ok(ole_dataset_sample(plain, OLE_SPLIT_TEST, i, a, &error), &error);
        assert_ok(ole_dataset_sample(taken, OLE_SPLIT_TEST, i, b, &error), &error);
        assert_memory_equal(a, b, sizeof a);
    }
    ole_dataset_close(taken);
    ole_dataset_close(plain);
}

/* The names of files stay with the process that has read them. */
static void test_folder(void **state) {
    (void)state;
    data_write("cat/1.pgm", "P5 1 1 255\na", 12);
    data_write("dog/1.pgm", "P5 1 1 255\nb", 12);
    ole_dataset_options options;
    ole_dataset_options_init(&options);
    options.test_share = 0;
    ole_dataset *set = data_open(data_name("folder", ""), &options), *taken;
    ole_source source;
    ole_shared_name name;
    ole_error error;
    int fd;
    assert_ok(ole_source_publish(&set->source, &name, &fd, &error), &error);
    assert_ok(ole_source_attach(&source, &name, &error), &error);
    assert_same_source(&set->source, &source);
    assert_ok(ole_dataset_take(&taken, "folder", &source, &options, &error), &error);
    assert_string_equal(ole_dataset_file_name(set, OLE_SPLIT_TRAIN, 1), "dog/1.pgm");
    assert_null(ole_dataset_file_name(taken, OLE_SPLIT_TRAIN, 1));
    ole_dataset_close(taken);
    ole_dataset_close(set);
    close(fd);
}

/* What is not there, or has taken its place, is refused. */
static void test_refused(void **state) {
    (void)state;
    ole_dataset *set = open_digits();
    ole_source source;
    ole_shared_name name, other;
    ole_error error;
    int fd;
    assert_ok(ole_source_publish(&set->source, &name, &fd, &error), &error);
    other = name;
    other.token++;
    assert_int_equal(ole_source_attach(&source, &other, &error), OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "differs from the published one"));
    close(fd);
    assert_int_equal(ole_source_attach(&source, &name, &error), OLE_ERROR_IO);
    assert_non_null(strstr(error.message, "/proc/"));
    ole_dataset_close(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attach),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, data_dir_make, data_dir_remove);
}
