/*
 * src/report/canvas_svg.c - drawing as SVG text.
 *
 * Written here and not by cairo, whose SVG draws every letter as a shape (nothing to search, to
 * read aloud or to restyle), numbers its parts across the process (so that bytes depend on what was
 * drawn before, and two figures in one page share names) and is several times as large.
 */
#include "report/canvas.h"
#include "report/picture.h"

static ole_text *path_of(ole_canvas *canvas) {
    return &((ole_canvas_svg *)canvas)->path;
}

static ole_text *out_of(ole_canvas *canvas) {
    return ((ole_canvas_svg *)canvas)->out;
}

static void add_numbers(ole_text *out, const double *numbers, int count) {
    for (int i = 0; i < count; i++) {
        if (i > 0) ole_text_add(out, " ");
        ole_text_hundredths(out, numbers[i]);
    }
}

/* A letter and a place. */
static void add_point(ole_text *text, char letter, double x, double y) {
    ole_text_bytes(text, &letter, 1);
    add_numbers(text, (const double[]){x, y}, 2);
}

static void svg_move(ole_canvas *canvas, double x, double y) {
    add_point(path_of(canvas), 'M', x, y);
}

static void svg_line(ole_canvas *canvas, double x, double y) {
    add_point(path_of(canvas), 'L', x, y);
}

static void svg_close(ole_canvas *canvas) {
    ole_text_add(path_of(canvas), "Z");
}

static void svg_disc(ole_canvas *canvas, double x, double y, double radius) {
    ole_text *path = path_of(canvas);
    add_point(path, 'M', x - radius, y);
    for (int half = 0; half < 2; half++) {
        add_point(path, 'a', radius, radius);
        ole_text_add(path, " 0 1 0 ");
        ole_text_hundredths(path, half ? -2 * radius : 2 * radius);
        ole_text_add(path, " 0");
    }
}

static void add_attribute(ole_text *out, const char *name, double value) {
    ole_text_format(out, " %s=\"", name);
    ole_text_hundredths(out, value);
    ole_text_add(out, "\"");
}

static void add_view(ole_text *out, const ole_box *box) {
    ole_text_add(out, " viewBox=\"");
    add_numbers(out, (const double[]){box->x, box->y, box->width, box->height}, 4);
    ole_text_add(out, "\"");
}

/* fill="#..." or stroke="#...", with its transparency. */
static void add_paint(ole_text *out, const char *name, const ole_paint *paint) {
    if (!paint) {
        ole_text_format(out, " %s=\"none\"", name);
        return;
    }
    ole_text_format(out, " %s=\"#%06x\"", name, (unsigned)paint->rgb);
    if (paint->alpha < 1)
        add_attribute(out, name[0] == 'f' ? "fill-opacity" : "stroke-opacity", paint->alpha);
}

static void add_class(ole_text *out, const ole_paint *fill, const ole_paint *stroke) {
    const char *of_fill = fill ? fill->role : NULL, *of_stroke = stroke ? stroke->role : NULL;
    if (!of_fill && !of_stroke) return;
    ole_text_add(out, " class=\"");
    if (of_fill) ole_text_format(out, "fill-%s%s", of_fill, of_stroke ? " " : "");
    if (of_stroke) ole_text_format(out, "stroke-%s", of_stroke);
    ole_text_add(out, "\"");
}

static void svg_paint(ole_canvas *canvas, const ole_paint *fill, const ole_pen *stroke) {
    ole_text *out = out_of(canvas), *path = path_of(canvas);
    if (path->size == 0) return;
    ole_text_add(out, "<path");
    add_class(out, fill, stroke ? &stroke->paint : NULL);
    add_paint(out, "fill", fill);
    if (stroke) {
        add_paint(out, "stroke", &stroke->paint);
        add_attribute(out, "stroke-width", stroke->width);
        if (stroke->dash > 0) add_attribute(out, "stroke-dasharray", stroke->dash);
        ole_text_add(out, " stroke-linejoin=\"round\"");
    }
    ole_text_add(out, " d=\"");
    ole_text_bytes(out, path->bytes, path->size);
    ole_text_add(out, "\"/>\n");
    path->size = 0;
}

static void svg_words(ole_canvas *canvas, const ole_words *w) {
    static const char *const anchors[] = {"start", "middle", "end"};
    ole_text *out = out_of(canvas);
    ole_text_add(out, "<text");
    add_class(out, &w->paint, NULL);
    add_paint(out, "fill", &w->paint);
    if (w->upwards) {
        ole_text_add(out, " transform=\"translate(");
        add_numbers(out, (const double[]){w->x, w->y}, 2);
        ole_text_add(out, ") rotate(-90)\"");
    } else {
        add_attribute(out, "x", w->x);
        add_attribute(out, "y", w->y);
    }
    add_attribute(out, "font-size", w->size);
    if (w->bold) ole_text_add(out, " font-weight=\"bold\"");
    if (w->anchor != OLE_ANCHOR_START)
        ole_text_format(out, " text-anchor=\"%s\"", anchors[w->anchor]);
    ole_text_between(out, ">", w->text, "</text>\n");
}

static void add_box(ole_text *out, const ole_box *box) {
    add_attribute(out, "x", box->x);
    add_attribute(out, "y", box->y);
    add_attribute(out, "width", box->width);
    add_attribute(out, "height", box->height);
}

static void svg_grid(ole_canvas *canvas, const ole_cell_grid *grid) {
    ole_canvas_svg *svg = (ole_canvas_svg *)canvas;
    ole_text png = {0};
    const ole_picture picture = {.width = grid->columns,
                                 .height = grid->rows,
                                 .channels = 1,
                                 .pixels = grid->cells,
                                 .palette = grid->palette};
    ole_status status = ole_picture_png(&picture, &png, svg->error);
    if (status == OLE_OK) {
        ole_text_add(svg->out, "<image");
        add_box(svg->out, &grid->box);
        ole_text_add(svg->out, " preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" "
                               "href=\"data:image/png;base64,");
        ole_text_base64(svg->out, png.bytes, png.size);
        ole_text_add(svg->out, "\"/>\n");
    } else if (svg->status == OLE_OK) {
        svg->status = status;
    }
    ole_text_free(&png);
}

/* A nested svg clips to its box without needing a name that is unique in a page. */
static void svg_clip(ole_canvas *canvas, const ole_box *box) {
    ole_text *out = out_of(canvas);
    if (!box) {
        ole_text_add(out, "</svg>\n");
        return;
    }
    ole_text_add(out, "<svg");
    add_box(out, box);
    add_view(out, box);
    ole_text_add(out, ">\n");
}

void ole_canvas_svg_begin(ole_canvas_svg *svg, ole_text *out, double width, double height,
                          const char *title, ole_error *error) {
    *svg = (ole_canvas_svg){
        .canvas = {.move = svg_move,
                   .line = svg_line,
                   .close = svg_close,
                   .disc = svg_disc,
                   .paint = svg_paint,
                   .words = svg_words,
                   .grid = svg_grid,
                   .clip = svg_clip},
        .out = out,
        .error = error,
    };
    ole_text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"figure\" role=\"img\"");
    add_attribute(out, "width", width);
    add_attribute(out, "height", height);
    const ole_box whole = {0, 0, width, height};
    add_view(out, &whole);
    ole_text_add(out, " font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\"");
    if (title) ole_text_between(out, " aria-label=\"", title, "\"");
    ole_text_add(out, ">\n");
    const ole_paint paper = {0xffffff, 1, "paper"};
    ole_canvas_rectangle(&svg->canvas, &whole);
    svg_paint(&svg->canvas, &paper, NULL);
}

ole_status ole_canvas_svg_end(ole_canvas_svg *svg) {
    ole_text_add(svg->out, "</svg>\n");
    bool memory = svg->out->failed || svg->path.failed || svg->canvas.out_of_memory;
    ole_text_free(&svg->path);
    if (svg->status != OLE_OK) return svg->status;
    return memory ? ole_fail(svg->error, OLE_ERROR_MEMORY, "a figure: out of memory") : OLE_OK;
}
