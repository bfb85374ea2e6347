/*
 * tests/unit/formats/test_json.c - the JSON writer: layout, escapes, numbers, misuse and failed
 * writes.
 */
#include "formats/json.h"

#include "comma_locale.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A writer into memory. */
typedef struct sheet {
    ole_json writer;
    FILE *file;
    char *text;
    size_t size;
} sheet;

static void begin(sheet *s, int indent) {
    s->file = open_memstream(&s->text, &s->size);
    assert_non_null(s->file);
    ole_json_init(&s->writer, s->file, indent);
}

static void assert_text(sheet *s, const char *expected) {
    assert_true(ole_json_good(&s->writer));
    fclose(s->file);
    assert_string_equal(s->text, expected);
    free(s->text);
}

static void assert_failed(sheet *s) {
    assert_false(ole_json_good(&s->writer));
    fclose(s->file);
    free(s->text);
}

static void write_sample(ole_json *w) {
    ole_json_open(w, NULL, '{');
    ole_json_number(w, "loss", 0.1);
    ole_json_open(w, "shape", '[');
    ole_json_integer(w, NULL, 64);
    ole_json_integer(w, NULL, INT64_MIN);
    ole_json_close(w);
    ole_json_open(w, "none", '[');
    ole_json_close(w);
    ole_json_bool(w, "good", true);
    ole_json_bool(w, "bad", false);
    ole_json_string(w, "name", "x");
    ole_json_string(w, "nothing", NULL);
    ole_json_close(w);
}

static void test_one_line(void **state) {
    (void)state;
    sheet s;
    begin(&s, 0);
    write_sample(&s.writer);
    assert_text(&s, "{\"loss\": 0.1, \"shape\": [64, -9223372036854775808], \"none\": [], "
                    "\"good\": true, \"bad\": false, \"name\": \"x\", \"nothing\": null}\n");
}

static void test_indented(void **state) {
    (void)state;
    sheet s;
    begin(&s, 2);
    write_sample(&s.writer);
    assert_text(&s, "{\n  \"loss\": 0.1,\n  \"shape\": [\n    64,\n    -9223372036854775808\n  ],\n"
                    "  \"none\": [],\n  \"good\": true,\n  \"bad\": false,\n  \"name\": \"x\",\n"
                    "  \"nothing\": null\n}\n");
}

/* The kind of a value follows from its type. */
static void test_several_at_once(void **state) {
    (void)state;
    sheet s;
    begin(&s, 0);
    s.writer = ole_json_begin(s.file, 0, '{');
    const char *nothing = NULL;
    char name[] = "x";
    ole_json_put(&s.writer, J("double", 0.5), J("float", 0.25f), J("int", -1),
                 J("bool", (bool)true));
    ole_json_object(&s.writer, "more", J("int64", INT64_MIN), J("uint64", UINT64_MAX),
                    J("unsigned", 7u), J("name", name), J("text", "y"), J("none", nothing),
                    J("nan", (double)NAN), J("compared", (bool)(1 < 2)));
    ole_json_numbers(&s.writer, "numbers", (const double[]){1.5, NAN}, 2);
    ole_json_integers(&s.writer, "integers", (const int64_t[]){1, INT64_MAX}, 2);
    ole_json_integers(&s.writer, "empty", NULL, 0);
    ole_json_close(&s.writer);
    assert_text(&s, "{\"double\": 0.5, \"float\": 0.25, \"int\": -1, \"bool\": true, "
                    "\"more\": {\"int64\": -9223372036854775808, "
                    "\"uint64\": 18446744073709551615, \"unsigned\": 7, \"name\": \"x\", "
                    "\"text\": \"y\", \"none\": null, \"nan\": null, \"compared\": true}, "
                    "\"numbers\": [1.5, null], \"integers\": [1, 9223372036854775807], "
                    "\"empty\": []}\n");
}

static void test_lines_follow_each_other(void **state) {
    (void)state;
    sheet s;
    begin(&s, 0);
    for (int i = 0; i < 2; i++) {
        ole_json_open(&s.writer, NULL, '{');
        ole_json_integer(&s.writer, "step", i);
        ole_json_close(&s.writer);
    }
    ole_json_integer(&s.writer, NULL, 7);
    assert_text(&s, "{\"step\": 0}\n{\"step\": 1}\n7\n");
}

static void assert_string_written(const char *value, const char *expected) {
    sheet s;
    begin(&s, 0);
    ole_json_string(&s.writer, NULL, value);
    assert_text(&s, expected);
}

static void test_strings(void **state) {
    (void)state;
    assert_string_written("", "\"\"\n");
    assert_string_written("a\"b\\c/d", "\"a\\\"b\\\\c/d\"\n");
    assert_string_written("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f\"\n");
    assert_string_written("\xc2\x9b\xe2\x80\xae\xe2\x81\xa6\xc2\xa0\xe2\x82\xac",
                          "\"\\u009b\\u202e\\u2066\xc2\xa0\xe2\x82\xac\"\n");
    assert_string_written("Ol\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x82",
                          "\"Ol\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x82\"\n");
}

/* Each byte that begins no well-formed sequence becomes the replacement character. */
static void test_strings_that_are_not_utf8(void **state) {
    (void)state;
    assert_string_written("\xff.", "\"\\ufffd.\"\n");
    assert_string_written("\x80.", "\"\\ufffd.\"\n");
    assert_string_written("\xc3", "\"\\ufffd\"\n");
    assert_string_written("\xc0\xaf", "\"\\ufffd\\ufffd\"\n");
    assert_string_written("\xe2\x82.", "\"\\ufffd\\ufffd.\"\n");
    assert_string_written("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"\n");
    assert_string_written("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"\n");
    assert_string_written("\xf0\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n");
    assert_string_written("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"\n");
}

static void assert_number_written(double value, const char *expected) {
    sheet s;
    begin(&s, 0);
    ole_json_number(&s.writer, NULL, value);
    assert_text(&s, expected);
}

static void test_numbers(void **state) {
    (void)state;
    assert_number_written(0.0, "0\n");
    assert_number_written(-0.0, "-0\n");
    assert_number_written(3.0, "3\n");
    assert_number_written(0.1, "0.1\n");
    assert_number_written(0.1 + 0.2, "0.30000000000000004\n");
    assert_number_written(1.0 / 3.0, "0.3333333333333333\n");
    assert_number_written(1e22, "1e+22\n");
    assert_number_written(-2.5e-7, "-2.5e-07\n");
    assert_number_written(NAN, "null\n");
    assert_number_written(INFINITY, "null\n");
    assert_number_written(-INFINITY, "null\n");
}

static void test_numbers_read_back(void **state) {
    (void)state;
    uint64_t bits = 1;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        sheet s;
        begin(&s, 0);
        ole_json_number(&s.writer, NULL, value);
        assert_true(ole_json_good(&s.writer));
        fclose(s.file);
        double back = strtod(s.text, NULL);
        assert_memory_equal(&back, &value, sizeof value);
        free(s.text);
    }
}

static void test_numbers_in_another_locale(void **state) {
    (void)state;
    if (!comma_locale_set()) skip();
    assert_number_written(1234.5, "1234.5\n");
    assert_number_written(0.1 + 0.2, "0.30000000000000004\n");
    setlocale(LC_NUMERIC, "C");
}

static void test_misuse(void **state) {
    (void)state;
    sheet s;
    begin(&s, 0);
    ole_json_close(&s.writer);
    assert_failed(&s);

    begin(&s, 0);
    ole_json_open(&s.writer, NULL, '(');
    assert_failed(&s);

    begin(&s, 0);
    ole_json_open(&s.writer, NULL, '{');
    ole_json_integer(&s.writer, NULL, 1);
    assert_failed(&s);

    begin(&s, 0);
    ole_json_open(&s.writer, NULL, '[');
    ole_json_integer(&s.writer, "key", 1);
    assert_failed(&s);

    begin(&s, 0);
    for (int i = 0; i <= OLE_JSON_MAX_DEPTH; i++)
        ole_json_open(&s.writer, NULL, '[');
    for (int i = 0; i <= OLE_JSON_MAX_DEPTH; i++)
        ole_json_close(&s.writer);
    assert_failed(&s);
}

static void test_deepest(void **state) {
    (void)state;
    sheet s;
    begin(&s, 0);
    for (int i = 0; i < OLE_JSON_MAX_DEPTH; i++)
        ole_json_open(&s.writer, NULL, '[');
    for (int i = 0; i < OLE_JSON_MAX_DEPTH; i++)
        ole_json_close(&s.writer);
    assert_text(&s, "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]\n");
}

static void test_full_disk(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    ole_json w;
    ole_json_init(&w, full, 2);
    write_sample(&w);
    assert_false(ole_json_good(&w));
    fclose(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_line),
        cmocka_unit_test(test_indented),
        cmocka_unit_test(test_several_at_once),
        cmocka_unit_test(test_lines_follow_each_other),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_strings_that_are_not_utf8),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_numbers_read_back),
        cmocka_unit_test(test_numbers_in_another_locale),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_deepest),
        cmocka_unit_test(test_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
