/*
 * cli/launch.c - joining and leaving the processes that run a command together.
 */
#include "launch.h"

#include "commands.h"

/* From a thread of the group's own, after which the process ends. */
static void say_lost(void *context, const char *reason) {
    fail_command(context, "%s", reason);
}

bool launch_join(const char *command, ole_ranks **ranks) {
    *ranks = NULL;
    if (!ole_ranks_launched()) return true;
    ole_ranks_options options;
    ole_error error;
    ole_ranks_options_init(&options);
    options.lost = say_lost;
    options.lost_context = (void *)command;
    options.task = command;
    if (ole_ranks_open(ranks, &options, &error) == OLE_OK) return true;
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

int launch_fail(ole_ranks *ranks, const char *reason, int code) {
    if (ranks) ole_ranks_fail(ranks, reason);
    return code;
}
