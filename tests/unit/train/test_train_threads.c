/*
 * tests/unit/train/test_train_threads.c - training in several threads: the pool, the loader, the
 * network's and the loss's plans; two runs at once. Small, as ThreadSanitizer runs it too.
 */
#include "run_files.h"
#include "temporary.h"
#include "test.h"

#include <pthread.h>

enum { THREADS = 3 };

typedef struct runner {
    char out[600];
    int threads;
    ole_status status;
    ole_error error;
} runner;

static runner make(const char *name, int threads) {
    runner r = {.threads = threads};
    snprintf(r.out, sizeof r.out, "%s", temporary_path(name));
    return r;
}

static void *train(void *argument) {
    runner *r = argument;
    ole_train_options o = small_run("C4-MP-FC12", "cpu");
    o.out = r->out;
    o.threads = r->threads;
    r->status = ole_train(&o, NULL, &r->error);
    return NULL;
}

/* The same bits run after run, also beside another run. */
static void test_threads(void **state) {
    (void)state;
    runner alone = make("alone", THREADS), one = make("one", THREADS), other = make("other", 1);
    train(&alone);
    assert_ok(alone.status, &alone.error);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, train, &one), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, train, &other), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_ok(one.status, &one.error);
    assert_ok(other.status, &other.error);
    assert_same_runs(alone.out, one.out);
    run_remove(alone.out);
    run_remove(one.out);
    run_remove(other.out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, temporary_make, temporary_remove);
}
