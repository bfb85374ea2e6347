/*
 * src/report/figure_plot.c - axes and series: lines, histograms, scatter plots.
 */
#include "report/figure_parts.h"

#include <math.h>

enum { MARK_ROW = OLE_SIZE_TEXT + 4 }; /* the height of a mark's label above the plot */

/* ---- Ranges -------------------------------------------------------------------------------- */

static void find_ranges(const ole_figure *f, ole_range *x, ole_range *y) {
    *x = ole_range_start(f->x_log);
    *y = ole_range_start(f->y_log);
    x->whole = f->kind == OLE_FIGURE_LINES;
    for (int i = 0; i < f->series_count; i++) {
        const ole_series *s = &f->series[i];
        bool bars = f->kind == OLE_FIGURE_HISTOGRAM;
        for (int64_t k = 0; k < s->count + (bars && s->count > 0); k++)
            ole_range_add(x, s->x[k]);
        for (int64_t k = 0; k < s->count; k++) {
            if (isnan(s->x[k])) continue;
            if (s->x[k] != floor(s->x[k])) x->whole = false;
            double spread = s->spread && isfinite(s->spread[k]) ? s->spread[k] : 0;
            ole_range_add(y, s->y[k] - spread);
            ole_range_add(y, s->y[k] + spread);
        }
    }
    for (int i = 0; i < f->mark_count; i++) {
        ole_range_add(x, f->marks[i].x);
        if (f->marks[i].x != floor(f->marks[i].x)) x->whole = false;
    }
}

/* Bars start at 0, and so does the axis of lines that come near it, unless the figure leaves it
 * free. */
static bool starts_at_zero(const ole_figure *f, const ole_range *y) {
    if (f->y_log || ole_range_empty(y) || y->min < 0 || f->kind == OLE_FIGURE_SCATTER) return false;
    return f->kind == OLE_FIGURE_HISTOGRAM || (!f->y_free && y->min < 0.35 * y->max);
}

static double x_pad(const ole_figure *f) {
    return f->kind == OLE_FIGURE_HISTOGRAM ? 0 : f->kind == OLE_FIGURE_SCATTER ? 0.04 : 0.02;
}

static void make_y_axis(const ole_figure *f, ole_range *range, ole_axis *y, int ticks) {
    double min = f->y_min;
    if (isnan(min) && starts_at_zero(f, range)) min = range->min = 0;
    ole_axis_make(y, range, min, f->y_max, 0.05, ticks);
}

void ole_figure_ends(const ole_figure *f, double x[2], double y[2]) {
    ole_range x_range, y_range;
    ole_axis across, up;
    find_ranges(f, &x_range, &y_range);
    ole_axis_make(&across, &x_range, f->x_min, f->x_max, x_pad(f), 1);
    make_y_axis(f, &y_range, &up, 1);
    x[0] = across.min, x[1] = across.max;
    y[0] = up.min, y[1] = up.max;
}

static double widest_tick(const ole_axis *axis) {
    double widest = 0;
    char number[OLE_NUMBER_ROOM];
    for (int i = 0; i < axis->ticks; i++) {
        double width = ole_words_width(ole_axis_tick(axis, i, number), OLE_SIZE_TEXT);
        if (width > widest) widest = width;
    }
    return widest;
}

/* Ticks at every `stride`th of the figure's own numbers; one that would touch the previous one is
 * omitted.  Whether none was. */
static bool take_every(const ole_figure *f, ole_axis *x, int stride) {
    double free_from = -HUGE_VAL;
    bool all = true;
    x->ticks = 0;
    x->step = f->x_tick_count > 0 && f->x_ticks[0] != 0 ? fabs(f->x_ticks[0]) : 1;
    for (int i = 1; i < f->x_tick_count; i++) /* the shortest step gives the decimals */
        x->step = fmin(x->step, f->x_ticks[i] - f->x_ticks[i - 1]);
    for (int i = 0; i < f->x_tick_count && x->ticks < OLE_AXIS_TICKS; i += stride) {
        char number[OLE_NUMBER_ROOM];
        double at = ole_axis_place(x, x->at[x->ticks] = f->x_ticks[i]);
        double half = ole_words_width(ole_axis_tick(x, x->ticks, number), OLE_SIZE_TEXT) / 2;
        if (!(f->x_ticks[i] >= x->min && f->x_ticks[i] <= x->max)) continue;
        if (at - half < free_from) {
            all = false;
            continue;
        }
        free_from = at + half + 6;
        x->ticks++;
    }
    return all;
}

/* Ticks at the figure's own numbers instead of round ones.  Evenly spaced ones stay so. */
static void take_ticks(const ole_figure *f, ole_axis *x) {
    bool even = !x->log && f->x_tick_count > 2;
    for (int i = 2; i < f->x_tick_count; i++)
        even &= f->x_ticks[i] - f->x_ticks[i - 1] == f->x_ticks[1] - f->x_ticks[0];
    for (int stride = 1; !take_every(f, x, stride) && even && stride < f->x_tick_count; stride++)
        continue;
}

/* Both axes with their places in `box`, from which they take their room. */
static void make_axes(const ole_figure *f, ole_box *box, ole_axis *x, ole_axis *y) {
    ole_range x_range, y_range;
    find_ranges(f, &x_range, &y_range);
    const double label = OLE_SIZE_TEXT + 6;
    box->y += f->mark_count * MARK_ROW;
    box->height -= label + (f->x_label ? label : 0) + f->mark_count * MARK_ROW;
    make_y_axis(f, &y_range, y, (int)fmax(2, box->height / 36));
    double left = widest_tick(y) + 8 + (f->y_label ? label + 3 : 0), right = 6;
    box->x += left;
    box->width -= left + right;
    for (int wanted = (int)fmax(2, box->width / 44); wanted >= 1; wanted--) {
        ole_axis_make(x, &x_range, f->x_min, f->x_max, x_pad(f), wanted);
        if ((widest_tick(x) + 10) * x->ticks <= box->width) break;
    }
    x->from = box->x;
    x->to = box->x + box->width;
    if (f->x_ticks) take_ticks(f, x);
    y->from = box->y + box->height;
    y->to = box->y;
}

/* ---- Axes ---------------------------------------------------------------------------------- */

static void draw_axes(ole_canvas *canvas, const ole_figure *f, const ole_box *box,
                      const ole_axis *x, const ole_axis *y) {
    const ole_pen grid = {OLE_GRID, 0.6, 0}, axis = {OLE_AXIS, 0.9, 0};
    double bottom = box->y + box->height, right = box->x + box->width;
    char number[OLE_NUMBER_ROOM];
    for (int i = 0; i < y->ticks; i++) {
        double at = ole_axis_place(y, y->at[i]);
        ole_figure_rule(canvas, box->x, at, right, at, &grid);
        ole_figure_words(canvas, ole_axis_tick(y, i, number), box->x - 6, at + 0.35 * OLE_SIZE_TEXT,
                         OLE_ANCHOR_END);
    }
    for (int i = 0; i < x->ticks; i++) {
        double at = ole_axis_place(x, x->at[i]);
        ole_figure_rule(canvas, at, bottom, at, bottom + 4, &axis);
        ole_figure_words(canvas, ole_axis_tick(x, i, number), at, bottom + 5 + OLE_SIZE_TEXT,
                         OLE_ANCHOR_MIDDLE);
    }
    ole_figure_rule(canvas, box->x, bottom, right, bottom, &axis);
    ole_figure_labels(canvas, f, box, widest_tick(y) + 14, 10 + 2 * OLE_SIZE_TEXT);
}

/* ---- Series -------------------------------------------------------------------------------- */

/* The place of point k; false where it has none. */
static bool place(const ole_series *s, int64_t k, const ole_axis *x, const ole_axis *y,
                  double at[2]) {
    if (!isfinite(s->x[k]) || !isfinite(s->y[k])) return false;
    if ((x->log && s->x[k] <= 0) || (y->log && s->y[k] <= 0)) return false;
    at[0] = ole_axis_place(x, s->x[k]);
    at[1] = ole_axis_place(y, s->y[k]);
    return true;
}

static void draw_error_bars(ole_canvas *canvas, const ole_series *s, int series, const ole_axis *x,
                            const ole_axis *y) {
    const double cap = 3;
    const ole_pen pen = {ole_figure_paint(series, 1), 1, 0};
    for (int64_t k = 0; k < s->count; k++) {
        double at[2];
        if (!isfinite(s->spread[k]) || s->spread[k] <= 0 || !place(s, k, x, y, at)) continue;
        double low = s->y[k] - s->spread[k];
        double bottom = y->log && low <= 0 ? y->from : ole_axis_place(y, low);
        double top = ole_axis_place(y, s->y[k] + s->spread[k]);
        canvas->move(canvas, at[0], bottom);
        canvas->line(canvas, at[0], top);
        canvas->move(canvas, at[0] - cap, bottom);
        canvas->line(canvas, at[0] + cap, bottom);
        canvas->move(canvas, at[0] - cap, top);
        canvas->line(canvas, at[0] + cap, top);
    }
    canvas->paint(canvas, NULL, &pen);
}

/* From the upper edge back along the lower one; a gap in the line ends a band. */
static void draw_band(ole_canvas *canvas, const ole_series *s, int series, const ole_axis *x,
                      const ole_axis *y) {
    const ole_paint fill = ole_figure_paint(series, 0.2);
    double at[2];
    for (int64_t from = 0, to; from < s->count; from = to + 1) {
        for (to = from; to < s->count && isfinite(s->spread[to]) && place(s, to, x, y, at); to++)
            (to == from ? canvas->move : canvas->line)(canvas, at[0],
                                                       ole_axis_place(y, s->y[to] + s->spread[to]));
        for (int64_t k = to; k-- > from;) {
            double low = s->y[k] - s->spread[k];
            place(s, k, x, y, at);
            canvas->line(canvas, at[0], y->log && low <= 0 ? y->from : ole_axis_place(y, low));
        }
        if (to > from) canvas->close(canvas);
    }
    canvas->paint(canvas, &fill, NULL);
}

static void draw_line(ole_canvas *canvas, const ole_figure *f, int series, const ole_axis *x,
                      const ole_axis *y) {
    enum { MOST_MARKERS = 40 };
    const ole_series *s = &f->series[series];
    const ole_pen pen = {ole_figure_paint(series, 1), s->dotted ? 1.4 : 1.8, s->dotted ? 4 : 0};
    bool drawing = false;
    double at[2];
    for (int64_t k = 0; k < s->count; k++) {
        bool there = place(s, k, x, y, at);
        if (there && drawing)
            canvas->line(canvas, at[0], at[1]);
        else if (there)
            canvas->move(canvas, at[0], at[1]);
        drawing = there;
    }
    canvas->paint(canvas, NULL, &pen);
    bool flat = s->band && s->count == 1; /* a band of no width */
    if (s->spread && (!s->band || flat)) draw_error_bars(canvas, s, series, x, y);
    if (s->dotted || s->count > MOST_MARKERS) return;
    for (int64_t k = 0; k < s->count; k++)
        if (place(s, k, x, y, at)) ole_figure_add_marker(canvas, f, series, at[0], at[1], 3);
    ole_figure_paint_markers(canvas, f, series);
}

static void draw_bars(ole_canvas *canvas, const ole_figure *f, int series, const ole_axis *x,
                      const ole_axis *y) {
    const ole_series *s = &f->series[series];
    const ole_paint fill = ole_figure_paint(series, f->series_count > 1 ? 0.4 : 0.7);
    const ole_pen outline = {ole_figure_paint(series, 1), 1.2, s->dotted ? 3 : 0};
    double base = y->log ? y->from : fmin(y->from, ole_axis_place(y, 0));
    if (s->count == 0) return;
    for (int pass = 0; pass < 2; pass++) {
        canvas->move(canvas, ole_axis_place(x, s->x[0]), base);
        for (int64_t k = 0; k < s->count; k++) {
            bool there = isfinite(s->y[k]) && !(y->log && s->y[k] <= 0);
            double top = there ? ole_axis_place(y, s->y[k]) : base;
            canvas->line(canvas, ole_axis_place(x, s->x[k]), top);
            canvas->line(canvas, ole_axis_place(x, s->x[k + 1]), top);
        }
        canvas->line(canvas, ole_axis_place(x, s->x[s->count]), base);
        if (pass == 0) canvas->close(canvas);
        canvas->paint(canvas, pass == 0 ? &fill : NULL, pass == 0 ? NULL : &outline);
    }
}

static void draw_points(ole_canvas *canvas, const ole_figure *f, int series, const ole_axis *x,
                        const ole_axis *y, double radius) {
    const ole_series *s = &f->series[series];
    double at[2];
    for (int64_t k = 0; k < s->count; k++)
        if (place(s, k, x, y, at)) ole_figure_add_marker(canvas, f, series, at[0], at[1], radius);
    ole_figure_paint_markers(canvas, f, series);
}

/* A line of reference among points, with its name where it ends. */
static void draw_reference(ole_canvas *canvas, const ole_series *s, const ole_axis *x,
                           const ole_axis *y) {
    const ole_pen pen = {OLE_AXIS, 1.2, 0};
    double at[2] = {0}, before[2] = {0};
    for (int64_t k = 0; k < s->count; k++) {
        before[0] = at[0];
        if (!place(s, k, x, y, at)) continue;
        (k == 0 ? canvas->move : canvas->line)(canvas, at[0], at[1]);
    }
    canvas->paint(canvas, NULL, &pen);
    if (!s->name || s->count < 2) return;
    double side = at[0] - before[0];
    ole_figure_words(canvas, s->name, at[0] + (side < -1 ? -4 : 4), at[1] + 4,
                     side < -1 ? OLE_ANCHOR_END : OLE_ANCHOR_START);
}

/* Marks, their labels in the rows above `box` that make_axes() left. */
static void draw_marks(ole_canvas *canvas, const ole_figure *f, const ole_box *box,
                       const ole_axis *x) {
    const ole_pen pen = {OLE_INK, 1.2, 4};
    for (int i = 0; i < f->mark_count; i++) {
        const ole_mark *m = &f->marks[i];
        if (!(m->x >= x->min && m->x <= x->max)) continue;
        double at = ole_axis_place(x, m->x), top = box->y - (f->mark_count - 1 - i) * MARK_ROW;
        ole_figure_rule(canvas, at, top - 2, at, box->y + box->height, &pen);
        double half = m->label ? ole_words_width(m->label, OLE_SIZE_TEXT) / 2 : 0;
        double left = box->x + half, right = box->x + box->width - half;
        ole_figure_words(canvas, m->label, fmax(left, fmin(at, right)), top - 5, OLE_ANCHOR_MIDDLE);
    }
}

void ole_figure_draw_plot(ole_canvas *canvas, const ole_figure *f, ole_box box) {
    ole_axis x = {0}, y = {0};
    ole_figure_draw_legend(canvas, f, &box);
    make_axes(f, &box, &x, &y);
    if (!f->space) draw_axes(canvas, f, &box, &x, &y); /* else x and y mean nothing */
    int64_t points = 0;
    for (int i = 0; i < f->series_count; i++)
        points += f->series[i].count;
    double radius = points > 5000 ? 1.2 : points > 1000 ? 1.8 : points > 200 ? 2.4 : 3;
    const double more = 3; /* markers at the border are drawn whole */
    canvas->clip(canvas, &(ole_box){box.x - more, box.y - more, box.width + 2 * more,
                                    box.height + 2 * more});
    for (int i = 0; i < f->series_count; i++) /* under all lines */
        if (f->kind == OLE_FIGURE_LINES && f->series[i].band && f->series[i].spread)
            draw_band(canvas, &f->series[i], i, &x, &y);
    for (int i = 0; i < f->series_count; i++) {
        if (f->kind == OLE_FIGURE_LINES)
            draw_line(canvas, f, i, &x, &y);
        else if (f->kind == OLE_FIGURE_HISTOGRAM)
            draw_bars(canvas, f, i, &x, &y);
        else if (f->series[i].dotted)
            draw_reference(canvas, &f->series[i], &x, &y);
        else
            draw_points(canvas, f, i, &x, &y, radius);
    }
    canvas->clip(canvas, NULL);
    draw_marks(canvas, f, &box, &x);
}
