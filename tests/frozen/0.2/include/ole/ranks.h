/*
 * ole/ranks.h - several processes that train one network: `mpirun -n 4 ole train ...`.
 *
 * A program that a launcher (mpirun, srun) may start as one of several checks for that, joins the
 * group and passes it to what it runs.
 *
 * Example: join, work, agree on the outcome, leave.
 *
 *     ole_ranks *ranks = NULL; // alone
 *     if (ole_ranks_launched() && ole_ranks_open(&ranks, NULL, &error) != OLE_OK)
 *         return puts(error.message), 1;
 *     printf("rank %d of %d\n", ole_ranks_rank(ranks), ole_ranks_size(ranks));
 *     ole_status status = ole_ranks_agree(ranks, OLE_OK, &error);
 *     ole_ranks_close(ranks);
 *     return status == OLE_OK ? 0 : 1;
 *
 * Every process makes the same calls; ole_train() and others take the group as options.ranks.  MPI
 * is a module that ole_ranks_open() loads: programs that run alone need no MPI.
 *
 * Failures.  A process that is killed, stopped or cut off cannot be waited for.  The others notice
 * within options.silence seconds and call `lost`, from a thread of the group's own, with a sentence
 * that names the rank and the reason.  The callback should print it and end the process; if it
 * returns, the process ends with status 1.  Files saved before are complete.
 */
#ifndef OLE_RANKS_H
#define OLE_RANKS_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Simple calls --------------------------------------------------------------------------- */

typedef struct ole_ranks ole_ranks;

typedef struct ole_ranks_options ole_ranks_options; /* below */

/* Whether a launcher started this process as one of several. */
OLE_API bool ole_ranks_launched(void);

/* The rank that the launcher gave this process; 0 if it runs alone. Needs no MPI. */
OLE_API int ole_ranks_launched_rank(void);

/*
 * Joins the other processes, once per process.  `options` may be NULL.  Returns when all have
 * joined; if one does not, the process ends as above.
 */
OLE_API ole_status ole_ranks_open(ole_ranks **ranks, const ole_ranks_options *options,
                                  ole_error *error);

/* Leaves the group after success: waits for the others. NULL is allowed. */
OLE_API void ole_ranks_close(ole_ranks *ranks);

/* The rank of this process, from 0, and the number of ranks; 0 and 1 for NULL. */
OLE_API int ole_ranks_rank(const ole_ranks *ranks);
OLE_API int ole_ranks_size(const ole_ranks *ranks);

/*
 * Every rank calls this with its status so far.  The error of the first rank that has one becomes
 * the error of all; on ranks that had none, the message names that rank.  `error` may be NULL.
 */
OLE_API ole_status ole_ranks_agree(ole_ranks *ranks, ole_status status, ole_error *error);

/*
 * Reports a failure that the other ranks cannot know of: their `lost` gets "rank R (host): reason".
 * Then end the process with a status other than 0, without ole_ranks_close().
 */
OLE_API void ole_ranks_fail(ole_ranks *ranks, const char *reason);

/* ---- Options -------------------------------------------------------------------------------- */

typedef void ole_ranks_lost(void *context, const char *reason);

/* Fill with ole_ranks_options_init(). */
struct ole_ranks_options {
    size_t struct_size; /* set by init; see "Versions" in ole/base.h */
    double silence;     /* seconds without a sign of life after which a rank is lost; default 20, */
                        /* or OLE_RANK_SILENCE of the environment */
    ole_ranks_lost *lost; /* NULL: the process ends without a report */
    void *lost_context;
    const char *task; /* the purpose of all ranks, such as "ole train"; ranks with different */
                      /* tasks fail to join; NULL is "" */
    double start; /* seconds after which joining fails if ranks are missing: `lost` gets those */
                  /* that this host knows of; default 300, or OLE_RANK_START of the environment */
};

OLE_API void ole_ranks_options_init_sized(ole_ranks_options *options, size_t struct_size);
static inline void ole_ranks_options_init(ole_ranks_options *options) {
    ole_ranks_options_init_sized(options, sizeof *options);
}

#ifdef __cplusplus
}
#endif
#endif
