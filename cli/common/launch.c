/*
 * cli/common/launch.c - joining and leaving the processes that run a command together.
 */
#include "common/launch.h"

#include "base/atomic_file.h"
#include "common/common.h"
#include "common/progress.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *command;
    const char *folder;
    const char *mistake; /* that this rank ends with, whatever happens to the others */
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
    int fd;
    if (ole_append_open(&fd, path, NULL) != OLE_OK)
        return; /* the folder is rank 0's, and may be on another host */
    ssize_t written = write(fd, line, strlen(line));
    (void)written;
    close(fd);
}

/* One write, for a line of its own. */
static void say(const char *line) {
    ssize_t written = write(STDERR_FILENO, line, strlen(line));
    (void)written;
}

/* Reports a mistake even if the launcher ends this process, or the others never come. */
static void say_mistake(int number) {
    (void)number;
    say(joined.mistake);
    _exit(EXIT_USAGE);
}

/* Called by a thread of the group's own, which then ends the process with EXIT_FAILED. */
static void say_lost(void *context, const char *reason) {
    (void)context;
    char line[1400];
    if (joined.mistake) say_mistake(0);
    if (joined.folder) keep_reason(reason);
    if (joined.folder)
        snprintf(line, sizeof line, "ole %s: %.600s; everything saved in %.700s is intact\n",
                 joined.command, reason, joined.folder);
    else
        snprintf(line, sizeof line, "ole %s: %s\n", joined.command, reason);
    say(line);
}

/* Printing after the launcher has ended must not end the process. */
static ole_status open_group(ole_ranks **ranks, double most_seconds, ole_error *error) {
    signal(SIGPIPE, SIG_IGN);
    joined.rank = ole_ranks_launched_rank();
    ole_ranks_options options;
    ole_ranks_options_init(&options);
    options.lost = say_lost;
    options.task = joined.command;
    if (options.start > most_seconds) options.start = most_seconds;
    return ole_ranks_open(ranks, &options, error);
}

/*
 * Launchers send SIGTERM to all when one process ends: it is only noted, so that the others can say
 * why.  All agree that nobody has a mistake to settle.
 */
bool launch_join(const char *command, const char *folder, ole_ranks **ranks) {
    *ranks = NULL;
    if (!ole_ranks_launched()) return true;
    char *said = take_failures();
    if (said) say(said);
    free(said);
    catch_interrupts();
    joined.command = command;
    ole_error error;
    if (open_group(ranks, HUGE_VAL, &error) == OLE_OK) {
        joined.folder = folder; /* nothing was saved there before */
        if (ole_ranks_agree(*ranks, OLE_OK, NULL) == OLE_OK) return true;
        ole_ranks_agree(*ranks, OLE_OK, NULL); /* waits until the mistake is printed */
        ole_ranks_close(*ranks);
        *ranks = NULL;
        return false; /* whoever has the mistake prints it */
    }
    /* A module that is missing may be so on one host alone; the rest is an error on all. */
    if (joined.rank == 0 || error.status == OLE_ERROR_UNSUPPORTED)
        fail_command(command, "%s", error.message);
    return false;
}

/* ---- Mistakes ----------------------------------------------------------------------------- */

void launch_expect(const char *command) {
    if (!ole_ranks_launched()) return;
    joined.command = command;
    keep_failures();
}

/* "ole train: rank 1: ..." of "ole train: ...", for a mistake that others do not have. */
static void name_rank(const char *text, char *line, size_t room) {
    int length = snprintf(line, room, "ole %s: ", joined.command);
    bool fits = strncmp(text, line, (size_t)length) == 0;
    if (fits)
        snprintf(line + length, room - (size_t)length, "rank %d: %s", joined.rank, text + length);
    else
        snprintf(line, room, "%s", text);
}

/*
 * Those who have no mistake learn of it where they join, and end too.  Those who do nothing
 * together never come: they are not waited for long.
 */
int launch_settle(int code) {
    enum { PATIENCE = 10, COMPARED = 400 }; /* seconds; bytes, which an agreed error has at least */
    char *text = take_failures(), start[COMPARED + 1], own[32], line[2048];
    if (!text) return code;
    ole_ranks *ranks = NULL;
    ole_error error = {.status = OLE_ERROR_ARGUMENT};
    int length = (int)strcspn(text, "\n"); /* messages of the library are one line */
    snprintf(error.message, sizeof error.message, "%.*s", length, text);
    joined.rank = ole_ranks_launched_rank();
    name_rank(text, line, sizeof line);
    joined.mistake = line;
    signal(SIGTERM, say_mistake);
    bool met = code != EXIT_DONE && open_group(&ranks, PATIENCE, NULL) == OLE_OK;
    if (met) ole_ranks_agree(ranks, OLE_ERROR_ARGUMENT, &error);
    signal(SIGTERM, SIG_IGN);
    snprintf(start, sizeof start, "%.*s", length, text);
    snprintf(own, sizeof own, "rank %d (", joined.rank);
    bool everybody = met && strncmp(error.message, start, strlen(start)) == 0;
    bool first = strncmp(error.message, own, strlen(own)) == 0;
    if (everybody && joined.rank == 0)
        say(text);
    else if (!met || first || !strstr(error.message, start))
        say(line);
    /* Once a rank has ended, its launcher kills the others: all leave when all have printed. */
    if (met) ole_ranks_agree(ranks, OLE_OK, NULL);
    ole_ranks_close(ranks);
    free(text);
    return code;
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
