/*
 * tests/unit/study/test_measures.c - numbers.csv: what is written is read back, measures of runs
 * that were trained again are not, and the files of version 0.1 are read.
 */
#include "study/measures.h"

#include "temporary.h"
#include "test.h"

static const ole_run_mark marks[] = {{OLE_SIDE_SOFTMAX, 0, "0123456789abcdef"},
                                     {OLE_SIDE_OLE, 0, "fedcba9876543210"},
                                     {OLE_SIDE_OLE, 1, ""}};

static void put(const char *name, const char *text) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", temporary_dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static ole_measures read_all(void) {
    ole_measures m;
    ole_error error;
    assert_ok(ole_measures_read(&m, temporary_dir, marks, 3, &error), &error);
    return m;
}

static void test_written_and_read(void **state) {
    (void)state;
    ole_error error;
    ole_measures m = read_all();
    assert_int_equal(m.count, 0);
    ole_measures_add(&m, NULL, OLE_MEASURE_PART,
                     "10 of 20 \"training\" images, 1 of 2 test images");
    ole_measures_add_number(&m, &marks[0], "angle, median", 1.0 / 3.0);
    ole_measures_add_number(&m, &marks[1], "angle, median", 90.0);
    ole_measures_add(&m, &marks[1], OLE_MEASURE_FIGURES, "");
    assert_ok(ole_measures_write(&m, temporary_dir, &error), &error);
    ole_measures_free(&m);
    m = read_all();
    assert_int_equal(m.count, 4);
    assert_string_equal(ole_measures_find(&m, NULL, OLE_MEASURE_PART),
                        "10 of 20 \"training\" images, 1 of 2 test images");
    ole_spread spread = ole_measures_spread(&m, OLE_SIDE_SOFTMAX, "angle, median");
    assert_int_equal(spread.count, 1);
    assert_true(ole_spread_mean(&spread) == 1.0 / 3.0);
    assert_string_equal(ole_measures_find(&m, &marks[1], OLE_MEASURE_FIGURES), "");
    ole_measures_remove(&m, OLE_MEASURE_FIGURES);
    assert_int_equal(m.count, 3);
    ole_measures_remove(&m, NULL);
    assert_int_equal(m.count, 1);
    ole_measures_free(&m);
}

static void test_outdated(void **state) {
    (void)state;
    ole_error error;
    put("numbers.csv", "side,seed,measure,value,run\n"
                       "softmax,0,\"a\",1,0123456789abcdee\n"
                       "ole,0,\"a\",2,fedcba9876543210\n"
                       "ole,1,\"a\",3,\n"
                       "half a line");
    ole_measures m = read_all();
    assert_int_equal(m.count, 1);
    assert_false(m.old_figures);
    assert_null(ole_measures_find(&m, &marks[0], "a"));
    assert_string_equal(ole_measures_find(&m, &marks[1], "a"), "2");
    assert_ok(ole_measures_write(&m, temporary_dir, &error), &error);
    ole_measures_free(&m);
    m = read_all();
    assert_int_equal(m.count, 1);
    ole_measures_free(&m);
    put("numbers.csv", "side,seed,measure,value,run\n"
                       "softmax,0,figures,\"angles,map\",0123456789abcdee\n"
                       "ole,0,figures,\"angles,map\",fedcba9876543210\n");
    m = read_all();
    assert_int_equal(m.count, 1);
    assert_true(m.old_figures);
    assert_string_equal(m.items[0].value, "angles,map");
    ole_measures_free(&m);
}

static void test_version_0_1(void **state) {
    (void)state;
    put("samples.csv", "train,test,part\n5000,1600,\"1600 of 8000 test images\"\n");
    put("drawn.csv", "side,seed,run\nsoftmax,0,0123456789abcdef\nole,0,fedcba9876543210\n"
                     "draw,,angles,curves,map,space\n");
    put("numbers.csv", "side,seed,measure,value,run\nole,0,\"a\",2,fedcba9876543210\n");
    ole_measures m = read_all();
    assert_int_equal(m.count, 6);
    assert_string_equal(ole_measures_find(&m, NULL, OLE_MEASURE_TEST), "1600");
    assert_string_equal(ole_measures_find(&m, NULL, OLE_MEASURE_PART), "1600 of 8000 test images");
    for (int i = 0; i < 2; i++)
        assert_string_equal(ole_measures_find(&m, &marks[i], OLE_MEASURE_FIGURES),
                            "angles,curves,map,space");
    ole_measures_free(&m);
    put("samples.csv", "train,test\n5000,1600\n"); /* of the first 0.1 versions */
    m = read_all();
    assert_null(ole_measures_find(&m, NULL, OLE_MEASURE_PART));
    ole_measures_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_written_and_read, temporary_clear),
        cmocka_unit_test_teardown(test_outdated, temporary_clear),
        cmocka_unit_test_teardown(test_version_0_1, temporary_clear),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
