/*
 * src/train/ranks/job_pool.c - worker threads that do runs, and the meetings in which ranks divide
 * the runs among them.
 */
#include "train/ranks/job_pool.h"

#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Seconds between two meetings: short after an event, then doubled as long as nothing happens. */
static const double SHORTEST = 0.001, LONGEST = 0.1;

/* The mutex guards all but the plan. */
struct ole_job_pool {
    const ole_job_plan *plan;
    pthread_mutex_t mutex;
    pthread_cond_t change;
    int64_t *mine;  /* runs assigned to this rank, [plan->count] */
    int64_t handed; /* how many of them */
    int64_t begun;  /* how many of those were started */
    int64_t ended;  /* runs of all ranks */
    int running;
    int workers;
    bool all_handed; /* no more runs will be assigned */
    bool stop;
    ole_status status; /* the first failure here */
    ole_error error;
    char *news;       /* results of runs that ended here, */
    int64_t *news_of; /* their numbers */
    int64_t news_count;
    int64_t told; /* how many of them the other ranks know */
};

/* The message that ranks exchange when they meet. */
typedef struct report {
    int64_t room;    /* runs it could begin */
    int64_t pending; /* runs that have not ended before this meeting */
    int64_t stop;
    int64_t ended; /* a run that has ended there, with this result; -1: none */
    char result[];
} report;

void ole_job_pool_lock(ole_job_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
}

void ole_job_pool_unlock(ole_job_pool *pool) {
    pthread_mutex_unlock(&pool->mutex);
}

void ole_job_pool_stop(ole_job_pool *pool) {
    pool->stop = true;
    pthread_cond_broadcast(&pool->change);
}

bool ole_job_pool_stops(const ole_job_pool *pool) {
    return pool->stop;
}

static void fail(ole_job_pool *pool, ole_status status, const ole_error *error) {
    if (pool->status == OLE_OK) {
        pool->status = status;
        pool->error = *error;
    }
    ole_job_pool_stop(pool);
}

/* ---- Workers ------------------------------------------------------------------------------ */

/* Under the lock. */
static void hear(ole_job_pool *pool, int64_t number, int rank, const void *result) {
    const ole_job_plan *plan = pool->plan;
    ole_error error = {0};
    pool->ended++;
    ole_status status = plan->ended(plan->context, pool, number, rank, result, &error);
    if (status != OLE_OK) fail(pool, status, &error);
}

static void *work(void *context) {
    ole_job_pool *pool = context;
    const ole_job_plan *plan = pool->plan;
    void *result = malloc(plan->result_bytes);
    ole_job_pool_lock(pool);
    for (;;) {
        while (!pool->stop && !pool->all_handed && pool->begun == pool->handed)
            pthread_cond_wait(&pool->change, &pool->mutex);
        if (pool->stop || pool->begun == pool->handed) break;
        int64_t number = pool->mine[pool->begun++];
        pool->running++;
        ole_job_pool_unlock(pool);
        ole_error error = {0};
        bool stopped = false;
        ole_status status = ole_fail(&error, OLE_ERROR_MEMORY, "out of memory");
        if (result) status = plan->run(plan->context, pool, number, result, &stopped, &error);
        ole_job_pool_lock(pool);
        pool->running--;
        if (status != OLE_OK) {
            fail(pool, status, &error);
        } else if (!stopped && !plan->ranks) {
            hear(pool, number, 0, result);
        } else if (!stopped) { /* the next meeting hears of it */
            memcpy(pool->news + (size_t)pool->news_count * plan->result_bytes, result,
                   plan->result_bytes);
            pool->news_of[pool->news_count++] = number;
        }
    }
    ole_job_pool_unlock(pool);
    free(result);
    return NULL;
}

/* ---- Meetings ----------------------------------------------------------------------------- */

/* The state of the meetings, the same on all ranks except `mine`. */
typedef struct meetings {
    ole_job_pool *pool;
    int size;
    report *mine;   /* our report, with room for a result */
    char *reports;  /* those of all ranks */
    int64_t *bytes; /* [size]: of a report */
    int64_t next;   /* in plan->order, to be assigned */
    double pause;
} meetings;

static report *report_of(const meetings *m, int rank) {
    return (report *)(void *)(m->reports + rank * m->bytes[0]);
}

/* Assigns runs to ranks in turn, as long as they have room; under the lock. Returns how many. */
static int64_t hand_out(meetings *m) {
    const ole_job_plan *plan = m->pool->plan;
    int64_t before = m->next, turn = -1;
    while (m->next < plan->count && turn != m->next) {
        turn = m->next;
        for (int r = 0; r < m->size && m->next < plan->count; r++) {
            if (report_of(m, r)->room <= 0) continue;
            report_of(m, r)->room--;
            if (r == plan->ranks->rank) m->pool->mine[m->pool->handed++] = plan->order[m->next];
            m->next++;
        }
    }
    if (m->next > before) pthread_cond_broadcast(&m->pool->change);
    return m->next - before;
}

/* Returns true while there is something to wait for. */
static bool meet(meetings *m) {
    ole_job_pool *pool = m->pool;
    size_t result = pool->plan->result_bytes;
    int64_t pending = 0, stop = 0, happened = 0;
    ole_job_pool_lock(pool);
    int64_t waiting = pool->stop ? 0 : pool->handed - pool->begun;
    *m->mine = (report){.room = pool->stop ? 0 : pool->workers - pool->running - waiting,
                        .pending = waiting + pool->running + pool->news_count - pool->told,
                        .stop = pool->stop,
                        .ended = -1};
    if (pool->told < pool->news_count) {
        m->mine->ended = pool->news_of[pool->told];
        memcpy(m->mine->result, pool->news + (size_t)pool->told++ * result, result);
    }
    ole_job_pool_unlock(pool);
    ole_ranks_gather(pool->plan->ranks, m->mine, m->bytes, m->reports);
    ole_job_pool_lock(pool);
    for (int r = 0; r < m->size; r++) {
        const report *from = report_of(m, r);
        pending += from->pending;
        stop += from->stop;
        if (from->ended >= 0) hear(pool, from->ended, r, from->result);
        happened += from->ended >= 0;
    }
    if (stop > 0)
        ole_job_pool_stop(pool);
    else
        happened += hand_out(m);
    ole_job_pool_unlock(pool);
    m->pause = happened > 0 ? SHORTEST : m->pause < LONGEST / 2 ? 2.0 * m->pause : LONGEST;
    return pending > 0 || (stop == 0 && (m->next < pool->plan->count || happened > 0));
}

/* ---- The pool ----------------------------------------------------------------------------- */

/* As many threads as the system has; returns how many. */
static int start_workers(ole_job_pool *pool, pthread_t *threads, int count) {
    int started = 0;
    while (started < count && pthread_create(&threads[started], NULL, work, pool) == 0)
        started++;
    return started;
}

ole_status ole_job_pool_run(const ole_job_plan *plan, bool *stopped, ole_error *error) {
    size_t size = (size_t)ole_ranks_size(plan->ranks), count = (size_t)plan->count;
    size_t whole = (sizeof(report) + plan->result_bytes + 7) / 8 * 8; /* keeps them aligned */
    ole_job_pool pool = {.plan = plan,
                         .mine = calloc(count + 1, sizeof *pool.mine),
                         .news = calloc(count + 1, plan->result_bytes),
                         .news_of = calloc(count + 1, sizeof *pool.news_of)};
    meetings m = {.pool = &pool,
                  .size = (int)size,
                  .mine = calloc(1, whole),
                  .reports = calloc(size, whole),
                  .bytes = calloc(size, sizeof *m.bytes),
                  .pause = SHORTEST};
    pthread_t *threads = calloc((size_t)plan->jobs, sizeof *threads);
    bool enough =
        threads && pool.mine && pool.news && pool.news_of && m.mine && m.reports && m.bytes;
    for (size_t r = 0; r < size && m.bytes; r++)
        m.bytes[r] = (int64_t)whole;
    ole_error first = {0};
    ole_status status =
        enough ? OLE_OK : ole_fail(&first, OLE_ERROR_MEMORY, "out of memory for runs");
    status = ole_ranks_agree(plan->ranks, status, &first);
    if (status == OLE_OK) {
        pthread_mutex_init(&pool.mutex, NULL);
        pthread_cond_init(&pool.change, NULL);
        if (plan->ranks) {
            pool.workers = start_workers(&pool, threads, plan->jobs);
            if (pool.workers == 0)
                fail(&pool,
                     ole_fail(&first, OLE_ERROR_MEMORY,
                              "the system cannot start another thread for a run"),
                     &first);
            while (meet(&m)) {
                struct timespec pause = {.tv_nsec = (long)(m.pause * 1e9)};
                nanosleep(&pause, NULL);
            }
            ole_job_pool_lock(&pool);
            pool.all_handed = true;
            pthread_cond_broadcast(&pool.change);
            ole_job_pool_unlock(&pool);
        } else { /* this thread is a worker too, so that the pool works without further threads */
            memcpy(pool.mine, plan->order, (size_t)plan->count * sizeof *pool.mine);
            pool.handed = plan->count;
            pool.all_handed = true;
            pool.workers = start_workers(&pool, threads, plan->jobs - 1);
            work(&pool);
        }
        for (int i = 0; i < pool.workers; i++)
            pthread_join(threads[i], NULL);
        pthread_cond_destroy(&pool.change);
        pthread_mutex_destroy(&pool.mutex);
        first = pool.error;
        status = ole_ranks_agree(plan->ranks, pool.status, &first);
    }
    *stopped = pool.ended < plan->count;
    if (status != OLE_OK && error) *error = first;
    free(m.mine);
    free(m.reports);
    free(m.bytes);
    free(pool.news);
    free(pool.news_of);
    free(pool.mine);
    free(threads);
    return status;
}
