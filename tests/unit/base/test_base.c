/* tests/unit/base/test_base.c - statuses, element types, messages, the version and ole_info(). */
#include "test.h"

#include "base/error.h"

#include <string.h>

static void test_names(void **state) {
    (void)state;
    assert_string_equal(ole_status_name(OLE_OK), "ok");
    assert_string_equal(ole_status_name(OLE_ERROR_UNSUPPORTED), "unsupported");
    assert_string_equal(ole_status_name((ole_status)99), "unknown");
    assert_string_equal(ole_dtype_name(OLE_F16), "float16");
    assert_string_equal(ole_dtype_name(OLE_U64), "uint64");
    assert_string_equal(ole_dtype_name((ole_dtype)0), "unknown");
    assert_int_equal(ole_dtype_size(OLE_BF16), 2);
    assert_int_equal(ole_dtype_size(OLE_I64), 8);
    assert_int_equal(ole_dtype_size((ole_dtype)99), 0);
}

static void test_messages(void **state) {
    (void)state;
    ole_error error;
    assert_int_equal(ole_fail(&error, OLE_ERROR_IO, "%s: row %d", "F.npy", 3), OLE_ERROR_IO);
    assert_int_equal(error.status, OLE_ERROR_IO);
    assert_string_equal(error.message, "F.npy: row 3");
    assert_int_equal(ole_fail(NULL, OLE_ERROR_DATA, "unheard"), OLE_ERROR_DATA);
    ole_fail(&error, OLE_ERROR_IO, "%s: lost", "a\033[31m\nb\x7f\xc2\x9bm\xc3\xa9");
    assert_string_equal(error.message, "a?[31m?b???m\xc3\xa9: lost"); /* é is no control */
    ole_fail(&error, OLE_ERROR_IO, "%s", "gpj.\xe2\x80\xaexe\xe2\x81\xa9\xe2\x82\xac\xe2\x80");
    assert_string_equal(error.message, "gpj.???xe???\xe2\x82\xac\xe2\x80"); /* nor is € */

    char longer[2 * sizeof error.message];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    ole_fail(&error, OLE_ERROR_FORMAT, "%s", longer);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
}

static void test_version(void **state) {
    (void)state;
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", OLE_VERSION_MAJOR, OLE_VERSION_MINOR,
             OLE_VERSION_PATCH);
    assert_string_equal(ole_version(), expected);
}

/* The value of a row, or NULL. */
static const char *look_up(const ole_info_row *rows, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].value;
    return NULL;
}

static void test_info(void **state) {
    (void)state;
    ole_info_row rows[64];
    size_t count = ole_info(NULL, 0);
    assert_int_in_range(count, 8, 64);
    assert_int_equal(ole_info(rows, 64), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(rows[i].name) > 0);
        assert_true(strlen(rows[i].value) > 0);
        assert_ptr_equal(look_up(rows, count, rows[i].name), rows[i].value);
    }
    assert_string_equal(look_up(rows, count, "version"), ole_version());
    const char *const parts[] = {"compiler", "build",  "program",     "training", "CUDA",
                                 "cores",    "memory", "cpu kernels", "OpenBLAS"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(look_up(rows, count, parts[i]));
}

static void test_info_of_small_capacity(void **state) {
    (void)state;
    ole_info_row rows[2] = {{NULL, NULL}, {"untouched", "yes"}};
    assert_true(ole_info(rows, 1) > 1);
    assert_string_equal(rows[0].name, "version");
    assert_string_equal(rows[1].name, "untouched");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_info_of_small_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
