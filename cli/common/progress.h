/*
 * cli/common/progress.h - one line of progress on the terminal, and Ctrl-C.
 *
 *     progress line = progress_start();
 *     catch_interrupts();
 *     while (...) {
 *         if (progress_due(&line)) progress_show(&line, "%d of %d", done, all);
 *         if (interrupted()) break;
 *     }
 *     progress_clear(&line);
 *
 * Work inside the library is watched by progress_images() or progress_share() as its callback; work
 * that tells nothing gets progress_wait().
 */
#ifndef OLE_CLI_COMMON_PROGRESS_H
#define OLE_CLI_COMMON_PROGRESS_H

#include "base/quote.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool terminal; /* stderr is one */
    bool shown;
    double started;
    double last;             /* when it was drawn */
    const char *part;        /* that progress_share() was last told of */
    double began, from;      /* when that was first, and its share then */
    struct waiting *waiting; /* of progress_wait(); or NULL */
} progress;

progress progress_start(void);

/* Whether to draw again: on a terminal, and at most ten times a second. */
bool progress_due(progress *p);

/* The columns that a line may take; as many as it needs where stderr is no terminal. */
int progress_width(const progress *p);

/* Draws the line over the last one, cut to the terminal's width; clears it, so that something else
 * can be printed. */
void progress_show(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void progress_clear(progress *p);

/*
 * How far a part is, a bar with the time left, from the first second of the line on: the
 * ole_progress of ole/base.h.  `what` is the same string while the part lasts; `line` is a
 * progress.  A part that is reported once is shown as by progress_wait().
 */
void progress_share(void *line, const char *what, double share);

/* The same for what can be stopped, as by ole/train/report.h: returns interrupted(). */
bool progress_stoppable(void *line, const char *what, double share);

/* The same with samples per second: the ole_part_callback of ole/base.h. Returns interrupted(). */
bool progress_images(void *line, const char *part, int64_t done, int64_t total);

/*
 * Until the line is drawn or cleared otherwise: what is at work, and for how long, from the first
 * second on.
 */
void progress_wait(progress *p, const char *what);

/* "ole COMMAND: text" in a line of its own; what progress_wait() shows continues below it. */
void progress_say(progress *p, const char *command, const char *text);

/* "[======>   ]" for a share from 0 to 1. */
ole_short_text bar_text(double share);

/* "12 s", "3 min 05 s", "2 h 10 min". */
ole_short_text duration_text(double seconds);

/*
 * From now on the first SIGINT, SIGTERM, SIGHUP (of a terminal that closes) or SIGUSR1, which
 * launchers and batch systems pass on, is only noted; one that comes a second later or more ends
 * the program.  (Sooner it is the same one: timeout(1) and launchers send theirs to the program and
 * to its group.)
 */
void catch_interrupts(void);
bool interrupted(void);

#endif
