/*
 * tests/unit/linalg/test_linalg.c - the public matrix functions against LAPACK and against matrices
 * whose factors are known: both types, every kind of shape, views with a stride, and errors.
 */
#include "cases.h"
#include "ole/linalg.h"
#include "ole/loss.h"
#include "reference.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const ole_dtype dtypes[] = {OLE_F32, OLE_F64};

/* A view of its own memory: GAP elements between the rows that nobody may touch. */
enum { GAP = 3 };
static const double GUARD = 12345.0;

static ole_matrix make_view(int64_t rows, int64_t cols, ole_dtype dtype) {
    ole_matrix m = {.rows = rows, .cols = cols, .stride = cols + GAP, .dtype = dtype};
    int64_t count = rows * m.stride;
    m.data = malloc((size_t)count * ole_dtype_size(dtype));
    for (int64_t i = 0; i < count; i++)
        if (dtype == OLE_F32)
            ((float *)m.data)[i] = (float)GUARD;
        else
            ((double *)m.data)[i] = GUARD;
    return m;
}

static double get(const ole_matrix *m, int64_t i, int64_t j) {
    int64_t at = i * (m->stride ? m->stride : m->cols) + j;
    return m->dtype == OLE_F32 ? ((float *)m->data)[at] : ((double *)m->data)[at];
}

static void put(const ole_matrix *m, int64_t i, int64_t j, double value) {
    int64_t at = i * (m->stride ? m->stride : m->cols) + j;
    if (m->dtype == OLE_F32)
        ((float *)m->data)[at] = (float)value;
    else
        ((double *)m->data)[at] = value;
}

static void assert_guards(const ole_matrix *m) {
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = m->cols; j < m->stride; j++)
            assert_true(get(m, i, j) == GUARD);
}

/* A matrix with its reference decomposition. */
typedef struct subject {
    int64_t rows, cols, k;
    ole_matrix a;
    double *x, *u, *sigma, *vt;
} subject;

static subject make(int64_t rows, int64_t cols, case_structure structure, ole_dtype dtype) {
    subject s = {.rows = rows, .cols = cols, .k = rows < cols ? rows : cols};
    test_random random = {(uint64_t)(rows * 1000 + cols)};
    int64_t *labels = calloc((size_t)rows, sizeof *labels);
    s.x = calloc((size_t)(rows * cols), sizeof *s.x);
    s.u = calloc((size_t)(rows * s.k), sizeof *s.u);
    s.sigma = calloc((size_t)s.k, sizeof *s.sigma);
    s.vt = calloc((size_t)(s.k * cols), sizeof *s.vt);
    case_fill(structure, s.x, labels, rows, cols, &random);
    s.a = make_view(rows, cols, dtype);
    for (int64_t i = 0; i < rows * cols; i++) {
        put(&s.a, i / cols, i % cols, s.x[i]);
        s.x[i] = get(&s.a, i / cols, i % cols);
    }
    reference_svd(s.x, rows, cols, s.u, s.sigma, s.vt);
    free(labels);
    return s;
}

static void end(subject *s) {
    free(s->a.data);
    free(s->x);
    free(s->u);
    free(s->sigma);
    free(s->vt);
}

static const int64_t shapes[][2] = {{1, 1},   {1, 9},   {9, 1},    {2, 2},     {7, 7},
                                    {5, 40},  {40, 5},  {33, 33},  {64, 65},   {65, 64},
                                    {30, 90}, {90, 30}, {140, 70}, {130, 150}, {150, 150}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Calls check for every shape, structure and type. */
static void for_all(void (*check)(const subject *)) {
    for (int i = 0; i < SHAPES; i++)
        for (int structure = 0; structure < CASE_STRUCTURES; structure++)
            for (int t = 0; t < 2; t++) {
                subject s = make(shapes[i][0], shapes[i][1], structure, dtypes[t]);
                check(&s);
                assert_guards(&s.a);
                end(&s);
            }
}

static void assert_within(const subject *s, const char *what, double error, double bound) {
    if (!(error <= bound))
        fail_msg("%d x %d %s, %s: error %g, bound %g", (int)s->rows, (int)s->cols,
                 ole_dtype_name(s->a.dtype), what, error, bound);
}

/* ---- singular values and norm --------------------------------------------------------------- */

static void check_values(const subject *s) {
    double *sigma = calloc((size_t)s->k, sizeof *sigma), norm, sum = 0.0;
    ole_error error;
    assert_ok(ole_singular_values(&s->a, 1, sigma, &error), &error);
    assert_ok(ole_nuclear_norm(&s->a, 1, &norm, &error), &error);
    /* Squaring costs float32 the share σ_max/σ of the digits of float64, 1e4 at the most. */
    double unit = (s->a.dtype == OLE_F32 ? 1e-11 : 32.0 * (double)s->k * DBL_EPSILON) * s->sigma[0];
    for (int64_t i = 0; i < s->k; i++) {
        if (i) assert_true(sigma[i] <= sigma[i - 1]);
        assert_true(sigma[i] >= 0.0);
        assert_within(s, "singular value", fabs(sigma[i] - s->sigma[i]), unit);
        sum += s->sigma[i];
    }
    assert_within(s, "nuclear norm", fabs(norm - sum), unit * (double)s->k);
    free(sigma);
}

static void singular_values(void **state) {
    (void)state;
    for_all(check_values);
}

/* ---- SVD ------------------------------------------------------------------------------------ */

/* The largest |x_i x_j - δ_ij| over the rows (or columns) of a view. */
static double not_orthonormal(const ole_matrix *m, bool columns) {
    int64_t n = columns ? m->cols : m->rows, length = columns ? m->rows : m->cols;
    double worst = 0.0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = i == j ? -1.0 : 0.0;
            for (int64_t p = 0; p < length; p++)
                sum += columns ? get(m, p, i) * get(m, p, j) : get(m, i, p) * get(m, j, p);
            worst = fmax(worst, fabs(sum));
        }
    return worst;
}

static double not_rebuilt(const subject *s, const ole_matrix *u, const double *sigma,
                          const ole_matrix *vt) {
    double worst = 0.0;
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->cols; j++) {
            double sum = -s->x[i * s->cols + j];
            for (int64_t p = 0; p < s->k; p++)
                sum += get(u, i, p) * sigma[p] * get(vt, p, j);
            worst = fmax(worst, fabs(sum));
        }
    return worst;
}

static void check_svd(const subject *s) {
    ole_matrix u = make_view(s->rows, s->k, s->a.dtype), vt = make_view(s->k, s->cols, s->a.dtype);
    double *sigma = calloc((size_t)s->k, sizeof *sigma);
    double *alone = calloc((size_t)s->k, sizeof *alone);
    double eps = s->a.dtype == OLE_F32 ? FLT_EPSILON : DBL_EPSILON;
    double unit = 16.0 * sqrt((double)s->k) * eps + 64.0 * (double)s->k * DBL_EPSILON;
    ole_error error;
    assert_ok(ole_svd(&s->a, &u, sigma, &vt, &error), &error);
    assert_within(s, "u", not_orthonormal(&u, true), unit);
    assert_within(s, "vt", not_orthonormal(&vt, false), unit);
    assert_within(s, "u sigma vt", not_rebuilt(s, &u, sigma, &vt), unit * s->sigma[0]);
    for (int64_t i = 1; i < s->k; i++)
        assert_true(sigma[i] <= sigma[i - 1]);
    assert_guards(&u);
    assert_guards(&vt);
    assert_ok(ole_svd(&s->a, NULL, alone, NULL, &error), &error);
    assert_memory_equal(sigma, alone, (size_t)s->k * sizeof *sigma);
    free(u.data);
    free(vt.data);
    free(sigma);
    free(alone);
}

static void svd(void **state) {
    (void)state;
    for_all(check_svd);
}

/* ---- polar factor --------------------------------------------------------------------------- */

/* U1 V1^T of the reference over the cut; whether no σ is within a factor 4 of it. */
static bool reference_polar(const subject *s, double absolute, double relative, double *polar,
                            int64_t *rank) {
    double threshold = fmax(absolute, relative * s->sigma[0]);
    bool clear = true;
    *rank = 0;
    for (int64_t p = 0; p < s->k; p++) {
        *rank += s->sigma[p] > threshold;
        if (s->sigma[p] > threshold / 4.0 && s->sigma[p] < threshold * 4.0) clear = false;
    }
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->cols; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < *rank; p++)
                sum += s->u[i * s->k + p] * s->vt[p * s->cols + j];
            polar[i * s->cols + j] = sum;
        }
    /* Beyond this a float64 SVD of float64 data no longer determines the factor to 1e-9. */
    bool sharp = *rank == 0 || s->a.dtype == OLE_F32 || s->sigma[0] < 1e5 * s->sigma[*rank - 1];
    return clear && sharp;
}

static void check_polar(const subject *s) {
    ole_matrix polar = make_view(s->rows, s->cols, s->a.dtype);
    double *want = calloc((size_t)(s->rows * s->cols), sizeof *want), square = 0.0;
    double relative = 64.0 * (s->a.dtype == OLE_F32 ? (double)FLT_EPSILON : DBL_EPSILON);
    int64_t rank, expected;
    ole_error error;
    assert_ok(ole_polar(&s->a, 1e-6, OLE_DELTA_REL_AUTO, 1, &polar, &rank, &error), &error);
    assert_guards(&polar);
    if (reference_polar(s, 1e-6, relative, want, &expected)) {
        assert_int_equal(rank, expected);
        for (int64_t i = 0; i < s->rows * s->cols; i++) {
            double d = get(&polar, i / s->cols, i % s->cols) - want[i];
            square += d * d;
        }
        double bound = (s->a.dtype == OLE_F32 ? 1e-5 : 1e-9) * sqrt((double)s->rows);
        assert_within(s, "polar", sqrt(square), bound);
    }
    free(polar.data);
    free(want);
}

static void polar_factor(void **state) {
    (void)state;
    for_all(check_polar);
}

/* Signs and a permutation times a diagonal: the factor is the signed permutation itself. */
static void known_polar(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int64_t n = 1; n <= 40; n += 13) {
            ole_matrix a = make_view(n, n + 4, dtypes[t]), polar = make_view(n, n + 4, dtypes[t]);
            int64_t rank;
            ole_error error;
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n + 4; j++)
                    put(&a, i, j, j == (i * 11) % n ? (i % 2 ? -2.0 : 1.0) / (1.0 + (double)i) : 0);
            assert_ok(ole_polar(&a, 0.0, 0.0, 1, &polar, &rank, &error), &error);
            assert_int_equal(rank, n);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n + 4; j++) {
                    double x = get(&a, i, j), sign = x == 0.0 ? 0.0 : copysign(1.0, x);
                    assert_true(fabs(get(&polar, i, j) - sign) <= 1e-6);
                }
            assert_ok(ole_polar(&a, 1e9, 0.0, 1, &polar, &rank, &error), &error);
            assert_int_equal(rank, 0);
            for (int64_t i = 0; i < n * (n + 4); i++)
                assert_true(get(&polar, i / (n + 4), i % (n + 4)) == 0.0);
            free(a.data);
            free(polar.data);
        }
}

/* Matrices of one or two values, whose other directions are nothing but rounding. */
static void constants(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{64, 64}, {129, 130}, {120, 64}, {500, 256}, {31, 700}};
    static const float values[] = {1.0f, 0.1f, 10.0f, 3e-20f, 7e9f};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++)
            for (int blocks = 1; blocks <= 2; blocks++) {
                subject s = make(sizes[i][0], sizes[i][1], 0, OLE_F32);
                for (int64_t k = 0; k < s.rows * s.cols; k++) {
                    bool second = blocks == 2 && 2 * (k / s.cols) >= s.rows;
                    double value = second ? (k % 2 ? 0.0 : 3.0 * values[v]) : values[v];
                    put(&s.a, k / s.cols, k % s.cols, value);
                    s.x[k] = get(&s.a, k / s.cols, k % s.cols);
                }
                reference_svd(s.x, s.rows, s.cols, s.u, s.sigma, s.vt);
                check_values(&s);
                end(&s);
            }
}

/* The example of the header, with the stride left out. */
static void header_example(void **state) {
    (void)state;
    float a[6] = {3, 0, 0, 0, 4, 0};
    double norm, sigma[2];
    ole_matrix view = {.data = a, .rows = 2, .cols = 3, .dtype = OLE_F32};
    assert_int_equal(ole_nuclear_norm(&view, 1, &norm, NULL), OLE_OK);
    assert_true(fabs(norm - 7.0) <= 1e-14);
    assert_int_equal(ole_singular_values(&view, 1, sigma, NULL), OLE_OK);
    assert_true(fabs(sigma[0] - 4.0) + fabs(sigma[1] - 3.0) <= 1e-14);
}

static void threads_give_the_same_bits(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++) {
        subject s = make(300, 260, CASE_RELU, dtypes[t]);
        size_t bytes = (size_t)(s.rows * s.a.stride) * ole_dtype_size(s.a.dtype);
        ole_matrix one = make_view(s.rows, s.cols, s.a.dtype);
        ole_matrix many = make_view(s.rows, s.cols, s.a.dtype);
        double *sigma = calloc((size_t)s.k, sizeof *sigma), *again = calloc((size_t)s.k, 8);
        assert_int_equal(ole_polar(&s.a, 1e-6, 0.0, 1, &one, NULL, NULL), OLE_OK);
        assert_int_equal(ole_singular_values(&s.a, 1, sigma, NULL), OLE_OK);
        for (int threads = 2; threads <= 5; threads += 3) {
            assert_int_equal(ole_polar(&s.a, 1e-6, 0.0, threads, &many, NULL, NULL), OLE_OK);
            assert_memory_equal(one.data, many.data, bytes);
            assert_int_equal(ole_singular_values(&s.a, threads, again, NULL), OLE_OK);
            assert_memory_equal(sigma, again, (size_t)s.k * sizeof *sigma);
        }
        free(one.data);
        free(many.data);
        free(sigma);
        free(again);
        end(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(singular_values), cmocka_unit_test(svd),
        cmocka_unit_test(polar_factor),    cmocka_unit_test(known_polar),
        cmocka_unit_test(header_example),  cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(constants),
    };
    return cmocka_run_group_tests_name("linalg", tests, NULL, NULL);
}
