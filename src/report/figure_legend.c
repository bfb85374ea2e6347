/*
 * src/report/figure_legend.c - which colour and marker is whose: the legend, and the markers.
 *
 * Markers differ in shape as well as in colour, so that print in grey can be read; ten colours
 * times ten markers make a hundred groups.
 */
#include "report/figure_parts.h"
#include "report/palette.h"

#include <math.h>

enum { FILLED_MARKERS = OLE_MARKERS / 2, MOST_ABOVE = 8 };
static const double swatch = 16, gap = 14, line_height = 15;

/* ---- Markers ------------------------------------------------------------------------------- */

ole_paint ole_figure_paint(int series, double alpha) {
    static const char *const roles[OLE_COLOURS] = {"s0", "s1", "s2", "s3", "s4",
                                                   "s5", "s6", "s7", "s8", "s9"};
    return (ole_paint){ole_palette_colour(series), alpha, roles[series % OLE_COLOURS]};
}

/* Each line has its own shape; the first ten groups are round, as classes are usually few. */
static int marker_of(const ole_figure *f, int series) {
    int turn = f->kind == OLE_FIGURE_SCATTER ? series / OLE_COLOURS : series;
    return turn % OLE_MARKERS;
}

static void add_polygon(ole_canvas *canvas, double x, double y, double radius, int corners,
                        double turn) {
    for (int i = 0; i < corners; i++) {
        double angle = acos(-1) * (2.0 * i / corners + turn);
        double px = x + radius * sin(angle), py = y - radius * cos(angle);
        if (i == 0)
            canvas->move(canvas, px, py);
        else
            canvas->line(canvas, px, py);
    }
    canvas->close(canvas);
}

static void add_shape(ole_canvas *canvas, int marker, double x, double y, double radius) {
    switch (marker % FILLED_MARKERS) {
    case 0:
        canvas->disc(canvas, x, y, radius);
        break;
    case 1:
        add_polygon(canvas, x, y, 1.25 * radius, 4, 0.25);
        break;
    case 2:
        add_polygon(canvas, x, y, 1.35 * radius, 3, 0);
        break;
    case 3:
        add_polygon(canvas, x, y, 1.35 * radius, 4, 0);
        break;
    default:
        add_polygon(canvas, x, y, 1.35 * radius, 3, 1);
    }
}

void ole_figure_add_marker(ole_canvas *canvas, const ole_figure *f, int series, double x, double y,
                           double radius) {
    add_shape(canvas, marker_of(f, series), x, y, radius);
}

void ole_figure_paint_markers(ole_canvas *canvas, const ole_figure *f, int series) {
    bool hollow = marker_of(f, series) >= FILLED_MARKERS;
    const ole_paint fill = ole_figure_paint(series, f->kind == OLE_FIGURE_SCATTER ? 0.75 : 1);
    const ole_pen outline = {ole_figure_paint(series, 1), 1, 0};
    canvas->paint(canvas, hollow ? NULL : &fill, hollow ? &outline : NULL);
}

/* ---- The legend ---------------------------------------------------------------------------- */

/* Whether the legend names a series: lines among points have their names beside them. */
static bool has_entry(const ole_figure *f, int i) {
    return f->series[i].name && !(f->kind == OLE_FIGURE_SCATTER && f->series[i].dotted);
}

/* The sample of a series, before its name. */
static void draw_key(ole_canvas *canvas, const ole_figure *f, int series, double x, double y) {
    const ole_series *s = &f->series[series];
    double middle = y - 0.35 * OLE_SIZE_TEXT;
    if (f->kind == OLE_FIGURE_HISTOGRAM) {
        const ole_paint fill = ole_figure_paint(series, 0.4);
        const ole_pen outline = {ole_figure_paint(series, 1), 1.2, 0};
        ole_canvas_rectangle(canvas, &(ole_box){x, middle - 4, swatch - 4, 8});
        canvas->paint(canvas, &fill, &outline);
        return;
    }
    if (s->band && s->spread) {
        const ole_paint fill = ole_figure_paint(series, 0.2);
        ole_canvas_rectangle(canvas, &(ole_box){x, middle - 4, swatch, 8});
        canvas->paint(canvas, &fill, NULL);
    }
    if (f->kind == OLE_FIGURE_LINES) {
        const ole_pen pen = {ole_figure_paint(series, 1), s->dotted ? 1.4 : 1.8, s->dotted ? 3 : 0};
        ole_figure_rule(canvas, x, middle, x + swatch, middle, &pen);
    }
    if (s->dotted) return;
    ole_figure_add_marker(canvas, f, series, x + swatch / 2, middle, 3);
    ole_figure_paint_markers(canvas, f, series);
}

static void draw_entry(ole_canvas *canvas, const ole_figure *f, int series, double x, double y) {
    draw_key(canvas, f, series, x, y);
    ole_figure_words(canvas, f->series[series].name, x + swatch + 4, y, OLE_ANCHOR_START);
}

static double entry_width(const ole_figure *f, int series) {
    return swatch + 4 + ole_words_width(f->series[series].name, OLE_SIZE_TEXT) + gap;
}

/* In rows above the plot. */
static void draw_above(ole_canvas *canvas, const ole_figure *f, ole_box *box) {
    double x = box->x, y = box->y + OLE_SIZE_TEXT;
    for (int i = 0; i < f->series_count; i++) {
        if (!has_entry(f, i)) continue;
        double width = entry_width(f, i);
        if (x > box->x && x + width > box->x + box->width) {
            x = box->x;
            y += line_height;
        }
        draw_entry(canvas, f, i, x, y);
        x += width;
    }
    double used = y + 11 - box->y;
    box->y += used;
    box->height -= used;
}

/* In columns to the right, as many as fit in half the width. */
static void draw_beside(ole_canvas *canvas, const ole_figure *f, int named, ole_box *box) {
    double widest = 0;
    for (int i = 0; i < f->series_count; i++)
        if (has_entry(f, i)) widest = fmax(widest, entry_width(f, i));
    int rows = (int)fmax(1, floor(box->height / line_height));
    int columns = (int)fmax(1, fmin((named + rows - 1) / rows, floor(box->width / 2 / widest)));
    double left = box->x + box->width - columns * widest;
    int shown = 0;
    for (int i = 0; i < f->series_count && shown < rows * columns; i++) {
        if (!has_entry(f, i)) continue;
        draw_entry(canvas, f, i, left + shown / rows * widest,
                   box->y + OLE_SIZE_TEXT + shown % rows * line_height);
        shown++;
    }
    box->width = left - gap - box->x;
}

void ole_figure_draw_legend(ole_canvas *canvas, const ole_figure *f, ole_box *box) {
    int named = 0;
    for (int i = 0; i < f->series_count; i++)
        named += has_entry(f, i);
    if (named > MOST_ABOVE)
        draw_beside(canvas, f, named, box);
    else if (named > 0)
        draw_above(canvas, f, box);
}
