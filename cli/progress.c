/*
 * cli/progress.c - the progress line, and signals that ask to stop.
 */
#include "progress.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double progress_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

progress progress_start(void) {
    return (progress){.terminal = isatty(STDERR_FILENO) != 0};
}

bool progress_due(progress *p) {
    if (!p->terminal) return false;
    double now = progress_clock();
    if (now - p->last < 0.1) return false;
    p->last = now;
    return true;
}

void progress_show(progress *p, const char *format, ...) {
    fprintf(stderr, "\r\033[K");
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    p->shown = true;
}

void progress_clear(progress *p) {
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

const char *bar_text(double share, char out[BAR_ROOM]) {
    enum { WIDTH = 20 };
    int full = (int)(fmax(0.0, fmin(1.0, share)) * WIDTH);
    memset(out, ' ', BAR_ROOM - 1);
    out[0] = '[';
    memset(out + 1, '=', (size_t)full);
    if (full < WIDTH) out[1 + full] = '>';
    out[1 + WIDTH] = ']';
    out[2 + WIDTH] = '\0';
    return out;
}

const char *duration_text(double seconds, char out[32]) {
    if (!(seconds < 1e9)) {
        snprintf(out, 32, "?");
        return out;
    }
    int whole = (int)(seconds + 0.5);
    if (whole < 60)
        snprintf(out, 32, "%d s", whole);
    else if (whole < 3600)
        snprintf(out, 32, "%d min %02d s", whole / 60, whole % 60);
    else
        snprintf(out, 32, "%d h %02d min", whole / 3600, whole / 60 % 60);
    return out;
}

static volatile sig_atomic_t noted;

static void note(int number) {
    (void)number;
    noted = 1;
}

void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

bool interrupted(void) {
    return noted != 0;
}
