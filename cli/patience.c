/*
 * cli/patience.c - how long threads that wait for each other spin before they sleep.
 *
 * OpenMP's threads spin for milliseconds by default.  On a machine that has other work, the thread
 * they wait for is often the one that is not running: a step of a small net then takes sixty times
 * as long (docs/results.md).  A tenth of a millisecond is enough where the processors are free,
 * and costs little where they are not.
 *
 * libgomp reads its settings when it is loaded, before main(), so the program starts itself once
 * more with one of them.  That is taken back at once: other programs that are started from here
 * (PyTorch, to compare with) have their own.
 */
#include "patience.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char SETTING[] = "GOMP_SPINCOUNT", ROUNDS[] = "10000";
static const char AGAIN[] = "OLE_STARTED_AGAIN";

/* The user's own settings count; tools that preload something (valgrind) follow no new start; and
 * a program that the loader was told to run is not what /proc/self/exe names. */
static bool may_start_again(void) {
    return !getenv(SETTING) && !getenv("OMP_WAIT_POLICY") && !getenv("LD_PRELOAD") &&
           getauxval(AT_BASE) != 0;
}

void be_patient(char **argv) {
    if (getenv(AGAIN)) {
        unsetenv(AGAIN);
        unsetenv(SETTING);
        return;
    }
    if (!may_start_again() || sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
    char path[4096] = ""; /* by its own name, which ps and killall know */
    bool named = readlink("/proc/self/exe", path, sizeof path - 1) > 0;
    if (named && setenv(SETTING, ROUNDS, 1) == 0 && setenv(AGAIN, "1", 1) == 0) execv(path, argv);
    unsetenv(AGAIN); /* it could not be: threads spin as they do by default */
    unsetenv(SETTING);
}
