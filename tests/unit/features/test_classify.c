/*
 * tests/unit/features/test_classify.c - classifiers on features against the obvious way: every
 * cosine, every mean, and a decomposition of its own for every row left out.
 */
#include "ole/classify.h"
#include "ole/linalg.h"

#include "random.h"
#include "test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIRECTIONS = 32 };

typedef struct set {
    double *x;
    int64_t *labels;
    ole_embedding view;
} set;

/* Classes around lines of their own, the labels 2 c; every 11th row is ignored. */
static set make(int64_t rows, int64_t dim, int64_t classes, double noise, uint64_t seed) {
    set s = {
        malloc((size_t)(rows * dim) * sizeof(double)), malloc((size_t)rows * sizeof(int64_t)), {0}};
    test_random lines = {5}, r = {seed};
    double *line = malloc((size_t)(classes * dim) * sizeof *line);
    for (int64_t i = 0; i < classes * dim; i++)
        line[i] = random_normal(&lines);
    for (int64_t i = 0; i < rows; i++) {
        int64_t c = i % classes;
        double along = 0.5 + random_uniform(&r);
        s.labels[i] = i % 11 == 10 ? -1 : 2 * c;
        for (int64_t k = 0; k < dim; k++)
            s.x[i * dim + k] = along * line[c * dim + k] + noise * random_normal(&r);
    }
    free(line);
    s.view = (ole_embedding){rows, dim, OLE_F64, s.x, s.labels};
    return s;
}

static void release(set *s) {
    free(s->x);
    free(s->labels);
}

static double dot(const double *a, const double *b, int64_t dim) {
    double sum = 0;
    for (int64_t k = 0; k < dim; k++)
        sum += a[k] * b[k];
    return sum;
}

static double cosine(const double *a, const double *b, int64_t dim) {
    double lengths = sqrt(dot(a, a, dim)) * sqrt(dot(b, b, dim));
    return lengths > 0 ? dot(a, b, dim) / lengths : 0;
}

/* Whether row i of train (of labels >= 0) may be used for a query. */
static bool usable(const set *train, int64_t i, int64_t out) {
    return train->labels[i] >= 0 && i != out;
}

/* ---- The obvious way, for one query ------------------------------------------------------- */

static int64_t by_neighbours(const set *train, int64_t out, const double *q, int k) {
    int64_t dim = train->view.dim, rows = train->view.rows, votes[64] = {0}, best = -1;
    bool *taken = calloc((size_t)rows, sizeof *taken);
    for (int n = 0; n < k; n++) {
        int64_t nearest = -1;
        double most = -2;
        for (int64_t i = 0; i < rows; i++) {
            if (!usable(train, i, out) || taken[i]) continue;
            double c = cosine(train->x + i * dim, q, dim);
            if (c > most) {
                most = c;
                nearest = i;
            }
        }
        if (nearest < 0) break;
        taken[nearest] = true;
        votes[train->labels[nearest]]++;
    }
    for (int64_t l = 0; l < 64; l++)
        if (votes[l] > 0 && (best < 0 || votes[l] > votes[best])) best = l;
    free(taken);
    return best;
}

static int64_t by_centroid(const set *train, int64_t out, const double *q) {
    int64_t dim = train->view.dim, best = -1;
    double most = -INFINITY, *mean = malloc((size_t)dim * sizeof *mean);
    for (int64_t l = 0; l < 64; l++) {
        int64_t n = 0;
        memset(mean, 0, (size_t)dim * sizeof *mean);
        for (int64_t i = 0; i < train->view.rows; i++) {
            if (!usable(train, i, out) || train->labels[i] != l) continue;
            n++;
            for (int64_t k = 0; k < dim; k++)
                mean[k] += train->x[i * dim + k];
        }
        if (n > 0 && cosine(mean, q, dim) > most) {
            most = cosine(mean, q, dim);
            best = l;
        }
    }
    free(mean);
    return best;
}

/* The energy of q in the principal subspace of n rows. */
static double energy_in(double *rows, int64_t n, int64_t dim, double share, const double *q) {
    int64_t side = n < dim ? n : dim;
    double *sigma = malloc((size_t)side * sizeof *sigma);
    double *vt = malloc((size_t)(side * dim) * sizeof *vt);
    ole_matrix a = {.data = rows, .rows = n, .cols = dim, .dtype = OLE_F64};
    ole_matrix v = {.data = vt, .rows = side, .cols = dim, .dtype = OLE_F64};
    assert_int_equal(ole_svd(&a, NULL, sigma, &v, NULL), OLE_OK);
    double total = dot(sigma, sigma, side), held = 0, inside = 0;
    for (int64_t i = 0; i < side && i < MOST_DIRECTIONS && held < share * total; i++) {
        if (sigma[i] * sigma[i] <= 1e-10 * total) break;
        held += sigma[i] * sigma[i];
        inside += pow(dot(vt + i * dim, q, dim), 2);
    }
    free(sigma);
    free(vt);
    return inside;
}

static int64_t by_subspace(const set *train, int64_t out, const double *q, double share) {
    int64_t dim = train->view.dim, best = -1;
    double most = -1, *rows = malloc((size_t)(train->view.rows * dim) * sizeof *rows);
    for (int64_t l = 0; l < 64; l++) {
        int64_t n = 0;
        for (int64_t i = 0; i < train->view.rows; i++)
            if (usable(train, i, out) && train->labels[i] == l)
                memcpy(rows + dim * n++, train->x + i * dim, (size_t)dim * sizeof *rows);
        double inside = n > 0 ? energy_in(rows, n, dim, share, q) : -1;
        if (n > 0 && inside > most) {
            most = inside;
            best = l;
        }
    }
    free(rows);
    return best;
}

static ole_feature_errors obvious(const set *train, const set *test, int k, double share) {
    const set *query = test ? test : train;
    int64_t wrong[4] = {0}, count = 0;
    for (int64_t i = 0; i < query->view.rows; i++) {
        if (query->labels[i] < 0) continue;
        const double *q = query->x + i * train->view.dim;
        int64_t out = test ? -1 : i, label = query->labels[i];
        count++;
        wrong[0] += by_neighbours(train, out, q, 1) != label;
        wrong[1] += by_neighbours(train, out, q, k) != label;
        wrong[2] += by_centroid(train, out, q) != label;
        wrong[3] += by_subspace(train, out, q, share) != label;
    }
    return (ole_feature_errors){.queries = count,
                                .knn1 = 100.0 * (double)wrong[0] / (double)count,
                                .knn = 100.0 * (double)wrong[1] / (double)count,
                                .centroid = 100.0 * (double)wrong[2] / (double)count,
                                .subspace = 100.0 * (double)wrong[3] / (double)count};
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void compare(const set *train, const set *test, int k, double share) {
    ole_feature_errors expected = obvious(train, test, k, share), got[3];
    ole_classify_options options;
    ole_classify_options_init(&options);
    options.k = k;
    options.energy = share;
    for (int threads = 1; threads <= 3; threads++) {
        ole_feature_errors *g = &got[threads - 1];
        ole_error error;
        memset(g, 0, sizeof *g);
        options.threads = threads;
        assert_ok(
            ole_classify_features(g, &train->view, test ? &test->view : NULL, &options, &error),
            &error);
        assert_int_equal(g->queries, expected.queries);
        assert_int_equal(g->queries, g->of_queries);
        assert_float_equal(g->knn1, expected.knn1, 1e-9);
        assert_float_equal(g->knn, expected.knn, 1e-9);
        assert_float_equal(g->centroid, expected.centroid, 1e-9);
        assert_float_equal(g->subspace, expected.subspace, 1e-9);
        assert_memory_equal(g, &got[0], sizeof *g);
    }
}

static void test_against_obvious(void **state) {
    (void)state;
    static const struct {
        int64_t rows, dim, classes;
        double noise, share;
        int k;
    } cases[] = {
        {40, 3, 2, 0.3, 0.95, 5},   {60, 8, 4, 1.2, 0.95, 3},  {60, 30, 6, 1.5, 0.9, 5},
        {120, 10, 3, 2.0, 0.8, 7},  {33, 50, 5, 2.0, 0.95, 4}, {13, 4, 11, 0.5, 0.95, 5},
        {200, 40, 3, 1.5, 0.99, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set train = make(cases[i].rows, cases[i].dim, cases[i].classes, cases[i].noise, 1 + i);
        set test = make(50, cases[i].dim, cases[i].classes + 1, cases[i].noise, 77 + i);
        compare(&train, NULL, cases[i].k, cases[i].share);
        compare(&train, &test, cases[i].k, cases[i].share);
        release(&train);
        release(&test);
    }
}

/* Duplicates, zeros, and a class whose rows lie on one line: nothing breaks, everything is found.
 */
static void test_degenerate(void **state) {
    (void)state;
    double x[12][3] = {{1, 0, 0}, {2, 0, 0}, {4, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 3, 0},
                       {0, 1, 0}, {0, 2, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 0}, {5, 5, 5}};
    int64_t labels[12] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, -1, -3};
    const ole_embedding e = {12, 3, OLE_F64, x, labels};
    ole_feature_errors got;
    ole_error error;
    assert_ok(ole_classify_features(&got, &e, NULL, NULL, &error), &error);
    assert_int_equal(got.queries, 10);
    assert_float_equal(got.knn1, 0, 0);
    assert_float_equal(got.centroid, 0, 0);
    assert_float_equal(got.subspace, 0, 0);
    labels[10] = 2; /* of zeros: cosine 0 with all, the first class is the nearest */
    assert_ok(ole_classify_features(&got, &e, NULL, NULL, &error), &error);
    assert_float_equal(got.knn1, 100.0 / 11, 1e-9);
    assert_float_equal(got.centroid, 100.0 / 11, 1e-9);
    assert_float_equal(got.subspace, 100.0 / 11, 1e-9);
}

/* All rows the same: rounding does not choose between classes that are equal, the first is taken.
 */
static void test_ties(void **state) {
    (void)state;
    double x[60][7];
    int64_t labels[60];
    test_random r = {8};
    for (int k = 0; k < 7; k++)
        x[0][k] = random_normal(&r);
    for (int i = 0; i < 60; i++) {
        memcpy(x[i], x[0], sizeof x[0]);
        labels[i] = i % 3;
    }
    const ole_embedding e = {60, 7, OLE_F64, x, labels};
    ole_feature_errors got;
    ole_error error;
    assert_ok(ole_classify_features(&got, &e, NULL, NULL, &error), &error);
    assert_float_equal(got.centroid, 200.0 / 3, 1e-9);
    assert_float_equal(got.subspace, 200.0 / 3, 1e-9);
    assert_ok(ole_classify_features(&got, &e, &e, NULL, &error), &error);
    assert_float_equal(got.centroid, 200.0 / 3, 1e-9);
    assert_float_equal(got.subspace, 200.0 / 3, 1e-9);
}

/* Sums of rows at the end of float64: the nearest centroid is that of the same rows in small. */
static void test_large(void **state) {
    (void)state;
    set small = make(200, 5, 4, 0.6, 6), large = make(200, 5, 4, 0.6, 6);
    for (int i = 0; i < 200 * 5; i++)
        large.x[i] *= 0x1p1020;
    ole_feature_errors expected, got;
    ole_error error;
    assert_ok(ole_classify_features(&expected, &small.view, NULL, NULL, &error), &error);
    assert_ok(ole_classify_features(&got, &large.view, NULL, NULL, &error), &error);
    assert_float_equal(got.centroid, expected.centroid, 1e-9);
    assert_ok(ole_classify_features(&expected, &small.view, &small.view, NULL, &error), &error);
    assert_ok(ole_classify_features(&got, &large.view, &large.view, NULL, &error), &error);
    assert_float_equal(got.centroid, expected.centroid, 1e-9);
    release(&small);
    release(&large);
}

/* A sample: drawn from the rows that count, the same for every number of threads. */
static void test_sample(void **state) {
    (void)state;
    set train = make(3000, 6, 4, 1.5, 3);
    ole_classify_options options;
    ole_classify_options_init(&options);
    options.sample = 700;
    ole_feature_errors one, two;
    ole_error error;
    assert_ok(ole_classify_features(&one, &train.view, NULL, &options, &error), &error);
    options.threads = 2;
    assert_ok(ole_classify_features(&two, &train.view, NULL, &options, &error), &error);
    assert_int_equal(one.queries, 700);
    assert_int_equal(one.of_queries, one.references);
    assert_true(one.knn1 == two.knn1 && one.subspace == two.subspace);
    options.sample = 0;
    assert_ok(ole_classify_features(&two, &train.view, NULL, &options, &error), &error);
    assert_int_equal(two.queries, two.references);
    assert_true(fabs(one.knn1 - two.knn1) < 6); /* three deviations of 700 */
    release(&train);
}

static void test_float32(void **state) {
    (void)state;
    set train = make(300, 12, 5, 1.2, 9);
    float *single = malloc(300 * 12 * sizeof *single);
    for (int i = 0; i < 300 * 12; i++)
        train.x[i] = single[i] = (float)train.x[i];
    ole_embedding e = train.view;
    e.dtype = OLE_F32;
    e.features = single;
    ole_feature_errors narrow, wide;
    ole_error error;
    assert_ok(ole_classify_features(&narrow, &e, NULL, NULL, &error), &error);
    assert_ok(ole_classify_features(&wide, &train.view, NULL, NULL, &error), &error);
    assert_true(narrow.knn1 == wide.knn1 && narrow.knn == wide.knn);
    assert_true(narrow.centroid == wide.centroid && narrow.subspace == wide.subspace);
    free(single);
    release(&train);
}

static void test_errors(void **state) {
    (void)state;
    set train = make(20, 3, 2, 1, 1), test = make(20, 4, 2, 1, 1), one = make(20, 3, 1, 1, 1);
    ole_feature_errors got;
    ole_error error;
    ole_classify_options options;
    ole_classify_options_init(&options);
    options.k = 0;
    assert_int_equal(ole_classify_features(&got, &train.view, NULL, &options, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_classify_features: k is 0 (1 to 1000)");
    options.struct_size -= sizeof(void *); /* shorter than in any version */
    assert_int_equal(ole_classify_features(&got, &train.view, NULL, &options, &error),
                     OLE_ERROR_ARGUMENT);
    assert_non_null(strstr(error.message, "fill options with ole_classify_options_init()"));
    assert_int_equal(ole_classify_features(&got, &train.view, &test.view, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "test features have 4 dimensions, the training features 3");
    assert_int_equal(ole_classify_features(&got, &one.view, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message,
                        "all rows have the label 0; at least two classes are needed");
    train.x[3 * 10] = NAN; /* row 10 is ignored */
    assert_ok(ole_classify_features(&got, &train.view, NULL, NULL, &error), &error);
    train.x[3 * 7 + 2] = INFINITY;
    assert_int_equal(ole_classify_features(&got, &train.view, NULL, NULL, &error), OLE_ERROR_DATA);
    assert_string_equal(error.message, "features: row 7 holds NaN or Inf");
    test.x[4 * 5] = NAN;
    train.x[3 * 7 + 2] = 0;
    test.view.dim = 3;
    assert_int_equal(ole_classify_features(&got, &train.view, &test.view, NULL, &error),
                     OLE_ERROR_DATA);
    assert_string_equal(error.message, "test features: row 6 holds NaN or Inf");
    for (int i = 0; i < 20; i++)
        train.labels[i] = -1;
    assert_int_equal(ole_classify_features(&got, &train.view, NULL, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    release(&train);
    release(&test);
    release(&one);
}

/* Every neighbour against sorting all cosines. */
static void test_neighbours(void **state) {
    (void)state;
    enum { ROWS = 90, DIM = 5, K = 7 };
    set s = make(ROWS, DIM, 3, 0.5, 11), few = make(40, DIM, 3, 0.5, 12);
    int64_t nearest[ROWS * K], alone[4 * K];
    double found[ROWS * K];
    for (int pass = 0; pass < 2; pass++) {
        const set *of = pass ? &few : &s;
        assert_int_equal(ole_nearest_rows(&s.view, pass ? &few.view : NULL, K, 3, NULL, NULL,
                                          nearest, found, NULL),
                         OLE_OK);
        for (int64_t i = 0; i < of->view.rows; i++)
            for (int64_t j = 0; j < ROWS; j++) {
                double c = cosine(of->x + i * DIM, s.x + j * DIM, DIM);
                bool listed = false;
                for (int n = 0; n < K; n++)
                    if (nearest[i * K + n] == j) {
                        listed = true;
                        assert_float_equal(found[i * K + n], c, 1e-12);
                        if (n > 0) assert_true(found[i * K + n] <= found[i * K + n - 1] + 1e-12);
                    }
                assert_true(listed ? pass || i != j
                                   : (!pass && i == j) || c <= found[i * K + K - 1] + 1e-12);
            }
    }
    few.view.rows = 4;
    assert_int_equal(ole_nearest_rows(&few.view, NULL, K, 1, NULL, NULL, alone, found, NULL),
                     OLE_OK);
    assert_true(alone[2] >= 0 && alone[3] == -1 && isnan(found[3]));
    ole_error error;
    few.x[2 * DIM] = NAN;
    assert_int_equal(ole_nearest_rows(&s.view, &few.view, K, 1, NULL, NULL, nearest, NULL, &error),
                     OLE_ERROR_DATA);
    assert_string_equal(error.message, "test features: row 2 holds NaN or Inf");
    assert_int_equal(ole_nearest_rows(&s.view, NULL, 0, 1, NULL, NULL, nearest, NULL, &error),
                     OLE_ERROR_ARGUMENT);
    release(&s);
    release(&few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_obvious), cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_sample),          cmocka_unit_test(test_float32),
        cmocka_unit_test(test_errors),          cmocka_unit_test(test_ties),
        cmocka_unit_test(test_large),           cmocka_unit_test(test_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
