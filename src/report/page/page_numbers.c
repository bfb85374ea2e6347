/*
 * src/report/page/page_numbers.c - the numbers of a figure as a table that opens under it.
 */
#include "report/figure_parts.h"
#include "report/page/page_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 400, MOST_CELLS = 40, DIGITS = 6 };

static void add_number(ole_text *out, double value) {
    char number[OLE_NUMBER_ROOM];
    ole_text_format(out, "<td>%s</td>", ole_shown_number(number, value, DIGITS));
}

static void add_heading(ole_text *out, const char *name, const char *otherwise) {
    ole_text_between(out, "<th scope=\"col\">", name ? name : otherwise, "</th>");
}

/* ---- Series -------------------------------------------------------------------------------- */

/* Whether all series are at the same x, so that one row holds all of them. */
static bool same_x(const ole_figure *f) {
    if (f->kind == OLE_FIGURE_SCATTER) return false;
    const ole_series *first = &f->series[0];
    for (int i = 1; i < f->series_count; i++) {
        const ole_series *s = &f->series[i];
        int64_t edges = s->count + (f->kind == OLE_FIGURE_HISTOGRAM && s->count > 0);
        if (s->count != first->count ||
            (edges > 0 && memcmp(s->x, first->x, (size_t)edges * sizeof *s->x) != 0))
            return false;
    }
    return true;
}

static void add_x_headings(ole_text *out, const ole_figure *f) {
    if (f->kind == OLE_FIGURE_HISTOGRAM)
        ole_text_add(out, "<th scope=\"col\">from</th><th scope=\"col\">to</th>");
    else
        add_heading(out, f->x_label, "x");
}

static void add_x(ole_text *out, const ole_figure *f, const ole_series *s, int64_t k) {
    add_number(out, s->x[k]);
    if (f->kind == OLE_FIGURE_HISTOGRAM) add_number(out, s->x[k + 1]);
}

/* One row per x, one column per series. Returns the number of rows omitted. */
static int64_t add_joint(ole_text *out, const ole_figure *f) {
    add_x_headings(out, f);
    for (int i = 0; i < f->series_count; i++) {
        add_heading(out, f->series[i].name, f->y_label ? f->y_label : "y");
        if (f->series[i].spread) ole_text_add(out, "<th scope=\"col\">±</th>");
    }
    ole_text_add(out, "</tr></thead>\n<tbody>\n");
    int64_t count = f->series[0].count, shown = count < MOST_ROWS ? count : MOST_ROWS;
    for (int64_t k = 0; k < shown; k++) {
        ole_text_add(out, "<tr>");
        add_x(out, f, &f->series[0], k);
        for (int i = 0; i < f->series_count; i++) {
            add_number(out, f->series[i].y[k]);
            if (f->series[i].spread) add_number(out, f->series[i].spread[k]);
        }
        ole_text_add(out, "</tr>\n");
    }
    return count - shown;
}

/* One row per point, with the name of its series. */
static int64_t add_points(ole_text *out, const ole_figure *f) {
    int64_t shown = 0, all = 0;
    ole_text_add(out, "<th scope=\"col\">series</th>");
    add_x_headings(out, f);
    add_heading(out, f->y_label, "y");
    ole_text_add(out, "<th scope=\"col\">±</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < f->series_count; i++) {
        const ole_series *s = &f->series[i];
        if (f->kind == OLE_FIGURE_SCATTER && s->dotted) continue; /* a line of reference */
        all += s->count;
        for (int64_t k = 0; k < s->count && shown < MOST_ROWS; k++, shown++) {
            ole_text_between(out, "<tr><th scope=\"row\">", s->name, "</th>");
            add_x(out, f, s, k);
            add_number(out, s->y[k]);
            add_number(out, s->spread ? s->spread[k] : NAN);
            ole_text_add(out, "</tr>\n");
        }
    }
    return all - shown;
}

/* ---- Heat maps ----------------------------------------------------------------------------- */

/* Whether the table has each cell. */
static bool is_whole(const ole_figure *f) {
    return f->rows <= MOST_CELLS && f->columns <= MOST_CELLS;
}

/* The breaks rise and lie inside. */
static bool good_breaks(const ole_figure *f) {
    if (f->break_count < 1 || f->break_count >= MOST_CELLS || f->rows != f->columns) return false;
    for (int i = 0; i < f->break_count; i++)
        if (f->breaks[i] <= (i ? f->breaks[i - 1] : 0) || f->breaks[i] >= f->rows) return false;
    return true;
}

/* One side of the table of a heat map: its cells, or blocks of them. */
typedef struct side {
    int64_t size, blocks;
    const int64_t *breaks;    /* where blocks but the first begin; NULL: evenly */
    const char *const *names; /* or NULL */
} side;

static int64_t block_start(const side *s, int64_t i) {
    if (i == 0 || i == s->blocks) return i == 0 ? 0 : s->size;
    return s->breaks ? s->breaks[i - 1] : i * s->size / s->blocks;
}

static void add_block_name(ole_text *out, const side *s, int64_t i, const char *tag) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)block_start(s, i));
    ole_text_between(out, tag, s->names && s->names[i] ? s->names[i] : number, "</th>");
}

static void add_cells(ole_text *out, const ole_figure *f, bool whole) {
    const int64_t most = MOST_CELLS / 2;
    const int64_t *breaks = !whole && good_breaks(f) ? f->breaks : NULL;
    const char *const *blocks = breaks ? f->block_names : NULL;
    side rows = {f->rows, f->rows, breaks, whole ? f->row_names : blocks};
    side columns = {f->columns, f->columns, breaks, whole ? f->column_names : blocks};
    for (int i = 0; i < 2 && !whole; i++) {
        side *s = i == 0 ? &rows : &columns;
        s->blocks = breaks ? f->break_count + 1 : s->size < most ? s->size : most;
    }
    ole_text_add(out, "<th scope=\"col\"></th>");
    for (int64_t c = 0; c < columns.blocks; c++)
        add_block_name(out, &columns, c, "<th scope=\"col\">");
    ole_text_add(out, "</tr></thead>\n<tbody>\n");
    for (int64_t r = 0; r < rows.blocks; r++) {
        add_block_name(out, &rows, r, "<tr><th scope=\"row\">");
        for (int64_t c = 0; c < columns.blocks; c++)
            add_number(
                out, ole_figure_block_mean(f, block_start(&rows, r), block_start(&rows, r + 1),
                                           block_start(&columns, c), block_start(&columns, c + 1)));
        ole_text_add(out, "</tr>\n");
    }
}

void ole_page_add_blocks(ole_text *out, const ole_figure *f) {
    if (is_whole(f) || !good_breaks(f)) return;
    ole_text_add(out, " data-blocks=\"0");
    for (int i = 0; i < f->break_count; i++)
        ole_text_format(out, " %lld", (long long)f->breaks[i]);
    ole_text_format(out, " %lld\"", (long long)f->rows);
}

/* ---- The table ----------------------------------------------------------------------------- */

void ole_page_add_numbers(ole_text *out, const ole_figure *f, const char *name) {
    bool heat = f->kind == OLE_FIGURE_HEATMAP;
    bool whole = heat && is_whole(f);
    int64_t left_out = 0;
    ole_text_between(out,
                     "<details><summary>Numbers</summary>\n<div class=\"scroll\" tabindex=\"0\" "
                     "role=\"region\" aria-label=\"Numbers: ",
                     name ? name : "figure", "\"><table>\n<thead><tr>");
    if (heat)
        add_cells(out, f, whole);
    else
        left_out = same_x(f) ? add_joint(out, f) : add_points(out, f);
    ole_text_add(out, "</tbody></table></div>\n");
    if (left_out > 0)
        ole_text_format(out,
                        "<p class=\"more\">The first %d rows; %lld more are in the figure.</p>\n",
                        MOST_ROWS, (long long)left_out);
    if (heat && !whole)
        ole_text_format(
            out, "<p class=\"more\">Means of blocks%s; the figure has %lld × %lld cells.</p>\n",
            f->block_names && good_breaks(f) ? "" : ", named by their first row and column",
            (long long)f->rows, (long long)f->columns);
    ole_text_add(out, "</details>\n");
}
