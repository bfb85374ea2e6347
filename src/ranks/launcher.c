/*
 * src/ranks/launcher.c - what the environment and /proc tell of the launcher.
 *
 * Every launcher tells its processes their number and how many there are, under names of its own.
 * Slurm sets SLURM_NTASKS in a batch script too, where the script is alone: it counts only with a
 * rank of PMI or PMIx, which srun adds.
 */
#include "ranks/launcher.h"

#include "ole/ranks.h"

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

/* Which rank of how many; 0 of 1 where there are not several. */
static void read_place(long *rank, long *size) {
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (!read_number(variables[i].rank, rank) || !read_number(variables[i].size, size))
            continue;
        if (*size > 1 && *rank < *size) return;
        break;
    }
    *rank = 0;
    *size = 1;
}

bool ole_ranks_launched(void) {
    return ole_launcher_size() > 1;
}

int ole_ranks_launched_rank(void) {
    long rank, size;
    read_place(&rank, &size);
    return (int)rank;
}

int ole_launcher_size(void) {
    long rank, size;
    read_place(&rank, &size);
    return (int)size;
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

/* A process from /proc: its state, name, parent and start. False when there is none. */
static bool look(ole_launcher *process, long *parent, char *state) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", process->pid);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    /* "pid (name) state parent ...", the start as number 22; a name may hold anything. */
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close) return false;
    *close = '\0';
    snprintf(process->name, sizeof process->name, "%.31s", open + 1);
    return sscanf(
               close + 1,
               " %c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lld",
               state, parent, &process->start) == 3;
}

static bool is_launcher(const char *name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

ole_launcher ole_launcher_find(void) {
    enum { GENERATIONS = 16 };
    ole_launcher found = {.pid = getppid()};
    long parent;
    char state;
    if (found.pid <= 1 || !look(&found, &parent, &state)) return (ole_launcher){0};
    ole_launcher above = found;
    for (int i = 0; i < GENERATIONS && !is_launcher(above.name); i++) {
        above = (ole_launcher){.pid = parent};
        if (above.pid <= 1 || !look(&above, &parent, &state)) return found;
    }
    return is_launcher(above.name) ? above : found;
}

char ole_process_state(long pid) {
    ole_launcher process = {.pid = pid};
    long parent;
    char state;
    return look(&process, &parent, &state) ? state : 0;
}

bool ole_launcher_ended(const ole_launcher *launcher) {
    ole_launcher now = {.pid = launcher->pid};
    long parent;
    char state;
    if (launcher->pid == 0) return false;
    return !look(&now, &parent, &state) || now.start != launcher->start || state == 'Z' ||
           state == 'X';
}
