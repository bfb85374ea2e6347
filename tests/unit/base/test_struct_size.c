/*
 * test_struct_size.c - options between versions: what is filled, what is read, and that the bytes
 * behind the caller's struct stay untouched.
 */
#include "base/struct_size.h"

#include "ole/analyze.h"
#include "ole/loss.h"
#include "ole/ranks.h"
#include "ole/tsne.h"
#include "test.h"

#include <string.h>

/* Three versions of the same options. */
typedef struct first {
    size_t struct_size;
    double a;
} first;

typedef struct second { /* this library's */
    size_t struct_size;
    double a, b;
} second;

typedef struct third {
    size_t struct_size;
    double a, b, c;
} third;

static const second defaults = {sizeof(second), 1.0, 2.0};

static ole_status take(second *options, const void *given, ole_error *error) {
    *options = defaults;
    return ole_struct_read(options, given, OLE_SIZE_UP_TO(second, a), "x_options_init", error);
}

static void test_older_program(void **state) {
    (void)state;
    struct {
        first options;
        unsigned char behind[64];
    } program;
    memset(&program, 0xA5, sizeof program);
    ole_struct_fill(&program.options, sizeof program.options, &defaults);
    for (size_t i = 0; i < sizeof program.behind; i++)
        assert_int_equal(program.behind[i], 0xA5);
    assert_int_equal(program.options.struct_size, sizeof(first));
    program.options.a = 7.0;
    second options;
    ole_error error;
    assert_ok(take(&options, &program.options, &error), &error);
    assert_int_equal(options.struct_size, sizeof(second));
    assert_true(options.a == 7.0 && options.b == 2.0); /* the new field has its default */
}

static void test_newer_program(void **state) {
    (void)state;
    third program;
    memset(&program, 0xA5, sizeof program);
    ole_struct_fill(&program, sizeof program, &defaults);
    assert_int_equal(program.struct_size, sizeof(third));
    assert_true(program.c == 0.0);
    program.b = 5.0;
    second options;
    ole_error error;
    assert_ok(take(&options, &program, &error), &error);
    assert_int_equal(options.struct_size, sizeof(second));
    assert_true(options.a == 1.0 && options.b == 5.0);
    program.c = 1.0; /* an option that this library does not have must not be ignored */
    assert_int_equal(take(&options, &program, &error), OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "options.struct_size is 32, this version reads 24"));
    assert_non_null(strstr(error.message, "x_options_init()"));
}

static void test_wrong_sizes(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 8, sizeof(first) - 1, sizeof(second) + 1, 8192, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        second given = defaults, options;
        given.struct_size = sizes[i];
        ole_error error;
        assert_int_equal(take(&options, &given, &error), OLE_ERROR_ARGUMENT);
        assert_non_null(strstr(error.message, ": fill options with x_options_init()"));
    }
    second options;
    assert_int_equal(take(&options, NULL, NULL), OLE_OK);
    assert_memory_equal(&options, &defaults, sizeof options);
    char none = 3;
    ole_struct_fill(&none, sizeof none, &defaults);
    assert_int_equal(none, 3);
}

/* X_init() fills the caller's struct and not a byte more. */
#define CHECK_INIT(name)                                                                           \
    do {                                                                                           \
        struct {                                                                                   \
            ole_##name##_options options;                                                          \
            unsigned char behind[64];                                                              \
        } program;                                                                                 \
        memset(&program, 0xA5, sizeof program);                                                    \
        ole_##name##_options_init(&program.options);                                               \
        assert_int_equal(program.options.struct_size, sizeof program.options);                     \
        assert_int_equal(program.behind[0], 0xA5);                                                 \
    } while (0)

static void test_every_init(void **state) {
    (void)state;
    CHECK_INIT(angles);
    CHECK_INIT(analyze);
    CHECK_INIT(classify);
    CHECK_INIT(loss);
    CHECK_INIT(ranks);
    CHECK_INIT(tsne);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_program),
        cmocka_unit_test(test_newer_program),
        cmocka_unit_test(test_wrong_sizes),
        cmocka_unit_test(test_every_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
