/*
 * tests/unit/loss/test_loss_large.c - 4,096 rows or columns: long matrices against LAPACK, and
 * square ones, where a reference would take too long, against factors known by construction.
 */
#include "fixture.h"
#include "reference.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 4096, SMALL = 64 };

/* ---- long matrices -------------------------------------------------------------------------- */

static void check_long(int64_t rows, int64_t dim, int64_t classes, case_structure structure) {
    fixture f = fixture_make(rows, dim, classes, structure, OLE_F32, 1);
    f.options.threads = 2;
    fixture_evaluate(&f);
    reference_loss want = reference_evaluate(f.x, f.labels, rows, dim, &f.options, true);
    double error =
        fabs(f.result.class_term - f.result.global_norm - (want.class_term - want.global_norm));
    assert_true(error <= 1e-6 * want.sum_of_norms);
    assert_true(want.clear);
    assert_int_equal(f.result.rank, want.rank);
    for (int64_t i = 0; i < f.count; i++)
        f.gradient[i] *= (double)rows;
    double off = distance(f.gradient, want.gradient, f.count);
    if (!(off <= fixture_gradient_bound(&f)))
        fail_msg("%d x %d: gradient error %g", (int)rows, (int)dim, off);
    free(want.gradient);
    fixture_free(&f);
}

static void tall(void **state) {
    (void)state;
    check_long(LARGE, SMALL, 10, CASE_RELU);
    check_long(LARGE, SMALL, 1000, CASE_NORMAL);
}

static void wide(void **state) {
    (void)state;
    check_long(SMALL, LARGE, 10, CASE_RELU);
    check_long(SMALL, LARGE, SMALL, CASE_NEARLY_LOW);
}

/* ---- square matrices ------------------------------------------------------------------------ */

/* x[n, n] <- (I - 2 v v^T / v^T v) x, or x times it from the right, for the rows (columns) given.
 */
static void reflect(double *x, int64_t n, int64_t first, int64_t last, bool right,
                    test_random *random) {
    double *v = calloc((size_t)n, sizeof *v), *dots = calloc((size_t)n, sizeof *dots);
    double square = 0.0;
    for (int64_t i = first; i < last; i++) {
        v[i] = random_normal(random);
        square += v[i] * v[i];
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            dots[right ? i : j] += x[i * n + j] * v[right ? j : i];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            x[i * n + j] -= 2.0 / square * (right ? dots[i] * v[j] : v[i] * dots[j]);
    free(v);
    free(dots);
}

/*
 * Random reflections from both sides; those from the left turn only rows of the same half, so
 * that each half keeps its row space.
 */
static void turn(double *x, int64_t n, uint64_t seed) {
    test_random random = {seed};
    for (int i = 0; i < 2; i++) {
        reflect(x, n, 0, n / 2, false, &random);
        reflect(x, n, n / 2, n, false, &random);
        reflect(x, n, 0, n, true, &random);
    }
}

/* σ from 1 to 2 in the first half of the rows, from 0.5 to 1 in the second. */
static double sigma_of(int64_t i) {
    return (i < LARGE / 2 ? 1.0 : 0.5) * (1.0 + (double)(i % (LARGE / 2)) / (LARGE / 2));
}

/* The turned diagonal of `sigma_of`, or with `unit` of ones: its polar factor. */
static void fill_square(double *x, bool unit) {
    memset(x, 0, sizeof(double) * LARGE * LARGE);
    for (int64_t i = 0; i < LARGE; i++)
        x[i * LARGE + i] = unit ? 1.0 : sigma_of(i);
    turn(x, LARGE, 5);
}

/*
 * Two classes in orthogonal subspaces, one over the floor and one under it.  Their norms add up to
 * the whole's; the first is pulled by nothing, the second is pushed along -polar(X)/N.
 */
static void square(void **state) {
    (void)state;
    if (SANITIZED) skip(); /* minutes */
    fixture f = fixture_make(LARGE, LARGE, 1, CASE_ZERO, OLE_F32, 1);
    f.options.threads = 2;
    f.options.delta_floor = LARGE / 2;
    fill_square(f.x, false);
    double norms[2] = {0.0, 0.0};
    for (int64_t i = 0; i < LARGE; i++) {
        f.labels[i] = i >= LARGE / 2;
        norms[f.labels[i]] += sigma_of(i);
    }
    fixture_evaluate(&f);
    double bound = fixture_value_bound(&f);
    assert_int_equal(f.result.rank, LARGE);
    for (int c = 0; c < 2; c++)
        assert_true(fabs(f.class[c].norm - norms[c]) <= bound);
    assert_true(fabs(f.class[0].norm + f.class[1].norm - f.result.global_norm) <= bound);
    assert_true(fabs(f.result.class_term - norms[0] - f.options.delta_floor) <= bound);
    double *want = f.x;
    fill_square(want, true);
    memset(want, 0, sizeof(double) * LARGE * LARGE / 2);
    for (int64_t i = 0; i < f.count; i++)
        f.gradient[i] *= -(double)LARGE;
    double off = distance(f.gradient, want, f.count);
    if (!(off <= fixture_gradient_bound(&f))) fail_msg("gradient error %g", off);
    fixture_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tall),
        cmocka_unit_test(wide),
        cmocka_unit_test(square),
    };
    return cmocka_run_group_tests_name("loss_large", tests, NULL, NULL);
}
