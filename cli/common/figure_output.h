/*
 * cli/common/figure_output.h - what --figures DIR and --out PAGE.html ask for: the same figures as
 * files, and on a page.
 *
 *     figure_output p;
 *     if (!figures_requested(&options)) return EXIT_DONE;
 *     int code = figure_output_open(&p, "verify", &options, "Verification", "features.npy");
 *     if (code != EXIT_DONE) return code;
 *     ole_page_headline(p.page, "AUC", "0.99", NULL);
 *     figure_output_add(&p, &figure, "roc", "What the figure shows.");
 *     return figure_output_close(&p);
 */
#ifndef OLE_CLI_COMMON_FIGURE_OUTPUT_H
#define OLE_CLI_COMMON_FIGURE_OUTPUT_H

#include "common/args.h"

#include "report/text_table.h"

typedef struct figure_options {
    const char *folder; /* --figures; NULL: none */
    const char *page;   /* --out; NULL: none */
} figure_options;

/* Two rows of a command's table of options. */
#define FIGURE_OPTIONS(options)                                                                    \
    {"out", OLE_TEXT, &(options)->page, "PAGE.html", .help = "write a report page"}, {             \
        "figures", OLE_TEXT, &(options)->folder, "DIR",                                            \
            .help = "write the figures as SVG, PDF and PNG"                                        \
    }

typedef struct figure_output {
    const char *command;
    const figure_options *options;
    ole_page *page; /* to add to; written with --out alone */
    bool failed;    /* and the reason printed */
    bool told;      /* that a format cannot be written */
} figure_output;

bool figures_requested(const figure_options *options);

/* EXIT_DONE, or the exit code after an error that was printed; then there is nothing to close. */
int figure_output_open(figure_output *p, const char *command, const figure_options *options,
                       const char *title, const char *subtitle);

/* The figure as NAME.svg, NAME.pdf and NAME.png (with cairo) into the folder; figure_output_add()
 * puts it onto the page as well. */
void figure_output_save(figure_output *p, const ole_figure *figure, const char *name);
void figure_output_add(figure_output *p, const ole_figure *figure, const char *name,
                       const char *caption);

/* A curve of at most CURVE_POINTS points for a figure: all of them, or some, evenly. */
enum { CURVE_POINTS = 500 };
ole_series thin_curve(const char *name, int64_t count, const double *x, const double *y,
                      double to_x[CURVE_POINTS], double to_y[CURVE_POINTS]);

/* Bars of a histogram from `low` to `high`: shares of the values, those outside in the end bars. */
ole_series share_bars(const char *name, int64_t count, const double *values, double low,
                      double high, int bars, double *edges, double *shares);

/* Writes the page. The exit code. */
int figure_output_close(figure_output *p);

/* Prints where page and figures were written, in the columns of the command's text. */
void figure_output_tell(const figure_options *options, int width);

#endif
