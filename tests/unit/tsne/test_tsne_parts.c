/*
 * tests/unit/tsne/test_tsne_parts.c - the parts of t-SNE, each against the obvious way: neighbours,
 * affinities, the tree's forces by the kernels of every instruction set, a step against the
 * gradient, principal components.
 */
#include "base/cpu.h"
#include "ole/tsne.h"
#include "random.h"
#include "test.h"
#include "tsne/affinity.h"
#include "tsne/distances.h"
#include "tsne/tsne_map.h"
#include "tsne/tsne_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *normals(int64_t count, double scale, uint64_t seed) {
    double *x = malloc((size_t)count * sizeof *x);
    test_random r = {seed};
    for (int64_t i = 0; i < count; i++)
        x[i] = scale * random_normal(&r);
    return x;
}

static double squared(const double *x, int64_t dim, int64_t a, int64_t b) {
    double sum = 0.0;
    for (int64_t k = 0; k < dim; k++)
        sum += (x[a * dim + k] - x[b * dim + k]) * (x[a * dim + k] - x[b * dim + k]);
    return sum;
}

/* ---- Neighbours and affinities -------------------------------------------------------------- */

static void check_neighbours(const double *x, int64_t rows, int64_t dim, int count, int threads) {
    ole_pool *pool;
    ole_distances d;
    ole_error error;
    int32_t *near = malloc((size_t)(rows * count) * sizeof *near);
    double *away = malloc((size_t)(rows * count) * sizeof *away);
    assert_ok(ole_pool_create(&pool, threads, &error), &error);
    assert_ok(ole_distances_prepare(&d, pool, rows, dim, x, &error), &error);
    assert_ok(ole_neighbours(&d, pool, threads, count, near, away, NULL, NULL, &error), &error);
    for (int64_t i = 0; i < rows; i++) {
        int64_t nearer = 0; /* rows nearer than the farthest found: no more than were found */
        double last = away[i * count + count - 1];
        for (int64_t j = 0; j < rows; j++)
            nearer += j != i && squared(x, dim, i, j) < last * (1.0 - 1e-9);
        assert_true(nearer < count);
        for (int k = 0; k < count; k++) {
            int64_t j = near[i * count + k];
            assert_true(j >= 0 && j < rows && j != i);
            assert_true(fabs(away[i * count + k] - squared(x, dim, i, j)) < 1e-12 * (1.0 + last));
            assert_true(k == 0 || away[i * count + k] >= away[i * count + k - 1]);
            for (int m = 0; m < k; m++)
                assert_true(near[i * count + m] != j);
        }
    }
    ole_distances_release(&d);
    ole_pool_destroy(pool);
    free(near);
    free(away);
}

static void test_neighbours(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{4, 1, 3}, {97, 3, 5}, {700, 17, 40}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        double *x = normals(shapes[s][0] * shapes[s][1], 1.0, s);
        for (int threads = 1; threads <= 3; threads += 2)
            check_neighbours(x, shapes[s][0], shapes[s][1], (int)shapes[s][2], threads);
        /* Rows that lie on each other. */
        memset(x, 0, (size_t)(shapes[s][0] / 2 * shapes[s][1]) * sizeof *x);
        check_neighbours(x, shapes[s][0], shapes[s][1], (int)shapes[s][2], 2);
        free(x);
    }
}

static void test_beta(void **state) {
    (void)state;
    double *away = normals(100, 1.0, 5);
    for (int i = 0; i < 100; i++)
        away[i] *= away[i];
    for (double scale = 1e-12; scale < 1e13; scale *= 1e4)
        for (double perplexity = 2.0; perplexity < 60.0; perplexity *= 3.0) {
            double scaled[100], entropy = 0.0;
            for (int i = 0; i < 100; i++)
                scaled[i] = scale * away[i];
            double beta = ole_affinity_beta(scaled, 100, perplexity, 0.0);
            double sum = ole_affinity_sum(scaled, 100, beta, 0.0);
            for (int i = 0; i < 100; i++) {
                double p = exp(-beta * scaled[i]) / sum;
                if (p > 0.0) entropy -= p * log(p);
            }
            assert_true(fabs(exp(entropy) - perplexity) < 1e-6 * perplexity);
        }
    for (int i = 0; i < 100; i++)
        away[i] = 7.0; /* no beta changes anything */
    assert_true(ole_affinity_beta(away, 100, 5.0, 0.0) == 0.0);
    for (int i = 0; i < 50; i++)
        away[i] = 0.0; /* 50 neighbours at least: as few as there can be */
    double beta = ole_affinity_beta(away, 100, 5.0, 0.0);
    assert_true(isfinite(beta) && fabs(ole_affinity_sum(away, 100, beta, 0.0) - 50.0) < 1e-6);
    free(away);
}

/* The affinity of rows from their neighbours; the caller releases it. */
static ole_affinity affinity_of(const double *x, int64_t rows, int64_t dim, int count,
                                double perplexity) {
    ole_affinity a;
    ole_distances d;
    ole_error error;
    int32_t *near = malloc((size_t)(rows * count) * sizeof *near);
    double *away = malloc((size_t)(rows * count) * sizeof *away);
    assert_ok(ole_distances_prepare(&d, NULL, rows, dim, x, &error), &error);
    assert_ok(ole_neighbours(&d, NULL, 1, count, near, away, NULL, NULL, &error), &error);
    assert_ok(ole_affinity_make(&a, NULL, 1, rows, count, near, away, perplexity, &error), &error);
    ole_distances_release(&d);
    free(near);
    free(away);
    return a;
}

static float entry_of(const ole_affinity *a, int64_t row, int64_t column) {
    for (int64_t e = a->start[row]; e < a->start[row + 1]; e++)
        if (a->column[e] == column) return a->p[e];
    return -1.0f;
}

static void test_affinity(void **state) {
    (void)state;
    enum { ROWS = 211, DIM = 4, COUNT = 15 };
    double *x = normals(ROWS * DIM, 3.0, 8), sum = 0.0;
    ole_affinity a = affinity_of(x, ROWS, DIM, COUNT, 5.0);
    for (int64_t i = 0; i < ROWS; i++) {
        assert_true(a.start[i + 1] - a.start[i] >= COUNT);
        for (int64_t e = a.start[i]; e < a.start[i + 1]; e++) {
            assert_true(a.column[e] != i && (e == a.start[i] || a.column[e] > a.column[e - 1]));
            assert_true(entry_of(&a, a.column[e], i) == a.p[e]);
            sum += (double)a.p[e];
        }
    }
    assert_true(fabs(sum - 1.0) < 1e-6);
    ole_affinity_release(&a);
    free(x);
}

/* ---- The tree ------------------------------------------------------------------------------- */

static int tables(const ole_tsne_kernels **table) {
    extern const ole_tsne_kernels ole_tsne_kernels_generic;
    int count = 0;
    table[count++] = &ole_tsne_kernels_generic;
#if OLE_X86_DISPATCH
    extern const ole_tsne_kernels ole_tsne_kernels_avx2, ole_tsne_kernels_avx512;
    if (ole_cpu_allowed() >= OLE_CPU_AVX2) table[count++] = &ole_tsne_kernels_avx2;
    if (ole_tsne_kernels_get() == &ole_tsne_kernels_avx512)
        table[count++] = &ole_tsne_kernels_avx512;
#elif OLE_ARM_DISPATCH
    extern const ole_tsne_kernels ole_tsne_kernels_neon;
    if (ole_tsne_kernels_get() == &ole_tsne_kernels_neon) table[count++] = &ole_tsne_kernels_neon;
#endif
    return count;
}

typedef struct points {
    int64_t count;
    float *xy;
    float low[2], high[2];
} points;

static points make_points(int64_t count, double scale, uint64_t seed) {
    points p = {count, malloc((size_t)(2 * count) * sizeof(float)), {0, 0}, {0, 0}};
    double *x = normals(2 * count, scale, seed);
    for (int64_t i = 0; i < 2 * count; i++) {
        float v = p.xy[i] = (float)x[i];
        p.low[i % 2] = i < 2 ? v : fminf(p.low[i % 2], v);
        p.high[i % 2] = i < 2 ? v : fmaxf(p.high[i % 2], v);
    }
    free(x);
    return p;
}

/* What every point gets, summed in double over all others. */
static double all_pairs(const points *p, double *force) {
    double z = 0.0;
    memset(force, 0, (size_t)(2 * p->count) * sizeof *force);
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t j = 0; j < p->count; j++) {
            double dx = (double)p->xy[2 * i] - (double)p->xy[2 * j];
            double dy = (double)p->xy[2 * i + 1] - (double)p->xy[2 * j + 1];
            double q = 1.0 / (1.0 + dx * dx + dy * dy);
            z += q;
            force[2 * i] += q * q * dx;
            force[2 * i + 1] += q * q * dy;
        }
    return z;
}

/* Relative errors of Q's sum and of all forces together. */
static void compare(const ole_tsne_kernels *k, const points *p, double theta, double *of_sum,
                    double *of_force) {
    ole_tsne_forest f;
    ole_error error;
    size_t n = (size_t)p->count;
    assert_ok(ole_tsne_forest_create(&f, p->count, theta, &error), &error);
    ole_tsne_forest_grow(&f, NULL, p->xy, p->low, p->high);
    float *fx = malloc(n * sizeof *fx), *fy = malloc(n * sizeof *fy);
    double *force = malloc(2 * n * sizeof *force);
    double z = 0.0, expected = all_pairs(p, force), wrong = 0.0, whole = 0.0;
    for (int64_t first = 0; first < p->count; first += k->group)
        z += k->repel(&f.tree, first, fx, fy);
    char *seen = calloc(n, 1);
    for (int64_t s = 0; s < p->count; s++) {
        int64_t i = f.order[s];
        assert_true(!seen[i]);
        seen[i] = 1;
        wrong += pow(force[2 * i] - (double)fx[s], 2) + pow(force[2 * i + 1] - (double)fy[s], 2);
        whole += pow(force[2 * i], 2) + pow(force[2 * i + 1], 2);
    }
    *of_sum = fabs(z / expected - 1.0);
    *of_force = whole > 0.0 ? sqrt(wrong / whole) : sqrt(wrong);
    ole_tsne_forest_destroy(&f);
    free(fx);
    free(fy);
    free(force);
    free(seen);
}

static void test_tree(void **state) {
    (void)state;
    const ole_tsne_kernels *table[3];
    int count = tables(table);
    static const int64_t sizes[] = {1, 2, 9, 33, 1000, 3001};
    for (int t = 0; t < count; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (double scale = 1e-4; scale < 1e4; scale *= 100.0) {
                points p = make_points(sizes[s], scale, s);
                double sum, force;
                compare(table[t], &p, 0.0, &sum, &force);
                assert_true(sum < 1e-5 && force < 1e-3);
                compare(table[t], &p, 0.5, &sum, &force);
                assert_true(sum < 5e-3 && force < 2e-2);
                free(p.xy);
            }
}

/* All in one place; on a line; two far clusters. */
static void test_tree_corners(void **state) {
    (void)state;
    const ole_tsne_kernels *table[3];
    int count = tables(table);
    for (int t = 0; t < count; t++)
        for (int which = 0; which < 3; which++) {
            points p = make_points(500, 1.0, 3);
            for (int64_t i = 0; i < 1000; i++) {
                if (which == 0) p.xy[i] = 5.0f;
                if (which == 1 && i % 2) p.xy[i] = 0.0f;
                if (which == 2) p.xy[i] = 1e-3f * p.xy[i] + (i < 400 ? 1e4f : 0.0f);
                p.low[i % 2] = i < 2 ? p.xy[i] : fminf(p.low[i % 2], p.xy[i]);
                p.high[i % 2] = i < 2 ? p.xy[i] : fmaxf(p.high[i % 2], p.xy[i]);
            }
            double sum, force;
            compare(table[t], &p, 0.5, &sum, &force);
            assert_true(sum < 5e-3 && force < 2e-2);
            free(p.xy);
        }
}

/* ---- A step --------------------------------------------------------------------------------- */

static double divergence(const ole_affinity *a, const double *y) {
    double z = 0.0, kl = 0.0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->rows; j++)
            if (i != j) z += 1.0 / (1.0 + squared(y, 2, i, j));
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t e = a->start[i]; e < a->start[i + 1]; e++) {
            double p = (double)a->p[e];
            if (p > 0.0) kl += p * log(p * z * (1.0 + squared(y, 2, i, a->column[e])));
        }
    return kl;
}

/* The first step without momentum goes 0.8 * rate against the gradient: against differences. */
static void test_gradient(void **state) {
    (void)state;
    enum { ROWS = 40, DIM = 5 };
    const double rate = 1.0, h = 1e-4;
    double *x = normals(ROWS * DIM, 1.0, 1), *y = normals(2 * ROWS, 2.0, 2);
    ole_affinity a = affinity_of(x, ROWS, DIM, 12, 4.0);
    ole_tsne_map *map;
    ole_error error;
    for (int k = 0; k < 2; k++) { /* a map is centred */
        double mean = 0.0;
        for (int i = 0; i < ROWS; i++)
            mean += y[2 * i + k] / ROWS;
        for (int i = 0; i < ROWS; i++)
            y[2 * i + k] -= mean;
    }
    assert_ok(ole_tsne_map_create(&map, NULL, &a, 0.0, y, &error), &error);
    assert_true(fabs(ole_tsne_map_kl(map) - divergence(&a, y)) < 1e-5);
    assert_true(ole_tsne_map_step(map, 1.0, 0.0, rate));
    const double *after = ole_tsne_map_points(map);
    for (int i = 0; i < 2 * ROWS; i++) {
        double keep = y[i];
        y[i] = keep + h;
        double up = divergence(&a, y);
        y[i] = keep - h;
        double down = divergence(&a, y);
        y[i] = keep;
        assert_true(fabs((keep - after[i]) / (0.8 * rate) - (up - down) / (2.0 * h)) < 1e-6);
    }
    ole_tsne_map_destroy(map);
    ole_affinity_release(&a);
    free(x);
    free(y);
}

/* ---- Components ----------------------------------------------------------------------------- */

/* Uncorrelated coordinates of falling variance that keep what a full basis keeps. */
static void check_pca(int64_t rows, int64_t dim, int64_t components) {
    double *x = normals(rows * dim, 1.0, 4),
           *out = malloc((size_t)(rows * components) * sizeof *out);
    for (int64_t i = 0; i < rows * dim; i++)
        x[i] = 5.0 + x[i] / (double)(1 + i % dim);
    ole_error error;
    assert_ok(ole_pca(rows, dim, OLE_F64, x, components, 2, out, &error), &error);
    double *dot = calloc((size_t)(components * components), sizeof *dot);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t a = 0; a < components; a++)
            for (int64_t b = 0; b < components; b++)
                dot[a * components + b] += out[i * components + a] * out[i * components + b];
    for (int64_t a = 0; a < components; a++) {
        assert_true(a == 0 || dot[a * components + a] <= dot[(a - 1) * components + a - 1]);
        for (int64_t b = 0; b < a; b++)
            assert_true(fabs(dot[a * components + b]) < 1e-9 * dot[0]);
    }
    if (components == dim || components == rows)
        for (int64_t i = 1; i < rows; i++) /* nothing lost: distances stay */
            assert_true(fabs(squared(out, components, 0, i) / squared(x, dim, 0, i) - 1.0) < 1e-9);
    free(x);
    free(out);
    free(dot);
}

static void test_pca(void **state) {
    (void)state;
    check_pca(60, 7, 7);
    check_pca(60, 7, 3);
    check_pca(1500, 20, 20);
    check_pca(9, 30, 9);
    check_pca(9, 1100, 4);
    float same[12] = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3};
    double out[8];
    ole_error error;
    assert_ok(ole_pca(4, 3, OLE_F32, same, 2, 1, out, &error), &error);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == 0.0);
    assert_int_equal(ole_pca(4, 3, OLE_F32, same, 4, 1, out, &error), OLE_ERROR_ARGUMENT);
    assert_string_equal(error.message, "ole_pca: components is 4; must be 1 to 3");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours),   cmocka_unit_test(test_beta),
        cmocka_unit_test(test_affinity),     cmocka_unit_test(test_tree),
        cmocka_unit_test(test_tree_corners), cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_pca),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
