/*
 * cli/common/launch.h - a command that mpirun or srun started as several processes: joining the
 * others, who prints, and leaving.
 *
 *     ole_ranks *ranks;
 *     if (!launch_join("sweep", out, &ranks)) return EXIT_FAILED;
 *     ...                                 // rank 0 prints: launch_prints(ranks)
 *     return launch_leave(ranks, code);   // all came this far, with the same code
 */
#ifndef OLE_CLI_COMMON_LAUNCH_H
#define OLE_CLI_COMMON_LAUNCH_H

#include <ole/ranks.h>

/*
 * Before the ranks of `command` have joined, a mistake may be one rank's alone or that of all.  So
 * from launch_expect() on failures are kept, and launch_settle() prints them at the end of a
 * command that joined nobody: once where all ranks have the same, else by each that has it.  `code`
 * is the command's, and returned.
 */
void launch_expect(const char *command);
int launch_settle(int code);

/*
 * The group, NULL when alone; false after an error, which was explained.  When a rank is lost, the
 * reason is printed, and added to lost.log of the folder, where there is one.  Both strings must
 * outlive the group.
 */
bool launch_join(const char *command, const char *folder, ole_ranks **ranks);

/* Whether this process is the one that prints. */
bool launch_prints(const ole_ranks *ranks);

/* Whether all ranks are good and continue; every rank calls it. */
bool launch_go_on(ole_ranks *ranks, bool good);

/* Waits for the others; returns `code`. */
int launch_leave(ole_ranks *ranks, int code);

#endif
