/*
 * src/ranks/launcher.c - what the environment and /proc tell of the launcher.
 *
 * Every launcher tells its processes their number and how many there are, under names of its own.
 * Slurm sets SLURM_NTASKS in a batch script too, where the script is alone: it counts only with a
 * rank of PMI or PMIx, which srun adds.
 */
#include "ranks/launcher.h"

#include "ole/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *rank, *size;
} variables[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, /* Open MPI */
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},   /* MVAPICH */
    {"PMI_RANK", "PMI_SIZE"},              /* Hydra (MPICH, Intel MPI), srun's PMI 1, 2 */
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"}, /* srun --mpi=pmix */
    {"PMIX_RANK", "SLURM_NTASKS"},
};

static const char *const names[] = {"mpirun",          "mpiexec",       "orterun",    "orted",
                                    "prterun",         "prted",         "prte",       "hydra",
                                    "hydra_pmi_proxy", "mpiexec.hydra", "slurmstepd", "pmi_proxy"};

static bool read_number(const char *name, long *number) {
    const char *text = getenv(name);
    char *end;
    if (!text || !*text) return false;
    *number = strtol(text, &end, 10);
    return *end == '\0' && *number >= 0 && *number < 1L << 30;
}

/* How many ranks there are, 1 where there are not several, and which one this is. */
static int read_place(int *rank) {
    *rank = 0;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        long number, size;
        if (!read_number(variables[i].rank, &number) || !read_number(variables[i].size, &size))
            continue;
        if (size <= 1 || number >= size) break;
        *rank = (int)number;
        return (int)size;
    }
    return 1;
}

bool ole_ranks_launched(void) {
    return ole_launcher_size() > 1;
}

int ole_ranks_launched_rank(void) {
    int rank;
    read_place(&rank);
    return rank;
}

int ole_launcher_size(void) {
    int rank;
    return read_place(&rank);
}

bool ole_launcher_one_host(void) {
    static const char *const here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE",
                                       "MPI_LOCALNRANKS"};
    long number;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (read_number(here[i], &number)) return number == ole_launcher_size();
    return read_number("SLURM_STEP_NUM_NODES", &number) && number == 1;
}

/* ---- The process itself ------------------------------------------------------------------- */

/* A process as /proc shows it; all zeros when there is none, or, with errno set to something else
 * than ENOENT and ESRCH, when it could not be read. */
static ole_launcher look(long pid) {
    char path[32], text[1024];
    ole_launcher process = {.pid = pid};
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file) return (ole_launcher){0};
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* "pid (name) state parent ...", the start as number 22; a name may hold anything. */
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close) return (ole_launcher){0};
    *close = '\0';
    snprintf(process.name, sizeof process.name, "%.31s", open + 1);
    int found =
        sscanf(close + 1,
               " %c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
               &process.state, &process.parent, &process.start);
    return found == 3 ? process : (ole_launcher){0};
}

ole_launcher ole_launcher_find(void) {
    enum { GENERATIONS = 16 };
    ole_launcher parent = look(getppid()), above = parent;
    for (int i = 0; i < GENERATIONS && above.pid > 1; i++, above = look(above.parent))
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (strcmp(above.name, names[k]) == 0) return above;
    return parent.pid > 1 ? parent : (ole_launcher){0};
}

char ole_process_state(long pid) {
    return look(pid).state;
}

bool ole_launcher_ended(const ole_launcher *launcher) {
    errno = 0;
    ole_launcher now = look(launcher->pid);
    if (now.pid == 0 && errno != ENOENT && errno != ESRCH) return false; /* out of descriptors */
    return launcher->pid > 0 &&
           (now.start != launcher->start || now.state == 'Z' || now.state == 'X');
}
