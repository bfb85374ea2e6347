/*
 * tests/unit/base/test_pool.c - the thread pool: every task runs exactly once, loop after loop;
 * fork() and signals of the program around it.
 */
#include "base/pool.h"
#include "test.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1000, THREADS = 7 };

typedef struct tally {
    atomic_int runs[MOST];
    atomic_bool bad_worker;
    int threads;
} tally;

static void count(void *context, int64_t task, int worker) {
    tally *t = context;
    atomic_fetch_add(&t->runs[task], 1);
    if (worker < 0 || worker >= t->threads) atomic_store(&t->bad_worker, true);
}

static void run_and_check(ole_pool *pool, int threads, int64_t tasks) {
    static tally t;
    memset(&t, 0, sizeof t);
    t.threads = threads;
    ole_pool_run(pool, tasks, count, &t);
    assert_false(t.bad_worker);
    for (int64_t i = 0; i < MOST; i++)
        assert_int_equal(t.runs[i], i < tasks);
}

static ole_pool *make(int threads) {
    ole_pool *pool;
    ole_error error;
    assert_ok(ole_pool_create(&pool, threads, &error), &error);
    return pool;
}

static void each_task_once(void **state) {
    (void)state;
    static const int64_t tasks[] = {0, 1, 2, 3, 8, 100, MOST};
    for (int threads = 1; threads <= THREADS; threads++) {
        ole_pool *pool = make(threads);
        assert_true((pool == NULL) == (threads == 1));
        for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
            run_and_check(pool, threads, tasks[i]);
        ole_pool_destroy(pool);
    }
}

/* Loops in quick succession, and what one loop writes is there for the next. */
typedef struct chain {
    long value[64];
} chain;

static void add_neighbour(void *context, int64_t task, int worker) {
    (void)worker;
    chain *c = context;
    c->value[task] += 1 + task;
}

static void many_loops(void **state) {
    (void)state;
    enum { LOOPS = 3000 };
    ole_pool *pool = make(4);
    chain c = {{0}};
    for (int loop = 0; loop < LOOPS; loop++)
        ole_pool_run(pool, 2 + loop % 63, add_neighbour, &c);
    long expected[64] = {0};
    for (int loop = 0; loop < LOOPS; loop++)
        for (int task = 0; task < 2 + loop % 63; task++)
            expected[task] += 1 + task;
    assert_memory_equal(expected, c.value, sizeof expected);
    ole_pool_destroy(pool);
}

/* Pools made and ended at once, without any work. */
static void idle_pools(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        ole_pool_destroy(make(1 + i % THREADS));
    ole_pool_destroy(NULL);
}

/* A child of fork() has no workers, and neither waits for them nor joins them. */
static void over_a_fork(void **state) {
    (void)state;
    ole_pool *pool = make(4);
    run_and_check(pool, 4, 100);
    pid_t child = fork();
    if (child == 0) {
        alarm(20); /* should it wait */
        chain c = {{0}};
        ole_pool_run(pool, 64, add_neighbour, &c);
        ole_pool_destroy(pool);
        _exit(c.value[63] == 64 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    run_and_check(pool, 4, 100);
    ole_pool_destroy(pool);
}

/* A signal that the program's thread does not take now waits for it, and goes to no worker. */
static void signals_are_the_programs(void **state) {
    (void)state;
    ole_pool *pool = make(4);
    sigset_t one, before, waiting;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    assert_int_equal(kill(getpid(), SIGUSR1), 0); /* which would end the process */
    run_and_check(pool, 4, 100);
    sigpending(&waiting);
    assert_true(sigismember(&waiting, SIGUSR1));
    int got;
    assert_int_equal(sigwait(&one, &got), 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    ole_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_once),
        cmocka_unit_test(many_loops),
        cmocka_unit_test(idle_pools),
        cmocka_unit_test(over_a_fork),
        cmocka_unit_test(signals_are_the_programs),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
