/*
 * cli/progress.h - one line on the terminal that says how far something is, and Ctrl-C.
 *
 *     progress line = progress_start();
 *     catch_interrupts();
 *     while (...) {
 *         if (progress_due(&line)) progress_show(&line, "%d of %d", done, all);
 *         if (interrupted()) break;
 *     }
 *     progress_clear(&line);
 */
#ifndef OLE_CLI_PROGRESS_H
#define OLE_CLI_PROGRESS_H

#include <stdbool.h>

typedef struct progress {
    bool terminal; /* stderr is one */
    bool shown;
    double last; /* when it was drawn */
} progress;

progress progress_start(void);

/* Whether to draw again: on a terminal, and at most ten times a second. */
bool progress_due(progress *p);

/* Draws the line over the last one; clears it, so that something else can be printed. */
void progress_show(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void progress_clear(progress *p);

/* "[======>   ]" for a share from 0 to 1. */
enum { BAR_ROOM = 24 };
const char *bar_text(double share, char out[BAR_ROOM]);

/* "12 s", "3 min 05 s", "2 h 10 min". */
const char *duration_text(double seconds, char out[32]);

/* Seconds that only go forward. */
double progress_clock(void);

/*
 * From now on the first SIGINT, SIGTERM or SIGUSR1, which launchers and batch systems pass on, is
 * only noted; the second one ends the program.
 */
void catch_interrupts(void);
bool interrupted(void);

#endif
