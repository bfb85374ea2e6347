/*
 * tests/unit/loss/test_loss_threads.c - the same bits whatever the number of threads, run after
 * run, two plans at once as if each were alone, and one plan in two threads at once refused.
 */
#include "fixture.h"
#include "held_memory.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* rows, dim, classes: every route and both sides of every size that decides how threads are used.
 */
static const int64_t shapes[][3] = {
    {300, 520, 3},   /* N < D, classes of 100 */
    {300, 520, 2},   /* N < D, classes of 150: solved by all threads together */
    {700, 300, 3},   /* N > D */
    {700, 300, 2},   /* N > D, classes with more rows than columns */
    {260, 600, 260}, /* one sample per class */
    {400, 90, 400},  /* the same with N > D */
    {320, 320, 1},   /* one class */
    {200, 700, 3},   /* classes of more than 64 rows */
    {1000, 40, 5},   /* few columns */
    {128, 512, 10},  /* so small that threads may not pay: both ways are timed */
    {20, 30, 4},     /* too small for threads */
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static fixture make(int shape, ole_dtype dtype, case_structure structure) {
    const int64_t *s = shapes[shape];
    fixture f = fixture_make(s[0], s[1], s[2], structure, dtype, (uint64_t)shape);
    if (s[0] > 30) f.labels[7] = -1;
    return f;
}

/* Value, terms, per-class results and gradient of both, bit for bit. */
static bool same_bits(const fixture *a, const fixture *b) {
    return memcmp(&a->result.value, &b->result.value, sizeof(double)) == 0 &&
           memcmp(&a->result.class_term, &b->result.class_term, sizeof(double)) == 0 &&
           memcmp(&a->result.global_norm, &b->result.global_norm, sizeof(double)) == 0 &&
           memcmp(a->class, b->class, (size_t)a->rows * sizeof *a->class) == 0 &&
           memcmp(a->raw, b->raw, (size_t)a->count * ole_dtype_size(a->dtype)) == 0;
}

static void check_shape(int shape, ole_dtype dtype, case_structure structure) {
    static const int threads[] = {1, 2, 3, 4, 7};
    fixture first = make(shape, dtype, structure);
    fixture_evaluate(&first);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        fixture f = make(shape, dtype, structure);
        f.options.threads = threads[t];
        ole_loss_plan *plan = fixture_plan(&f, f.rows);
        for (int run = 0; run < 3; run++) { /* with all threads, then with one */
            fixture_evaluate_with(&f, plan);
            if (!same_bits(&first, &f))
                fail_msg("%d x %d %s, %s: other bits with %d threads, run %d", (int)f.rows,
                         (int)f.dim, case_name(structure), ole_dtype_name(dtype), threads[t], run);
        }
        ole_loss_plan_destroy(plan);
        fixture_free(&f);
    }
    fixture_free(&first);
}

static void thread_counts_f32(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s++) {
        check_shape(s, OLE_F32, CASE_RELU);
        if (s % 3 == 0) check_shape(s, OLE_F32, CASE_NEARLY_LOW);
    }
}

static void thread_counts_f64(void **state) {
    (void)state;
    for (int s = 0; s < SHAPES; s += 2)
        check_shape(s, OLE_F64, CASE_RELU);
}

/* ---- two plans at the same time ------------------------------------------------------------- */

typedef struct user {
    fixture *alone;   /* evaluated before */
    fixture *at_once; /* evaluated by this user, again and again */
    ole_loss_plan *plan;
    bool same;
} user;

static void *use(void *argument) {
    user *u = argument;
    u->same = true;
    for (int run = 0; run < 6; run++) {
        fixture_evaluate_with(u->at_once, u->plan);
        u->same = u->same && same_bits(u->alone, u->at_once);
    }
    return NULL;
}

static void two_plans(void **state) {
    (void)state;
    for (int pair = 0; pair < 3; pair++) {
        fixture alone[2], at_once[2];
        user users[2];
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            ole_dtype dtype = pair == i ? OLE_F64 : OLE_F32;
            alone[i] = make(2 * pair + i, dtype, CASE_RELU);
            at_once[i] = make(2 * pair + i, dtype, CASE_RELU);
            fixture_evaluate(&alone[i]);
            at_once[i].options.threads = 1 + i;
            ole_loss_plan *plan = fixture_plan(&at_once[i], at_once[i].rows);
            users[i] = (user){&alone[i], &at_once[i], plan, false};
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            assert_true(users[i].same);
            ole_loss_plan_destroy(users[i].plan);
            fixture_free(&alone[i]);
            fixture_free(&at_once[i]);
        }
    }
}

/* ---- one plan in two threads ----------------------------------------------------------------- */

typedef struct caller {
    ole_loss_plan *plan;
    fixture *f;
    void *gradient;
    ole_status status;
    ole_loss_result result;
} caller;

static void *evaluate_into(void *argument) {
    caller *c = argument;
    ole_loss_batch batch = fixture_batch(c->f);
    ole_loss_gradient gradient = {.data = c->gradient, .upstream = 1.0};
    c->status = ole_loss_eval(c->plan, &batch, &gradient, &c->result, NULL);
    return NULL;
}

/* The first call stands still where it writes the gradient, and is as it should be afterwards. */
static void one_plan(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f = make(4, i == 0 ? OLE_F32 : OLE_F64, CASE_RELU);
        fixture alone = make(4, f.dtype, CASE_RELU);
        f.options.threads = 1 + i;
        fixture_evaluate(&alone);
        fixture_load(&f);
        ole_loss_plan *plan = fixture_plan(&f, f.rows);
        size_t bytes = (size_t)f.count * ole_dtype_size(f.dtype);
        caller first = {.plan = plan, .f = &f, .gradient = held_make(bytes)};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, evaluate_into, &first), 0);
        held_wait();
        ole_loss_batch batch = fixture_batch(&f);
        ole_loss_result result = {.value = 7};
        ole_error error = {0};
        ole_status status = ole_loss_eval(plan, &batch, NULL, &result, &error);
        held_let_go();
        pthread_join(thread, NULL);
        assert_int_equal(status, OLE_ERROR_ARGUMENT);
        assert_string_equal(error.message,
                            "the plan is in use by another thread; make one plan per thread");
        assert_true(result.value == 7);
        assert_int_equal(first.status, OLE_OK);
        assert_memory_equal(&first.result.value, &alone.result.value, sizeof(double));
        assert_memory_equal(first.gradient, alone.raw, bytes);
        assert_ok(ole_loss_eval(plan, &batch, NULL, &result, &error), &error);
        assert_true(result.value == alone.result.value);
        held_free();
        ole_loss_plan_destroy(plan);
        fixture_free(&f);
        fixture_free(&alone);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_counts_f32),
        cmocka_unit_test(thread_counts_f64),
        cmocka_unit_test(two_plans),
        cmocka_unit_test(one_plan),
    };
    return cmocka_run_group_tests_name("loss_threads", tests, NULL, NULL);
}
