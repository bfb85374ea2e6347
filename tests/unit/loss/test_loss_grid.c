/*
 * tests/unit/loss/test_loss_grid.c - the loss against LAPACK in double over shapes, class counts,
 * structures, types and scales, held to the promises of include/ole/loss.h.
 */
#include "cases.h"
#include "ole/loss.h"
#include "reference.h"
#include "test.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A case, and the promise it is held to. */
typedef struct grid_case {
    int64_t rows, dim, classes;
    case_structure structure;
    ole_dtype dtype;
    double scale;
    bool authors_rule;
    bool some_ignored;
} grid_case;

static int cases_run, gradients_checked;

static void describe(char *text, size_t size, const grid_case *c) {
    snprintf(text, size, "%" PRId64 " x %" PRId64 ", %" PRId64 " classes, %s, %s, scale %g%s%s",
             c->rows, c->dim, c->classes, case_name(c->structure), ole_dtype_name(c->dtype),
             c->scale, c->authors_rule ? ", authors' rule" : "",
             c->some_ignored ? ", some ignored" : "");
}

static void check_value(const grid_case *c, const char *text, const ole_loss_result *got,
                        const reference_loss *want) {
    double bound = (c->dtype == OLE_F32 ? 1e-6 : 1e-12) * want->sum_of_norms;
    double error =
        fabs((got->class_term - got->global_norm) - (want->class_term - want->global_norm));
    if (!(error <= bound)) fail_msg("%s: value error %g, promised %g", text, error, bound);
    assert_int_equal(got->rows, want->rows);
    assert_int_equal(got->classes, want->classes);
    double expected = (got->class_term - got->global_norm) / (double)want->rows;
    if (got->value != expected && fabs(got->value - expected) > 1e-15 * fabs(expected))
        fail_msg("%s: value %.17g is not weight/N of its terms %.17g", text, got->value, expected);
}

/* The promise is kept while eps * condition stays under it (docs/maths.md). */
static bool gradient_promised(const grid_case *c, const reference_loss *want) {
    return want->clear && want->condition < (c->dtype == OLE_F32 ? 1e10 : 1e5);
}

static void check_gradient(const grid_case *c, const char *text, const void *gradient,
                           const ole_loss_result *got, const reference_loss *want) {
    if (!gradient_promised(c, want)) return;
    if (got->rank != want->rank)
        fail_msg("%s: rank %" PRId64 ", not %" PRId64, text, got->rank, want->rank);
    double square = 0.0, n = (double)want->rows;
    for (int64_t i = 0; i < c->rows * c->dim; i++) {
        double g =
            c->dtype == OLE_F32 ? ((const float *)gradient)[i] : ((const double *)gradient)[i];
        double d = g * n - want->gradient[i];
        square += d * d;
    }
    double bound = (c->dtype == OLE_F32 ? 1e-5 : 1e-9) * sqrt(n), error = sqrt(square);
    if (!(error <= bound)) fail_msg("%s: gradient error %g, promised %g", text, error, bound);
    gradients_checked++;
}

static void run_case(const grid_case *c, uint64_t seed) {
    char text[200];
    describe(text, sizeof text, c);
    test_random random = {seed};
    size_t count = (size_t)(c->rows * c->dim);
    double *x = malloc(count * sizeof *x);
    float *narrow = malloc(count * sizeof *narrow);
    void *gradient = malloc(count * sizeof(double));
    int64_t *labels = malloc((size_t)c->rows * sizeof *labels);
    memset(gradient, 0xff, count * sizeof(double));
    case_labels(labels, c->rows, c->classes, seed % 2 ? &random : NULL);
    case_fill(c->structure, x, labels, c->rows, c->dim, &random);
    for (size_t i = 0; i < count; i++)
        x[i] *= c->scale;
    if (c->dtype == OLE_F32) case_round(narrow, x, (int64_t)count);
    for (int64_t i = 1; i < c->rows && c->some_ignored; i += 3)
        labels[i] = -1 - i;

    ole_loss_options options;
    ole_loss_options_init(&options);
    if (c->scale != 1.0) options.delta_abs = 0.0;
    if (c->authors_rule) options.delta_rel = 0.0;
    reference_loss want =
        reference_evaluate(x, labels, c->rows, c->dim, &options, c->dtype == OLE_F32);
    ole_loss_plan *plan;
    ole_error error;
    assert_ok(ole_loss_plan_create(&plan, c->rows, c->dim, c->dtype, &options, &error), &error);
    ole_loss_batch batch = {.rows = c->rows,
                            .features = c->dtype == OLE_F32 ? (void *)narrow : (void *)x,
                            .labels = labels,
                            .label_type = OLE_I64};
    ole_loss_gradient out = {.data = gradient, .upstream = 1.0};
    ole_loss_result got = {0};
    assert_ok(ole_loss_eval(plan, &batch, &out, &got, &error), &error);
    check_value(c, text, &got, &want);
    check_gradient(c, text, gradient, &got, &want);
    cases_run++;
    ole_loss_plan_destroy(plan);
    free(want.gradient);
    free(x);
    free(narrow);
    free(gradient);
    free(labels);
}

static const int64_t shapes[][3] = {
    {1, 1, 1},     {1, 7, 1},   {2, 2, 2},      {3, 1, 2},     {5, 3, 1},     {8, 8, 8},
    {9, 40, 3},    {16, 16, 2}, {26, 97, 26},   {31, 33, 4},   {33, 31, 4},   {50, 8, 5},
    {64, 128, 10}, {70, 64, 2}, {130, 20, 130}, {140, 150, 1}, {150, 140, 1}, {200, 64, 7},
};

static void grid(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++)
            for (int dtype = OLE_F32; dtype <= OLE_F64; dtype++) {
                grid_case c = {.rows = shapes[s][0],
                               .dim = shapes[s][1],
                               .classes = shapes[s][2],
                               .structure = structure,
                               .dtype = dtype,
                               .scale = 1.0,
                               .some_ignored = seed % 5 == 0 && shapes[s][0] > 2};
                run_case(&c, seed++);
            }
}

static void scales(void **state) {
    (void)state;
    static const double narrow[] = {1e-20, 1e15, 1e-30, 3e30}, wide[] = {1e-150, 1e150};
    uint64_t seed = 5000;
    for (int structure = 0; structure < CASE_STRUCTURES; structure++) {
        grid_case c = {.rows = 24, .dim = 40, .classes = 4, .structure = structure};
        c.dtype = OLE_F32;
        for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
            c.scale = narrow[i];
            run_case(&c, seed++);
        }
        c.dtype = OLE_F64;
        for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
            c.scale = wide[i];
            run_case(&c, seed++);
        }
    }
}

static void authors_rule(void **state) {
    (void)state;
    uint64_t seed = 6000;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++) {
            grid_case c = {.rows = shapes[s][0],
                           .dim = shapes[s][1],
                           .classes = shapes[s][2],
                           .structure = structure,
                           .dtype = OLE_F32,
                           .scale = 1.0,
                           .authors_rule = true};
            run_case(&c, seed++);
        }
}

/* No threshold at all: every direction that float64 can tell counts, however weak. */
static void delicate(void **state) {
    (void)state;
    static const int64_t weak[][3] = {{12, 12, 2},   {40, 70, 3},   {70, 40, 2},
                                      {130, 150, 1}, {150, 140, 2}, {300, 200, 3}};
    static const case_structure structures[] = {CASE_SPREAD, CASE_NEARLY_LOW, CASE_GAP};
    uint64_t seed = 8000;
    for (size_t s = 0; s < sizeof weak / sizeof *weak; s++)
        for (int pick = 0; pick < 3; pick++) {
            grid_case c = {.rows = weak[s][0],
                           .dim = weak[s][1],
                           .classes = weak[s][2],
                           .structure = structures[pick],
                           .dtype = OLE_F32,
                           .scale = 1e3,
                           .authors_rule = true};
            run_case(&c, seed++);
        }
}

static void middle_sizes(void **state) {
    (void)state;
    static const int64_t large[][3] = {
        {300, 520, 3}, {520, 300, 2}, {512, 512, 100}, {700, 600, 1}};
    uint64_t seed = 7000;
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int pick = 0; pick < 3; pick++) {
            static const case_structure structures[] = {CASE_RELU, CASE_NEARLY_LOW, CASE_SPREAD};
            grid_case c = {.rows = large[s][0],
                           .dim = large[s][1],
                           .classes = large[s][2],
                           .structure = structures[pick],
                           .dtype = OLE_F32,
                           .scale = 1.0};
            run_case(&c, seed++);
        }
}

static void enough_was_checked(void **state) {
    (void)state;
    printf("%d cases, %d gradients held to their bound\n", cases_run, gradients_checked);
    assert_true(cases_run >= 200);
    assert_true(gradients_checked >= 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grid),         cmocka_unit_test(scales),
        cmocka_unit_test(authors_rule), cmocka_unit_test(delicate),
        cmocka_unit_test(middle_sizes), cmocka_unit_test(enough_was_checked),
    };
    return cmocka_run_group_tests_name("loss_grid", tests, NULL, NULL);
}
