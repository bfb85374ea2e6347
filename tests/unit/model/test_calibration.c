/*
 * tests/unit/model/test_calibration.c - temperatures and calibration errors against NumPy's,
 * recorded by recorded/scores.py.
 */
#include "model/calibration.h"

#include "../../recorded/scores.h"
#include "test.h"

#include <math.h>

enum { CLASSIFIERS = sizeof recorded_classifiers / sizeof *recorded_classifiers };

static ole_logits logits_of(const recorded_logits *r) {
    return (ole_logits){r->count, r->classes, r->logits, r->labels};
}

static void assert_near(double got, double expected, double tolerance, const char *what,
                        const char *name) {
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%s: %s is %.17g, not %.17g", name, what, got, expected);
}

static void test_temperature(void **state) {
    (void)state;
    for (int i = 0; i < CLASSIFIERS; i++) {
        const recorded_logits *r = &recorded_classifiers[i];
        const ole_logits data = logits_of(r);
        double temperature;
        bool fitted = ole_temperature_fit(&data, &temperature);
        assert_int_equal(fitted, r->temperature > 0.0);
        if (!fitted) assert_true(temperature == 1.0);
        double expected = fitted ? r->temperature : 1.0;
        assert_near(temperature, expected, 1e-5 * expected, "temperature", r->name);
        assert_near(ole_temperature_nll(&data, 1.0), r->nll_before, 1e-10, "NLL before", r->name);
        assert_near(ole_temperature_nll(&data, temperature), r->nll_after, 1e-10, "NLL after",
                    r->name);
    }
}

/* The smallest: a little colder or hotter is worse. */
static void test_is_smallest(void **state) {
    (void)state;
    const ole_logits data = logits_of(&recorded_classifiers[0]);
    double temperature;
    assert_true(ole_temperature_fit(&data, &temperature));
    double smallest = ole_temperature_nll(&data, temperature);
    assert_true(ole_temperature_nll(&data, 0.99 * temperature) > smallest);
    assert_true(ole_temperature_nll(&data, 1.01 * temperature) > smallest);
}

static void test_error(void **state) {
    (void)state;
    for (int i = 0; i < CLASSIFIERS; i++) {
        const recorded_logits *r = &recorded_classifiers[i];
        const ole_logits data = logits_of(r);
        ole_calibration before, after;
        ole_calibration_measure(&before, &data, 1.0);
        ole_calibration_measure(&after, &data, r->temperature > 0.0 ? r->temperature : 1.0);
        assert_near(before.ece, r->ece_before, 1e-10, "ECE before", r->name);
        assert_near(after.ece, r->ece_after, 1e-10, "ECE after", r->name);
        int64_t count = 0;
        for (int b = 0; b < OLE_CALIBRATION_BINS; b++) {
            count += before.count[b];
            assert_int_equal(isnan(before.score[b]), before.count[b] == 0);
            if (before.count[b] == 0) continue;
            assert_true(before.score[b] > b / 15.0 - 1e-12 &&
                        before.score[b] <= (b + 1) / 15.0 + 1e-12);
        }
        assert_int_equal(count, r->count);
    }
}

/* Logits far apart do not overflow; a score of exactly 1 belongs to the last bin. */
static void test_extremes(void **state) {
    (void)state;
    const float logits[] = {1e30f, -1e30f, 0.0f, 800.0f};
    const int32_t labels[] = {0, 1};
    const ole_logits data = {2, 2, logits, labels};
    ole_calibration c;
    ole_calibration_measure(&c, &data, 1.0);
    assert_int_equal(c.count[OLE_CALIBRATION_BINS - 1], 2);
    assert_true(c.ece == 0.0 && c.nll == 0.0);
    double temperature;
    assert_false(ole_temperature_fit(&data, &temperature)); /* no T has a mean score of 3/4 */
    assert_true(temperature == 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature),
        cmocka_unit_test(test_is_smallest),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
