/*
 * tests/unit/base/test_memory_file.c - the stream into memory: its bytes, and that no loss goes
 * unseen.
 */
#include "base/memory_file.h"
#include "failing_memory.h"

#include <string.h>

enum { LINES = 4000 };

static void print_lines(FILE *file) {
    for (int i = 0; i < LINES; i++)
        fprintf(file, "line %d\n", i);
}

static void all_bytes(void **state) {
    (void)state;
    ole_memory_file m;
    assert_true(ole_memory_file_open(&m));
    print_lines(m.file);
    fwrite("a\0b", 1, 3, m.file);
    char *text = ole_memory_file_close(&m);
    assert_non_null(text);
    const char *at = text;
    for (int i = 0; i < LINES; i++) {
        char line[20];
        size_t length = (size_t)snprintf(line, sizeof line, "line %d\n", i);
        assert_memory_equal(at, line, length);
        at += length;
    }
    assert_memory_equal(at, "a\0b", 4);
    assert_int_equal(m.size, at + 3 - text);
    free(text);
}

static void nothing(void **state) {
    (void)state;
    ole_memory_file m;
    assert_true(ole_memory_file_open(&m));
    char *text = ole_memory_file_close(&m);
    assert_string_equal(text, "");
    assert_int_equal(m.size, 0);
    free(text);
}

/* Whichever allocation fails, the text is whole or NULL. */
static void no_loss_unseen(void **state) {
    (void)state;
    if (!MEMORY_FAILS) skip();
    int64_t lost = 0;
    for (int mode = FAILS_ONCE; mode <= FAILS_ALWAYS; mode++) {
        bool failed = true;
        for (int64_t n = 0; failed; n++) {
            ole_memory_file m;
            memory_fails_at(n, (memory_failure)mode);
            if (ole_memory_file_open(&m)) print_lines(m.file);
            char *text = ole_memory_file_close(&m);
            failed = memory_has_failed();
            if (!failed) assert_non_null(text);
            if (text) assert_int_equal(m.size, strlen(text));
            if (text) assert_string_equal(text + m.size - 10, "line 3999\n");
            lost += !text;
            free(text);
        }
    }
    assert_true(lost >= 2 * 3); /* the first bytes, the stream, and when the text grows */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_bytes),
        cmocka_unit_test(nothing),
        cmocka_unit_test(no_loss_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
