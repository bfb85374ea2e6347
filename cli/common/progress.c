/*
 * cli/common/progress.c - the progress line, and signals that ask to stop.
 */
#include "common/progress.h"

#include "base/clock.h"
#include "common/common.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

progress progress_start(void) {
    return (progress){.terminal = isatty(STDERR_FILENO) != 0, .started = ole_clock()};
}

/* Asked for each line, so that it follows a window that is resized. */
static int terminal_width(void) {
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 0 && width <= 10000 ? (int)width : 80;
}

int progress_width(const progress *p) {
    return p->terminal ? terminal_width() - 1 : INT_MAX;
}

/* Two spaces between fields, not those of a bar. */
static bool is_gap(const char *c) {
    return c[-1] != ' ' && c[0] == ' ' && c[1] == ' ' && c[2] != ' ' && c[2] != ']';
}

/* Drops the last fields of a text that is too wide. */
static void drop_fields(char *text, int width) {
    int columns = 0;
    char *gap = NULL; /* the last one within the width */
    for (char *c = text; *c && columns <= width; c++) {
        if (c > text && is_gap(c)) gap = c;
        if ((*c & 0xC0) != 0x80) columns++;
    }
    if (columns > width && gap) *gap = '\0';
}

/* The last column stays free: some terminals wrap as soon as it is written. */
void progress_show(progress *p, const char *format, ...) {
    char text[512]; /* more than a line */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int width = terminal_width() - 1;
    drop_fields(text, width);
    fprintf(stderr, "\r\033[K");
    print_cut(stderr, text, width);
    p->shown = true;
}

/* ---- Work that does not say how far it is -------------------------------------------------- */

/* A thread that draws the line once a second. */
struct waiting {
    progress *line;
    const char *what;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ends;
    bool ended;
};

static void *draw_waiting(void *context) {
    struct waiting *w = context;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&w->lock);
    for (int seconds = 1; !w->ended; seconds++) {
        next.tv_sec++;
        while (!w->ended && pthread_cond_timedwait(&w->ends, &w->lock, &next) == 0)
            continue;
        if (!w->ended) progress_show(w->line, "%-18s %s", w->what, duration_text(seconds).text);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void free_waiting(struct waiting *w) {
    pthread_cond_destroy(&w->ends);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void start_waiting(progress *p, const char *what) {
    struct waiting *w = p->terminal ? calloc(1, sizeof *w) : NULL;
    if (!w) return;
    w->line = p;
    w->what = what;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ends, &clock);
    pthread_condattr_destroy(&clock);
    if (pthread_create(&w->thread, NULL, draw_waiting, w) == 0)
        p->waiting = w;
    else
        free_waiting(w);
}

static void end_waiting(progress *p) {
    struct waiting *w = p->waiting;
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_signal(&w->ends);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    free_waiting(w);
    p->waiting = NULL;
}

void progress_wait(progress *p, const char *what) {
    progress_clear(p);
    start_waiting(p, what);
}

void progress_say(progress *p, const char *command, const char *text) {
    const char *what = p->waiting ? p->waiting->what : NULL;
    progress_clear(p);
    tell_command(command, "%s", text);
    if (what) start_waiting(p, what);
}

void progress_clear(progress *p) {
    end_waiting(p);
    if (p->shown) fprintf(stderr, "\r\033[K");
    p->shown = false;
}

bool progress_due(progress *p) {
    if (!p->terminal) return false;
    end_waiting(p);
    double now = ole_clock();
    if (now - p->last < 0.1) return false;
    p->last = now;
    return true;
}

/* ---- Work that says how far it is --------------------------------------------------------- */

/* Notes the beginning of a part that was not heard of before. */
static bool begin_part(progress *p, const char *part, double share) {
    if (p->part == part && share >= p->from) return false;
    p->part = part;
    p->began = ole_clock();
    p->from = share;
    return true;
}

static void draw_part(progress *p, double share, double total) {
    double seconds = ole_clock() - p->began, done = share - p->from;
    ole_short_text rate = {""}, left = {""};
    if (seconds >= 1.0 && done > 0.0) { /* else it is too early to say */
        if (total > 0.0) rate = ole_printed("%.0f samples/s, ", done * total / seconds);
        left = ole_printed("%s left", duration_text(seconds * (1.0 - share) / done).text);
    }
    progress_show(p, "%-18s %s  %s%s", p->part, bar_text(share).text, rate.text, left.text);
}

/* Until a part that begins is heard of again, its seconds are shown: that may be its end. */
static void show_part(progress *p, const char *part, double share, double total) {
    end_waiting(p);
    bool begins = begin_part(p, part, share);
    if (ole_clock() - p->started >= 1.0 && progress_due(p)) draw_part(p, share, total);
    if (begins) start_waiting(p, part);
}

void progress_share(void *line, const char *what, double share) {
    show_part(line, what, share, 0.0);
}

bool progress_stoppable(void *line, const char *what, double share) {
    progress_share(line, what, share);
    return interrupted();
}

bool progress_images(void *line, const char *part, int64_t done, int64_t total) {
    show_part(line, part, (double)done / (double)total, (double)total);
    return interrupted();
}

/* ---- Texts -------------------------------------------------------------------------------- */

ole_short_text bar_text(double share) {
    static const char full[] = "====================";
    const int width = sizeof full - 1;
    int length = (int)(fmax(0.0, fmin(1.0, share)) * width);
    return ole_printed("[%.*s%-*s]", length, full, width - length, length < width ? ">" : "");
}

ole_short_text duration_text(double seconds) {
    if (!(seconds < 1e9)) return ole_printed("?");
    int whole = (int)(seconds + 0.5);
    if (whole < 60) return ole_printed("%d s", whole);
    if (whole < 3600) return ole_printed("%d min %02d s", whole / 60, whole % 60);
    return ole_printed("%d h %02d min", whole / 3600, whole / 60 % 60);
}

/* ---- Signals ------------------------------------------------------------------------------ */

/* When the first signal came, in seconds of ole_clock; 0: none has. */
static _Atomic double noted;

static void note(int number) {
    double now = ole_clock(), none = 0.0;
    if (atomic_compare_exchange_strong(&noted, &none, now) || now - none < 1.0) return;
    signal(number, SIG_DFL);
    raise(number);
}

void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = note};
    signal(SIGPIPE, SIG_IGN); /* who reads the output may go: the work is not lost with it */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct sigaction old;
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* as nohup has it */
        sigaction(SIGHUP, &action, NULL);
}

bool interrupted(void) {
    return noted > 0.0;
}
