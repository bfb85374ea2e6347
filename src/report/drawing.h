/*
 * src/report/drawing.h - the figures of an analysis, each from one call: angles between features
 * ordered by class (the paper's Fig. 1), their histograms, singular values (Fig. 7), overlaps of
 * classes, the map by t-SNE (Fig. 1), and features of two or three dimensions as they are (Fig. 2).
 *
 *     ole_drawing *drawing;
 *     if (ole_analysis_draw(&drawing, &analysis, OLE_DRAW_ANGLES, &error) != OLE_OK) ...
 *     if (drawing) ole_figure_save(ole_drawing_figure(drawing), "angles.pdf", &error);
 *     ole_drawing_free(drawing);
 */
#ifndef OLE_SRC_REPORT_DRAWING_H
#define OLE_SRC_REPORT_DRAWING_H

#include "base/export.h"
#include "ole/analyze.h"
#include "report/figure.h"
#include "report/page.h"

typedef enum ole_drawing_kind {
    OLE_DRAW_ANGLES = 0,        /* the angle of each pair of rows, as a heat map */
    OLE_DRAW_HISTOGRAM = 1,     /* of the angles inside and between classes */
    OLE_DRAW_SPECTRUM = 2,      /* singular values of all rows, over the largest */
    OLE_DRAW_CLASS_SPECTRA = 3, /* the same for each class; for more than ten their mean */
    OLE_DRAW_OVERLAPS = 4,      /* principal angles of up to 100 classes, as a heat map */
    OLE_DRAW_MAP = 5,           /* by t-SNE */
    OLE_DRAW_SPACE = 6,         /* features of 2 or 3 dimensions; 3 are seen from (1, 1, 1) */
    OLE_DRAWINGS = 7,
} ole_drawing_kind;

/* A figure that owns its numbers. */
typedef struct ole_drawing ole_drawing;

/* *drawing is NULL, and the status OLE_OK, where the analysis has nothing of the kind. */
OLE_INTERNAL ole_status ole_analysis_draw(ole_drawing **drawing, const ole_analysis *analysis,
                                          ole_drawing_kind kind, ole_error *error);
OLE_INTERNAL const ole_figure *ole_drawing_figure(const ole_drawing *drawing);
OLE_INTERNAL const char *ole_drawing_name(const ole_drawing *drawing); /* for files: "angles" */
OLE_INTERNAL const char *ole_drawing_caption(const ole_drawing *drawing);
OLE_INTERNAL void ole_drawing_free(ole_drawing *drawing); /* NULL is allowed */

/* ---- Several networks side by side ----------------------------------------------------------- */

typedef enum ole_comparison {
    OLE_COMPARE_INSIDE = 0,        /* histograms of the angles inside classes */
    OLE_COMPARE_BETWEEN = 1,       /* ... and between them */
    OLE_COMPARE_CLASS_SPECTRA = 2, /* singular values of a class, the mean over the classes */
    OLE_COMPARE_SPECTRA = 3,       /* singular values of all rows */
} ole_comparison;

enum { OLE_MOST_COMPARED = 8 };

/* One figure with a series for each analysis; the names must outlive the drawing. */
OLE_INTERNAL ole_status ole_analyses_draw(ole_drawing **drawing,
                                          const ole_analysis *const *analyses,
                                          const char *const *names, int count, ole_comparison kind,
                                          ole_error *error);

/* The mean effective rank of the classes. */
OLE_INTERNAL double ole_class_rank(const ole_spectra *spectra);

/*
 * The map by t-SNE onto a page, to pan, zoom and filter; nothing where there is none.  `name`, or
 * NULL, begins the caption.  `images` are those of all rows, in their order; NULL, or a map of a
 * sample of the rows: a map without images.
 */
OLE_INTERNAL void ole_analysis_add_map(ole_page *page, const ole_analysis *analysis,
                                       const char *name, const ole_page_images *images);

#endif
