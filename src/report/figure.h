/*
 * src/report/figure.h - figures for print and screen: lines, histograms, scatter plots and heat
 * maps as SVG, PDF or PNG, all from the same drawing.
 *
 *     const double lambda[] = {0.0625, 0.25, 1};
 *     const double error[] = {26.1, 25.4, 25.9};
 *     const double std[] = {.4, .3, .5};
 *     const ole_series series = {"softmax + OLÉ", 3, lambda, error, .spread = std};
 *     ole_figure figure;
 *     ole_figure_init(&figure);
 *     figure.title = "Error against λ";
 *     figure.x_label = "λ";
 *     figure.y_label = "error, %";
 *     figure.x_log = true;
 *     figure.series = &series;
 *     figure.series_count = 1;
 *     ole_figure_save(&figure, "lambda.pdf", NULL);
 *
 * Colours can be told apart by colour-blind readers and in grey; axes are labelled with round
 * numbers.
 */
#ifndef OLE_SRC_REPORT_FIGURE_H
#define OLE_SRC_REPORT_FIGURE_H

#include "base/export.h"
#include "ole/base.h"

#include <stdbool.h>

typedef enum ole_figure_kind {
    OLE_FIGURE_LINES = 0, /* y against x, points joined */
    OLE_FIGURE_HISTOGRAM =
        1,                  /* series of `count` bars; x[count + 1] are the edges, y the heights */
    OLE_FIGURE_SCATTER = 2, /* points; one series a group */
    OLE_FIGURE_HEATMAP = 3, /* values[rows, columns] in a colour scale */
} ole_figure_kind;

typedef struct ole_series {
    const char *name; /* for the legend; NULL: none */
    int64_t count;
    const double *x, *y;  /* NaN leaves a gap */
    const double *spread; /* standard deviations, drawn as error bars around y; or NULL */
    bool dotted;          /* a line of reference; among points: solid, with its name at its end */
    bool band;            /* lines: the spread as a shaded band from y - spread to y + spread */
} ole_series;

/* A vertical line across lines or a histogram, such as a threshold, with its name above. */
typedef struct ole_mark {
    double x;
    const char *label; /* NULL: none */
} ole_mark;

/* Fill with ole_figure_init(). Strings and arrays are the caller's. */
typedef struct ole_figure {
    size_t struct_size;
    ole_figure_kind kind;
    const char *title, *x_label, *y_label; /* NULL: none */
    bool x_log, y_log;
    double x_min, x_max, y_min, y_max; /* NaN (default): from the numbers */
    bool y_free;                       /* the y axis need not show 0, as that of accuracies */
    const double *x_ticks; /* [x_tick_count] rising numbers on the axis, or NULL: round ones */
    int x_tick_count;
    const ole_series *series;
    int series_count;
    const ole_mark *marks; /* [mark_count], or NULL */
    int mark_count;
    /* scatter plots: the points of all series in space, [points, 3], of which x and y are the view
     * from (1, 1, 1); a page lets one turn them.  NULL: none. */
    const double *space;
    /* heat maps */
    const float *values; /* [rows, columns] */
    int64_t rows, columns;
    double value_min, value_max; /* NaN (default): from the numbers */
    const char *value_label;
    const char *const *row_names; /* [rows] and [columns], or NULL */
    const char *const *column_names;
    const int64_t *breaks; /* rows and columns before which a class begins, drawn as thin lines */
    int break_count;
    const char *const *block_names; /* [break_count + 1] of the classes between them, or NULL */
    double width, height;           /* points; default 480 x 320 */
} ole_figure;

OLE_INTERNAL void ole_figure_init(ole_figure *figure);

/* Writes the file; the extension (.svg, .pdf or .png) selects the format. */
OLE_INTERNAL ole_status ole_figure_save(const ole_figure *figure, const char *path,
                                        ole_error *error);

/* Ends the y axes of lines or histograms at one value above all of them, to be compared; leaves
 * other kinds as they are. */
OLE_INTERNAL void ole_figures_share_y(ole_figure *figures, int count);

/* The SVG as text, for pages; free() it. */
OLE_INTERNAL ole_status ole_figure_svg(const ole_figure *figure, char **text, ole_error *error);

#endif
