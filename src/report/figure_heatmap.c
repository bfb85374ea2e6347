/*
 * src/report/figure_heatmap.c - a matrix in a colour scale: few cells as shapes with their numbers,
 * many as one image, averaged down to the resolution of a page.
 */
#include "report/figure_parts.h"
#include "report/palette.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PIXELS = 1024, MOST_SHAPES = 900, MOST_NUMBERS = 400, MOST_NAME = 110, NARROW = 300 };

typedef struct heat {
    const ole_figure *figure;
    ole_box box; /* of the cells */
    double min, max;
    uint32_t palette[256];
} heat;

static int colour_index(const heat *h, double value) {
    if (isnan(value)) return OLE_SCALE_NONE;
    double share = (value - h->min) / (h->max - h->min);
    share = !(share > 0) ? 0 : share > 1 ? 1 : share; /* NaN is no index */
    return (int)(share * (OLE_SCALE_STEPS - 1) + 0.5);
}

static void find_range(heat *h) {
    const ole_figure *f = h->figure;
    ole_range range = ole_range_start(false);
    for (int64_t i = 0; i < f->rows * f->columns; i++)
        ole_range_add(&range, f->values[i]);
    if (ole_range_empty(&range)) range.min = 0, range.max = 1;
    h->min = isnan(f->value_min) ? range.min : f->value_min;
    h->max = isnan(f->value_max) ? range.max : f->value_max;
    if (!(h->min < h->max)) h->max = h->min + fmax(1, fabs(h->min) / 10);
}

/* ---- Cells --------------------------------------------------------------------------------- */

double ole_figure_block_mean(const ole_figure *f, int64_t row, int64_t row_end, int64_t column,
                             int64_t column_end) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t r = row; r < row_end; r++)
        for (int64_t c = column; c < column_end; c++) {
            double value = f->values[r * f->columns + c];
            if (isnan(value)) continue;
            sum += value;
            count++;
        }
    return count > 0 ? sum / (double)count : NAN;
}

static void draw_image(ole_canvas *canvas, const heat *h) {
    const ole_figure *f = h->figure;
    /* Drawings for phones, which are never printed, have two pixels per point, to keep pages small.
     */
    const int64_t most = f->width <= NARROW ? (int64_t)(2 * h->box.width) : MOST_PIXELS;
    int rows = (int)(f->rows < most ? f->rows : most);
    int columns = (int)(f->columns < most ? f->columns : most);
    uint8_t *cells = malloc((size_t)rows * (size_t)columns);
    if (!cells) {
        canvas->out_of_memory = true;
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double mean =
                ole_figure_block_mean(f, r * f->rows / rows, (r + 1) * f->rows / rows,
                                      c * f->columns / columns, (c + 1) * f->columns / columns);
            cells[r * columns + c] = (uint8_t)colour_index(h, mean);
        }
    canvas->grid(canvas, &(ole_cell_grid){h->box, columns, rows, cells, h->palette});
    free(cells);
}

static ole_box cell_box(const heat *h, int64_t row, int64_t column) {
    double width = h->box.width / (double)h->figure->columns;
    double height = h->box.height / (double)h->figure->rows;
    return (ole_box){h->box.x + (double)column * width, h->box.y + (double)row * height, width,
                     height};
}

/* On the drawing for phones, which show it at 1.1 times its size, 9.2 points make 10 pixels; what
 * does not fit at that size is left to the table below the figure. */
static double number_size(const heat *h, const ole_box *cell) {
    double fits = cell->height * 0.55;
    if (h->figure->width <= NARROW) return fits < 9.2 ? 0 : 9.2;
    return fmin(9, fits);
}

static const char *cell_number(char out[OLE_NUMBER_ROOM], double value, int digits) {
    return ole_shown_number(out, value, fabs(value) >= 100 ? 5 : digits);
}

/* How many digits of the numbers fit their cells, so that either all are drawn or, with 0, none. */
static int number_digits(const heat *h) {
    const double margin = 1.2;
    const ole_figure *f = h->figure;
    const ole_box cell = cell_box(h, 0, 0);
    char number[OLE_NUMBER_ROOM];
    double size = number_size(h, &cell);
    if (f->rows * f->columns > MOST_NUMBERS || cell.height <= 11 || size == 0) return 0;
    int digits = 3;
    for (int64_t i = 0; i < f->rows * f->columns; i++)
        while (digits > 1 && !isnan(f->values[i]) &&
               ole_words_width(cell_number(number, f->values[i], digits), size) >
                   cell.width - margin)
            digits--;
    return digits > 1 ? digits : 0;
}

static void draw_number(ole_canvas *canvas, const heat *h, const ole_box *cell, double value,
                        int digits, uint32_t under) {
    char number[OLE_NUMBER_ROOM];
    double size = number_size(h, cell);
    if (isnan(value)) return;
    cell_number(number, value, digits);
    canvas->words(canvas, &(ole_words){.text = number,
                                       .x = cell->x + cell->width / 2,
                                       .y = cell->y + cell->height / 2 + 0.35 * size,
                                       .size = size,
                                       .anchor = OLE_ANCHOR_MIDDLE,
                                       .paint = {ole_palette_is_light(under) ? 0x111111 : 0xffffff,
                                                 1, NULL}});
}

static void draw_shapes(ole_canvas *canvas, const heat *h) {
    const ole_figure *f = h->figure;
    int digits = number_digits(h);
    for (int64_t r = 0; r < f->rows; r++)
        for (int64_t c = 0; c < f->columns; c++) {
            double value = f->values[r * f->columns + c];
            ole_box cell = cell_box(h, r, c);
            const ole_paint fill = {h->palette[colour_index(h, value)], 1, NULL};
            const ole_pen seam = {fill, 0.3, 0}; /* no hairlines between neighbours */
            ole_canvas_rectangle(canvas, &cell);
            canvas->paint(canvas, &fill, &seam);
            if (digits > 0) draw_number(canvas, h, &cell, value, digits, fill.rgb);
        }
}

/* ---- What stands around them ---------------------------------------------------------------- */

static void draw_breaks(ole_canvas *canvas, const heat *h) {
    const ole_figure *f = h->figure;
    const ole_pen pen = {{0x222222, 0.8, NULL}, 0.5, 0};
    double right = h->box.x + h->box.width, bottom = h->box.y + h->box.height;
    for (int i = 0; i < f->break_count; i++) {
        double row = (double)f->breaks[i] / (double)f->rows,
               column = (double)f->breaks[i] / (double)f->columns;
        if (row > 0 && row < 1) {
            double y = h->box.y + row * h->box.height;
            ole_figure_rule(canvas, h->box.x, y, right, y, &pen);
        }
        if (column > 0 && column < 1) {
            double x = h->box.x + column * h->box.width;
            ole_figure_rule(canvas, x, h->box.y, x, bottom, &pen);
        }
    }
}

/* The names along one side: of its rows or columns, or of the blocks between breaks. */
typedef struct name_list {
    const char *const *of; /* [count], or NULL */
    int64_t count, size;   /* names; rows or columns */
    const int64_t *breaks; /* or NULL */
    double widest;         /* on paper */
} name_list;

static name_list list_names(const ole_figure *f, const char *const *names, int64_t size) {
    name_list list = {names, size, size, NULL, 0};
    if (!names && f->block_names)
        list = (name_list){f->block_names, f->break_count + 1, size, f->breaks, 0};
    for (int64_t i = 0; list.of && i < list.count; i++)
        if (list.of[i]) list.widest = fmax(list.widest, ole_words_width(list.of[i], OLE_SIZE_TEXT));
    list.widest = fmin(list.widest, MOST_NAME);
    return list;
}

/* Where a name stands, as a share of the side. */
static double name_place(const name_list *list, int64_t i) {
    int64_t begin = i, end = i + 1;
    if (list->breaks) {
        begin = i > 0 ? list->breaks[i - 1] : 0;
        end = i + 1 < list->count ? list->breaks[i] : list->size;
    }
    return 0.5 * (double)(begin + end) / (double)list->size;
}

/* A name that would touch the one before it is skipped. */
static void draw_names(ole_canvas *canvas, const heat *h, const name_list *list, bool columns,
                       bool upright) {
    const ole_box *box = &h->box;
    const double centre = 0.35 * OLE_SIZE_TEXT; /* of a letter, above the baseline */
    double bottom = box->y + box->height, side = columns ? box->width : box->height;
    double apart = columns && upright ? list->widest : OLE_SIZE_TEXT + 1, last = -HUGE_VAL;
    for (int64_t i = 0; list->of && i < list->count; i++) {
        double at = side * name_place(list, i);
        if (!list->of[i] || at - last < apart) continue;
        char name[OLE_WORDS_ROOM];
        ole_words_cut(name, list->of[i], OLE_SIZE_TEXT, MOST_NAME);
        last = at;
        if (!columns)
            ole_figure_words(canvas, name, box->x - 5, box->y + at + centre, OLE_ANCHOR_END);
        else if (upright)
            ole_figure_words(canvas, name, box->x + at, bottom + 4 + OLE_SIZE_TEXT,
                             OLE_ANCHOR_MIDDLE);
        else
            ole_figure_words_up(canvas, name, box->x + at + centre, bottom + 5, OLE_ANCHOR_END);
    }
}

enum { SCALE_GAP = 14, SCALE_WIDTH = 11 };

static ole_axis make_scale(const heat *h) {
    ole_axis axis;
    const ole_range range = {.min = h->min, .max = h->max};
    ole_axis_make(&axis, &range, h->min, h->max, 0, (int)fmax(2, h->box.height / 40));
    axis.from = h->box.y + h->box.height;
    axis.to = h->box.y;
    return axis;
}

static double widest_number(const ole_axis *axis) {
    double widest = 0;
    char number[OLE_NUMBER_ROOM];
    for (int i = 0; i < axis->ticks; i++)
        widest = fmax(widest, ole_words_width(ole_axis_tick(axis, i, number), OLE_SIZE_TEXT));
    return widest;
}

/* The scale to the right of the cells. */
static void draw_scale(ole_canvas *canvas, const heat *h, const ole_axis *axis) {
    const double width = SCALE_WIDTH;
    const ole_box *cells = &h->box;
    const ole_pen tick = {OLE_AXIS, 0.8, 0};
    double x = cells->x + cells->width + SCALE_GAP;
    enum { STEPS = 64 };
    for (int i = 0; i < STEPS; i++) {
        double height = cells->height / STEPS;
        const ole_paint fill = {h->palette[(OLE_SCALE_STEPS - 1) * i / (STEPS - 1)], 1, NULL};
        const ole_pen seam = {fill, 0.3, 0};
        ole_canvas_rectangle(
            canvas, &(ole_box){x, cells->y + cells->height - (i + 1) * height, width, height});
        canvas->paint(canvas, &fill, &seam);
    }
    char number[OLE_NUMBER_ROOM];
    for (int i = 0; i < axis->ticks; i++) {
        double y = ole_axis_place(axis, axis->at[i]);
        ole_axis_tick(axis, i, number);
        ole_figure_rule(canvas, x + width, y, x + width + 3, y, &tick);
        ole_figure_words(canvas, number, x + width + 5, y + 0.35 * OLE_SIZE_TEXT, OLE_ANCHOR_START);
    }
    ole_figure_words_up(canvas, h->figure->value_label,
                        x + width + 7 + widest_number(axis) + OLE_SIZE_TEXT,
                        cells->y + cells->height / 2, OLE_ANCHOR_MIDDLE);
}

void ole_figure_draw_heatmap(ole_canvas *canvas, const ole_figure *f, ole_box box) {
    heat h = {.figure = f, .box = box};
    const double label = OLE_SIZE_TEXT + 8;
    find_range(&h);
    ole_axis axis = make_scale(&h); /* the lower one drawn has no wider numbers */
    const double scale = SCALE_GAP + SCALE_WIDTH + 7 + widest_number(&axis);
    ole_palette_scale(h.palette);
    name_list rows = list_names(f, f->row_names, f->rows);
    name_list columns = list_names(f, f->column_names, f->columns);
    double left = (rows.of ? rows.widest + 8 : 0) + (f->y_label ? label : 0);
    h.box.x += left;
    h.box.width -= left + scale + (f->value_label ? label : 0);
    bool upright = columns.widest + 6 <= h.box.width / (double)columns.count;
    double names = !columns.of ? 0 : upright ? label : columns.widest + 10;
    h.box.height -= names + (f->x_label ? label : 2);
    if (f->rows == f->columns) { /* square cells */
        double side = fmin(h.box.width, h.box.height);
        h.box.x += (h.box.width - side) / 2;
        h.box.width = h.box.height = side;
    }
    (f->rows * f->columns <= MOST_SHAPES ? draw_shapes : draw_image)(canvas, &h);
    draw_breaks(canvas, &h);
    draw_names(canvas, &h, &rows, false, true);
    draw_names(canvas, &h, &columns, true, upright);
    ole_figure_labels(canvas, f, &h.box, left - OLE_SIZE_TEXT, names + OLE_SIZE_TEXT + 4);
    axis = make_scale(&h);
    draw_scale(canvas, &h, &axis);
}
