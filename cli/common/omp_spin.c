/*
 * cli/common/omp_spin.c - starts the program once more, with settings of its libraries that they
 * read when they are loaded, before main().
 *
 * GOMP_SPINCOUNT: how long OpenMP's threads that wait for each other spin before they sleep; by
 * default for milliseconds.  On a machine that has other work, the thread they wait for is often
 * the one that is not running: a step of a small net then takes sixty times as long
 * (docs/results.md). A tenth of a millisecond is enough where the processors are free, and costs
 * little where they are not.
 *
 * OPENBLAS_CORETYPE: the instruction sets of OpenBLAS, where OLE_CPU allows fewer than there are.
 *
 * Both are taken back at once: other programs that are started from here (PyTorch, to compare with)
 * have their own.
 */
#include "common/omp_spin.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char SPIN[] = "GOMP_SPINCOUNT", ROUNDS[] = "10000", CORE[] = "OPENBLAS_CORETYPE";
static const char AGAIN[] = "OLE_STARTED_AGAIN"; /* the names of what was set */

/* Tools that preload something (valgrind) follow no new start; and a program that the loader was
 * told to run is not what /proc/self/exe names. */
static bool may_start_again(void) {
    return !getenv("LD_PRELOAD") && getauxval(AT_BASE) != 0;
}

static void take_back(const char *set) {
    if (strstr(set, SPIN)) unsetenv(SPIN);
    if (strstr(set, CORE)) unsetenv(CORE);
    unsetenv(AGAIN);
}

void start_again(char **argv, const char *openblas_core, bool long_work) {
    const char *again = getenv(AGAIN);
    if (again) {
        take_back(again);
        return;
    }
    /* The user's own settings count. */
    bool spin = long_work && !getenv(SPIN) && !getenv("OMP_WAIT_POLICY") &&
                sysconf(_SC_NPROCESSORS_ONLN) >= 2;
    bool core = openblas_core && !getenv(CORE);
    if ((!spin && !core) || !may_start_again()) return;
    char path[4096] = "", set[64] = ""; /* by its own name, which ps and killall know */
    if (readlink("/proc/self/exe", path, sizeof path - 1) <= 0) return;
    if (spin && setenv(SPIN, ROUNDS, 1) == 0) strcat(set, SPIN);
    if (core && setenv(CORE, openblas_core, 1) == 0) strcat(set, CORE);
    if (setenv(AGAIN, set, 1) == 0) execv(path, argv);
    take_back(set); /* it could not be: the libraries do as they do by default */
}
