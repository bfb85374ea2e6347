/*
 * tests/unit/loss/test_criteria.c - the losses of src/loss/criteria: values and gradients against
 * NumPy (recorded/criteria.py), gradients against differences at other shapes, what degenerate
 * batches and bad input give, and reading parameters.
 */
#include "loss/criteria/criterion.h"

#include "../../recorded/criteria.h"
#include "failing_memory.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 20, MOST_DIM = 12, MOST_CLASSES = 7 };

/* A batch with room for its results. */
typedef struct batch {
    int64_t rows, dim, classes, step;
    const double *x, *w, *b;
    const int32_t *labels;
    double centers[MOST_CLASSES * MOST_DIM];
    double dx[MOST_ROWS * MOST_DIM], dw[MOST_CLASSES * MOST_DIM], db[MOST_CLASSES];
    int64_t correct;
} batch;

static ole_criterion_plan *plan_for(const ole_criterion *criterion, const char *options,
                                    const batch *on) {
    ole_criterion_plan_options o = {
        .criterion = criterion, .rows = on->rows, .dim = on->dim, .classes = on->classes};
    ole_criterion_plan *plan;
    ole_error error;
    ole_criterion_defaults(criterion, o.param);
    assert_ok(ole_criterion_read(criterion, options, o.param, &error), &error);
    assert_ok(ole_criterion_plan_create(&plan, &o, &error), &error);
    return plan;
}

static ole_status try_eval(ole_criterion_plan *plan, batch *on, double *value, ole_error *error) {
    const ole_criterion_batch given = {.rows = on->rows,
                                       .step = on->step,
                                       .x = on->x,
                                       .labels = on->labels,
                                       .w = on->w,
                                       .b = on->b,
                                       .centers = on->centers};
    ole_criterion_result result = {.dx = on->dx, .dw = on->dw, .db = on->db};
    ole_status status = ole_criterion_eval(plan, &given, &result, error);
    *value = result.value;
    on->correct = result.correct;
    return status;
}

static double eval(ole_criterion_plan *plan, batch *on) {
    double value;
    ole_error error;
    assert_ok(try_eval(plan, on, &value, &error), &error);
    return value;
}

static double largest(const double *a, int64_t count) {
    double most = 0.0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs(a[i]));
    return most;
}

static void assert_near(const char *what, const double *found, const double *expected,
                        int64_t count, double tolerance) {
    double scale = fmax(largest(expected, count), 1e-3);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) <= tolerance * scale))
            fail_msg("%s[%d]: %.17g, expected %.17g", what, (int)i, found[i], expected[i]);
}

/* ---- NumPy -------------------------------------------------------------------------------- */

static void values_and_gradients_are_numpys(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++) {
        const recorded_loss *r = &recorded[k];
        const ole_criterion *criterion = ole_criterion_find(r->name);
        char name[96];
        snprintf(name, sizeof name, "%s %s", r->name, r->options);
        batch on = {.rows = ROWS,
                    .dim = DIM,
                    .classes = CLASSES,
                    .step = r->step,
                    .x = features,
                    .w = weights,
                    .b = biases,
                    .labels = labels};
        memcpy(on.centers, centers, sizeof centers);
        ole_criterion_plan *plan = plan_for(criterion, r->options, &on);
        double value = eval(plan, &on);
        assert_near(name, &value, &r->value, 1, 1e-12);
        assert_near(name, on.dx, r->dx, ROWS * DIM, 1e-8);
        if (criterion->traits & OLE_CRITERION_HEAD) {
            assert_near(name, on.dw, r->dw, CLASSES * DIM, 1e-8);
            assert_near(name, on.db, r->db, CLASSES, 1e-8);
        }
        if (criterion->traits & OLE_CRITERION_CENTERS)
            assert_near(name, on.centers, r->moved, CLASSES * DIM, 1e-14);
        ole_criterion_plan_free(plan);
    }
}

/* Every row of the table has a recorded case, so that a new one cannot be forgotten. */
static void every_criterion_is_recorded(void **state) {
    (void)state;
    for (int i = 0; ole_criterion_at(i); i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof recorded / sizeof *recorded; k++)
            found |= strcmp(recorded[k].name, ole_criterion_at(i)->name) == 0;
        if (!found) fail_msg("%s is not in recorded/criteria.py", ole_criterion_at(i)->name);
    }
}

/* ---- Differences -------------------------------------------------------------------------- */

static void check_differences(ole_criterion_plan *plan, const batch *from, double *at,
                              const double *gradient, int64_t count, const char *name) {
    static const double h = 1e-6;
    double scale = fmax(largest(gradient, count), 1e-2);
    for (int64_t i = 0; i < count; i++) {
        double was = at[i];
        batch up = *from, down = *from;
        at[i] = was + h;
        double above = eval(plan, &up);
        at[i] = was - h;
        double below = eval(plan, &down), slope = (above - below) / (2.0 * h);
        at[i] = was;
        if (!(fabs(slope - gradient[i]) <= 2e-5 * scale))
            fail_msg("%s, %d x %d of %d classes: gradient[%d] is %.10g, by differences %.10g", name,
                     (int)from->rows, (int)from->dim, (int)from->classes, (int)i, gradient[i],
                     slope);
    }
}

static void gradients_are_differences(void **state) {
    (void)state;
    static const struct {
        int rows, dim, classes;
    } shapes[] = {{20, 12, 7}, {20, 3, 2}, {5, 12, 2}, {3, 2, 3}};
    for (int i = 0; ole_criterion_at(i); i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const ole_criterion *c = ole_criterion_at(i);
            test_random random = {s + 11};
            double x[MOST_ROWS * MOST_DIM], w[MOST_CLASSES * MOST_DIM], b[MOST_CLASSES];
            int32_t y[MOST_ROWS];
            batch on = {.rows = shapes[s].rows,
                        .dim = shapes[s].dim,
                        .classes = shapes[s].classes,
                        .step = 50,
                        .x = x,
                        .w = w,
                        .b = b,
                        .labels = y};
            for (int64_t k = 0; k < on.rows * on.dim; k++)
                x[k] = random_normal(&random);
            for (int64_t k = 0; k < on.classes * on.dim; k++)
                w[k] = random_normal(&random);
            for (int64_t k = 0; k < on.classes; k++)
                b[k] = random_normal(&random);
            for (int64_t k = 0; k < on.rows; k++)
                y[k] = (int32_t)(k % on.classes);
            y[1] = -1; /* an ignored row */
            ole_criterion_plan *plan = plan_for(c, "", &on);
            batch start = on;
            eval(plan, &on);
            batch done = on;
            check_differences(plan, &start, x, done.dx, on.rows * on.dim, c->name);
            for (int64_t d = 0; d < on.dim; d++)
                assert_true(done.dx[on.dim + d] == 0.0);
            if (c->traits & OLE_CRITERION_HEAD) {
                check_differences(plan, &start, w, done.dw, on.classes * on.dim, c->name);
                check_differences(plan, &start, b, done.db, on.classes, c->name);
            }
            ole_criterion_plan_free(plan);
        }
}

/* ---- Degenerate batches and mistakes ------------------------------------------------------ */

/* Value and gradient are finite for rows that are equal, zero, alone in their class, huge, tiny or
 * all ignored, and the same bits twice. */
static void degenerate_batches_are_finite(void **state) {
    (void)state;
    enum { N = 6, D = 4, C = 3 };
    static const int32_t one_class[N] = {1, 1, 1, 1, 1, 1}, apart[N] = {0, 1, 2, -1, -1, -1},
                         none[N] = {-1, -1, -1, -1, -1, -1}, mixed[N] = {0, 0, 1, 1, 2, 2};
    static const int32_t *const lists[] = {one_class, apart, none, mixed};
    double w[C * D], b[C] = {0};
    for (int i = 0; i < C * D; i++)
        w[i] = (i % D == i / D) * 1.0;
    for (int i = 0; ole_criterion_at(i); i++)
        for (int l = 0; l < 4; l++)
            for (int kind = 0; kind < 5; kind++) {
                double x[N * D];
                for (int k = 0; k < N * D; k++) {
                    double apart_value = k % D == (k / D) % D ? 1.0 : 0.0;
                    const double values[] = {0.0, 1.0, apart_value, 1e150 * apart_value,
                                             1e-150 * (1.0 + k)};
                    x[k] = values[kind];
                }
                /* squares overflow by definition */
                if (kind == 3 && ole_criterion_at(i)->traits & OLE_CRITERION_CENTERS) continue;
                batch on = {.rows = N,
                            .dim = D,
                            .classes = C,
                            .step = 1,
                            .x = x,
                            .w = w,
                            .b = b,
                            .labels = lists[l]};
                ole_criterion_plan *plan = plan_for(ole_criterion_at(i), "", &on);
                batch again = on;
                double value = eval(plan, &on), second = eval(plan, &again);
                assert_true(isfinite(value) && value == second);
                for (int k = 0; k < N * D; k++)
                    if (!isfinite(on.dx[k]))
                        fail_msg("%s, labels %d, rows %d: dx[%d] is %g", ole_criterion_at(i)->name,
                                 l, kind, k, on.dx[k]);
                assert_memory_equal(on.dx, again.dx, sizeof on.dx);
                if (lists[l] == none) assert_true(value == 0.0 && largest(on.dx, N * D) == 0.0);
                ole_criterion_plan_free(plan);
            }
}

static void heads_count_what_is_right(void **state) {
    (void)state;
    static const double x[] = {3, 1, 1, 3, -1, 2}, w[] = {1, 0, 0, 1}, b[] = {0, 0};
    static const int32_t y[] = {0, 1, 0};
    for (int i = 0; ole_criterion_at(i); i++) {
        batch on = {
            .rows = 3, .dim = 2, .classes = 2, .step = 1, .x = x, .w = w, .b = b, .labels = y};
        bool head = ole_criterion_at(i)->traits & OLE_CRITERION_HEAD;
        ole_criterion_plan *plan = plan_for(ole_criterion_at(i), "", &on);
        eval(plan, &on);
        assert_int_equal(on.correct, head ? 2 : 0);
        ole_criterion_plan_free(plan);
    }
}

static void mistakes_are_named(void **state) {
    (void)state;
    double x[] = {1, 2, 3, NAN, 5, 6}, value;
    static const double w[] = {1, 0, 0, 1}, b[] = {0, 0};
    static const int32_t y[] = {0, 1, 0}, beyond[] = {0, 1, 2};
    batch on = {.rows = 3, .dim = 2, .classes = 2, .step = 1, .x = x, .w = w, .b = b, .labels = y};
    ole_error error;
    for (int i = 0; ole_criterion_at(i); i++) {
        ole_criterion_plan *plan = plan_for(ole_criterion_at(i), "", &on);
        on.labels = y;
        assert_int_equal(try_eval(plan, &on, &value, &error), OLE_ERROR_DATA);
        assert_string_equal(error.message,
                            "features: row 1 holds NaN or Inf; check what produced it");
        on.labels = beyond;
        assert_int_equal(try_eval(plan, &on, &value, &error), OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message, "label 2 is 2: there are 2 classes");
        batch more = on;
        more.rows = 4;
        assert_int_equal(try_eval(plan, &more, &value, &error), OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message, "batch.rows is 4: the plan takes 0 to 3");
        ole_criterion_plan_free(plan);
    }
}

static void plans_report_missing_memory(void **state) {
    (void)state;
    ole_criterion_plan_options o = {
        .criterion = ole_criterion_find("supcon"), .rows = INT64_MAX / 4, .dim = 9, .classes = 2};
    ole_criterion_plan *plan;
    ole_error error;
    assert_int_equal(ole_criterion_plan_create(&plan, &o, &error), OLE_ERROR_MEMORY);
    assert_string_equal(error.message, "out of memory for the loss supcon");
    assert_null(plan);
}

/* ---- Parameters --------------------------------------------------------------------------- */

static void parameters_are_read(void **state) {
    (void)state;
    double p[OLE_CRITERION_PARAMS];
    ole_error error;
    const ole_criterion *triplet = ole_criterion_find("triplet");
    ole_criterion_defaults(triplet, p);
    assert_true(p[0] == 0.2 && p[1] == 0.0);
    assert_ok(ole_criterion_read(triplet, "mining=semi-hard,margin=0.5", p, &error), &error);
    assert_true(p[0] == 0.5 && p[1] == 1.0);
    assert_ok(ole_criterion_read(triplet, "", p, &error), &error);
    assert_true(p[0] == 0.5 && p[1] == 1.0);
    static const struct {
        const char *loss, *text, *message;
    } wrong[] = {
        {"triplet", "margin=a", "loss_options: margin 'a': expected a number from 0 to 2"},
        {"triplet", "margin=3", "loss_options: margin '3': expected a number from 0 to 2"},
        {"triplet", "margin=nan", "loss_options: margin 'nan': expected a number from 0 to 2"},
        {"triplet", "mining=soft", "loss_options: mining 'soft': expected one of hard,semi-hard"},
        {"triplet", "scale=3",
         "loss_options: triplet has no parameter 'scale'; it has margin, mining"},
        {"triplet", "margin", "loss_options 'margin': expected NAME=VALUE, with commas between"},
        {"triplet", "margin=0.1,,", "loss_options '': expected NAME=VALUE, with commas between"},
        {"l-softmax", "margin=2.5",
         "loss_options: margin '2.5': expected a whole number from 1 to 10"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(
            ole_criterion_read(ole_criterion_find(wrong[i].loss), wrong[i].text, p, &error),
            OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message, wrong[i].message);
    }
    assert_null(ole_criterion_find("softmax"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_gradients_are_numpys),
        cmocka_unit_test(every_criterion_is_recorded),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(degenerate_batches_are_finite),
        cmocka_unit_test(heads_count_what_is_right),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(plans_report_missing_memory),
        cmocka_unit_test(parameters_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
