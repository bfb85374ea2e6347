/*
 * src/ranks/launcher.h - the launcher (mpirun, srun) that started this process as one of several,
 * and whether it is still running.
 */
#ifndef OLE_SRC_RANKS_LAUNCHER_H
#define OLE_SRC_RANKS_LAUNCHER_H

#include "base/export.h"

#include <stdbool.h>

typedef struct ole_launcher {
    long pid, parent; /* 0: none was found */
    char name[32];    /* "mpirun" */
    long long start;  /* its start time: another process may reuse the pid */
    char state;       /* as of ole_process_state(), when it was found */
} ole_launcher;

/* The number of processes that a launcher started, including this one; 1 without a launcher. */
OLE_INTERNAL int ole_launcher_size(void);

/* Whether all of them are on this host, according to the launcher. */
OLE_INTERNAL bool ole_launcher_one_host(void);

/* The nearest ancestor process that is a known launcher, else the parent. */
OLE_INTERNAL ole_launcher ole_launcher_find(void);

/* As in ps: 'R', 'S', 'T' for stopped, ...; 0 if there is no such process. */
OLE_INTERNAL char ole_process_state(long pid);

OLE_INTERNAL bool ole_launcher_ended(const ole_launcher *launcher);

#endif
