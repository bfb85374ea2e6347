/*
 * tests/unit/train/test_train_locale.c - options and models in a program whose locale writes 0,5:
 * their files are those of any other program.
 */
#include "ole/train/model.h"
#include "ole/train/train.h"

#include "base/number.h"
#include "comma_locale.h"
#include "run_files.h"
#include "temporary.h"
#include "test.h"
#include "train/options/option_table.h"

#include <string.h>

static void set_or_skip(void) {
    if (!comma_locale_set()) skip();
    assert_string_equal(localeconv()->decimal_point, ",");
}

static int end_locale(void **state) {
    (void)state;
    setlocale(LC_ALL, "C");
    return 0;
}

static void test_numbers(void **state) {
    (void)state;
    set_or_skip();
    char text[OLE_NUMBER_TEXT], *end;
    assert_true(ole_number_read("0.25,1", &end) == 0.25);
    assert_string_equal(end, ",1");
    assert_string_equal(ole_number_write(text, 9, 0.1), "0.1");
    assert_string_equal(ole_number_write(text, 17, -2.2250738585072014e-308),
                        "-2.2250738585072014e-308");
    assert_string_equal(localeconv()->decimal_point, ","); /* the program's is left alone */
}

static void test_options(void **state) {
    (void)state;
    set_or_skip();
    ole_train_options o;
    ole_train_options_init(&o);
    ole_error error;
    assert_ok(ole_train_options_set(&o, "lr", "0.25", &error), &error);
    assert_ok(ole_train_options_set(&o, "weight-decay", "1.5/2", &error), &error);
    assert_true(o.lr == 0.25 && o.weight_decay == 0.75);
    char room[OLE_OPTION_VALUE];
    const ole_option *lr = ole_option_find(ole_train_table, "lr", strlen("lr"));
    assert_string_equal(ole_option_text(lr, &o, room), "0.25");
}

/* The score of a model for an image of 64 greys. */
static double predict(const char *path) {
    ole_model *model;
    ole_error error;
    assert_ok(ole_model_load(&model, path, 1, &error), &error);
    float image[64];
    for (int i = 0; i < 64; i++)
        image[i] = (float)i / 64.0f;
    ole_prediction p;
    assert_ok(ole_model_predict(model, image, 1, &p, &error), &error);
    ole_model_free(model);
    return p.score;
}

static void train(const char *out) {
    ole_train_options o = small_run("C4-MP-FC12", "auto");
    o.out = out;
    o.milestones = "50.5%,75%";
    ole_error error;
    assert_ok(ole_train(&o, NULL, &error), &error);
}

/* Trained here and there, and loaded here and there: one model. */
static void test_models(void **state) {
    (void)state;
    char point[600], comma[600];
    snprintf(point, sizeof point, "%s", temporary_path("point"));
    snprintf(comma, sizeof comma, "%s", temporary_path("comma"));
    set_or_skip();
    train(comma);
    double score = predict(comma);
    setlocale(LC_ALL, "C");
    train(point);
    assert_true(predict(point) == score && predict(comma) == score);
    assert_same_runs(point, comma);
    set_or_skip();
    assert_true(predict(point) == score);
    run_remove(point);
    run_remove(comma);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_numbers, end_locale),
        cmocka_unit_test_teardown(test_options, end_locale),
        cmocka_unit_test_teardown(test_models, end_locale),
    };
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
