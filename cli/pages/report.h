/* cli/pages/report.h - the page of one run folder or of several, for `ole report` and `ole train`.
 */
#ifndef OLE_CLI_PAGES_REPORT_H
#define OLE_CLI_PAGES_REPORT_H

#include "pages/run_view.h"

enum { REPORT_MOST_RUNS = 32, REPORT_MOST_MAPS = 4 };

typedef struct report {
    const char *const *folders;
    int count;       /* 1 to REPORT_MOST_RUNS */
    const char *out; /* the page */
    int threads;
    int maps;       /* runs of which a t-SNE map is made, REPORT_MOST_MAPS at most */
    run_view *runs; /* [count], filled by report_make(); free with report_free() */
} report;

/* The folders of runs; free with report_list_free(). */
typedef struct report_list {
    char *folders[REPORT_MOST_RUNS];
    int count;
} report_list;

/*
 * Adds a folder of `ole train`: itself, or the runs in it where there is one for each seed.  False
 * with the reason where it holds none, or a page has no room for them; of more than that of one
 * folder the first are taken.
 */
bool report_list_add(report_list *l, const char *folder, ole_error *error);
void report_list_free(report_list *l);

/* Reads, measures and writes. False after an error or an interruption. */
bool report_make(report *r, ole_error *error);
void report_free(report *r);

#endif
