/*
 * src/ranks/mpi/start.c - who has come, known by their doors: sockets in the abstract namespace,
 * named after launcher and rank, that are there as long as a rank is starting.  They need no
 * cleaning up, and the system tells whose they are.
 */
#include "ranks/mpi/start.h"

#include "base/clock.h"
#include "ranks/launcher.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SENTENCE = 400, LISTED = 16 };

struct ole_start {
    ole_ranks_options options;
    int rank, size;
    ole_launcher launcher;
    int door;      /* -1: none could be made */
    int wake;      /* an eventfd: the start has ended */
    char *stopped; /* [size]: how often each rank was seen so, one time after the other */
    pthread_t thread;
};

/* ---- Who has come ------------------------------------------------------------------------- */

static socklen_t door_of(const ole_start *start, int rank, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "ole-start-%ld-%lld-%d",
                 start->launcher.pid, start->launcher.start, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_door(const ole_start *start) {
    struct sockaddr_un address;
    socklen_t length = door_of(start, start->rank, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Whether a rank of this host is starting, and its process, 0 where that is not told. */
static bool is_here(const ole_start *start, int rank, long *pid) {
    struct sockaddr_un address;
    struct ucred who = {0};
    socklen_t length = door_of(start, rank, &address), room = sizeof who;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool here = fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0;
    if (here) getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &room);
    if (fd >= 0) close(fd);
    *pid = who.pid;
    return here;
}

/* ---- What is said ------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(char text[SENTENCE], const char *format,
                                                      ...) {
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, SENTENCE - length, format, args);
    va_end(args);
}

/* "rank 3", or "ranks 1, 3, 5": those whose `is_here` is as given. */
static int list_ranks(const ole_start *start, bool here, char text[SENTENCE]) {
    int count = 0;
    long pid;
    char numbers[SENTENCE] = "";
    for (int r = 0; r < start->size; r++) {
        if ((r == start->rank || is_here(start, r, &pid)) != here) continue;
        if (count < LISTED) add(numbers, "%s%d", count ? ", " : "", r);
        if (count++ == LISTED) add(numbers, ", ...");
    }
    add(text, "rank%s %s", count == 1 ? "" : "s", numbers);
    return count;
}

static void explain_time(const ole_start *start, char text[SENTENCE]) {
    char missing[SENTENCE] = "", here[SENTENCE] = "";
    add(text, "the start of %d ranks has not ended after %g s (OLE_RANK_START): ", start->size,
        start->options.start);
    int count = list_ranks(start, false, missing);
    if (start->door < 0)
        add(text, "a rank is missing or stopped");
    else if (count == 0)
        add(text, "all have come, but MPI does not connect them");
    else if (ole_launcher_one_host())
        add(text, "%s %s not come, or %s ended", missing, count == 1 ? "has" : "have",
            count == 1 ? "has" : "have");
    else {
        list_ranks(start, true, here);
        add(text, "of this host's, %s came; the others are on other hosts, or missing", here);
    }
}

static void end_process(const ole_start *start, const char *sentence) {
    signal(SIGTERM, SIG_IGN); /* the launcher's, as soon as one rank has ended */
    if (start->options.lost) start->options.lost(start->options.lost_context, sentence);
    _exit(1);
}

/* ---- The thread --------------------------------------------------------------------------- */

/* A rank that is stopped now, and was the last time. */
static void notice_stopped(ole_start *start) {
    for (int r = 0; r < start->size; r++) {
        long pid;
        bool stopped = r != start->rank && is_here(start, r, &pid) && ole_process_state(pid) == 'T';
        start->stopped[r] = stopped ? start->stopped[r] + 1 : 0;
        if (start->stopped[r] < 2) continue;
        char sentence[SENTENCE] = "";
        add(sentence, "rank %d (pid %ld) was stopped before all ranks had come", r, pid);
        end_process(start, sentence);
    }
}

static void notice_launcher(const ole_start *start) {
    char sentence[SENTENCE] = "";
    add(sentence, "the launcher (%s, pid %ld) has ended before all ranks had come",
        start->launcher.name, start->launcher.pid);
    end_process(start, sentence);
}

/* Seconds in which this process was itself stopped do not count. */
static void *count_seconds(void *argument) {
    ole_start *start = argument;
    double waited = 0, looked = 0, last = ole_clock();
    for (;;) {
        struct pollfd polls[] = {{.fd = start->wake, .events = POLLIN},
                                 {.fd = start->launcher.fd, .events = POLLIN}};
        poll(polls, 2, 500);
        if (polls[0].revents) return NULL;
        if (polls[1].revents) notice_launcher(start);
        double now = ole_clock();
        waited += now - last < 2 ? now - last : 2;
        last = now;
        if (waited >= start->options.start) {
            char sentence[SENTENCE] = "";
            explain_time(start, sentence);
            end_process(start, sentence);
        }
        if (waited < looked + start->options.silence) continue;
        looked = waited;
        notice_stopped(start);
    }
}

static void free_start(ole_start *start) {
    if (start->door >= 0) close(start->door);
    if (start->wake >= 0) close(start->wake);
    ole_launcher_close(&start->launcher);
    free(start->stopped);
    free(start);
}

ole_start *ole_start_begin(const ole_ranks_options *options) {
    int size = ole_launcher_size();
    ole_start *start = size > 1 ? calloc(1, sizeof *start) : NULL;
    if (!start) return NULL;
    *start = (ole_start){.options = *options,
                         .rank = ole_ranks_launched_rank(),
                         .size = size,
                         .launcher = ole_launcher_find(),
                         .door = -1,
                         .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                         .stopped = calloc((size_t)size, 1)};
    if (start->launcher.pid > 0) start->door = open_door(start);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the other threads */
    bool counts = start->wake >= 0 && start->stopped &&
                  pthread_create(&start->thread, NULL, count_seconds, start) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (counts) return start;
    free_start(start);
    return NULL;
}

void ole_start_end(ole_start *start) {
    if (!start) return;
    eventfd_write(start->wake, 1);
    pthread_join(start->thread, NULL);
    free_start(start);
}
