/*
 * tests/unit/linalg/test_panels.c - threaded products of packed operands: float32 and float64,
 * lying any way in memory, the same bits with and without threads.
 */
#include "base/arena.h"
#include "cases.h"
#include "linalg/panels.h"
#include "test.h"

#include <float.h>
#include <string.h>

static double *room(int64_t count) {
    double *p = ole_arena_allocate(((size_t)count * sizeof *p + 127) / 64 * 64);
    if (!p) abort();
    return p;
}

/* A random matrix in memory of its own: as doubles for the check, and as the operand reads it. */
typedef struct matrix {
    int64_t rows, cols, stride;
    double *wide;
    float *narrow;
    ole_operand operand; /* items are the rows, or the columns where transposed */
} matrix;

static matrix make(int64_t items, int64_t depth, ole_dtype dtype, bool transposed, uint64_t seed) {
    matrix m = {.rows = transposed ? depth : items, .cols = transposed ? items : depth};
    m.stride = m.cols + 3;
    int64_t count = m.rows * m.stride + 1;
    test_random random = {seed};
    m.wide = room(count);
    m.narrow = malloc((size_t)count * sizeof *m.narrow);
    for (int64_t i = 0; i < count; i++)
        m.wide[i] = random_normal(&random);
    if (dtype == OLE_F32) case_round(m.narrow, m.wide, count);
    const void *data = dtype == OLE_F32 ? (void *)m.narrow : (void *)m.wide;
    m.operand = (ole_operand){data, dtype, m.rows, m.cols, m.stride, 1, false};
    if (transposed) m.operand = ole_operand_transposed(m.operand);
    return m;
}

static double at(const matrix *m, int64_t item, int64_t p) {
    return m->wide[item * m->operand.item_stride + p * m->operand.depth_stride];
}

static void end(matrix *m) {
    free(m->wide);
    free(m->narrow);
}

/* c[a.items, ldc] (+)= alpha A B through panels. */
static void multiply(ole_pool *pool, const matrix *a, const matrix *b, double *c, int64_t ldc,
                     ole_store store, bool lower) {
    double *pa = room(ole_panels_size(a->operand.items, a->operand.depth));
    double *pb = room(ole_panels_size(b->operand.items, b->operand.depth));
    ole_panels left = ole_panels_pack(pool, pa, &a->operand);
    ole_panels right = ole_panels_pack(pool, pb, &b->operand);
    ole_product product = {.alpha = 0.5, .c = c, .ldc = ldc, .store = store, .lower = lower};
    ole_panels_multiply(pool, &left, &right, &product);
    free(pa);
    free(pb);
}

static void check_against_loops(const matrix *a, const matrix *b, const double *c, int64_t ldc,
                                double start, bool lower) {
    int64_t depth = a->operand.depth;
    for (int64_t i = 0; i < a->operand.items; i++)
        for (int64_t j = 0; j < (lower ? i + 1 : b->operand.items); j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < depth; p++)
                sum += at(a, i, p) * at(b, j, p);
            double error = fabs(c[i * ldc + j] - (start + 0.5 * sum));
            if (!(error <= 64.0 * DBL_EPSILON * (double)(depth + 4)))
                fail_msg("%d x %d x %d: element %d, %d is off by %g", (int)a->operand.items,
                         (int)b->operand.items, (int)depth, (int)i, (int)j, error);
        }
}

/* One shape, types and layouts by the bits of `kind`. */
static void check_shape(ole_pool *pool, int64_t m, int64_t n, int64_t depth, unsigned kind) {
    bool lower = m == n && kind & 16;
    matrix a = make(m, depth, kind & 1 ? OLE_F32 : OLE_F64, kind & 2, 1);
    matrix b = make(n, depth, kind & 4 ? OLE_F32 : OLE_F64, kind & 8, 2);
    ole_store store = kind & 1 ? OLE_STORE_ADD : OLE_STORE_SET;
    int64_t ldc = n + 4, count = m * ldc;
    double *c = room(count), *threaded = room(count);
    for (int64_t i = 0; i < count; i++)
        c[i] = threaded[i] = 3.0;
    multiply(NULL, &a, &b, c, ldc, store, lower);
    multiply(pool, &a, &b, threaded, ldc, store, lower);
    check_against_loops(&a, &b, c, ldc, store == OLE_STORE_ADD ? 3.0 : 0.0, lower);
    assert_memory_equal(c, threaded, (size_t)count * sizeof *c);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = n; j < ldc; j++)
            assert_true(c[i * ldc + j] == 3.0);
    free(c);
    free(threaded);
    end(&a);
    end(&b);
}

static void products(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},     {1, 9, 3},     {9, 1, 0},    {17, 17, 5},
                                        {33, 70, 12},  {97, 97, 97},  {96, 96, 40}, {100, 203, 64},
                                        {203, 100, 7}, {150, 150, 90}};
    ole_pool *pool;
    ole_error error;
    assert_ok(ole_pool_create(&pool, 3, &error), &error);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned kind = 0; kind < 32; kind++)
            check_shape(pool, shapes[s][0], shapes[s][1], shapes[s][2], kind);
    ole_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products)};
    return cmocka_run_group_tests_name("panels", tests, NULL, NULL);
}
