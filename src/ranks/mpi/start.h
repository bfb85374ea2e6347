/*
 * src/ranks/mpi/start.h - a timeout for joining the group.
 *
 * Until all ranks are connected the failure watch (watch.h) is not running, and MPI_Init() waits
 * forever for a rank that is stopped or has already ended.  So a thread times the start.  After too
 * long, or if it finds a stopped rank, it reports the missing ranks as far as this host knows and
 * ends the process as the watch does: MPI_Init() cannot be cancelled.
 */
#ifndef OLE_SRC_RANKS_MPI_START_H
#define OLE_SRC_RANKS_MPI_START_H

#include "ranks/ranks.h"

typedef struct ole_start ole_start;

/* NULL if there are no others to wait for, or no memory for a thread. */
ole_start *ole_start_begin(const ole_ranks_options *options);

/* The start has ended. NULL is allowed. */
void ole_start_end(ole_start *start);

#endif
