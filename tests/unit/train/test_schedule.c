/*
 * tests/unit/train/test_schedule.c - the learning rate over a run.
 */
#include "train/options/schedule.h"

#include "test.h"

#include <math.h>

static ole_schedule make(const char *milestones, int64_t epochs, double warmup, int64_t steps) {
    ole_train_options options;
    ole_train_options_init(&options);
    options.lr = 1.0;
    options.milestones = milestones;
    options.epochs = epochs;
    options.warmup = warmup;
    ole_schedule schedule;
    ole_error error;
    assert_ok(ole_schedule_init(&schedule, &options, steps, &error), &error);
    return schedule;
}

static void assert_rate(const ole_schedule *s, int64_t epoch, int64_t step, double rate) {
    double got = ole_schedule_rate(s, epoch, step);
    if (fabs(got - rate) > 1e-12) fail_msg("epoch %d step %d: %g", (int)epoch, (int)step, got);
}

static void test_milestones(void **state) {
    (void)state;
    ole_schedule s = make("50%,75%", 164, 0, 10);
    assert_rate(&s, 0, 0, 1.0);
    assert_rate(&s, 81, 9, 1.0);
    assert_rate(&s, 82, 0, 0.1);
    assert_rate(&s, 123, 0, 0.01);
    s = make("81,122", 164, 0, 10);
    assert_rate(&s, 80, 9, 1.0);
    assert_rate(&s, 81, 0, 0.1);
    assert_rate(&s, 163, 9, 0.01);
    s = make("50%", 5, 0, 10); /* in the middle of an epoch */
    assert_rate(&s, 2, 4, 1.0);
    assert_rate(&s, 2, 5, 0.1);
    for (int64_t epochs = 4; epochs <= 400; epochs += 4) { /* whole epochs, whatever their number */
        s = make("25%,50%,75%", epochs, 0, 1);
        assert_rate(&s, epochs / 4 - 1, 0, 1.0);
        assert_rate(&s, epochs / 4, 0, 0.1);
        assert_rate(&s, epochs / 2, 0, 0.01);
        assert_rate(&s, epochs * 3 / 4, 0, 0.001);
    }
    make("5,50%", 0, 0, 1);    /* whether they rise can be said when the epochs are known */
    ole_train_options options; /* after the probe it is a schedule of the remaining epochs */
    ole_error error;
    ole_train_options_init(&options);
    options.lr = 1.0;
    options.milestones = "50%";
    options.warmup = 1;
    options.epochs = 7;
    options.probe_epochs = 3;
    assert_ok(ole_schedule_init(&s, &options, 2, &error), &error);
    assert_rate(&s, 0, 0, 1.0);
    assert_rate(&s, 2, 1, 1.0);
    assert_rate(&s, 3, 0, 0.5);
    assert_rate(&s, 4, 0, 1.0);
    assert_rate(&s, 5, 0, 0.1);
    s = make("none", 5, 0, 10);
    assert_rate(&s, 4, 9, 1.0);
    s = make("", 5, 0, 10);
    assert_rate(&s, 4, 9, 1.0);
}

static void test_cosine_and_warmup(void **state) {
    (void)state;
    ole_schedule s = make("cosine", 10, 0, 4);
    assert_rate(&s, 0, 0, 1.0);
    assert_rate(&s, 5, 0, 0.5);
    assert_rate(&s, 2, 2, 0.5 * (1 + sqrt(0.5)));
    assert_rate(&s, 10, 0, ole_schedule_rate(&s, 9, 3)); /* past its end it stays */
    assert_rate(&s, 17, 2, ole_schedule_rate(&s, 9, 3));
    s = make("cosine", 10, 2, 4);
    assert_rate(&s, 0, 0, 0.125);
    assert_rate(&s, 1, 3, 1.0);
    assert_rate(&s, 2, 0, 1.0);
    assert_rate(&s, 6, 0, 0.5);
    s = make("50%", 10, 0.5, 4);
    assert_rate(&s, 0, 0, 0.5);
    assert_rate(&s, 0, 1, 1.0);
    assert_rate(&s, 5, 0, 0.1);
}

static void test_mistakes(void **state) {
    (void)state;
    static const char *const texts[] = {"75%,50%", "50%,", ",", "x", "50%%", "-1", "10 20", "nan"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ole_train_options options;
        ole_train_options_init(&options);
        options.milestones = texts[i];
        ole_schedule schedule;
        ole_error error;
        assert_int_equal(ole_schedule_init(&schedule, &options, 1, &error), OLE_ERROR_ARGUMENT);
        char message[256];
        snprintf(message, sizeof message,
                 "milestones '%s': expected rising epochs or shares such as 81,122 or 50%%,75%%, "
                 "cosine or none",
                 texts[i]);
        assert_string_equal(error.message, message);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_milestones),
        cmocka_unit_test(test_cosine_and_warmup),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
