/*
 * tests/unit/linalg/test_kernels.c - every kernel table that this CPU can run, function by
 * function, against plain loops.
 */
#include "cases.h"
#include "linalg/kernels.h"
#include "test.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

extern const ole_kernels ole_kernels_generic;
#if OLE_X86_DISPATCH
extern const ole_kernels ole_kernels_avx2;
extern const ole_kernels ole_kernels_avx512;
#elif OLE_ARM_DISPATCH
extern const ole_kernels ole_kernels_neon;
#endif

static const ole_kernels *tables[3] = {&ole_kernels_generic};
static int table_count = 1;

/* A table is run where the CPU has its instructions: the best one and those below it. */
static void list_tables(void) {
#if OLE_X86_DISPATCH
    const ole_kernels *best = ole_kernels_get();
    if (best != &ole_kernels_generic) tables[table_count++] = &ole_kernels_avx2;
    if (best == &ole_kernels_avx512) tables[table_count++] = &ole_kernels_avx512;
#elif OLE_ARM_DISPATCH
    if (ole_kernels_get() == &ole_kernels_neon) tables[table_count++] = &ole_kernels_neon;
#endif
}

static double *room(int64_t count) {
    double *p = aligned_alloc(64, ((size_t)count * sizeof *p + 127) / 64 * 64);
    if (!p) abort();
    return p;
}

static double *random_doubles(int64_t count, uint64_t seed) {
    test_random random = {seed};
    double *p = room(count);
    for (int64_t i = 0; i < count; i++)
        p[i] = random_normal(&random);
    return p;
}

static float *random_floats(int64_t count, uint64_t seed) {
    double *wide = random_doubles(count, seed);
    float *p = malloc((size_t)count * sizeof *p);
    case_round(p, wide, count);
    free(wide);
    return p;
}

/* |got - want| within a few roundings of sums of `terms` products of size about 1. */
static void assert_near(const ole_kernels *k, const char *what, double got, double want,
                        int64_t terms) {
    if (!(fabs(got - want) <= 64.0 * DBL_EPSILON * (double)(terms + 4)))
        fail_msg("%s, %s: %.17g, not %.17g", k->name, what, got, want);
}

/* ---- packing and products ------------------------------------------------------------------- */

static const int64_t item_counts[] = {1, 2, 3, 4, 7, 8, 9, 12, 13, 23, 24, 25, 31, 48, 50};
enum { ITEM_COUNTS = sizeof item_counts / sizeof *item_counts };

static int64_t whole_panels(const ole_kernels *k, int64_t items) {
    return (items + k->width - 1) / k->width * k->width;
}

static void check_packed(const ole_kernels *k, const double *packed, const double *source,
                         int64_t items, int64_t depth, int64_t item_stride, int64_t depth_stride) {
    for (int64_t i = 0; i < whole_panels(k, items); i++)
        for (int64_t p = 0; p < depth; p++) {
            int64_t panel = i / k->width * k->width;
            double got = packed[panel * depth + p * k->width + i - panel];
            double want = i < items ? source[i * item_stride + p * depth_stride] : 0.0;
            assert_true(got == want);
        }
}

static void packing(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int c = 0; c < ITEM_COUNTS; c++)
            for (int64_t depth = 0; depth < 12; depth += 11)
                for (int across = 0; across < 2; across++) {
                    const ole_kernels *k = tables[t];
                    int64_t items = item_counts[c], size = (items + 3) * (depth + 3);
                    int64_t is = across ? 1 : depth + 3, ds = across ? items + 3 : 1;
                    float *narrow = random_floats(size, 1);
                    double *wide = random_doubles(size, 1);
                    double *packed = room(whole_panels(k, items) * depth);
                    k->pack_f64(packed, wide, is, ds, items, depth);
                    check_packed(k, packed, wide, items, depth, is, ds);
                    case_round(narrow, wide, size);
                    k->pack_f32(packed, narrow, is, ds, items, depth);
                    check_packed(k, packed, wide, items, depth, is, ds);
                    free(narrow);
                    free(wide);
                    free(packed);
                }
}

/* C (+)= alpha A B from packed operands into the middle of a larger C, against three loops. */
static void check_product(const ole_kernels *k, int64_t rows, int64_t cols, int64_t depth,
                          ole_store store, bool lower) {
    const double alpha = -1.5;
    int64_t ld = cols + 5;
    double *a = random_doubles(rows * depth + 1, 2), *b = random_doubles(cols * depth + 1, 3);
    double *pa = room(whole_panels(k, rows) * depth), *pb = room(whole_panels(k, cols) * depth);
    double *c = random_doubles((rows + 1) * ld, 4), *before = random_doubles((rows + 1) * ld, 4);
    k->pack_f64(pa, a, depth, 1, rows, depth);
    k->pack_f64(pb, b, depth, 1, cols, depth);
    k->multiply(pa, pb, rows, cols, depth, alpha, c, ld, 0, 0, lower, store);
    for (int64_t i = 0; i <= rows; i++)
        for (int64_t j = 0; j < ld; j++) {
            double got = c[i * ld + j], was = before[i * ld + j], sum = 0.0;
            if (i == rows || j >= cols) {
                assert_true(got == was); /* not a part of C */
                continue;
            }
            if (lower && j > i) continue;
            for (int64_t p = 0; p < depth; p++)
                sum += a[i * depth + p] * b[j * depth + p];
            double start = store == OLE_STORE_ADD ? was : 0.0;
            assert_near(k, "multiply", got, start + alpha * sum, depth);
        }
    free(a);
    free(b);
    free(pa);
    free(pb);
    free(c);
    free(before);
}

static void products(void **state) {
    (void)state;
    static const int64_t depths[] = {0, 1, 5, 128, 129, 300};
    for (int t = 0; t < table_count; t++)
        for (int i = 0; i < ITEM_COUNTS; i++)
            for (int j = 0; j < ITEM_COUNTS; j++) {
                int64_t depth = depths[(i + j) % 6];
                ole_store store = (i * 3 + j) % 4 == 1 ? OLE_STORE_ADD : OLE_STORE_SET;
                check_product(tables[t], item_counts[i], item_counts[j], depth, store, false);
                if (i == j)
                    check_product(tables[t], item_counts[i], item_counts[j], depth, store, true);
            }
}

static void unpacked_gram(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 1; n <= 40; n += 3)
            for (int64_t depth = 1; depth <= 41; depth += 8) {
                const ole_kernels *k = tables[t];
                int64_t ldx = depth + 2, ld = n + 1;
                double *x = random_doubles(n * ldx, 5);
                double *gram = room(n * ld);
                k->gram_f64(x, n, depth, ldx, gram, ld);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j <= i; j++) {
                        double sum = 0.0;
                        for (int64_t p = 0; p < depth; p++)
                            sum += x[i * ldx + p] * x[j * ldx + p];
                        assert_near(k, "gram_f64", gram[i * ld + j], sum, depth);
                    }
                free(x);
                free(gram);
            }
}

static void unpacked_product(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int64_t rows = 1; rows <= 19; rows += 2)
            for (int64_t cols = 1; cols <= 60; cols += 7) {
                const ole_kernels *k = tables[t];
                int64_t n = 1 + (rows * cols) % 23, ldm = n + 1, ldx = cols + 3, ldc = cols + 2;
                double *m = random_doubles(rows * ldm, 6), *c = room(rows * ldc);
                double *x = random_doubles(n * ldx, 7);
                for (int64_t i = 0; i < rows * ldc; i++)
                    c[i] = 42.0;
                k->multiply_f64(m, ldm, rows, n, x, ldx, cols, c, ldc);
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < ldc; j++) {
                        double sum = j < cols ? 0.0 : 42.0;
                        for (int64_t p = 0; p < n && j < cols; p++)
                            sum += m[i * ldm + p] * x[p * ldx + j];
                        assert_near(k, "multiply_f64", c[i * ldc + j], sum, n);
                    }
                free(m);
                free(x);
                free(c);
            }
}

static void rows_in_and_out(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 1; n < 70; n++) {
            const ole_kernels *k = tables[t];
            float *x = random_floats(n, 8);
            double *wide = room(n);
            assert_true(k->copy_finite_f32(wide, x, n));
            for (int64_t i = 0; i < n; i++)
                assert_true(wide[i] == (double)x[i]);
            k->scale_to_f32(x, wide, 3.0, n);
            for (int64_t i = 0; i < n; i++)
                assert_true(x[i] == (float)(3.0 * wide[i]));
            x[n * 2 / 3] = bad[n % 3];
            assert_false(k->copy_finite_f32(wide, x, n));
            free(x);
            free(wide);
        }
}

static void vectors(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 0; n < 80; n++) {
            const ole_kernels *k = tables[t];
            double *x = random_doubles(n + 1, 8), *y = random_doubles(n + 1, 9);
            double *z = random_doubles(n + 1, 9), sum = 0.0;
            for (int64_t i = 0; i < n; i++)
                sum += x[i] * y[i];
            assert_near(k, "dot_f64", k->dot_f64(x, y, n), sum, n);
            k->axpy(z, 0.5, x, n);
            for (int64_t i = 0; i < n; i++)
                assert_near(k, "axpy", z[i], y[i] + 0.5 * x[i], 1);
            assert_true(z[n] == y[n]);
            free(x);
            free(y);
            free(z);
        }
}

/* ---- the eigenproblem ----------------------------------------------------------------------- */

/* Element (i, j) of the tridiagonal matrix of diag and off. */
static double tridiagonal(const double *diag, const double *off, int64_t i, int64_t j) {
    if (i == j) return diag[i];
    if (i == j + 1) return off[j];
    return j == i + 1 ? off[i] : 0.0;
}

/* A = Q T Q^T, with Q made by applying the reflectors to the identity. */
static void check_reduction(const ole_kernels *k, int64_t n) {
    int64_t ld = (n + 7) / 8 * 8;
    double *given = random_doubles(n * n, (uint64_t)n), *a = room(ld * ld), *q = room(ld * ld);
    double *diag = room(ld), *off = room(ld), *tau = room(ld), *scratch = room(8 * ld);
    memset(a, 0, (size_t)(ld * ld) * sizeof *a);
    memset(q, 0, (size_t)(ld * ld) * sizeof *q);
    for (int64_t i = 0; i < n; i++) {
        q[i * ld + i] = 1.0;
        for (int64_t j = 0; j <= i; j++)
            given[j * n + i] = a[i * ld + j] = a[j * ld + i] = given[i * n + j];
    }
    k->tridiagonalise(a, n, ld, diag, off, tau, scratch);
    k->apply_q(a, n, ld, tau, q, n, scratch);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0, unit = 0.0;
            for (int64_t r = 0; r < n; r++) {
                unit += q[i * ld + r] * q[j * ld + r];
                for (int64_t s = r > 0 ? r - 1 : 0; s <= r + 1 && s < n; s++)
                    sum += q[i * ld + r] * tridiagonal(diag, off, r, s) * q[j * ld + s];
            }
            assert_near(k, "tridiagonalise", sum, given[i * n + j], n);
            assert_near(k, "apply_q", unit, i == j, n);
        }
    free(given);
    free(a);
    free(q);
    free(diag);
    free(off);
    free(tau);
    free(scratch);
}

static void reduction(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 1; n <= 45; n++)
            check_reduction(tables[t], n);
}

/* T z = d z for the rows of z, and the rows orthonormal. */
static void check_ql(const ole_kernels *k, int64_t n) {
    int64_t ld = (n + 7) / 8 * 8;
    double *diag = random_doubles(n, 10), *off = random_doubles(n, 11), *z = room(n * ld);
    double *d = room(n), *e = room(n);
    if (n > 4) off[n / 2] = 0.0;
    memcpy(d, diag, (size_t)n * sizeof *d);
    memcpy(e, off, (size_t)n * sizeof *e);
    memset(z, 0, (size_t)(n * ld) * sizeof *z);
    for (int64_t i = 0; i < n; i++)
        z[i * ld + i] = 1.0;
    assert_true(k->ql(d, e, z, n, n, ld));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double product = 0.0, unit = 0.0;
            for (int64_t s = 0; s < n; s++) {
                product += tridiagonal(diag, off, j, s) * z[i * ld + s];
                unit += z[i * ld + s] * z[j * ld + s];
            }
            assert_near(k, "ql values", product, d[i] * z[i * ld + j], n);
            assert_near(k, "ql vectors", unit, i == j, n);
        }
    free(diag);
    free(off);
    free(z);
    free(d);
    free(e);
}

static void small_tridiagonals(void **state) {
    (void)state;
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 1; n <= 40; n++)
            check_ql(tables[t], n);
}

/* D + rho z z^T for a unit vector z. */
enum { MOST = 48 };
typedef struct secular {
    int64_t n;
    double rho, total;
    double z[MOST];
    _Alignas(64) double pole[MOST + 8], square[MOST + 8], weight[MOST + 8];
    double offset[MOST];
    int64_t origin[MOST];
    double u[MOST][MOST];
} secular;

/* Poles about `gap` apart. */
static void fill_secular(secular *s, int64_t n, double gap, double rho) {
    test_random random = {(uint64_t)n};
    double length = 0.0;
    *s = (secular){.n = n, .rho = rho};
    for (int64_t i = 0; i < n; i++) {
        s->pole[i] = gap * ((double)i + 0.5 * random_uniform(&random));
        s->z[i] = 0.1 + random_uniform(&random);
        length += s->z[i] * s->z[i];
    }
    for (int64_t i = 0; i < n; i++) {
        s->z[i] /= sqrt(length);
        s->total += s->square[i] = rho * s->z[i] * s->z[i];
    }
    for (int64_t i = n; i < n + 8; i++)
        s->pole[i] = HUGE_VAL;
}

/* Roots between the poles, then the vectors. */
static void solve_secular(const ole_kernels *k, secular *s) {
    for (int64_t i = 0; i < s->n; i++)
        s->weight[i] = 1.0;
    for (int64_t j = 0; j < s->n; j++) {
        s->offset[j] = k->secular_root(s->pole, s->square, s->n, j, s->total, &s->origin[j]);
        double base = s->pole[s->origin[j]], root = base + s->offset[j];
        double top = j + 1 < s->n ? s->pole[j + 1] : s->pole[j] + s->total;
        assert_true(root >= s->pole[j] && root <= top + 1e-14 * (1.0 + fabs(top)));
        k->secular_weights(s->pole, s->n, j, base, s->offset[j], s->weight);
    }
    for (int64_t i = 0; i < s->n; i++)
        s->weight[i] = sqrt(fabs(s->weight[i]));
    for (int64_t j = 0; j < s->n; j++)
        k->secular_vector(s->pole, s->weight, s->n, s->pole[s->origin[j]], s->offset[j], s->u[j]);
}

static double along(const double *x, const double *y, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void check_secular(const ole_kernels *k, int64_t n, double gap, double rho) {
    static secular s;
    fill_secular(&s, n, gap, rho);
    solve_secular(k, &s);
    int64_t terms = (int64_t)((double)n * (1.0 + rho));
    for (int64_t j = 0; j < n; j++) {
        double root = s.pole[s.origin[j]] + s.offset[j], share = along(s.z, s.u[j], n);
        for (int64_t i = 0; i < n; i++) {
            double residual = (s.pole[i] - root) * s.u[j][i] + rho * s.z[i] * share;
            assert_near(k, "secular roots", residual, 0.0, terms);
            assert_near(k, "secular vectors", along(s.u[i], s.u[j], n), i == j, n);
        }
    }
}

static void secular_equation(void **state) {
    (void)state;
    static const double gaps[] = {1.0, 1e-3, 1e-8}, rhos[] = {1e-6, 1.0, 50.0};
    for (int t = 0; t < table_count; t++)
        for (int64_t n = 1; n <= 48; n++)
            for (int v = 0; v < 9; v++)
                check_secular(tables[t], n, gaps[v % 3], rhos[v / 3]);
}

int main(void) {
    list_tables();
    for (int t = 0; t < table_count; t++)
        printf("kernels: %s\n", tables[t]->name);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing),          cmocka_unit_test(products),
        cmocka_unit_test(unpacked_gram),    cmocka_unit_test(unpacked_product),
        cmocka_unit_test(rows_in_and_out),  cmocka_unit_test(vectors),
        cmocka_unit_test(reduction),        cmocka_unit_test(small_tridiagonals),
        cmocka_unit_test(secular_equation),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
