/*
 * src/report/figure_parts.h - the parts of drawing a figure, shared by figure*.c.
 */
#ifndef OLE_SRC_REPORT_FIGURE_PARTS_H
#define OLE_SRC_REPORT_FIGURE_PARTS_H

#include "report/axis.h"
#include "report/canvas.h"
#include "report/figure.h"

#define OLE_INK ((ole_paint){0x222222, 1, "ink"})
#define OLE_AXIS ((ole_paint){0x555555, 1, "axis"})
#define OLE_GRID ((ole_paint){0xdddddd, 1, "grid"})

enum { OLE_SIZE_TEXT = 10, OLE_SIZE_TITLE = 12 }; /* points */

/* Legend, axes and series of everything but heat maps, within `box`. */
void ole_figure_draw_plot(ole_canvas *canvas, const ole_figure *figure, ole_box box);

/* The ends of the x and the y axis, as they are drawn. */
void ole_figure_ends(const ole_figure *figure, double x[2], double y[2]);

/* A heat map with its scale, within `box`. */
void ole_figure_draw_heatmap(ole_canvas *canvas, const ole_figure *figure, ole_box box);

/* The mean of a heat map's values from `row` and `column` up to, not including, the ends. */
double ole_figure_block_mean(const ole_figure *figure, int64_t row, int64_t row_end, int64_t column,
                             int64_t column_end);

/* The legend: takes its room from `box`. */
void ole_figure_draw_legend(ole_canvas *canvas, const ole_figure *figure, ole_box *box);

/* Series i's points as markers of size `radius`, and the marker at one place. */
ole_paint ole_figure_paint(int series, double alpha);
void ole_figure_add_marker(ole_canvas *canvas, const ole_figure *figure, int series, double x,
                           double y, double radius);
void ole_figure_paint_markers(ole_canvas *canvas, const ole_figure *figure, int series);

/* Text in ink at its usual size, upright or turned upwards; NULL: nothing. */
void ole_figure_words(ole_canvas *canvas, const char *text, double x, double y, ole_anchor anchor);
void ole_figure_words_up(ole_canvas *canvas, const char *text, double x, double y,
                         ole_anchor anchor);

/* The labels of both axes, so far to the left of `box` and below it. */
void ole_figure_labels(ole_canvas *canvas, const ole_figure *figure, const ole_box *box,
                       double left, double below);

/* A straight line. */
void ole_figure_rule(ole_canvas *canvas, double x0, double y0, double x1, double y1,
                     const ole_pen *pen);

#endif
