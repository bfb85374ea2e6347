/*
 * src/report/canvas_cairo.c - drawing through cairo, as PDF and PNG.
 *
 * No date goes into the file: the same figure gives the same bytes.
 */
#include "report/canvas.h"

#include <string.h>

#ifndef OLE_HAVE_CAIRO

ole_status ole_canvas_cairo(ole_paper paper, double width, double height, const char *title,
                            void (*draw)(ole_canvas *canvas, const void *context),
                            const void *context, ole_text *out, ole_error *error) {
    (void)width, (void)height, (void)title, (void)draw, (void)context, (void)out;
    return ole_fail(
        error, OLE_ERROR_UNSUPPORTED,
        "this build cannot write %s; install cairo (libcairo2-dev) and rebuild, or save as .svg",
        paper == OLE_PAPER_PDF ? "pdf" : "png");
}

#else

#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>

typedef struct canvas_cairo {
    ole_canvas canvas; /* first */
    cairo_t *cr;
} canvas_cairo;

static cairo_t *cr_of(ole_canvas *canvas) {
    return ((canvas_cairo *)canvas)->cr;
}

static void paper_move(ole_canvas *canvas, double x, double y) {
    cairo_move_to(cr_of(canvas), x, y);
}

static void paper_line(ole_canvas *canvas, double x, double y) {
    cairo_line_to(cr_of(canvas), x, y);
}

static void paper_close(ole_canvas *canvas) {
    cairo_close_path(cr_of(canvas));
}

static void paper_disc(ole_canvas *canvas, double x, double y, double radius) {
    const double turn = 2 * acos(-1);
    cairo_new_sub_path(cr_of(canvas));
    cairo_arc(cr_of(canvas), x, y, radius, 0, turn);
    cairo_close_path(cr_of(canvas));
}

static void set_paint(cairo_t *cr, const ole_paint *paint) {
    cairo_set_source_rgba(cr, (paint->rgb >> 16) / 255.0, (paint->rgb >> 8 & 255) / 255.0,
                          (paint->rgb & 255) / 255.0, paint->alpha);
}

static void paper_paint(ole_canvas *canvas, const ole_paint *fill, const ole_pen *stroke) {
    cairo_t *cr = cr_of(canvas);
    if (fill) {
        set_paint(cr, fill);
        cairo_fill_preserve(cr);
    }
    if (stroke) {
        set_paint(cr, &stroke->paint);
        cairo_set_line_width(cr, stroke->width);
        cairo_set_line_join(cr, CAIRO_LINE_JOIN_ROUND);
        cairo_set_dash(cr, &stroke->dash, stroke->dash > 0, 0);
        cairo_stroke_preserve(cr);
    }
    cairo_new_path(cr);
}

static void paper_words(ole_canvas *canvas, const ole_words *w) {
    cairo_t *cr = cr_of(canvas);
    ole_text clean = {0}; /* cairo stops for good at malformed UTF-8 */
    for (const char *s = w->text; *s;) {
        size_t length = ole_utf8_length(s);
        ole_text_bytes(&clean, length ? s : "?", length ? length : 1);
        s += length ? length : 1;
    }
    cairo_save(cr);
    cairo_select_font_face(cr, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           w->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, w->size);
    set_paint(cr, &w->paint);
    cairo_translate(cr, w->x, w->y);
    if (w->upwards) cairo_rotate(cr, -acos(0));
    if (clean.size > 0 && !clean.failed) {
        cairo_text_extents_t extents;
        cairo_text_extents(cr, clean.bytes, &extents);
        double shift = w->anchor == OLE_ANCHOR_START    ? 0
                       : w->anchor == OLE_ANCHOR_MIDDLE ? extents.x_advance / 2
                                                        : extents.x_advance;
        cairo_move_to(cr, -shift, 0);
        cairo_show_text(cr, clean.bytes);
    }
    cairo_restore(cr);
    cairo_new_path(cr);
    canvas->out_of_memory |= clean.failed;
    ole_text_free(&clean);
}

static void paper_grid(ole_canvas *canvas, const ole_cell_grid *grid) {
    cairo_t *cr = cr_of(canvas);
    cairo_surface_t *image =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, grid->columns, grid->rows);
    unsigned char *bytes = cairo_image_surface_get_data(image);
    if (bytes) {
        int stride = cairo_image_surface_get_stride(image);
        for (int row = 0; row < grid->rows; row++)
            for (int column = 0; column < grid->columns; column++) {
                size_t cell = (size_t)row * (size_t)grid->columns + (size_t)column;
                uint32_t rgb = grid->palette[grid->cells[cell]];
                memcpy(bytes + (size_t)row * (size_t)stride + 4 * (size_t)column, &rgb, 4);
            }
        cairo_surface_mark_dirty(image);
    }
    cairo_save(cr);
    cairo_translate(cr, grid->box.x, grid->box.y);
    cairo_scale(cr, grid->box.width / grid->columns, grid->box.height / grid->rows);
    cairo_set_source_surface(cr, image, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr), CAIRO_FILTER_NEAREST);
    cairo_paint(cr);
    cairo_restore(cr);
    cairo_surface_destroy(image);
}

static void paper_clip(ole_canvas *canvas, const ole_box *box) {
    cairo_t *cr = cr_of(canvas);
    if (!box) {
        cairo_restore(cr);
        return;
    }
    cairo_save(cr);
    cairo_rectangle(cr, box->x, box->y, box->width, box->height);
    cairo_clip(cr);
}

static cairo_status_t collect(void *context, const unsigned char *bytes, unsigned size) {
    ole_text *out = context;
    ole_text_bytes(out, bytes, size);
    return out->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

ole_status ole_canvas_cairo(ole_paper paper, double width, double height, const char *title,
                            void (*draw)(ole_canvas *canvas, const void *context),
                            const void *context, ole_text *out, ole_error *error) {
    const double scale = paper == OLE_PAPER_PNG ? 3 : 1; /* 216 dots an inch */
    cairo_surface_t *surface =
        paper == OLE_PAPER_PNG
            ? cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(width * scale),
                                         (int)ceil(height * scale))
            : cairo_pdf_surface_create_for_stream(collect, out, width, height);
    if (paper == OLE_PAPER_PDF) {
        cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "");
        if (title) cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, title);
    }
    canvas_cairo c = {
        .canvas = {.move = paper_move,
                   .line = paper_line,
                   .close = paper_close,
                   .disc = paper_disc,
                   .paint = paper_paint,
                   .words = paper_words,
                   .grid = paper_grid,
                   .clip = paper_clip},
        .cr = cairo_create(surface),
    };
    cairo_scale(c.cr, scale, scale);
    cairo_set_source_rgb(c.cr, 1, 1, 1);
    cairo_paint(c.cr);
    draw(&c.canvas, context);
    cairo_show_page(c.cr);
    cairo_status_t status = cairo_status(c.cr);
    cairo_destroy(c.cr);
    if (status == CAIRO_STATUS_SUCCESS && paper == OLE_PAPER_PNG)
        status = cairo_surface_write_to_png_stream(surface, collect, out);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    if (c.canvas.out_of_memory) status = CAIRO_STATUS_NO_MEMORY;
    if (status == CAIRO_STATUS_SUCCESS) return OLE_OK;
    return ole_fail(error, status == CAIRO_STATUS_NO_MEMORY ? OLE_ERROR_MEMORY : OLE_ERROR_NUMERIC,
                    "cairo cannot draw the figure: %s", cairo_status_to_string(status));
}

#endif
