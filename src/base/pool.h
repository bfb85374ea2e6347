/*
 * src/base/pool.h - worker threads for loops over fixed tasks.
 *
 * A loop is divided into tasks by its shape alone, never by the number of threads, and each task
 * writes its own output.  So results depend neither on the number of threads nor on the schedule.
 */
#ifndef OLE_SRC_BASE_POOL_H
#define OLE_SRC_BASE_POOL_H

#include "base/export.h"

typedef struct ole_pool ole_pool;

/* One task of a loop: its number, and which worker (0 to threads-1) runs it, for scratch memory. */
typedef void ole_task(void *context, int64_t task, int worker);

/*
 * `threads` includes the calling one.  For one thread *pool is NULL.  Everything that computes
 * makes a pool first, so this is where an unknown OLE_CPU is refused.
 */
OLE_INTERNAL ole_status ole_pool_create(ole_pool **pool, int threads, ole_error *error);
OLE_INTERNAL void ole_pool_destroy(ole_pool *pool);

/*
 * Runs tasks 0 to count-1 and returns when all are done.  A NULL pool, and one inherited through
 * fork(), runs them in order in the calling thread.
 */
OLE_INTERNAL void ole_pool_run(ole_pool *pool, int64_t count, ole_task *task, void *context);

#endif
