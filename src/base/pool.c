/*
 * src/base/pool.c - a pool of threads that sleep until a loop is handed to them.
 *
 * Tasks are taken from a shared counter, so a slow task does not hold up the rest.  Between loops a
 * worker watches for the next one for some microseconds before it goes to sleep: the loops of one
 * evaluation follow each other closely, and waking a sleeper costs more than a short loop.
 *
 * A child of fork() has no workers, so there the calling thread does all the tasks.
 */
#include "base/pool.h"

#include "base/error.h"
#include "base/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { WATCH = 2000 }; /* looks at the next loop's number before sleeping, about 20 µs */

typedef struct worker {
    ole_pool *pool;
    pthread_t thread;
    int index;
} worker;

struct ole_pool {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_cond_t done;
    atomic_uint loop; /* number of the current loop */
    atomic_llong next;
    int64_t count;
    ole_task *task;
    void *context;
    int busy; /* workers that have not finished the current loop; under the mutex */
    bool stop;
    pid_t process; /* that the workers are threads of */
    int workers;
    worker worker[];
};

static void take_tasks(ole_pool *pool, int index) {
    int64_t task;
    while ((task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->count)
        pool->task(pool->context, task, index);
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Waits for a loop other than `seen`; its number, or `seen` when the pool stops. */
static unsigned await_loop(ole_pool *pool, unsigned seen) {
    for (int i = 0; i < WATCH; i++) {
        if (atomic_load_explicit(&pool->loop, memory_order_acquire) != seen) break;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    while (atomic_load_explicit(&pool->loop, memory_order_relaxed) == seen && !pool->stop)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    unsigned now = atomic_load_explicit(&pool->loop, memory_order_relaxed);
    pthread_mutex_unlock(&pool->mutex);
    return now;
}

static void *work(void *argument) {
    worker *self = argument;
    ole_pool *pool = self->pool;
    for (unsigned seen = 0, now; (now = await_loop(pool, seen)) != seen; seen = now) {
        take_tasks(pool, self->index);
        pthread_mutex_lock(&pool->mutex);
        if (--pool->busy == 0) pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
    return NULL;
}

ole_status ole_pool_create(ole_pool **result, int threads, ole_error *error) {
    *result = NULL;
    ole_status status = ole_cpu_describe(NULL, error);
    if (status != OLE_OK || threads <= 1) return status;
    ole_pool *pool = calloc(1, sizeof *pool + sizeof(worker) * (size_t)(threads - 1));
    if (!pool) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %d threads", threads);
    pool->process = getpid();
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->done, NULL);
    for (int i = 0; i < threads - 1; i++) {
        worker *w = &pool->worker[i];
        *w = (worker){.pool = pool, .index = i + 1};
        if (ole_thread_start(&w->thread, work, w) != 0) {
            ole_pool_destroy(pool);
            return ole_fail(error, OLE_ERROR_MEMORY,
                            "the system refused thread %d of %d; use fewer threads", i + 2,
                            threads);
        }
        pool->workers++;
    }
    *result = pool;
    return OLE_OK;
}

void ole_pool_destroy(ole_pool *pool) {
    if (!pool) return;
    if (pool->process != getpid()) {
        free(pool); /* the parent's workers may hold the mutex for ever */
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->workers; i++)
        pthread_join(pool->worker[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

void ole_pool_run(ole_pool *pool, int64_t count, ole_task *task, void *context) {
    if (!pool || count <= 1 || pool->process != getpid()) {
        for (int64_t i = 0; i < count; i++)
            task(context, i, 0);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    pool->task = task;
    pool->context = context;
    pool->count = count;
    pool->busy = pool->workers;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->loop, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    take_tasks(pool, 0);
    pthread_mutex_lock(&pool->mutex);
    while (pool->busy)
        pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
}
