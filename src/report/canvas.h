/*
 * src/report/canvas.h - the surface that figures are drawn on: paths, text, clipping and coloured
 * grids.
 *
 * There are two implementations.  canvas_svg.c writes SVG that a page can restyle: text stays text,
 * and ink, axes and grids have classes of those names.  canvas_cairo.c draws PDF and PNG, if the
 * build has cairo.  Coordinates are points, y downwards.
 */
#ifndef OLE_SRC_REPORT_CANVAS_H
#define OLE_SRC_REPORT_CANVAS_H

#include "report/text.h"

#include <stdbool.h>

typedef struct ole_box {
    double x, y, width, height;
} ole_box;

/* A colour; `role` (or NULL) is the class under which a page may choose another. */
typedef struct ole_paint {
    uint32_t rgb;
    double alpha;
    const char *role;
} ole_paint;

typedef struct ole_pen {
    ole_paint paint;
    double width;
    double dash; /* length of dashes and gaps; 0: solid */
} ole_pen;

typedef enum ole_anchor { OLE_ANCHOR_START, OLE_ANCHOR_MIDDLE, OLE_ANCHOR_END } ole_anchor;

typedef struct ole_words {
    const char *text;
    double x, y; /* of the anchor, on the baseline */
    double size;
    ole_anchor anchor;
    bool bold, upwards; /* upwards: turned by 90 degrees, read from the right */
    ole_paint paint;
} ole_words;

/* Cells of indices into a palette, drawn without smoothing; row 0 is on top. */
typedef struct ole_cell_grid {
    ole_box box;
    int columns, rows;
    const uint8_t *cells;    /* [rows, columns] */
    const uint32_t *palette; /* [256], 0xRRGGBB */
} ole_cell_grid;

typedef struct ole_canvas ole_canvas;

struct ole_canvas {
    void (*move)(ole_canvas *canvas, double x, double y);
    void (*line)(ole_canvas *canvas, double x, double y);
    void (*close)(ole_canvas *canvas);
    void (*disc)(ole_canvas *canvas, double x, double y, double radius);
    /* Fills and strokes the path (either may be NULL) and forgets it. */
    void (*paint)(ole_canvas *canvas, const ole_paint *fill, const ole_pen *stroke);
    void (*words)(ole_canvas *canvas, const ole_words *words);
    void (*grid)(ole_canvas *canvas, const ole_cell_grid *grid);
    void (*clip)(ole_canvas *canvas, const ole_box *box); /* NULL ends it */
    bool out_of_memory; /* something could not be drawn: the figure fails as a whole */
};

void ole_canvas_rectangle(ole_canvas *canvas, const ole_box *box);

/* The width of a text, a generous estimate, the same for every format and font. */
double ole_words_width(const char *text, double size);

/* The text, cut with "…" where it is wider than `width`; returns `out`. */
enum { OLE_WORDS_ROOM = 128 };
const char *ole_words_cut(char out[OLE_WORDS_ROOM], const char *text, double size, double width);

/* ---- The kinds of paper --------------------------------------------------------------------- */

typedef struct ole_canvas_svg {
    ole_canvas canvas; /* first */
    ole_text *out;
    ole_text path;
    ole_error *error; /* of embedding an image */
    ole_status status;
} ole_canvas_svg;

/* Begins an SVG in `out`; `title` (or NULL) is its name for screen readers. */
void ole_canvas_svg_begin(ole_canvas_svg *svg, ole_text *out, double width, double height,
                          const char *title, ole_error *error);
ole_status ole_canvas_svg_end(ole_canvas_svg *svg);

typedef enum ole_paper { OLE_PAPER_PDF, OLE_PAPER_PNG } ole_paper;

/* Draws by `draw(canvas, context)` and appends the file's bytes to `out`. */
ole_status ole_canvas_cairo(ole_paper paper, double width, double height, const char *title,
                            void (*draw)(ole_canvas *canvas, const void *context),
                            const void *context, ole_text *out, ole_error *error);

#endif
