/*
 * tests/support/rank_threads.h - runs a function on ranks that are threads of the test.
 *
 * Assertions belong behind the call: cmocka knows one thread only.
 */
#ifndef OLE_TESTS_RANK_THREADS_H
#define OLE_TESTS_RANK_THREADS_H

#include "test.h"
#include "thread_ranks.h"

#include <pthread.h>

enum { MOST_RANKS = 4 };

/* What one rank does; its status and error are looked at afterwards. */
typedef ole_status rank_function(void *context, ole_ranks *ranks, ole_error *error);

typedef struct rank_thread {
    rank_function *function;
    void *context;
    ole_ranks *ranks;
    ole_status status;
    ole_error error;
} rank_thread;

static void *run_rank(void *argument) {
    rank_thread *t = argument;
    t->status = t->function(t->context, t->ranks, &t->error);
    ole_ranks_close(t->ranks);
    return NULL;
}

/* Runs it on `size` ranks; what became of them is in `threads`. */
static inline void run_ranks(int size, rank_function *function, void *context,
                             rank_thread threads[MOST_RANKS]) {
    ole_ranks *groups[MOST_RANKS];
    pthread_t started[MOST_RANKS];
    ole_error error;
    assert_ok(thread_ranks(groups, size, &error), &error);
    for (int r = 0; r < size; r++)
        threads[r] = (rank_thread){.function = function, .context = context, .ranks = groups[r]};
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&started[r], NULL, run_rank, &threads[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(started[r], NULL);
}

#endif
