/*
 * tests/unit/loss/test_loss_ranks_calls.c - the loss over ranks as it is called: options and
 * gradients of every kind, errors that are the same everywhere, the same bits again, no allocation,
 * the choice of a route; and what the loss of each rank's rows alone would lose.
 */
#include "loss/ranks/ranks_parts.h"
#include "ranks/ranks.h"
#include "ranks_loss_run.h"
#include "test.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the allocator -------------------------------------------------------------------------- */

static _Atomic int64_t allocations;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(OLE_SANITIZED) &&  \
    defined(__GLIBC__)
enum { COUNTS = 1 };

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_memalign(size_t line, size_t bytes);

void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t items, size_t bytes) {
    allocations++;
    return __libc_calloc(items, bytes);
}

void *aligned_alloc(size_t line, size_t bytes) {
    allocations++;
    return __libc_memalign(line, bytes);
}
#else
enum { COUNTS = 0 };
#endif

static int64_t seen[2];
static int looked;

static void note_allocations(void) {
    seen[looked++] = allocations;
}

/* Between the end of the first evaluation and that of the last. */
static void no_allocation(void **state) {
    (void)state;
    for (int route = OLE_RANKS_LOSS_AUTO; route <= OLE_RANKS_LOSS_GRAM; route++) {
        fixture f = fixture_make(60, 14, 2, CASE_NEARLY_LOW, OLE_F32, 5);
        ranks_loss_run run = ranks_loss_make(&f, 3, (ole_ranks_loss_route)route);
        run.calls = ACROSS_CALLS;
        run.between = note_allocations;
        looked = 0;
        ranks_loss_evaluate(&run);
        assert_int_equal(looked, 2);
        assert_ok(run.rank[0].status, &run.rank[0].error);
        assert_int_equal(seen[0], seen[1]);
        assert_true(!COUNTS || seen[0] > 0);
        ranks_loss_free(&run);
        fixture_free(&f);
    }
}

/* ---- the same bits -------------------------------------------------------------------------- */

static bool same_bits(const ranks_loss_run *a, const ranks_loss_run *b) {
    return memcmp(&a->rank[0].result.value, &b->rank[0].result.value, sizeof(double)) == 0 &&
           memcmp(a->gradient, b->gradient, (size_t)a->f->count * sizeof(float)) == 0;
}

/* Again, by more threads, and by a plan that has seen the batch before. */
static void same_bits_again(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{60, 90, 7}, {300, 40, 3}, {700, 150, 2}, {200, 170, 150}};
    for (int s = 0; s < 4 * 3; s++) {
        const int64_t *shape = shapes[s / 3];
        fixture f = fixture_make(shape[0], shape[1], shape[2], CASE_RELU, OLE_F32, (uint64_t)s);
        ole_ranks_loss_route route = (ole_ranks_loss_route)(OLE_RANKS_LOSS_EVERYWHERE + s % 3);
        ranks_loss_run first = ranks_loss_make(&f, 3, route), again = ranks_loss_make(&f, 3, route);
        again.calls = 2;
        for (int r = 0; r < 3; r++)
            again.rank[r].options.threads = 1 + r;
        ranks_loss_evaluate(&first);
        ranks_loss_evaluate(&again);
        assert_ok(again.rank[0].status, &again.rank[0].error);
        if (!same_bits(&first, &again))
            fail_msg("%d x %d, %s: other bits", (int)f.rows, (int)f.dim,
                     ranks_loss_route_name(route));
        ranks_loss_free(&first);
        ranks_loss_free(&again);
        fixture_free(&f);
    }
}

/* ---- gradients ------------------------------------------------------------------------------ */

static void assert_near(const ranks_loss_run *run, const double *want, double bound) {
    double square = 0.0;
    for (int64_t i = 0; i < run->f->count; i++) {
        double d = (double)run->gradient[i] - want[i];
        square += d * d;
    }
    if (!(sqrt(square) <= bound)) fail_msg("gradients differ by %g", sqrt(square));
}

/* Weight, reduction and upstream as in one place. */
static void factors(void **state) {
    (void)state;
    for (int s = 0; s < 8; s++) {
        fixture f = fixture_make(40, 9, 3, CASE_RELU, OLE_F32, 70);
        f.options.weight = s & 1 ? -2.5 : 0.25;
        f.options.reduction = s & 2 ? OLE_REDUCTION_SUM : OLE_REDUCTION_MEAN;
        f.upstream = 3.0;
        fixture_evaluate(&f);
        ranks_loss_run run =
            ranks_loss_make(&f, 3, s & 4 ? OLE_RANKS_LOSS_GRAM : OLE_RANKS_LOSS_SPLIT);
        ranks_loss_evaluate(&run);
        assert_ok(run.rank[2].status, &run.rank[2].error);
        assert_true(fabs(run.rank[2].result.value - f.result.value) <=
                    1e-10 * fabs(f.result.value));
        assert_near(&run, f.gradient, 1e-6 * fabs(fixture_factor(&f) * f.upstream) * sqrt(40.0));
        ranks_loss_free(&run);
        fixture_free(&f);
    }
}

/* Rows with gaps, int32 labels, and a gradient that is added to what stands there. */
static void strides_and_adding(void **state) {
    (void)state;
    enum { ROWS = 30, DIM = 7, STRIDE = 11 };
    fixture f = fixture_make(ROWS, DIM, 3, CASE_NORMAL, OLE_F32, 80);
    f.labels[4] = -1;
    fixture_evaluate(&f);
    float wide[ROWS * STRIDE], into[ROWS * STRIDE];
    int32_t labels[ROWS];
    for (int i = 0; i < ROWS * STRIDE; i++) {
        bool inside = i % STRIDE < DIM;
        wide[i] = inside ? ((float *)f.features)[i / STRIDE * DIM + i % STRIDE] : NAN;
        into[i] = 2.0f;
    }
    for (int i = 0; i < ROWS; i++)
        labels[i] = (int32_t)f.labels[i];
    for (int route = OLE_RANKS_LOSS_EVERYWHERE; route <= OLE_RANKS_LOSS_GRAM; route++) {
        ranks_loss_run run = ranks_loss_make(&f, 2, (ole_ranks_loss_route)route);
        for (int r = 0; r < 2; r++) {
            int64_t first = r * ROWS / 2;
            run.rank[r].batch =
                (ole_loss_batch){ROWS / 2, wide + first * STRIDE, STRIDE, labels + first, OLE_I32};
            run.rank[r].gradient =
                (ole_loss_gradient){into + first * STRIDE, STRIDE, f.upstream, true};
        }
        for (int i = 0; i < ROWS * STRIDE; i++)
            into[i] = 2.0f;
        ranks_loss_evaluate(&run);
        assert_ok(run.rank[0].status, &run.rank[0].error);
        for (int i = 0; i < ROWS * STRIDE; i++) {
            bool inside = i % STRIDE < DIM;
            double want = inside ? f.gradient[i / STRIDE * DIM + i % STRIDE] : 0.0;
            assert_true(fabs((double)into[i] - 2.0 - want) <= (inside ? 1e-6 : 0.0));
        }
        ranks_loss_free(&run);
    }
    fixture_free(&f);
}

/* The value has the same bits without a gradient; per_class may be left out. */
static void value_alone(void **state) {
    (void)state;
    for (int route = OLE_RANKS_LOSS_EVERYWHERE; route <= OLE_RANKS_LOSS_GRAM; route++) {
        fixture f = fixture_make(50, 12, 3, CASE_NEARLY_LOW, OLE_F32, 90);
        ranks_loss_run with = ranks_loss_make(&f, 4, (ole_ranks_loss_route)route);
        ranks_loss_run alone = ranks_loss_make(&f, 4, (ole_ranks_loss_route)route);
        for (int r = 0; r < 4; r++) {
            alone.rank[r].no_gradient = true;
            alone.rank[r].capacity = -1;
        }
        ranks_loss_evaluate(&with);
        ranks_loss_evaluate(&alone);
        assert_ok(alone.rank[3].status, &alone.rank[3].error);
        assert_true(with.rank[3].result.value == alone.rank[3].result.value);
        assert_true(with.rank[3].result.global_norm == alone.rank[3].result.global_norm);
        ranks_loss_free(&with);
        ranks_loss_free(&alone);
        fixture_free(&f);
    }
}

/* ---- errors --------------------------------------------------------------------------------- */

static void assert_all_fail(ranks_loss_run *run, ole_status status, const char *part) {
    ranks_loss_evaluate(run);
    for (int r = 0; r < run->size; r++) {
        assert_int_equal(run->rank[r].status, status);
        if (!strstr(run->rank[r].error.message, part))
            fail_msg("rank %d: '%s' does not hold '%s'", r, run->rank[r].error.message, part);
        assert_string_equal(run->rank[r].error.message, run->rank[0].error.message);
    }
    ranks_loss_free(run);
}

/* The row is counted over all ranks; the first one is named; an ignored one does not matter. */
static void not_a_number(void **state) {
    (void)state;
    for (int route = OLE_RANKS_LOSS_AUTO; route <= OLE_RANKS_LOSS_GRAM; route++) {
        fixture f = fixture_make(30, 6, 3, CASE_NORMAL, OLE_F32, 100);
        f.x[29 * 6] = INFINITY;
        f.x[17 * 6 + 5] = NAN;
        f.x[3 * 6] = NAN;
        f.labels[3] = -1;
        ranks_loss_run run = ranks_loss_make(&f, 4, (ole_ranks_loss_route)route);
        assert_all_fail(&run, OLE_ERROR_DATA, "row 17 holds NaN or Inf");
        fixture_free(&f);
    }
}

static void wrong_calls(void **state) {
    (void)state;
    fixture f = fixture_make(30, 6, 3, CASE_NORMAL, OLE_F32, 110);
    ranks_loss_run run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    run.rank[1].batch.stride = 2;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "): batch.stride is 2");
    run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    run.rank[2].batch.features = NULL;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "batch.features is NULL");
    run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    run.rank[2].capacity = 2;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "per_class_capacity is 2, but 3 classes");
    run = ranks_loss_make(&f, 2, OLE_RANKS_LOSS_AUTO);
    run.rank[1].gradient.upstream = NAN;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "gradient.upstream");
    run = ranks_loss_make(&f, 2, OLE_RANKS_LOSS_AUTO);
    run.rank[1].gradient.upstream = 1e300;
    assert_all_fail(&run, OLE_ERROR_NUMERIC, "the gradient overflows");
    for (int64_t i = 0; i < 30; i++)
        f.labels[i] = -1;
    run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "all 30 rows are ignored");
    fixture_free(&f);
}

static void wrong_plans(void **state) {
    (void)state;
    fixture f = fixture_make(30, 6, 3, CASE_NORMAL, OLE_F32, 120);
    ranks_loss_run run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    run.rank[2].options.weight = NAN;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "options.weight");
    run = ranks_loss_make(&f, 3, OLE_RANKS_LOSS_AUTO);
    run.rank[1].options.device = OLE_DEVICE_CUDA;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "host memory");
    run = ranks_loss_make(&f, 2, OLE_RANKS_LOSS_AUTO);
    for (int r = 0; r < 2; r++)
        run.rank[r].batch.rows = 0;
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "max_rows of all ranks together is 0");
    run = ranks_loss_make(&f, 2, (ole_ranks_loss_route)9);
    assert_all_fail(&run, OLE_ERROR_ARGUMENT, "route is 9");
    fixture_free(&f);
}

/* ---- the choice ----------------------------------------------------------------------------- */

/* The route of a batch of equal classes by ranks of four threads that have memory for all. */
static ole_ranks_loss_route chosen(int64_t rows, int64_t dim, int64_t classes, int ranks) {
    ole_ranks group = {.size = ranks};
    int64_t *start = calloc((size_t)classes + 1, sizeof *start);
    for (int64_t c = 0; c <= classes; c++)
        start[c] = rows * c / classes;
    ole_ranks_loss loss = {.ranks = &group,
                           .dim = dim,
                           .threads = 4,
                           .max_everywhere = rows,
                           .max_split = rows,
                           .max_gram = rows,
                           .groups = {.rows = rows, .classes = classes, .start = start},
                           .spectra = {.most = ranks < 8 ? ranks : 8}};
    ole_ranks_loss_route route = ole_ranks_loss_choose(&loss);
    free(start);
    return route;
}

/* The examples of docs/maths.md. */
static void choice(void **state) {
    (void)state;
    assert_int_equal(chosen(128, 64, 10, 4), OLE_RANKS_LOSS_EVERYWHERE);
    assert_int_equal(chosen(512, 512, 10, 8), OLE_RANKS_LOSS_EVERYWHERE);
    assert_int_equal(chosen(2048, 2048, 2, 8), OLE_RANKS_LOSS_SPLIT);
    assert_int_equal(chosen(1024, 512, 10, 8), OLE_RANKS_LOSS_GRAM);
    assert_int_equal(chosen(65536, 512, 10, 1024), OLE_RANKS_LOSS_GRAM);
    assert_int_equal(chosen(65536, 2048, 1000, 1024), OLE_RANKS_LOSS_GRAM);
}

/* A plan takes the routes it has memory for, and a rank alone needs none of the others. */
static void taken(void **state) {
    (void)state;
    static const struct {
        int64_t rows, dim;
        int size;
        ole_ranks_loss_route route, taken;
    } cases[] = {
        {40, 10, 1, OLE_RANKS_LOSS_AUTO, OLE_RANKS_LOSS_EVERYWHERE},
        {40, 10, 3, OLE_RANKS_LOSS_AUTO, OLE_RANKS_LOSS_EVERYWHERE},
        {20000, 32, 4, OLE_RANKS_LOSS_AUTO, OLE_RANKS_LOSS_GRAM},
        {40, 10, 3, OLE_RANKS_LOSS_EVERYWHERE, OLE_RANKS_LOSS_EVERYWHERE},
        {40, 10, 3, OLE_RANKS_LOSS_SPLIT, OLE_RANKS_LOSS_SPLIT},
        {40, 10, 3, OLE_RANKS_LOSS_GRAM, OLE_RANKS_LOSS_GRAM},
        {10, 10, 3, OLE_RANKS_LOSS_GRAM,
         OLE_RANKS_LOSS_SPLIT}, /* nothing has more rows than columns */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = fixture_make(cases[i].rows, cases[i].dim, 2, CASE_RELU, OLE_F32, 130);
        ranks_loss_run run = ranks_loss_make(&f, cases[i].size, cases[i].route);
        ranks_loss_evaluate(&run);
        for (int r = 0; r < run.size; r++) {
            assert_ok(run.rank[r].status, &run.rank[r].error);
            assert_int_equal(run.rank[r].taken, cases[i].taken);
            assert_true(run.rank[r].bytes > 0);
        }
        ranks_loss_free(&run);
        fixture_free(&f);
    }
}

/* ---- each rank's rows alone ----------------------------------------------------------------- */

/* Cosine of the gradient of the mean of the ranks' own losses to that of the loss of all rows. */
static double cosine_of_local(int64_t rows, int64_t dim, int64_t classes, int ranks) {
    fixture whole = fixture_make(rows, dim, classes, CASE_RELU, OLE_F32, 140);
    fixture_evaluate(&whole);
    double *local = calloc((size_t)whole.count, sizeof *local);
    int64_t here = rows / ranks;
    for (int r = 0; r < ranks; r++) {
        fixture part = fixture_make(here, dim, classes, CASE_ZERO, OLE_F32, 1);
        memcpy(part.x, whole.x + r * here * dim, (size_t)part.count * sizeof *part.x);
        memcpy(part.labels, whole.labels + r * here, (size_t)here * sizeof *part.labels);
        fixture_evaluate(&part);
        memcpy(local + r * here * dim, part.gradient, (size_t)part.count * sizeof *local);
        fixture_free(&part);
    }
    double cosine =
        inner(local, whole.gradient, whole.count) /
        sqrt(inner(local, local, whole.count) * inner(whole.gradient, whole.gradient, whole.count));
    free(local);
    fixture_free(&whole);
    return cosine;
}

/* The numbers of docs/maths.md: the loss of each rank's rows alone points elsewhere. */
static void local_loses(void **state) {
    (void)state;
    double last = 1.0;
    for (int ranks = 1; ranks <= 16; ranks *= 2) {
        double cosine = cosine_of_local(256, 64, 10, ranks);
        printf("256 x 64, 10 classes, %2d ranks: cosine %.3f\n", ranks, cosine);
        assert_true(ranks == 1 ? fabs(cosine - 1.0) <= 1e-6 : cosine < last);
        last = cosine;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation), cmocka_unit_test(same_bits_again),
        cmocka_unit_test(factors),       cmocka_unit_test(strides_and_adding),
        cmocka_unit_test(value_alone),   cmocka_unit_test(not_a_number),
        cmocka_unit_test(wrong_calls),   cmocka_unit_test(wrong_plans),
        cmocka_unit_test(choice),        cmocka_unit_test(taken),
        cmocka_unit_test(local_loses),
    };
    return cmocka_run_group_tests_name("loss_ranks_calls", tests, NULL, NULL);
}
