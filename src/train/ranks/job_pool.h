/*
 * src/train/ranks/job_pool.h - independent runs, done by threads of this process and by other
 * ranks.
 *
 * In one process the pool is `jobs` threads, each of which takes the next run.  With ranks, the
 * calling thread of every rank meets the others, ten times a second while nothing happens: they
 * exchange the results of finished runs and how many more each could start, and all assign the next
 * runs by the same rule.  So no rank serves the others, faster ranks get more runs, whatever a
 * choice depends on has arrived everywhere, and an error or a request to stop reaches all at once.
 */
#ifndef OLE_SRC_TRAIN_RANKS_JOB_POOL_H
#define OLE_SRC_TRAIN_RANKS_JOB_POOL_H

#include "ranks/ranks.h"

typedef struct ole_job_pool ole_job_pool;

typedef struct ole_job_plan {
    ole_ranks *ranks;
    const int64_t *order; /* numbers of the runs in the order to start them: longest first */
    int64_t count;
    int jobs;            /* runs at once on this rank */
    size_t result_bytes; /* of the result that a run sends to all ranks */
    /* Does a run, in a thread of the pool.  *stopped: it ended early, without a result. */
    ole_status (*run)(void *context, ole_job_pool *pool, int64_t number, void *result,
                      bool *stopped, ole_error *error);
    /* A run has ended, on `rank`.  Called on every rank, with the pool locked. */
    ole_status (*ended)(void *context, ole_job_pool *pool, int64_t number, int rank,
                        const void *result, ole_error *error);
    void *context;
} ole_job_plan;

/* Returns when no run is left.  *stopped: some have not ended.  Status, error and *stopped are the
 * same on all ranks. */
ole_status ole_job_pool_run(const ole_job_plan *plan, bool *stopped, ole_error *error);

/* Runs call back to the caller one at a time. */
void ole_job_pool_lock(ole_job_pool *pool);
void ole_job_pool_unlock(ole_job_pool *pool);

/* Under the lock: no more runs are started, and running ones should end. */
void ole_job_pool_stop(ole_job_pool *pool);
bool ole_job_pool_stops(const ole_job_pool *pool);

#endif
