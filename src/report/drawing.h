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
#include "ole/train/history.h"
#include "report/figure.h"
#include "report/page.h"

typedef enum ole_drawing_kind {
    OLE_DRAW_ANGLES = 0,        /* the angle of each pair of rows, as a heat map */
    OLE_DRAW_HISTOGRAM = 1,     /* of the angles within and between classes */
    OLE_DRAW_SPECTRUM = 2,      /* singular values of all rows, over the largest */
    OLE_DRAW_CLASS_SPECTRA = 3, /* the same for each class; for more than ten their mean */
    OLE_DRAW_OVERLAPS = 4,      /* principal angles of up to 100 classes, as a heat map */
    OLE_DRAW_MAP = 5,           /* by t-SNE */
    OLE_DRAW_SPACE = 6,         /* features of 2 or 3 dimensions; 3 are seen from (1, 1, 1) */
    OLE_DRAWINGS = 7,
} ole_drawing_kind;

/* A figure that owns its numbers. */
typedef struct ole_drawing ole_drawing;

/* If the analysis has no data for this kind, *drawing is NULL and the status OLE_OK. */
OLE_INTERNAL ole_status ole_analysis_draw(ole_drawing **drawing, const ole_analysis *analysis,
                                          ole_drawing_kind kind, ole_error *error);
OLE_INTERNAL const ole_figure *ole_drawing_figure(const ole_drawing *drawing);
OLE_INTERNAL const char *ole_drawing_name(const ole_drawing *drawing); /* for files: "angles" */
OLE_INTERNAL const char *ole_drawing_caption(const ole_drawing *drawing);
OLE_INTERNAL void ole_drawing_free(ole_drawing *drawing); /* NULL is allowed */

/* ---- Learning curves ------------------------------------------------------------------------- */

/*
 * A number of each epoch of a run:
 *
 *     {.run = &history, .offset = offsetof(ole_epoch, test_error), .name = "test set"}
 */
typedef struct ole_curve {
    const ole_history *run;
    size_t offset;    /* of the number in ole_epoch */
    const char *name; /* must outlive the drawing */
    bool dotted;
    bool accuracy;                   /* draw 100 less the number, which is an error in % */
    const ole_history *const *seeds; /* [seed_count] the same run with other seeds, or NULL: */
    int seed_count;                  /* draws the mean, and the deviation as a band */
} ole_curve;

/*
 * The curves in one figure; title and y_label may be NULL.  Epochs in which a number was not
 * measured are skipped.  A curve without any stays as an empty one without a name, so that the
 * others keep their colours; *drawing is NULL where no curve has one.
 */
OLE_INTERNAL ole_status ole_curves_draw(ole_drawing **drawing, const ole_curve *curves, int count,
                                        const char *title, const char *y_label, ole_error *error);

/* ---- Numbers and maps for pages -------------------------------------------------------------- */

/* The mean effective rank of the classes. */
OLE_INTERNAL double ole_class_rank(const ole_spectra *spectra);

/*
 * Adds the t-SNE map to a page, to pan, zoom and filter; nothing if there is none.  `name`, or
 * NULL, is its title.  `images` are those of all rows, in their order; NULL, or a map of a
 * sample of the rows: a map without images.
 */
OLE_INTERNAL void ole_analysis_add_map(ole_page *page, const ole_analysis *analysis,
                                       const char *name, const ole_page_images *images);

#endif
