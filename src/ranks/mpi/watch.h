/*
 * src/ranks/mpi/watch.h - who notices that a rank is lost.
 *
 * MPI's functions wait for ever when a rank does not come.  So each rank has a thread that does
 * nothing but look after the others, over connections of its own (wire.h): it makes no MPI calls,
 * and works while the rank's other threads compute or wait.  All ranks are connected to rank 0.
 *
 * A second is a heartbeat.  A connection that ends without a goodbye is a process that ended; one
 * that is silent for `silence` seconds is a process that is stopped, or cut off; and each rank
 * looks for its launcher.  Rank 0 tells all others; rank 0's own end or silence each of them
 * notices. Then `lost` is called on every rank with the same sentence, and the process ends.
 *
 * A rank that fails by itself says so before it ends (ole_watch_fail).  An error that ranks have
 * agreed on each of them says: so who hears of a failure waits a moment for one of its own.
 */
#ifndef OLE_SRC_RANKS_MPI_WATCH_H
#define OLE_SRC_RANKS_MPI_WATCH_H

#include "ranks/ranks.h"

typedef struct ole_watch ole_watch;

/* Every rank calls it; an error is one on all of them. One rank needs no watch: NULL. */
ole_status ole_watch_start(ole_watch **watch, ole_ranks *ranks, const ole_ranks_options *options,
                           ole_error *error);

/* Tells all others why this rank ends. Returns when they know, or after two seconds. */
void ole_watch_fail(ole_watch *watch, const char *reason);

/* All is well, and every rank is about to call this. */
void ole_watch_close(ole_watch *watch);

#endif
