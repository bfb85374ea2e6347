/*
 * tests/unit/features/test_roc.c - ROC curves against scikit-learn's, recorded by
 * recorded/scores.py.
 */
#include "ole/roc.h"

#include "../../recorded/scores.h"
#include "test.h"

#include <math.h>

enum { CURVES = sizeof recorded_curves / sizeof *recorded_curves };

static double sum(const double *values, int64_t count) {
    double total = 0.0;
    for (int64_t i = 0; i < count; i++)
        total += values[i];
    return total;
}

static void assert_near(double got, double expected, const char *what, const char *name) {
    if (!(fabs(got - expected) <= 1e-12 * (1.0 + fabs(expected))))
        fail_msg("%s: %s is %.17g, not %.17g", name, what, got, expected);
}

static void test_recorded(void **state) {
    (void)state;
    for (int i = 0; i < CURVES; i++) {
        const recorded_curve *c = &recorded_curves[i];
        ole_roc roc;
        ole_error error;
        assert_ok(ole_roc_make(&roc, c->positive, c->positives, c->negative, c->negatives, &error),
                  &error);
        assert_int_equal(roc.positives, c->positives);
        assert_int_equal(roc.negatives, c->negatives);
        assert_int_equal(roc.points, c->points);
        assert_near(roc.auroc, c->auroc, "AUROC", c->name);
        assert_near(roc.ap_positive, c->ap_positive, "AP of positives", c->name);
        assert_near(roc.ap_negative, c->ap_negative, "AP of negatives", c->name);
        assert_near(roc.fpr95, c->fpr95, "FPR95", c->name);
        assert_near(sum(roc.tpr, roc.points), c->tpr_sum, "sum of TPR", c->name);
        assert_near(sum(roc.fpr, roc.points), c->fpr_sum, "sum of FPR", c->name);
        assert_near(sum(roc.threshold + 1, roc.points - 1), c->threshold_sum, "sum of thresholds",
                    c->name);
        ole_roc_free(&roc);
    }
}

/* The curve begins with nothing, ends with everything, and never turns back. */
static void test_ends(void **state) {
    (void)state;
    const recorded_curve *c = &recorded_curves[CURVES - 1];
    ole_roc roc;
    ole_error error;
    assert_ok(ole_roc_make(&roc, c->positive, c->positives, c->negative, c->negatives, &error),
              &error);
    assert_true(roc.threshold[0] == INFINITY && roc.tpr[0] == 0.0 && roc.fpr[0] == 0.0);
    assert_true(roc.tpr[roc.points - 1] == 1.0 && roc.fpr[roc.points - 1] == 1.0);
    for (int64_t i = 1; i < roc.points; i++)
        assert_true(roc.threshold[i] < roc.threshold[i - 1] && roc.tpr[i] >= roc.tpr[i - 1] &&
                    roc.fpr[i] >= roc.fpr[i - 1]);
    ole_roc_free(&roc);
    assert_null(roc.threshold);
    ole_roc_free(NULL);
}

/* Exchanging the kinds and the sign of the scores exchanges the average precisions. */
static void test_exchanged(void **state) {
    (void)state;
    const double high[] = {3, 1, 2, 2}, low[] = {-2, 0, 1, -3, 2};
    const double minus_high[] = {-3, -1, -2, -2}, minus_low[] = {2, 0, -1, 3, -2};
    ole_roc one, other;
    ole_error error;
    assert_ok(ole_roc_make(&one, high, 4, low, 5, &error), &error);
    assert_ok(ole_roc_make(&other, minus_low, 5, minus_high, 4, &error), &error);
    assert_near(other.auroc, one.auroc, "AUROC", "exchanged");
    assert_near(other.ap_positive, one.ap_negative, "AP", "exchanged");
    assert_near(other.ap_negative, one.ap_positive, "AP", "exchanged");
    ole_roc_free(&one);
    ole_roc_free(&other);
}

static void test_errors(void **state) {
    (void)state;
    const double good[] = {1, 2}, bad[] = {1, 2, NAN};
    ole_roc roc;
    ole_error error;
    assert_int_equal(ole_roc_make(&roc, good, 2, bad, 3, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "the score of negative sample 2 is NaN");
    assert_int_equal(ole_roc_make(&roc, bad, 3, good, 2, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "the score of positive sample 2 is NaN");
    assert_int_equal(ole_roc_make(&roc, good, 0, good, 2, &error), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_roc_make(&roc, good, 2, good, 0, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_roc_make(NULL, good, 2, good, 2, NULL), OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_roc_make(&roc, NULL, 2, good, 2, NULL), OLE_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_exchanged),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
