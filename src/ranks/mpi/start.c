/*
 * src/ranks/mpi/start.c - who has come, known by their doors: sockets in the abstract namespace,
 * named after launcher and rank, that are there as long as a rank is starting.  They need no
 * cleaning up, and the system tells whose they are.
 */
#include "ranks/mpi/start.h"

#include "base/clock.h"
#include "base/thread.h"
#include "ranks/launcher.h"

#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { NAMES = 240 };

struct ole_start {
    ole_ranks_options options;
    int rank, size;
    ole_launcher launcher;
    int door;      /* -1: none could be made */
    int wake;      /* an eventfd: the start has ended */
    bool *stopped; /* [size]: whether each rank was so when it was last looked at */
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

/* "rank 3", or "ranks 1, 3, 5": those that have come, or have not. */
static int list_ranks(const ole_start *start, bool came, char text[NAMES]) {
    enum { LISTED = 16 };
    int count = 0;
    size_t used = 0;
    long pid;
    char numbers[NAMES - 8] = "";
    for (int r = 0; r < start->size; r++) {
        if ((r == start->rank || is_here(start, r, &pid)) != came || ++count > LISTED + 1) continue;
        const char *comma = count > 1 ? ", " : "";
        size_t room = sizeof numbers - used;
        used += (size_t)(count > LISTED ? snprintf(numbers + used, room, "%s...", comma)
                                        : snprintf(numbers + used, room, "%s%d", comma, r));
    }
    snprintf(text, NAMES, "rank%s %s", count == 1 ? "" : "s", numbers);
    return count;
}

/* ---- The end ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void end_process(const ole_start *start,
                                                              const char *format, ...) {
    char sentence[400];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    signal(SIGTERM, SIG_IGN); /* the launcher's, as soon as one rank has ended */
    if (start->options.lost) start->options.lost(start->options.lost_context, sentence);
    _exit(1);
}

static void end_late(const ole_start *start) {
    char missing[NAMES], here[NAMES], why[NAMES + 80];
    int count = list_ranks(start, false, missing);
    const char *have = count == 1 ? "has" : "have";
    list_ranks(start, true, here);
    if (start->door < 0)
        snprintf(why, sizeof why, "a rank is missing or stopped");
    else if (count == 0)
        snprintf(why, sizeof why, "all have started, but MPI does not connect them");
    else if (ole_launcher_one_host())
        snprintf(why, sizeof why, "%s %s not started, or %s ended", missing, have, have);
    else
        snprintf(why, sizeof why,
                 "on this host, %s started; the others are on other hosts, or missing", here);
    end_process(start, "%d ranks have not all started after %g s (OLE_RANK_START): %s", start->size,
                start->options.start, why);
}

/* ---- The thread --------------------------------------------------------------------------- */

/* A rank that is stopped now, and was the last time. */
static void notice_stopped(ole_start *start) {
    for (int r = 0; r < start->size; r++) {
        long pid;
        bool stopped = r != start->rank && is_here(start, r, &pid) && ole_process_state(pid) == 'T';
        if (stopped && start->stopped[r])
            end_process(start, "rank %d (pid %ld) was stopped before all ranks had started", r,
                        pid);
        start->stopped[r] = stopped;
    }
}

/* Seconds in which this process was itself stopped do not count. */
static void *count_seconds(void *argument) {
    ole_start *start = argument;
    double waited = 0, looked = 0, last = ole_clock();
    struct pollfd ended = {.fd = start->wake, .events = POLLIN};
    while (poll(&ended, 1, 200) <= 0) {
        double now = ole_clock();
        waited += now - last < 2 ? now - last : 2;
        last = now;
        if (ole_launcher_ended(&start->launcher))
            end_process(start, "the launcher (%s, pid %ld) ended before all ranks had started",
                        start->launcher.name, start->launcher.pid);
        if (waited >= start->options.start) end_late(start);
        if (waited < looked + start->options.silence) continue;
        looked = waited;
        notice_stopped(start);
    }
    return NULL;
}

static void free_start(ole_start *start) {
    if (start->door >= 0) close(start->door);
    if (start->wake >= 0) close(start->wake);
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
                         .stopped = calloc((size_t)size, sizeof(bool))};
    if (start->launcher.pid > 0) start->door = open_door(start);
    if (start->wake >= 0 && start->stopped &&
        ole_thread_start(&start->thread, count_seconds, start) == 0)
        return start;
    free_start(start);
    return NULL;
}

void ole_start_end(ole_start *start) {
    if (!start) return;
    eventfd_write(start->wake, 1);
    pthread_join(start->thread, NULL);
    free_start(start);
}
