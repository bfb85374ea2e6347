/*
 * ole/ranks.h - several processes that train one network together: `mpirun -n 4 ole train ...`.
 *
 * A program started by a launcher (mpirun, srun) asks whether it is one of several, joins the
 * others and hands the group to what it runs:
 *
 *     ole_ranks *ranks = NULL;
 *     if (ole_ranks_launched() && ole_ranks_open(&ranks, NULL, &error) != OLE_OK) ...
 *     options.ranks = ranks; // NULL: alone
 *     ole_train(&options, &summary, &error);
 *     ole_ranks_close(ranks);
 *
 * Every process makes the same calls.  MPI is a module that is loaded by ole_ranks_open(): programs
 * that are not launched as several need none.
 *
 * Faults.  A process that is killed, stopped or cut off cannot be waited for: those that are left
 * notice within options.silence seconds, and `lost` is called with a sentence that names the rank
 * and the reason, from a thread of the group's own.  It should print and end the process; when it
 * returns, the process is ended with status 1.  What was saved before is whole.
 */
#ifndef OLE_RANKS_H
#define OLE_RANKS_H

#include "ole/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ole_ranks ole_ranks;

typedef void ole_ranks_lost(void *context, const char *reason);

/* Fill with ole_ranks_options_init(). */
typedef struct ole_ranks_options {
    size_t struct_size;
    double silence; /* seconds without a sign of life after which a rank is lost; default 20, or */
                    /* OLE_RANK_SILENCE of the environment */
    ole_ranks_lost *lost; /* NULL: the reason goes to nobody, the process ends */
    void *lost_context;
    const char *task; /* what all are started for, such as "ole train": when a rank has another */
                      /* one, that is an error on all; NULL is "" */
    double start; /* seconds after which a start that not all ranks have come to fails: `lost` */
                  /* gets the ranks that are missing, as far as this host knows; default 300, */
                  /* or OLE_RANK_START of the environment */
} ole_ranks_options;

OLE_API void ole_ranks_options_init(ole_ranks_options *options);

/* Whether a launcher started this process as one of several. */
OLE_API bool ole_ranks_launched(void);

/* The number the launcher gave this process; 0 when it is alone. Needs no MPI. */
OLE_API int ole_ranks_launched_rank(void);

/*
 * Joins the others. `options` may be NULL.  Once per process.  Returns when all have come; when one
 * does not, the process ends as above.
 */
OLE_API ole_status ole_ranks_open(ole_ranks **ranks, const ole_ranks_options *options,
                                  ole_error *error);

/* Leaves the group after everything went well: waits for the others. NULL is allowed. */
OLE_API void ole_ranks_close(ole_ranks *ranks);

/* This process's number, from 0, and how many there are; 0 and 1 for NULL. */
OLE_API int ole_ranks_rank(const ole_ranks *ranks);
OLE_API int ole_ranks_size(const ole_ranks *ranks);

/*
 * Everyone calls this with how it went so far: the first error of any rank becomes that of all, and
 * names the rank where others had none.  `error` may be NULL.
 */
OLE_API ole_status ole_ranks_agree(ole_ranks *ranks, ole_status status, ole_error *error);

/*
 * Something went wrong here that the others cannot know: their `lost` gets "rank R (host): reason".
 * The caller then ends its process with a status other than 0, without ole_ranks_close().
 */
OLE_API void ole_ranks_fail(ole_ranks *ranks, const char *reason);

#ifdef __cplusplus
}
#endif
#endif
