/*
 * cli/launch.c - joining and leaving the processes that run a command together.
 */
#include "launch.h"

#include "commands.h"
#include "progress.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *command;
    const char *folder;
    int rank;
} joined;

/* A line of FOLDER/lost.log: when the launcher has ended, nobody reads what is printed. */
static void keep_reason(const char *reason) {
    char path[4096], line[800], date[32];
    time_t now = time(NULL);
    struct tm parts;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    snprintf(path, sizeof path, "%s/lost.log", joined.folder);
    snprintf(line, sizeof line, "%s rank %d (pid %ld): %s\n", date, joined.rank, (long)getpid(),
             reason);
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags, 0666);
    if (fd < 0) return; /* the folder is rank 0's, and may be on another host */
    ssize_t written = write(fd, line, strlen(line));
    (void)written;
    close(fd);
}

/* Called by a thread of the group's own; then the process ends. One write, for a line of its own.
 */
static void say_lost(void *context, const char *reason) {
    (void)context;
    char line[1400];
    if (joined.folder) keep_reason(reason);
    if (joined.folder)
        snprintf(line, sizeof line, "ole %s: %.600s; what was saved in %.700s is whole\n",
                 joined.command, reason, joined.folder);
    else
        snprintf(line, sizeof line, "ole %s: %s\n", joined.command, reason);
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
    _exit(EXIT_FAILED);
}

/*
 * Launchers send SIGTERM to all when one process ends: it is noted only, so that the others can say
 * why.  Printing after the launcher has ended must not end the process either.
 */
bool launch_join(const char *command, const char *folder, ole_ranks **ranks) {
    *ranks = NULL;
    if (!ole_ranks_launched()) return true;
    catch_interrupts();
    signal(SIGPIPE, SIG_IGN);
    joined.command = command;
    joined.folder = folder;
    joined.rank = ole_ranks_launched_rank();
    ole_ranks_options options;
    ole_error error;
    ole_ranks_options_init(&options);
    options.lost = say_lost;
    options.task = command;
    if (ole_ranks_open(ranks, &options, &error) == OLE_OK) return true;
    /* A module that is missing may be so on one host alone; the rest is an error on all. */
    if (joined.rank == 0 || error.status == OLE_ERROR_UNSUPPORTED)
        fail_command(command, "%s", error.message);
    return false;
}

bool launch_prints(const ole_ranks *ranks) {
    return ole_ranks_rank(ranks) == 0;
}

bool launch_go_on(ole_ranks *ranks, bool good) {
    return ole_ranks_agree(ranks, good ? OLE_OK : OLE_ERROR_IO, NULL) == OLE_OK;
}

int launch_leave(ole_ranks *ranks, int code) {
    ole_ranks_close(ranks);
    return code;
}

void launch_fail(ole_ranks *ranks, const char *reason) {
    ole_ranks_fail(ranks, reason);
}
