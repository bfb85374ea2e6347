/*
 * src/ranks/mpi/watch.h - detects lost ranks.
 *
 * MPI functions wait forever for a lost rank.  So each rank has a thread that only watches the
 * others, over connections of its own (wire.h): it makes no MPI calls, and runs while the rank's
 * other threads compute or wait.  All ranks are connected to rank 0.
 *
 * Heartbeats are one second apart.  A connection that closes without a goodbye means that the
 * process ended; one that is silent for `silence` seconds, that it is stopped or cut off.  Each
 * rank also watches its launcher.  Rank 0 tells all others; each of them detects the loss of rank 0
 * itself. Then `lost` is called on every rank with the same sentence, and the process ends.
 *
 * A rank that fails on its own reports that before it ends (ole_watch_fail).  Every rank reports an
 * agreed error, so a rank that hears of a failure first waits briefly for its own.
 */
#ifndef OLE_SRC_RANKS_MPI_WATCH_H
#define OLE_SRC_RANKS_MPI_WATCH_H

#include "ranks/ranks.h"

typedef struct ole_watch ole_watch;

/* Collective; an error on one rank is an error on all. One rank needs no watch: NULL. */
ole_status ole_watch_start(ole_watch **watch, ole_ranks *ranks, const ole_ranks_options *options,
                           ole_error *error);

/* Tells all others why this rank ends. Returns when they know, or after two seconds. */
void ole_watch_fail(ole_watch *watch, const char *reason);

/* All is well, and every rank is about to call this. */
void ole_watch_close(ole_watch *watch);

#endif
