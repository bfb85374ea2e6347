/*
 * src/train/ranks/job_pool.h - runs that do not depend on each other, done by threads of this
 * process and by other ranks.
 *
 * Alone, a crew is `jobs` threads that each take the next run.  With ranks, the calling thread of
 * every rank meets the others, ten times a second while nothing happens: they tell each other what
 * their runs left and how many more they could take up, and all hand out the next runs by the same
 * rule.  So nobody serves the others, a faster rank gets more runs, what a choice depends on has
 * arrived everywhere, and an error or the wish to stop reaches all at once.
 */
#ifndef OLE_SRC_TRAIN_RANKS_JOB_POOL_H
#define OLE_SRC_TRAIN_RANKS_JOB_POOL_H

#include "ranks/ranks.h"

typedef struct ole_crew ole_crew;

typedef struct ole_crew_plan {
    ole_ranks *ranks;
    const int64_t *order; /* numbers of the runs, as they are taken up: the longest first */
    int64_t count;
    int jobs;            /* runs at once on this rank */
    size_t result_bytes; /* of what a run leaves for all ranks */
    /* Does a run, in a thread of the crew.  *stopped: before its end, nothing was left. */
    ole_status (*run)(void *context, ole_crew *crew, int64_t number, void *result, bool *stopped,
                      ole_error *error);
    /* A run has ended, on `rank`.  Called on every rank, with the crew locked. */
    ole_status (*ended)(void *context, ole_crew *crew, int64_t number, int rank, const void *result,
                        ole_error *error);
    void *context;
} ole_crew_plan;

/* Returns when nothing is at work any more.  *stopped: some runs have not ended.  Status, error and
 * *stopped are the same on all ranks. */
ole_status ole_crew_work(const ole_crew_plan *plan, bool *stopped, ole_error *error);

/* Runs that talk to the caller do it one at a time. */
void ole_crew_lock(ole_crew *crew);
void ole_crew_unlock(ole_crew *crew);

/* Under the lock: no more runs are begun, and those at work should end. */
void ole_crew_stop(ole_crew *crew);
bool ole_crew_stops(const ole_crew *crew);

#endif
