/*
 * cli/common.c - what several commands need.
 */
#include "commands.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int fail_command(const char *name, const char *format, ...) {
    fprintf(stderr, "ole %s: ", name);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return EXIT_FAILED;
}

bool parse_shape(const char *text, int shape[3]) {
    enum { MOST = 1 << 20 };
    int count = 0;
    for (const char *at = text; count < 3; at++) {
        char *end;
        long value = *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : 0;
        if (value < 1 || value > MOST) return false;
        shape[count++] = (int)value;
        at = end;
        if (*at == '\0') break;
        if (*at != 'x' || count == 3) return false;
    }
    if (count == 1) shape[1] = shape[2] = 1;
    return count != 2;
}

bool parse_share(const char *text, double *share) {
    char *end;
    *share = strtod(text, &end);
    if (end == text) return false;
    if (*end == '%') {
        *share /= 100.0;
        end++;
    }
    return !*end && *share >= 0.0 && *share <= 1.0;
}

int default_threads(void) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
    int count = CPU_COUNT(&allowed);
    return count < 1 ? 1 : count > 1024 ? 1024 : count;
}

bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
