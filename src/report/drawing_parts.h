/*
 * src/report/drawing_parts.h - a drawing while it is made: for drawing.c, which draws analyses, and
 * curves.c, which draws histories.
 */
#ifndef OLE_SRC_REPORT_DRAWING_PARTS_H
#define OLE_SRC_REPORT_DRAWING_PARTS_H

#include "report/drawing.h"

enum { OLE_DRAWING_NAME = 24 };

struct ole_drawing {
    ole_figure figure;
    const char *name;
    char caption[320];
    ole_series *series;
    double *numbers;                /* of all series */
    float *values;                  /* of a heat map, where it is not the analysis's own */
    char (*text)[OLE_DRAWING_NAME]; /* names of classes */
    const char **names;             /* the same, as figures want them */
    char label[96];                 /* of a series, where it holds a number */
};

/* Room for series, their numbers and the names of groups; false when there is none. */
bool ole_drawing_room(ole_drawing *drawing, int64_t series, int64_t numbers, int64_t names);

/* How a drawing begins, NULL without memory, and ends: *drawing, or an error for want of memory. */
ole_drawing *ole_drawing_new(void);
ole_status ole_drawing_done(ole_drawing **drawing, ole_drawing *made, bool good, ole_error *error);

#endif
