/*
 * src/ranks/launcher.h - who started this process as one of several (mpirun, srun), and whether it
 * is still there.
 */
#ifndef OLE_SRC_RANKS_LAUNCHER_H
#define OLE_SRC_RANKS_LAUNCHER_H

#include "base/export.h"

#include <stdbool.h>

typedef struct ole_launcher {
    long pid;        /* 0: none was found */
    char name[32];   /* "mpirun" */
    long long start; /* when it began: another process may get its number later */
    int fd;          /* that becomes readable when it ends; -1: none */
} ole_launcher;

/* How many processes a launcher started, this one among them; 1: none did. */
OLE_INTERNAL int ole_launcher_size(void);

/* Whether the launcher says that all of them are on this host. */
OLE_INTERNAL bool ole_launcher_one_host(void);

/* The nearest of the processes above this one that is known to launch ranks, else the parent. */
OLE_INTERNAL ole_launcher ole_launcher_find(void);
OLE_INTERNAL void ole_launcher_close(ole_launcher *launcher);

/* As ps shows it: 'R', 'S', 'T' when stopped, ...; 0 when there is no such process. */
OLE_INTERNAL char ole_process_state(long pid);

OLE_INTERNAL bool ole_launcher_ended(const ole_launcher *launcher);

#endif
