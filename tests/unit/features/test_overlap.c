/*
 * tests/unit/features/test_overlap.c - principal angles between classes, against known angles and
 * against an SVD of every class and every pair.
 */
#include "ole/analyze.h"
#include "ole/linalg.h"

#include "shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double degree = 0.017453292519943295;

static uint64_t random_state = 1;

/* Roughly normal: the sum of four uniform numbers. */
static double next_random(void) {
    double sum = -2.0;
    for (int i = 0; i < 4; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(random_state >> 11) * 0x1p-53;
    }
    return sum;
}

static int64_t overlaps(int64_t rows, int64_t dim, const double *x, const int64_t *labels,
                        double energy, int threads, ole_overlap *pairs, int64_t capacity) {
    int64_t count = -1;
    ole_error error = {0};
    const ole_embedding e = {rows, dim, OLE_F64, x, labels};
    ole_status status =
        ole_overlaps(&e, energy, threads, pairs, capacity, &count, NULL, NULL, &error);
    if (status != OLE_OK) print_error("%s\n", error.message);
    assert_int_equal(status, OLE_OK);
    return count;
}

/* ---- Known angles ------------------------------------------------------------------------- */

static void test_two_lines(void **state) {
    (void)state;
    static const double angles[] = {90, 89.9999999, 60, 45, 1, 1e-3, 1e-7, 1e-12, 0};
    const int64_t labels[] = {7, 3};
    for (size_t i = 0; i < sizeof angles / sizeof *angles; i++) {
        double a = angles[i] * degree;
        double x[2][3] = {{5, 0, 0}, {-2 * cos(a), 0, 2 * sin(a)}};
        ole_overlap pair;
        assert_int_equal(overlaps(2, 3, x[0], labels, 0.95, 1, &pair, 1), 1);
        assert_int_equal(pair.label_a, 3);
        assert_int_equal(pair.label_b, 7);
        assert_true(fabs(pair.angle - angles[i]) <= 1e-13 * (1 + angles[i]));
    }
}

/* Two planes of R^4 with principal angles 20 and 50 degrees, each class of many rows. */
static void test_two_planes(void **state) {
    (void)state;
    enum { ROWS = 40 };
    double x[ROWS][4];
    int64_t labels[ROWS];
    for (int i = 0; i < ROWS; i++) {
        double u = next_random(), v = next_random();
        double p = i % 2 ? 20 * degree : 0, q = i % 2 ? 50 * degree : 0;
        const double row[] = {u * cos(p), u * sin(p), v * cos(q), v * sin(q)};
        memcpy(x[i], row, sizeof row);
        labels[i] = i % 2;
    }
    ole_overlap pair;
    assert_int_equal(overlaps(ROWS, 4, x[0], labels, 1.0, 1, &pair, 1), 1);
    assert_true(fabs(pair.angle - 20) < 1e-9);
}

/* Singular values 3 and 1: the second direction holds a tenth of the energy. */
static void test_energy_chooses_directions(void **state) {
    (void)state;
    const double x[3][3] = {{3, 0, 0}, {0, 1, 0}, {0, 1, 0}};
    const int64_t labels[] = {0, 0, 1};
    ole_overlap pair;
    assert_int_equal(overlaps(3, 3, x[0], labels, 0.95, 1, &pair, 1), 1);
    assert_true(pair.angle < 1e-12);
    assert_int_equal(overlaps(3, 3, x[0], labels, 0.85, 1, &pair, 1), 1);
    assert_true(fabs(pair.angle - 90) < 1e-12);
}

static void test_orders_by_angle_then_labels(void **state) {
    (void)state;
    const double c = cos(30 * degree), s = sin(30 * degree);
    const double x[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, c, s}};
    const int64_t labels[] = {40, 10, 30, 20};
    ole_overlap pairs[8];
    assert_int_equal(overlaps(4, 4, x[0], labels, 0.95, 1, pairs, 8), 6);
    static const int64_t expected[6][2] = {{20, 30}, {10, 20}, {10, 30},
                                           {10, 40}, {20, 40}, {30, 40}};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(pairs[i].label_a, expected[i][0]);
        assert_int_equal(pairs[i].label_b, expected[i][1]);
        assert_true(fabs(pairs[i].angle - (i == 0 ? 30 : 90)) < 1e-12);
    }
}

static void test_what_is_left_out(void **state) {
    (void)state;
    const double x[5][2] = {{1, 0}, {1, 1}, {NAN, 0}, {0, 0}, {0, 3}};
    const int64_t labels[] = {0, -1, -5, 2, 1};
    ole_overlap pairs[4];
    assert_int_equal(overlaps(5, 2, x[0], labels, 0.95, 1, pairs, 4), 1);
    assert_int_equal(pairs[0].label_a, 0);
    assert_int_equal(pairs[0].label_b, 1);
    assert_int_equal(overlaps(5, 2, x[0], labels, 0.95, 1, NULL, 0), 0);
    assert_int_equal(overlaps(2, 2, x[0], labels, 0.95, 1, pairs, 4), 0);     /* one class */
    assert_int_equal(overlaps(1, 2, x[1], labels + 1, 0.95, 1, pairs, 4), 0); /* none */
    assert_int_equal(overlaps(2, 1, x[3], (const int64_t[]){1, 2}, 0.95, 1, pairs, 4),
                     0); /* zero */
}

/* ---- Against an SVD of everything --------------------------------------------------------- */

/* The basis of class `label` by SVD, as ole/analyze.h defines it; returns its directions. */
static int64_t reference_basis(int64_t rows, int64_t dim, const double *x, const int64_t *labels,
                               int64_t label, double energy, double *basis) {
    double *part = malloc((size_t)(rows * dim) * sizeof *part);
    double *vt = malloc((size_t)(rows * dim) * sizeof *vt);
    double *sigma = malloc((size_t)rows * sizeof *sigma);
    int64_t n = 0;
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] == label) memcpy(part + dim * n++, x + dim * i, (size_t)dim * sizeof *part);
    int64_t side = n < dim ? n : dim;
    ole_matrix a = {.data = part, .rows = n, .cols = dim, .dtype = OLE_F64};
    ole_matrix v = {.data = vt, .rows = side, .cols = dim, .dtype = OLE_F64};
    assert_int_equal(ole_svd(&a, NULL, sigma, &v, NULL), OLE_OK);
    double total = 0, held = 0;
    for (int64_t i = 0; i < side; i++)
        total += sigma[i] * sigma[i];
    int64_t size = 0;
    while (size < side && size < 32 && held < energy * total) {
        held += sigma[size] * sigma[size];
        size++;
    }
    memcpy(basis, vt, (size_t)(size * dim) * sizeof *basis);
    free(part);
    free(vt);
    free(sigma);
    return size;
}

/* The smallest principal angle of two bases, by the cosine. */
static double reference_angle(const double *a, int64_t rows, const double *b, int64_t cols,
                              int64_t dim) {
    double cross[32 * 32], sigma[32];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double dot = 0;
            for (int64_t k = 0; k < dim; k++)
                dot += a[i * dim + k] * b[j * dim + k];
            cross[i * cols + j] = dot;
        }
    ole_matrix g = {.data = cross, .rows = rows, .cols = cols, .dtype = OLE_F64};
    assert_int_equal(ole_singular_values(&g, 1, sigma, NULL), OLE_OK);
    return acos(fmin(1.0, sigma[0])) / degree;
}

/* Random classes that share a direction; class c has labels[i] = 3 c. */
static void make_classes(int64_t rows, int64_t dim, int64_t classes, double *x, int64_t *labels) {
    double *centre = malloc((size_t)((classes + 1) * dim) * sizeof *centre);
    for (int64_t i = 0; i < (classes + 1) * dim; i++)
        centre[i] = next_random();
    for (int64_t i = 0; i < rows; i++) {
        int64_t c = i % classes;
        labels[i] = 3 * c;
        for (int64_t k = 0; k < dim; k++)
            x[i * dim + k] = centre[classes * dim + k] + centre[c * dim + k] + 0.7 * next_random();
    }
    free(centre);
}

static void check_random(int64_t rows, int64_t dim, int64_t classes, double energy) {
    double *x = malloc((size_t)(rows * dim) * sizeof *x);
    int64_t *labels = malloc((size_t)rows * sizeof *labels);
    double *bases = malloc((size_t)(classes * 32 * dim) * sizeof *bases);
    int64_t *sizes = malloc((size_t)classes * sizeof *sizes);
    int64_t all = classes * (classes - 1) / 2;
    ole_overlap *pairs = malloc((size_t)all * sizeof *pairs);
    make_classes(rows, dim, classes, x, labels);
    for (int64_t c = 0; c < classes; c++)
        sizes[c] = reference_basis(rows, dim, x, labels, 3 * c, energy, bases + c * 32 * dim);

    assert_int_equal(overlaps(rows, dim, x, labels, energy, 1, pairs, all), all);
    for (int64_t i = 0; i < all; i++) {
        int64_t a = pairs[i].label_a / 3, b = pairs[i].label_b / 3;
        assert_true(a < b);
        double expected =
            reference_angle(bases + a * 32 * dim, sizes[a], bases + b * 32 * dim, sizes[b], dim);
        assert_true(fabs(pairs[i].angle - expected) < 1e-5); /* acos near 1 gives no more */
        assert_true(i == 0 || pairs[i - 1].angle <= pairs[i].angle);
    }
    /*
     * The best few alone, found with pruning: the same angles (where several are equal to rounding,
     * not always of the same pairs), and the same bits on any number of threads.
     */
    ole_overlap few[3][5];
    for (int t = 0; t < 3; t++) {
        int64_t count = overlaps(rows, dim, x, labels, energy, t + 1, few[t], 5);
        assert_int_equal(count, all < 5 ? all : 5);
        assert_memory_equal(few[t], few[0], (size_t)count * sizeof *few[t]);
        for (int64_t i = 0; i < count; i++)
            assert_true(fabs(few[t][i].angle - pairs[i].angle) < 1e-5);
    }
    free(x);
    free(labels);
    free(bases);
    free(sizes);
    free(pairs);
}

static void test_random_classes(void **state) {
    (void)state;
    check_random(4, 3, 2, 0.95);
    check_random(30, 5, 3, 0.95);
    check_random(60, 40, 6, 0.95);
    check_random(60, 64, 30, 0.99);
    check_random(300, 24, 4, 0.999);
    check_random(700, 17, 2, 0.95); /* more rows of a class than are gathered at once */
    check_random(320, 70, 8, 1.0);  /* cut at 32 directions */
    check_random(120, 16, 60, 0.95);
}

/* ---- Types, scales, bits ------------------------------------------------------------------ */

static void test_scales_and_types(void **state) {
    (void)state;
    enum { ROWS = 24, DIM = 10, CLASSES = 4, PAIRS = 6 };
    double x[ROWS * DIM], scaled[ROWS * DIM];
    float single[ROWS * DIM];
    int64_t labels[ROWS];
    make_classes(ROWS, DIM, CLASSES, x, labels);
    for (int i = 0; i < ROWS * DIM; i++)
        x[i] = single[i] = (float)x[i];
    ole_overlap expected[PAIRS], pairs[PAIRS];
    assert_int_equal(overlaps(ROWS, DIM, x, labels, 0.95, 1, expected, PAIRS), PAIRS);
    static const int exponents[] = {-900, -500, 500, 1000}; /* powers of two: exact */
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents; e++) {
        for (int i = 0; i < ROWS * DIM; i++)
            scaled[i] = ldexp(x[i], exponents[e]);
        assert_int_equal(overlaps(ROWS, DIM, scaled, labels, 0.95, 1, pairs, PAIRS), PAIRS);
        assert_memory_equal(pairs, expected, sizeof pairs);
    }
    int64_t count;
    const ole_embedding narrow = {ROWS, DIM, OLE_F32, single, labels};
    assert_int_equal(ole_overlaps(&narrow, 0.95, 2, pairs, PAIRS, &count, NULL, NULL, NULL),
                     OLE_OK);
    assert_int_equal(count, PAIRS);
    assert_memory_equal(pairs, expected, sizeof pairs);
}

static void test_smallest_numbers(void **state) {
    (void)state;
    const double tiny = 5e-324;
    const double x[2][2] = {{tiny, 0}, {tiny, tiny}};
    ole_overlap pair;
    assert_int_equal(overlaps(2, 2, x[0], (const int64_t[]){0, 1}, 0.95, 1, &pair, 1), 1);
    assert_true(fabs(pair.angle - 45) < 1e-12);
}

/* How far it is, by the calling thread; the result is the same without. */
static void test_progress(void **state) {
    (void)state;
    enum { ROWS = 900, DIM = 40, CLASSES = 300, PAIRS = 10 };
    static double x[ROWS * DIM];
    int64_t labels[ROWS], count;
    make_classes(ROWS, DIM, CLASSES, x, labels);
    const ole_embedding e = {ROWS, DIM, OLE_F64, x, labels};
    ole_overlap expected[PAIRS], pairs[PAIRS];
    assert_int_equal(overlaps(ROWS, DIM, x, labels, 1.0, 1, expected, PAIRS), PAIRS);
    for (int threads = 1; threads <= 2; threads++) { /* 900 directions: 5 blocks, 4 a thread */
        shares told = {0};
        ole_error error;
        assert_ok(ole_overlaps(&e, 1.0, threads, pairs, PAIRS, &count, shares_note, &told, &error),
                  &error);
        assert_int_equal(told.calls, threads == 1 ? 2 : 1);
        assert_string_equal(told.what, "overlaps");
        assert_memory_equal(pairs, expected, sizeof pairs);
    }
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void test_errors(void **state) {
    (void)state;
    const double x[3][2] = {{1, 2}, {3, 4}, {INFINITY, 1}};
    const int64_t labels[] = {0, 1, 0};
    ole_overlap out[2];
    const struct {
        int64_t rows, dim;
        ole_dtype dtype;
        const void *features;
        const int64_t *labels;
        double energy;
        int threads;
        ole_overlap *pairs;
        int64_t capacity;
        ole_status status;
        const char *message;
    } cases[] = {
        {0, 2, OLE_F64, x, labels, 0.95, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: rows is 0 and dim is 2: both must be at least 1"},
        {2, -1, OLE_F64, x, labels, 0.95, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: rows is 2 and dim is -1: both must be at least 1"},
        {2, 2, OLE_I64, x, labels, 0.95, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: dtype is int64: use OLE_F32 or OLE_F64"},
        {2, 2, OLE_F64, x, labels, 0.0, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: energy is 0: it must be over 0 and at most 1"},
        {2, 2, OLE_F64, x, labels, (double)NAN, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: energy is nan: it must be over 0 and at most 1"},
        {2, 2, OLE_F64, x, labels, 0.95, 0, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: threads is 0 (1 to 1024)"},
        {2, 2, OLE_F64, x, labels, 0.95, 1, out, -1, OLE_ERROR_ARGUMENT,
         "ole_overlaps: capacity is -1"},
        {2, 2, OLE_F64, NULL, labels, 0.95, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: features is NULL"},
        {2, 2, OLE_F64, x, NULL, 0.95, 1, out, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: labels is NULL"},
        {2, 2, OLE_F64, x, labels, 0.95, 1, NULL, 2, OLE_ERROR_ARGUMENT,
         "ole_overlaps: pairs is NULL"},
        {3, 2, OLE_F64, x, labels, 0.95, 1, out, 2, OLE_ERROR_DATA,
         "features: row 2 holds NaN or Inf"},
    };
    int64_t count = 77;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ole_error error = {0};
        const ole_embedding e = {cases[i].rows, cases[i].dim, cases[i].dtype, cases[i].features,
                                 cases[i].labels};
        assert_int_equal(ole_overlaps(&e, cases[i].energy, cases[i].threads, cases[i].pairs,
                                      cases[i].capacity, &count, NULL, NULL, &error),
                         cases[i].status);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(count, 77);
    }
    const ole_embedding good = {2, 2, OLE_F64, x, labels};
    assert_int_equal(ole_overlaps(&good, 0.95, 1, out, 2, NULL, NULL, NULL, NULL),
                     OLE_ERROR_ARGUMENT);
    assert_int_equal(ole_overlaps(NULL, 0.95, 1, out, 2, &count, NULL, NULL, NULL),
                     OLE_ERROR_ARGUMENT);
}

static void test_effective_rank(void **state) {
    (void)state;
    const double zero[] = {0, 0}, one[] = {5, 0, 0}, even[] = {2, 2, 2, 2}, huge[] = {1e308, 1e308};
    assert_true(ole_effective_rank(zero, 2) == 0);
    assert_true(ole_effective_rank(NULL, 0) == 0);
    assert_true(fabs(ole_effective_rank(one, 3) - 1) < 1e-15);
    assert_true(fabs(ole_effective_rank(even, 4) - 4) < 1e-14);
    assert_true(fabs(ole_effective_rank(huge, 2) - 2) < 1e-14);
    const double mixed[] = {3, 1};
    double entropy = -(0.75 * log(0.75) + 0.25 * log(0.25));
    assert_true(fabs(ole_effective_rank(mixed, 2) - exp(entropy)) < 1e-14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_lines),
        cmocka_unit_test(test_two_planes),
        cmocka_unit_test(test_energy_chooses_directions),
        cmocka_unit_test(test_orders_by_angle_then_labels),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_random_classes),
        cmocka_unit_test(test_scales_and_types),
        cmocka_unit_test(test_smallest_numbers),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_effective_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
