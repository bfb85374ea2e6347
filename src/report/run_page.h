/* src/report/run_page.h - the page of one run or of several side by side. */
#ifndef OLE_SRC_REPORT_RUN_PAGE_H
#define OLE_SRC_REPORT_RUN_PAGE_H

#include "report/run_view.h"

typedef struct ole_shown_runs {
    int count;
    const ole_run_view *views;  /* [count], measured */
    const ole_report_row *rows; /* [count]: their headline numbers */
} ole_shown_runs;

ole_status ole_run_page_write(const ole_shown_runs *runs, const char *out, ole_error *error);

#endif
