/*
 * tests/unit/loss/test_loss_properties.c - what must hold of the loss whatever the numbers: its
 * gradient is its derivative, it is blind to rotations, orders and names, it scales with the
 * features, it is zero for orthogonal classes alone, and its hinge opens just above Δ.
 */
#include "fixture.h"
#include "reference.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const ole_dtype dtypes[] = {OLE_F32, OLE_F64};

static const int64_t shapes[][3] = {{6, 10, 3}, {20, 7, 4}, {12, 30, 1}, {30, 12, 2},
                                    {9, 9, 9},  {5, 1, 2},  {1, 6, 1},   {40, 25, 3}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static fixture make(int shape, case_structure structure, ole_dtype dtype, uint64_t seed) {
    const int64_t *s = shapes[shape];
    return fixture_make(s[0], s[1], s[2], structure, dtype, seed);
}

static double difference(const fixture *f) {
    return f->result.class_term - f->result.global_norm;
}

/* Distance of two gradients before weight/N, held to the promise (for both together). */
static void assert_same_gradient(const fixture *f, const double *a, const double *b) {
    double error = distance(a, b, f->count) / fabs(fixture_factor(f));
    if (!(error <= 2.0 * fixture_gradient_bound(f)))
        fail_msg("%d x %d: gradients differ by %g", (int)f->rows, (int)f->dim, error);
}

static void assert_same_value(const fixture *a, const fixture *b) {
    double error = fabs(difference(a) - difference(b));
    if (!(error <= 2.0 * fixture_value_bound(a)))
        fail_msg("%d x %d: values differ by %g", (int)a->rows, (int)a->dim, error);
}

/* ---- the gradient is the derivative --------------------------------------------------------- */

static double value_beside(const fixture *f, const double *direction, double step) {
    fixture moved = fixture_copy(f);
    for (int64_t i = 0; i < f->count; i++)
        moved.x[i] += step * direction[i];
    fixture_evaluate(&moved);
    double value = moved.result.value;
    fixture_free(&moved);
    return value;
}

/* Central differences along random directions and along single elements. */
static void check_derivative(fixture *f, uint64_t seed) {
    enum { DIRECTIONS = 6 };
    const double step = 1e-5;
    test_random random = {seed};
    double *direction = calloc((size_t)f->count, sizeof *direction);
    fixture_evaluate(f);
    for (int d = 0; d < DIRECTIONS; d++) {
        memset(direction, 0, (size_t)f->count * sizeof *direction);
        if (d % 2)
            direction[random_below(&random, f->count)] = 1.0;
        else
            for (int64_t i = 0; i < f->count; i++)
                direction[i] = random_normal(&random) / sqrt((double)f->count);
        double rise = value_beside(f, direction, step) - value_beside(f, direction, -step);
        double measured = f->upstream * rise / (2.0 * step);
        double claimed = inner(f->gradient, direction, f->count);
        double scale = fabs(fixture_factor(f) * f->upstream);
        if (!(fabs(measured - claimed) <= 1e-6 * scale))
            fail_msg("%d x %d: the value rises by %.12g, the gradient says %.12g", (int)f->rows,
                     (int)f->dim, measured, claimed);
    }
    free(direction);
}

static void derivative(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++)
        for (int variant = 0; variant < 4; variant++) {
            fixture f = make(s, CASE_NORMAL, OLE_F64, 100 + (uint64_t)s);
            if (variant & 1) {
                f.options.weight = -2.5;
                f.options.reduction = OLE_REDUCTION_SUM;
                f.upstream = 0.75;
            }
            if (variant & 2) f.options.delta_floor = 5.0; /* some classes under it, some over */
            check_derivative(&f, (uint64_t)(10 * s + variant));
            fixture_free(&f);
        }
}

static void derivative_with_ignored_rows(void **state) {
    (void)state;
    fixture f = fixture_make(15, 11, 3, CASE_NORMAL, OLE_F64, 7);
    f.labels[0] = -1;
    f.labels[9] = INT64_MIN;
    check_derivative(&f, 8);
    assert_int_equal(f.result.rows, 13);
    fixture_free(&f);
}

/* ---- invariances ---------------------------------------------------------------------------- */

/* to[rows, dim] = from q, q[dim, dim]. */
static void turn(double *to, const double *from, const double *q, int64_t rows, int64_t dim) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < dim; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < dim; p++)
                sum += from[i * dim + p] * q[p * dim + j];
            to[i * dim + j] = sum;
        }
}

static double *random_rotation(int64_t n, uint64_t seed) {
    test_random random = {seed};
    double *a = malloc((size_t)(n * n) * sizeof *a), *u = malloc((size_t)(n * n) * sizeof *u);
    double *sigma = malloc((size_t)n * sizeof *sigma);
    for (int64_t i = 0; i < n * n; i++)
        a[i] = random_normal(&random);
    reference_svd(a, n, n, u, sigma, NULL);
    free(a);
    free(sigma);
    return u;
}

static void rotation(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        fixture f = make(s, CASE_NORMAL, OLE_F64, 200 + (uint64_t)s), g = fixture_copy(&f);
        double *q = random_rotation(f.dim, 9), *want = calloc((size_t)f.count, sizeof *want);
        turn(g.x, f.x, q, f.rows, f.dim);
        fixture_evaluate(&f);
        fixture_evaluate(&g);
        assert_same_value(&f, &g);
        turn(want, f.gradient, q, f.rows, f.dim);
        assert_same_gradient(&f, want, g.gradient);
        free(q);
        free(want);
        fixture_free(&f);
        fixture_free(&g);
    }
}

static void permutation(void **state) {
    (void)state;
    for (int s = 0; s < 2 * SHAPES; s++) {
        fixture f = make(s / 2, CASE_RELU, dtypes[s % 2], 300 + (uint64_t)s), g = fixture_copy(&f);
        double *want = calloc((size_t)f.count, sizeof *want);
        size_t bytes = (size_t)f.dim * sizeof *want;
        fixture_evaluate(&f);
        for (int64_t i = 0; i < f.rows; i++) {
            int64_t from = (i * 7 + 3) % f.rows; /* no side of the shapes is a multiple of 7 */
            memcpy(g.x + i * f.dim, f.x + from * f.dim, bytes);
            memcpy(want + i * f.dim, f.gradient + from * f.dim, bytes);
            g.labels[i] = f.labels[from];
        }
        fixture_evaluate(&g);
        assert_same_value(&f, &g);
        assert_same_gradient(&f, want, g.gradient);
        free(want);
        fixture_free(&f);
        fixture_free(&g);
    }
}

static void label_names(void **state) {
    (void)state;
    static const int64_t names[] = {INT64_MAX,  0, 123456789012345, INT64_MAX - 1, 77, 1, INT32_MAX,
                                    5000000000, 2};
    for (int s = 0; s < 2 * SHAPES; s++) {
        fixture f = make(s / 2, CASE_NORMAL, dtypes[s % 2], 400 + (uint64_t)s);
        fixture g = fixture_copy(&f);
        for (int64_t i = 0; i < f.rows; i++)
            g.labels[i] = names[f.labels[i]];
        fixture_evaluate(&f);
        fixture_evaluate(&g);
        assert_int_equal(f.result.classes, g.result.classes);
        assert_same_value(&f, &g);
        assert_same_gradient(&f, f.gradient, g.gradient);
        fixture_free(&f);
        fixture_free(&g);
    }
}

/* L_o(a X) = a L_o(X) and the same gradient, without Δ and δ_abs. */
static void scaling(void **state) {
    (void)state;
    static const double factors[] = {0.5, 1024.0, 3.0, 1e-9};
    for (int s = 0; s < 8 * SHAPES; s++) {
        double a = factors[s % 4];
        fixture f = make(s / 8, CASE_NORMAL, dtypes[s / 4 % 2], 500 + (uint64_t)s);
        f.options.delta_floor = f.options.delta_abs = 0.0;
        fixture g = fixture_copy(&f);
        for (int64_t i = 0; i < f.count; i++)
            g.x[i] *= a;
        fixture_evaluate(&f);
        fixture_evaluate(&g);
        assert_true(fabs(difference(&g) - a * difference(&f)) <= 2.0 * a * fixture_value_bound(&f));
        assert_same_gradient(&f, f.gradient, g.gradient);
        fixture_free(&f);
        fixture_free(&g);
    }
}

/* ---- zero and positive ---------------------------------------------------------------------- */

static void zero_when_orthogonal(void **state) {
    (void)state;
    for (int s = 0; s < 2 * SHAPES; s++) {
        fixture f = make(s / 2, CASE_ORTHOGONAL, dtypes[s % 2], 600 + (uint64_t)s);
        f.options.delta_floor = 0.0;
        double *q = random_rotation(f.dim, 3), *x = calloc((size_t)f.count, sizeof *x);
        turn(x, f.x, q, f.rows, f.dim);
        if (f.dtype == OLE_F64) memcpy(f.x, x, (size_t)f.count * sizeof *x);
        fixture_evaluate(&f);
        if (!(fabs(difference(&f)) <= fixture_value_bound(&f)))
            fail_msg("%d x %d: %g, not zero", (int)f.rows, (int)f.dim, difference(&f));
        free(q);
        free(x);
        fixture_free(&f);
    }
}

/* Positive for more than one class, never under zero by more than the promise. */
static void positive_elsewhere(void **state) {
    (void)state;
    for (int s = 0; s < 2 * SHAPES * CASE_STRUCTURES; s++) {
        int shape = s / 2 % SHAPES;
        case_structure structure = s / (2 * SHAPES);
        fixture f = make(shape, structure, dtypes[s % 2], 700 + (uint64_t)s);
        f.options.delta_floor = 0.0;
        fixture_evaluate(&f);
        assert_true(difference(&f) >= -fixture_value_bound(&f));
        bool mixed = structure == CASE_NORMAL || structure == CASE_RELU;
        if (f.result.classes > 1 && mixed)
            assert_true(f.result.value > 1e-3 * f.result.class_term / (double)f.rows);
        fixture_free(&f);
    }
}

/* ---- the polar factor ----------------------------------------------------------------------- */

/* With every class under the floor the gradient is -polar(X)/N, and <polar(X), X> = ‖X‖_*. */
static void polar_gives_the_norm(void **state) {
    (void)state;
    for (int s = 0; s < 2 * SHAPES; s++) {
        fixture f = make(s / 2, CASE_RELU, dtypes[s % 2], 800 + (uint64_t)s);
        f.options.delta_floor = 1e6;
        fixture_evaluate(&f);
        double norm = -inner(f.gradient, f.x, f.count) * (double)f.rows;
        assert_true(fabs(norm - f.result.global_norm) <= 1e-6 * norm);
        assert_true(f.result.class_term == 1e6 * (double)f.result.classes);
        double square = inner(f.gradient, f.gradient, f.count) * (double)(f.rows * f.rows);
        assert_true(fabs(square - (double)f.result.rank) <= 1e-5 * square);
        f.options.delta_floor = 0.0;
        fixture_evaluate(&f); /* the loss is homogeneous: <gradient, X> is the loss itself */
        double whole = inner(f.gradient, f.x, f.count) * (double)f.rows;
        assert_true(fabs(whole - difference(&f)) <= 1e-6 * norm);
        fixture_free(&f);
    }
}

static void one_sample_a_class(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        fixture f = fixture_make(13, 6, 13, CASE_NORMAL, dtypes[s], 900);
        fixture_evaluate(&f);
        for (int64_t i = 0; i < f.rows; i++) {
            const double *x = f.x + i * f.dim;
            double length = sqrt(inner(x, x, f.dim));
            assert_true(fabs(f.class[i].norm - length) <= 1e-14 * length);
            assert_int_equal(f.class[i].rank, 1);
        }
        fixture_free(&f);
    }
}

static void one_class_has_no_gradient(void **state) {
    (void)state;
    for (int s = 0; s < 2 * CASE_STRUCTURES; s++) {
        fixture f = fixture_make(17, 9, 1, (case_structure)(s / 2), dtypes[s % 2], 950);
        f.options.delta_floor = 0.0;
        fixture_evaluate(&f);
        assert_true(f.result.value == 0.0);
        for (int64_t i = 0; i < f.count; i++)
            assert_true(f.gradient[i] == 0.0);
        fixture_free(&f);
    }
}

/* With the default δ_abs, features of 1e-20 are noise: rank 0, no direction; the value counts. */
static void tiny_features(void **state) {
    (void)state;
    for (int s = 0; s < 2 * SHAPES; s++) {
        fixture f = make(s / 2, CASE_NORMAL, dtypes[s % 2], 1000);
        f.options.delta_floor = 0.0;
        for (int64_t i = 0; i < f.count; i++)
            f.x[i] *= 1e-20;
        fixture_evaluate(&f);
        assert_int_equal(f.result.rank, 0);
        assert_true(f.result.global_norm > 0.0);
        for (int64_t c = 0; c < f.result.classes; c++)
            assert_int_equal(f.class[c].rank, 0);
        for (int64_t i = 0; i < f.count; i++)
            assert_true(f.gradient[i] == 0.0);
        fixture_free(&f);
    }
}

/* ---- the hinge ------------------------------------------------------------------------------ */

/*
 * Two orthogonal rows of their own class, norms exactly 4 and 8: the gradient of row 0 is 0 while
 * its class is over Δ, else -polar(X)_0 / 2.
 */
static void check_hinge(ole_dtype dtype, double floor, bool active) {
    fixture f = fixture_make(2, 5, 2, CASE_ZERO, dtype, 1);
    f.x[2] = 4.0;
    f.x[f.dim + 1] = -8.0;
    f.options.delta_floor = floor;
    fixture_evaluate(&f);
    assert_true(f.class[0].norm == 4.0 && f.class[1].norm == 8.0);
    assert_true(f.result.class_term == fmax(floor, 4.0) + 8.0);
    assert_true(fabs(f.gradient[2] - (active ? 0.0 : -0.5)) <= 1e-6);
    assert_true(fabs(f.gradient[f.dim + 1]) <= 1e-6);
    fixture_free(&f);
}

static void hinge(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++) {
        check_hinge(dtypes[s], 3.0, true);
        check_hinge(dtypes[s], nextafter(4.0, 0.0), true);
        check_hinge(dtypes[s], 4.0, false);
        check_hinge(dtypes[s], nextafter(4.0, 5.0), false);
        check_hinge(dtypes[s], 5.0, false);
    }
}

/* One class at Δ exactly: not over it, so the whole still pushes. */
static void hinge_of_one_class(void **state) {
    (void)state;
    for (int s = 0; s < 2; s++)
        for (int over = 0; over < 2; over++) {
            fixture f = fixture_make(1, 4, 1, CASE_ZERO, dtypes[s], 1);
            f.x[3] = 0.25;
            f.options.delta_floor = over ? nextafter(0.25, 0.0) : 0.25;
            fixture_evaluate(&f);
            assert_true(f.result.value == 0.0);
            assert_true(fabs(f.gradient[3] - (over ? 0.0 : -1.0)) <= 1e-6);
            fixture_free(&f);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivative),
        cmocka_unit_test(derivative_with_ignored_rows),
        cmocka_unit_test(rotation),
        cmocka_unit_test(permutation),
        cmocka_unit_test(label_names),
        cmocka_unit_test(scaling),
        cmocka_unit_test(zero_when_orthogonal),
        cmocka_unit_test(positive_elsewhere),
        cmocka_unit_test(polar_gives_the_norm),
        cmocka_unit_test(one_sample_a_class),
        cmocka_unit_test(tiny_features),
        cmocka_unit_test(one_class_has_no_gradient),
        cmocka_unit_test(hinge),
        cmocka_unit_test(hinge_of_one_class),
    };
    return cmocka_run_group_tests_name("loss_properties", tests, NULL, NULL);
}
