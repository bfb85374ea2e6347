/* cli/pages/analyze_page.h - the figures and the page of `ole analyze`. */
#ifndef OLE_CLI_PAGES_ANALYZE_PAGE_H
#define OLE_CLI_PAGES_ANALYZE_PAGE_H

#include "common/figure_output.h"

#include <ole/analyze.h>

/* Writes what the options ask for; `source` is what was analysed. The exit code. */
int write_analysis(const figure_options *options, const ole_analysis *analysis, const char *source);

#endif
