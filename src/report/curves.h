/*
 * src/report/curves.h - learning curves: a number of each epoch of one run or of several.
 *
 *     const ole_curve curves[] = {
 *         {.run = &softmax, .offset = offsetof(ole_epoch, test_error), .name = "softmax"},
 *         {.run = &ole, .offset = offsetof(ole_epoch, test_error), .name = "softmax + OLÉ"},
 *     };
 *     ole_drawing *drawing;
 *     if (ole_curves_draw(&drawing, curves, 2, &error) != OLE_OK) ...
 *     if (drawing) {
 *         ole_figure figure = *ole_drawing_figure(drawing); // its x axis is "epoch"
 *         figure.y_label = "error, %";
 *         ole_page_figure(page, &figure, "After each epoch.");
 *     }
 *     ole_drawing_free(drawing);
 */
#ifndef OLE_SRC_REPORT_CURVES_H
#define OLE_SRC_REPORT_CURVES_H

#include "ole/train/history.h"
#include "report/drawing.h"

#include <stddef.h>

typedef struct ole_curve {
    const ole_history *run;
    size_t offset;    /* of the number in ole_epoch */
    const char *name; /* must outlive the drawing */
    bool dotted;
    bool accuracy; /* 100 less the number, which is an error in % */
} ole_curve;

/*
 * Epochs in which a number was not measured are skipped.  A curve without any number stays as an
 * empty one without a name, so that the others keep their colours; *drawing is NULL, and the status
 * OLE_OK, where no curve has one.
 */
OLE_INTERNAL ole_status ole_curves_draw(ole_drawing **drawing, const ole_curve *curves, int count,
                                        ole_error *error);

#endif
