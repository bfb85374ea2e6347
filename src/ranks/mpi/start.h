/*
 * src/ranks/mpi/start.h - a start that ends: with a group, or with an error.
 *
 * Until all ranks are connected nobody watches over them (watch.h), and MPI_Init() waits for ever
 * for a rank that is stopped, or has ended before it came there.  So a thread counts the seconds of
 * the start.  When there are too many, or a rank is found stopped, it says who is missing, as far
 * as that can be seen from this host, and ends the process as the watch does: MPI cannot be called
 * back.
 */
#ifndef OLE_SRC_RANKS_MPI_START_H
#define OLE_SRC_RANKS_MPI_START_H

#include "ranks/ranks.h"

typedef struct ole_start ole_start;

/* NULL where there is nobody to wait for, or no memory for a thread. */
ole_start *ole_start_begin(const ole_ranks_options *options);

/* The start has ended. NULL is allowed. */
void ole_start_end(ole_start *start);

#endif
