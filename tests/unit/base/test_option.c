/*
 * tests/unit/test_option.c - typed options: reading, checking, printing, names and defaults.
 */
#include "base/option.h"

#include "test.h"

#include <math.h>
#include <string.h>

typedef struct settings {
    bool on;
    const char *text, *word;
    int choice, set, integer;
    double number, share;
    int64_t whole;
    uint64_t seed;
} settings;

#define ROW(field, type) .name = #field, .kind = OLE_##type, .offset = offsetof(settings, field)

static const ole_option table[] = {
    {ROW(on, SWITCH), .initial = "true"},
    {ROW(text, TEXT)},
    {ROW(word, WORD), .value = "sgd|adam", .initial = "adam"},
    {ROW(choice, CHOICE), .value = "a|b|c", .min = 1, .initial = "b"},
    {ROW(set, SET), .value = "A[+B]", .words = "a|b|c", .initial = "a+b"},
    {ROW(number, NUMBER), .special = "auto", .special_value = -1, .initial = "auto"},
    {ROW(share, SHARE), .initial = "10%"},
    {ROW(integer, INTEGER), .min = 1, .max = 9, .initial = "3", .idle_with = "word=adam|sgd"},
    {ROW(whole, WHOLE), .initial = "4", .idle_with = "text"},
    {ROW(seed, SEED), .idle_with = "set=!c|b"},
    {.name = "two_words", .kind = OLE_PAIR},
    {0},
};

static const ole_option *row(const char *name) {
    const ole_option *o = ole_option_find(table, name, strlen(name));
    assert_non_null(o);
    return o;
}

static void test_values(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *shown; /* NULL: refused */
        const char *why;
    } cases[] = {
        {"on", "No", "false", NULL},
        {"on", "2", NULL, "on '2': expected true or false"},
        {"text", "x\ny", "x\ny", NULL},
        {"word", "sgd", "sgd", NULL},
        {"word", "sg", NULL, "word 'sg': expected one of sgd, adam"},
        {"choice", "c", "c", NULL},
        {"choice", "a|b", NULL, "choice 'a|b': expected one of a, b, c"},
        {"set", "c+a", "a+c", NULL},
        {"set", "b", "b", NULL},
        {"set", "a+d", NULL, "set 'a+d': expected some of a, b, c with '+' between"},
        {"set", "a+a", NULL, "set 'a+a': expected some of a, b, c with '+' between"},
        {"set", "a+", NULL, "set 'a+': expected some of a, b, c with '+' between"},
        {"set", "", NULL, "set '': expected some of a, b, c with '+' between"},
        {"number", "1/3", "0.3333333333333333", NULL},
        {"number", "auto", "auto", NULL},
        {"number", "-1", NULL, "number '-1': expected auto or a number of at least 0"},
        {"number", "inf", NULL, "number 'inf': expected auto or a number of at least 0"},
        {"number", "1/0", NULL, "number '1/0': expected auto or a number of at least 0"},
        {"number", "5%", NULL, "number '5%': expected auto or a number of at least 0"},
        {"share", "5%", "0.05", NULL},
        {"share", "100%", NULL, "share '100%': expected a share below 1, such as 10% or 0.1"},
        {"integer", "9", "9", NULL},
        {"integer", "9.5", NULL, "integer '9.5': expected a whole number from 1 to 9"},
        {"integer", "", NULL, "integer '': expected a whole number from 1 to 9"},
        {"whole", "1e15", "1000000000000000", NULL},
        {"seed", "18446744073709551615", "18446744073709551615", NULL},
        {"seed", "18446744073709551616", NULL,
         "seed '18446744073709551616': expected a whole number of at least 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        settings s = {0}, before;
        char why[OLE_OPTION_WHY], room[OLE_OPTION_VALUE];
        const ole_option *o = row(cases[i].name);
        ole_options_init(table, &s);
        before = s;
        bool good = ole_option_set(o, &s, o->name, cases[i].text, why);
        assert_int_equal(good, cases[i].shown != NULL);
        if (good) {
            assert_string_equal(ole_option_text(o, &s, room), cases[i].shown);
            assert_true(ole_option_check(o, &s, o->name, why));
            assert_true(ole_option_differs(o, &s, &before) || strcmp(cases[i].text, "auto") == 0);
            ole_option_copy(o, &before, &s);
            assert_false(ole_option_differs(o, &s, &before));
        } else {
            assert_string_equal(why, cases[i].why);
            assert_false(ole_option_differs(o, &s, &before));
        }
    }
}

static void test_checks(void **state) {
    (void)state;
    char why[OLE_OPTION_WHY];
    settings s = {.choice = 4, .number = NAN, .integer = 10, .share = 1.0, .word = "x"};
    assert_false(ole_option_check(row("choice"), &s, "choice", why));
    assert_string_equal(why, "choice '4': expected one of a, b, c");
    assert_false(ole_option_check(row("number"), &s, "--number", why));
    assert_string_equal(why, "--number 'nan': expected auto or a number of at least 0");
    assert_false(ole_option_check(row("integer"), &s, "integer", why));
    assert_false(ole_option_check(row("share"), &s, "share", why));
    assert_false(ole_option_check(row("word"), &s, "word", why));
    assert_true(ole_option_check(row("text"), &s, "text", why));
}

static void test_names(void **state) {
    (void)state;
    char flag[OLE_OPTION_FLAG];
    assert_ptr_equal(row("two-words"), row("two_words"));
    assert_null(ole_option_find(table, "two-word", 8));
    assert_null(ole_option_find(table, "two-wordsx", 10));
    assert_ptr_equal(ole_option_find(table, "seeds", 4), row("seed"));
    assert_ptr_equal(ole_option_nearest(table, "two-wrds", 8), row("two_words"));
    assert_null(ole_option_nearest(table, "frobnicate", 10));
    assert_string_equal(ole_option_flag(row("two_words"), flag), "--two-words");
}

static void test_idle(void **state) {
    (void)state;
    char beside[OLE_OPTION_WHY];
    settings s = {0};
    ole_options_init(table, &s);
    assert_true(ole_option_is_idle(row("integer"), table, &s, beside));
    assert_string_equal(beside, "--word adam");
    s.word = "other";
    assert_false(ole_option_is_idle(row("integer"), table, &s, beside));
    assert_false(ole_option_is_idle(row("whole"), table, &s, beside));
    s.text = "";
    assert_false(ole_option_is_idle(row("whole"), table, &s, beside));
    s.text = "any";
    assert_true(ole_option_is_idle(row("whole"), table, &s, beside));
    assert_string_equal(beside, "--text any");
    assert_false(ole_option_is_idle(row("seed"), table, &s, beside)); /* a+b has b */
    s.set = 1;
    assert_true(ole_option_is_idle(row("seed"), table, &s, beside));
    assert_string_equal(beside, "--set a");
    s.set = 8; /* no word */
    char why[OLE_OPTION_WHY];
    assert_false(ole_option_check(row("set"), &s, "set", why));
    assert_string_equal(why, "set '8': expected some of a, b, c with '+' between");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_checks),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
