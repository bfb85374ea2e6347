/*
 * cli/common.c - what several commands need.
 */
#include "commands.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

int fail_command(const char *name, const char *format, ...) {
    fprintf(stderr, "ole %s: ", name);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return EXIT_FAILED;
}

int default_threads(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    int count = CPU_COUNT(&allowed);
    return count < 1 ? 1 : count > 1024 ? 1024 : count;
}
