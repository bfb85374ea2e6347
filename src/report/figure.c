/*
 * src/report/figure.c - figures: their checks, the title, and the file formats.
 */
#include "base/atomic_file.h"
#include "base/quote.h"
#include "report/figure_parts.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { MOST_SERIES = 1000, MOST_MARKS = 8 };

void ole_figure_init(ole_figure *figure) {
    *figure = (ole_figure){
        .struct_size = sizeof *figure,
        .x_min = NAN,
        .x_max = NAN,
        .y_min = NAN,
        .y_max = NAN,
        .value_min = NAN,
        .value_max = NAN,
        .width = 480,
        .height = 320,
    };
}

void ole_figures_share_y(ole_figure *figures, int count) {
    double most = 0.0;
    for (const ole_figure *f = figures; f < figures + count; f++) {
        if (f->kind != OLE_FIGURE_HISTOGRAM && f->kind != OLE_FIGURE_LINES) return;
        for (int i = 0; i < f->series_count; i++)
            for (int64_t k = 0; k < f->series[i].count; k++)
                most = fmax(most, f->series[i].y[k]); /* NaNs lose */
    }
    for (int f = 0; f < count; f++)
        figures[f].y_max = 1.05 * most;
}

/* ---- Checks -------------------------------------------------------------------------------- */

static ole_status check_range(const char *name, double min, double max, bool log,
                              ole_error *error) {
    if (isinf(min) || isinf(max) || (!isnan(min) && !isnan(max) && !(min < max)))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: %s_min %g must be below %s_max %g",
                        name, min, name, max);
    if (log && (min <= 0 || max <= 0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "figure: a logarithmic axis needs %s_min and %s_max above 0", name, name);
    return OLE_OK;
}

static ole_status check_series(const ole_figure *f, ole_error *error) {
    if (f->series_count < 1 || f->series_count > MOST_SERIES || !f->series)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: needs 1 to %d series, not %d",
                        MOST_SERIES, f->series ? f->series_count : 0);
    for (int i = 0; i < f->series_count; i++) {
        const ole_series *s = &f->series[i];
        if (s->count < 0 || (s->count > 0 && (!s->x || !s->y)))
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "figure: series %d has no x or y, or a negative count", i);
        for (int64_t k = 0; f->kind == OLE_FIGURE_HISTOGRAM && k < s->count; k++)
            if (!isfinite(s->x[k]) || !(s->x[k] < s->x[k + 1]))
                return ole_fail(error, OLE_ERROR_ARGUMENT,
                                "figure: the edges of histogram %d must rise (edge %lld)", i,
                                (long long)k);
    }
    if (f->mark_count < 0 || f->mark_count > MOST_MARKS || (f->mark_count > 0 && !f->marks))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: takes up to %d marks, not %d",
                        MOST_MARKS, f->marks ? f->mark_count : 0);
    ole_status status = check_range("x", f->x_min, f->x_max, f->x_log, error);
    return status == OLE_OK ? check_range("y", f->y_min, f->y_max, f->y_log, error) : status;
}

static ole_status check_heatmap(const ole_figure *f, ole_error *error) {
    const int64_t most = (int64_t)1 << 31;
    if (!f->values || f->rows < 1 || f->columns < 1 || f->rows > most / f->columns)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "figure: a heat map needs values, at least one row and column, and at most "
                        "2^31 cells (here %lld x %lld)",
                        (long long)f->rows, (long long)f->columns);
    if (f->break_count < 0 || (f->break_count > 0 && !f->breaks))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: break_count is %d without breaks",
                        f->break_count);
    return check_range("value", f->value_min, f->value_max, false, error);
}

static ole_status check(const ole_figure *f, ole_error *error) {
    if (!f || f->struct_size != sizeof *f)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: call ole_figure_init() first");
    if (!(f->width >= 100 && f->width <= 5000 && f->height >= 80 && f->height <= 5000))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "figure: %g x %g points is not between 100 x 80 and 5000 x 5000", f->width,
                        f->height);
    switch (f->kind) {
    case OLE_FIGURE_LINES:
    case OLE_FIGURE_HISTOGRAM:
    case OLE_FIGURE_SCATTER:
        return check_series(f, error);
    case OLE_FIGURE_HEATMAP:
        return check_heatmap(f, error);
    }
    return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: unknown kind %d", (int)f->kind);
}

/* ---- Drawing ------------------------------------------------------------------------------- */

void ole_figure_rule(ole_canvas *canvas, double x0, double y0, double x1, double y1,
                     const ole_pen *pen) {
    canvas->move(canvas, x0, y0);
    canvas->line(canvas, x1, y1);
    canvas->paint(canvas, NULL, pen);
}

void ole_figure_words(ole_canvas *canvas, const char *text, double x, double y, ole_anchor anchor) {
    if (text)
        canvas->words(canvas, &(ole_words){text, x, y, OLE_SIZE_TEXT, anchor, .paint = OLE_INK});
}

void ole_figure_words_up(ole_canvas *canvas, const char *text, double x, double y,
                         ole_anchor anchor) {
    if (text)
        canvas->words(canvas, &(ole_words){text, x, y, OLE_SIZE_TEXT, anchor, .upwards = true,
                                           .paint = OLE_INK});
}

void ole_figure_labels(ole_canvas *canvas, const ole_figure *f, const ole_box *box, double left,
                       double below) {
    ole_figure_words(canvas, f->x_label, box->x + box->width / 2, box->y + box->height + below,
                     OLE_ANCHOR_MIDDLE);
    if (!f->y_label) return;
    /* A label longer than the axis goes on beside the numbers of the x axis, and is then cut. */
    char label[OLE_WORDS_ROOM];
    ole_words_cut(label, f->y_label, OLE_SIZE_TEXT, box->height + below);
    double length = fmax(ole_words_width(label, OLE_SIZE_TEXT), box->height);
    ole_figure_words_up(canvas, label, box->x - left, box->y + length / 2, OLE_ANCHOR_MIDDLE);
}

/* How much of a title its first line holds: all, or up to the last space that fits. */
static size_t first_line(const char *title, double width) {
    char line[OLE_WORDS_ROOM];
    size_t fits = 0;
    for (size_t end = 1; end < sizeof line && title[end - 1]; end++) {
        if (title[end] && title[end] != ' ') continue;
        memcpy(line, title, end);
        line[end] = '\0';
        if (ole_words_width(line, OLE_SIZE_TITLE) <= width) fits = end;
    }
    return fits;
}

/* In one line or two; takes its room from `box`. */
static void draw_title(ole_canvas *canvas, const char *title, ole_box *box) {
    const double bold = 1.08; /* times as wide as the estimate */
    double width = box->width / bold;
    size_t first = first_line(title, width);
    const bool two = first > 0 && title[first];
    for (int i = 0; i < 1 + two; i++) {
        char line[OLE_WORDS_ROOM];
        ole_words_cut(line, title, OLE_SIZE_TITLE, i == 0 && two ? HUGE_VAL : width);
        if (i == 0 && two) line[first] = '\0';
        canvas->words(canvas, &(ole_words){.text = line,
                                           .x = box->x,
                                           .y = box->y + OLE_SIZE_TITLE - 1,
                                           .size = OLE_SIZE_TITLE,
                                           .bold = true,
                                           .paint = OLE_INK});
        box->y += OLE_SIZE_TITLE + 3;
        box->height -= OLE_SIZE_TITLE + 3;
        title += two ? first + 1 : 0;
    }
    box->y += 5;
    box->height -= 5;
}

static void draw(ole_canvas *canvas, const void *context) {
    const ole_figure *figure = context;
    const double margin = 8;
    ole_box box = {margin, margin, figure->width - 2 * margin, figure->height - 2 * margin};
    if (figure->title) draw_title(canvas, figure->title, &box);
    if (figure->kind == OLE_FIGURE_HEATMAP)
        ole_figure_draw_heatmap(canvas, figure, box);
    else
        ole_figure_draw_plot(canvas, figure, box);
}

static ole_status write_svg(const ole_figure *figure, ole_text *out, ole_error *error) {
    ole_canvas_svg svg;
    ole_canvas_svg_begin(&svg, out, figure->width, figure->height, figure->title, error);
    draw(&svg.canvas, figure);
    return ole_canvas_svg_end(&svg);
}

ole_status ole_figure_svg(const ole_figure *figure, char **text, ole_error *error) {
    ole_status status = check(figure, error);
    if (status != OLE_OK) return status;
    ole_text out = {0};
    status = write_svg(figure, &out, error);
    if (status == OLE_OK)
        *text = out.bytes;
    else
        ole_text_free(&out);
    return status;
}

ole_status ole_figure_save(const ole_figure *figure, const char *path, ole_error *error) {
    if (!path) return ole_fail(error, OLE_ERROR_ARGUMENT, "figure: the path is NULL");
    const char *end = strrchr(path, '.');
    bool svg = end && strcasecmp(end, ".svg") == 0, pdf = end && strcasecmp(end, ".pdf") == 0,
         png = end && strcasecmp(end, ".png") == 0;
    if (!svg && !pdf && !png)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: a figure's name must end in .svg, .pdf or .png",
                        ole_quote_string(path).text);
    ole_status status = check(figure, error);
    if (status != OLE_OK) return status;
    ole_text out = {0};
    if (svg)
        status = write_svg(figure, &out, error);
    else
        status = ole_canvas_cairo(pdf ? OLE_PAPER_PDF : OLE_PAPER_PNG, figure->width,
                                  figure->height, figure->title, draw, figure, &out, error);
    if (status == OLE_OK) status = ole_atomic_file_put(path, out.bytes, out.size, error);
    ole_text_free(&out);
    return status;
}
