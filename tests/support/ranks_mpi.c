/*
 * tests/support/ranks_mpi.c - a program for tests/cli/ranks.py to start under mpirun: the checks of
 * a group over MPI, and ranks that wait for one that does not come.
 *
 *     mpirun -n 3 ranks_mpi check
 *     mpirun -n 3 ranks_mpi sleep [RANK]     until killed; rank RANK fails after a second
 *     mpirun -n 3 ranks_mpi leave RANK       which ends, all well, before any joins
 *     mpirun -n 3 ranks_mpi stop RANK        which stops before it joins
 *     mpirun -n 3 ranks_mpi freeze RANK      which stops while it joins; the last rank is late
 */
#include "ranks_checks.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_lost(void *context, const char *reason) {
    fprintf(stderr, "rank %d lost: %s\n", *(int *)context, reason);
    _exit(3);
}

static int check(ole_ranks *ranks) {
    const char *wrong = check_ranks(ranks);
    if (wrong) fprintf(stderr, "rank %d: %s\n", ole_ranks_rank(ranks), wrong);
    int64_t wrongs = wrong != NULL;
    uint64_t bits = ranks_sum_bits(ranks);
    ole_ranks_sum(ranks, &wrongs, 1, OLE_I64);
    if (ole_ranks_rank(ranks) == 0)
        printf("%d ranks, %d on this host, %" PRId64 " wrong, bits %016" PRIx64 "\n",
               ole_ranks_size(ranks), ranks->ranks_on_host, wrongs, bits);
    return wrongs ? 1 : 0;
}

/* The others wait in a sum for rank 1, which sleeps. */
static void wait_for_ever(ole_ranks *ranks, int failing) {
    int64_t one = 1;
    printf("rank %d pid %d\n", ranks->rank, (int)getpid());
    fflush(stdout);
    if (ranks->rank == failing) {
        sleep(1);
        ole_ranks_fail(ranks, "no more bananas");
        _exit(4);
    }
    if (ranks->rank == 1)
        for (;;)
            pause();
    ole_ranks_sum(ranks, &one, 1, OLE_I64);
}

static void stop_here(int number) {
    (void)number;
    raise(SIGSTOP);
}

/*
 * The others wait until the launcher has taken note of the end: of a rank that ends after others
 * have joined, Open MPI tells by itself, and kills them before they can.
 */
static void leave(bool leaves) {
    char name[64];
    int pid = 0;
    snprintf(name, sizeof name, "left-%d", (int)getppid());
    if (leaves) {
        FILE *file = fopen(name, "w");
        if (file) fprintf(file, "%d\n", (int)getpid());
        exit(file ? 0 : 1);
    }
    while (pid <= 0) {
        FILE *file = fopen(name, "r");
        if (file && fscanf(file, "%d", &pid) != 1) pid = 0;
        if (file) fclose(file);
        usleep(10000);
    }
    while (kill(pid, 0) == 0)
        usleep(10000);
}

/* What can happen to a rank before the others know it. */
static void be_absent(const char *how, int rank, int subject) {
    if (strcmp(how, "leave") == 0) leave(rank == subject);
    if (strcmp(how, "freeze") == 0 && rank > subject) sleep(100);
    if (rank != subject) return;
    if (strcmp(how, "stop") == 0) raise(SIGSTOP);
    if (strcmp(how, "freeze") == 0) {
        signal(SIGALRM, stop_here);
        alarm(3);
    }
}

int main(int argc, char **argv) {
    ole_ranks *ranks;
    ole_error error;
    ole_ranks_options options;
    int rank = ole_ranks_launched_rank();
    if (argc < 2) return 2;
    signal(SIGTERM,
           SIG_IGN); /* the launcher's, when one rank has ended: we still have to say why */
    ole_ranks_options_init(&options);
    options.lost = print_lost;
    options.lost_context = &rank;
    options.task = argv[1];
    if (argc > 2) be_absent(argv[1], rank, atoi(argv[2]));
    if (ole_ranks_open(&ranks, &options, &error) != OLE_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, error.message);
        return 2;
    }
    int code = 0;
    if (strcmp(argv[1], "check") == 0)
        code = check(ranks);
    else
        wait_for_ever(ranks, argc > 2 ? atoi(argv[2]) : -1);
    ole_ranks_close(ranks);
    return code;
}
