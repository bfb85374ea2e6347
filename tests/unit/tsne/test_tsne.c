/*
 * tests/unit/tsne/test_tsne.c - maps as a whole: clusters stay together, the bits do not depend on
 * the threads, the callback, bad input; and the two measures of a map against the obvious way.
 */
#include "ole/tsne.h"
#include "random.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, DIM = 60, CLUSTERS = 3 };

/* Clusters of normal rows around corners far from each other. */
static float *clusters(uint64_t seed) {
    float *x = malloc((size_t)(ROWS * DIM) * sizeof *x);
    test_random r = {seed};
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < DIM; k++)
            x[i * DIM + k] = (float)(random_normal(&r) + (k == i % CLUSTERS ? 20.0 : 0.0));
    return x;
}

static ole_tsne_options quick(void) {
    ole_tsne_options o;
    ole_tsne_options_init(&o);
    o.iterations = 300;
    o.exaggerated = 100;
    o.perplexity = 20.0;
    return o;
}

static double away(const double *map, int a, int b) {
    return hypot(map[2 * a] - map[2 * b], map[2 * a + 1] - map[2 * b + 1]);
}

static void test_clusters(void **state) {
    (void)state;
    float *x = clusters(1);
    double map[2 * ROWS], kl, sum[2] = {0.0, 0.0};
    ole_tsne_options o = quick();
    ole_error error;
    assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, &kl, &error), &error);
    assert_true(kl > 0.0 && kl < 2.0);
    for (int i = 0; i < ROWS; i++) {
        int nearest = i == 0 ? 1 : 0;
        for (int j = 0; j < ROWS; j++)
            if (j != i && away(map, i, j) < away(map, i, nearest)) nearest = j;
        assert_int_equal(nearest % CLUSTERS, i % CLUSTERS);
        sum[0] += map[2 * i];
        sum[1] += map[2 * i + 1];
    }
    assert_true(fabs(sum[0]) < 1e-6 && fabs(sum[1]) < 1e-6);
    free(x);
}

/* One, two and five threads, float32 and float64, with and without a callback. */
static bool nothing(void *context, const ole_tsne_progress *progress) {
    (void)context;
    (void)progress;
    return false;
}

static void test_same_bits(void **state) {
    (void)state;
    float *x = clusters(2);
    double first[2 * ROWS], map[2 * ROWS], kl, first_kl;
    ole_tsne_options o = quick();
    ole_error error;
    assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, first, &first_kl, &error), &error);
    for (o.threads = 1; o.threads <= 5; o.threads += 2) {
        assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, &kl, &error), &error);
        assert_memory_equal(map, first, sizeof map);
        assert_true(kl == first_kl);
    }
    double *wide = malloc((size_t)(ROWS * DIM) * sizeof *wide);
    for (int i = 0; i < ROWS * DIM; i++)
        wide[i] = (double)x[i];
    o.threads = 2;
    assert_ok(ole_tsne(ROWS, DIM, OLE_F64, wide, &o, map, NULL, &error), &error);
    assert_memory_equal(map, first, sizeof map);
    o.seed = 1;
    assert_ok(ole_tsne(ROWS, DIM, OLE_F64, wide, &o, map, NULL, &error), &error);
    assert_memory_not_equal(map, first, sizeof map);
    o.callback = nothing;
    double with[2 * ROWS];
    assert_ok(ole_tsne(ROWS, DIM, OLE_F64, wide, &o, with, NULL, &error), &error);
    assert_memory_equal(with, map, sizeof map);
    free(wide);
    free(x);
}

/* ---- The callback --------------------------------------------------------------------------- */

typedef struct notes {
    int calls, last, stop_at;
    bool neighbours, components;
    double kl;
} notes;

static bool note(void *context, const ole_tsne_progress *p) {
    notes *n = context;
    n->components |= strcmp(p->stage, "components") == 0;
    n->neighbours |= strcmp(p->stage, "neighbours") == 0;
    if (strcmp(p->stage, "map") != 0) {
        assert_true(isnan(p->kl) && !p->map);
        return n->stop_at < 0;
    }
    assert_true(p->map && isfinite(p->kl) && p->iterations == 300);
    assert_true(p->share == p->iteration / 300.0);
    n->calls++;
    n->last = p->iteration;
    n->kl = p->kl;
    return p->iteration == n->stop_at;
}

static void test_callback(void **state) {
    (void)state;
    float *x = clusters(3);
    double map[2 * ROWS], kl;
    notes n = {.stop_at = 1000};
    ole_tsne_options o = quick();
    o.callback = note;
    o.callback_context = &n;
    ole_error error;
    assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, &kl, &error), &error);
    assert_true(n.components && n.neighbours && n.calls == 7 && n.last == 300 && n.kl == kl);
    n = (notes){.stop_at = 100};
    assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, &kl, &error), &error);
    assert_true(n.calls == 3 && n.last == 100 && n.kl == kl);
    n = (notes){.stop_at = -1}; /* before there is a map */
    assert_ok(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, &kl, &error), &error);
    assert_true(n.calls == 0 && isnan(kl) && fabs(map[0]) < 1e-3);
    free(x);
}

/* ---- Measures ------------------------------------------------------------------------------- */

static double squared(const double *x, int dim, int a, int b) {
    double sum = 0.0;
    for (int k = 0; k < dim; k++)
        sum += (x[a * dim + k] - x[b * dim + k]) * (x[a * dim + k] - x[b * dim + k]);
    return sum;
}

enum { FEW = 120, FEW_DIM = 6 };

/* p(j|i) of all pairs, beta by bisection. */
static void condition(const double *x, double perplexity, double p[FEW][FEW]) {
    for (int i = 0; i < FEW; i++) {
        double low = 0.0, high = 1e6, sum = 0.0;
        for (int step = 0; step < 200; step++) {
            double beta = 0.5 * (low + high), entropy = 0.0;
            sum = 0.0;
            for (int j = 0; j < FEW; j++)
                sum += p[i][j] = i == j ? 0.0 : exp(-beta * squared(x, FEW_DIM, i, j));
            for (int j = 0; j < FEW; j++)
                if (p[i][j] > 0.0) entropy -= p[i][j] / sum * log(p[i][j] / sum);
            if (entropy > log(perplexity) && sum > 0.0)
                low = beta;
            else
                high = beta;
        }
        for (int j = 0; j < FEW; j++)
            p[i][j] /= sum;
    }
}

static double obvious_kl(const double *x, const double *map, double perplexity) {
    static double p[FEW][FEW];
    condition(x, perplexity, p);
    double z = 0.0, kl = 0.0;
    for (int i = 0; i < FEW; i++)
        for (int j = 0; j < FEW; j++)
            if (i != j) z += 1.0 / (1.0 + squared(map, 2, i, j));
    for (int i = 0; i < FEW; i++)
        for (int j = 0; j < FEW; j++) {
            double both = (p[i][j] + p[j][i]) / (2.0 * FEW);
            if (both > 0.0) kl += both * log(both * z * (1.0 + squared(map, 2, i, j)));
        }
    return kl;
}

static double obvious_trust(const double *x, const double *map, int count) {
    double sum = 0.0;
    for (int i = 0; i < FEW; i++)
        for (int j = 0; j < FEW; j++) {
            int before = 0, rank = 1; /* on the map, and in the features */
            for (int k = 0; k < FEW; k++) {
                if (k == i || k == j) continue;
                before += squared(map, 2, i, k) < squared(map, 2, i, j);
                rank += squared(x, FEW_DIM, i, k) < squared(x, FEW_DIM, i, j);
            }
            if (i != j && before < count && rank > count) sum += rank - count;
        }
    return 1.0 - 2.0 * sum / ((double)FEW * count * (2.0 * FEW - 3.0 * count - 1.0));
}

static void test_measures(void **state) {
    (void)state;
    double x[FEW * FEW_DIM], map[2 * FEW];
    test_random r = {9};
    for (int i = 0; i < FEW * FEW_DIM; i++)
        x[i] = 100.0 + random_normal(&r);
    for (int i = 0; i < 2 * FEW; i++)
        map[i] = x[i / 2 * FEW_DIM + i % 2] + 0.3 * random_normal(&r);
    ole_error error;
    for (int threads = 1; threads <= 3; threads++) {
        double kl, trust;
        for (double perplexity = 2.0; perplexity < 40.0; perplexity *= 4.0) {
            assert_ok(ole_tsne_kl(FEW, FEW_DIM, OLE_F64, x, perplexity, map, threads, &kl, &error),
                      &error);
            assert_true(fabs(kl - obvious_kl(x, map, perplexity)) < 1e-5);
        }
        for (int count = 1; count < 40; count += 6) {
            assert_ok(
                ole_trustworthiness(FEW, FEW_DIM, OLE_F64, x, map, count, threads, &trust, &error),
                &error);
            assert_true(fabs(trust - obvious_trust(x, map, count)) < 1e-12);
        }
    }
}

/* ---- Input ---------------------------------------------------------------------------------- */

static void test_corners(void **state) {
    (void)state;
    float same[4 * 3] = {0}, few[4 * 1] = {1, 2, 4, 8};
    double map[8], kl;
    ole_tsne_options o = quick();
    ole_error error;
    o.perplexity = 1.0;
    assert_ok(ole_tsne(4, 3, OLE_F32, same, &o, map, &kl, &error), &error);
    assert_ok(ole_tsne(4, 1, OLE_F32, few, &o, map, &kl, &error), &error);
    for (int i = 0; i < 8; i++)
        assert_true(isfinite(map[i]));
    double huge[4 * 2] = {1e300, 0, -1e300, 0, 0, 1e300, 1e299, 1}, tiny[8];
    for (int i = 0; i < 8; i++)
        tiny[i] = huge[i] * 1e-300 * 1e-300;
    assert_ok(ole_tsne(4, 2, OLE_F64, huge, &o, map, &kl, &error), &error);
    assert_true(isfinite(kl));
    assert_ok(ole_tsne(4, 2, OLE_F64, tiny, &o, map, &kl, &error), &error);
    assert_true(isfinite(kl));
    o.iterations = 0; /* the start, centred */
    double start[8] = {1, 0, -1, 0, 0, 2, 0, -2};
    o.start = start;
    assert_ok(ole_tsne(4, 3, OLE_F32, same, &o, map, &kl, &error), &error);
    assert_memory_equal(map, start, sizeof map);
}

static void wrong(int64_t rows, int64_t dim, const float *x, const ole_tsne_options *o,
                  ole_status expected, const char *message) {
    double map[2 * ROWS];
    ole_error error;
    assert_int_equal(ole_tsne(rows, dim, OLE_F32, x, o, map, NULL, &error), expected);
    assert_string_equal(error.message, message);
}

static void test_errors(void **state) {
    (void)state;
    float *x = clusters(4);
    ole_tsne_options o = quick();
    wrong(ROWS, DIM, NULL, &o, OLE_ERROR_ARGUMENT, "ole_tsne: features is NULL");
    wrong(3, DIM, x, &o, OLE_ERROR_ARGUMENT,
          "3 rows are too few for a map, which needs at least 4");
    o.perplexity = 30.0;
    wrong(60, DIM, x, &o, OLE_ERROR_ARGUMENT,
          "a perplexity of 30 needs 91 rows, but there are 60; use 19.66 or less");
    o.perplexity = 0.5;
    wrong(60, DIM, x, &o, OLE_ERROR_ARGUMENT, "a perplexity of 0.5 is too small; use 1 or more");
    o = quick();
    o.theta = 1.5;
    wrong(ROWS, DIM, x, &o, OLE_ERROR_ARGUMENT,
          "ole_tsne: theta is 1.5; must be a number from 0 to 1");
    o = quick();
    o.threads = 0;
    wrong(ROWS, DIM, x, &o, OLE_ERROR_ARGUMENT, "ole_tsne: threads is 0; must be 1 to 1024");
    o = quick();
    o.struct_size = 1;
    double map[2 * ROWS];
    assert_int_equal(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, NULL, NULL), OLE_ERROR_ARGUMENT);
    o = quick();
    x[7 * DIM + 3] = NAN;
    wrong(ROWS, DIM, x, &o, OLE_ERROR_DATA, "row 7 holds NaN or Inf");
    x[7 * DIM + 3] = 0.0f;
    double start[2 * ROWS] = {0};
    start[5] = INFINITY;
    o.start = start;
    wrong(ROWS, DIM, x, &o, OLE_ERROR_DATA, "start: row 2 is inf; use numbers up to 1e6");
    o = quick();
    o.learning_rate = 1e9;
    ole_error error;
    assert_int_equal(ole_tsne(ROWS, DIM, OLE_F32, x, &o, map, NULL, &error), OLE_ERROR_NUMERIC);
    assert_non_null(strstr(error.message, "lower the learning rate"));
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clusters), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_callback), cmocka_unit_test(test_measures),
        cmocka_unit_test(test_corners),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
