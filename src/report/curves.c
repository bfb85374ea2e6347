/*
 * src/report/curves.c - learning curves as a drawing.
 */
#include "report/curves.h"

#include "report/drawing_parts.h"

#include <math.h>
#include <string.h>

ole_status ole_curves_draw(ole_drawing **drawing, const ole_curve *curves, int count,
                           ole_error *error) {
    int64_t numbers = 0, points = 0;
    for (int c = 0; c < count; c++)
        numbers += 2 * curves[c].run->count;
    *drawing = NULL;
    ole_drawing *d = ole_drawing_new();
    bool good = d && ole_drawing_room(d, count, numbers, 0);
    double *x = good ? d->numbers : NULL;
    for (int c = 0; c < count && good; c++) {
        const ole_curve *from = &curves[c];
        double *y = x + from->run->count;
        ole_series *to = &d->series[c];
        *to = (ole_series){.x = x, .y = y, .dotted = from->dotted};
        for (int64_t i = 0; i < from->run->count; i++) {
            const ole_epoch *epoch = &from->run->epochs[i];
            double value;
            memcpy(&value, (const char *)epoch + from->offset, sizeof value);
            if (!isfinite(value)) continue;
            x[to->count] = (double)epoch->epoch;
            y[to->count++] = from->accuracy ? 100.0 - value : value;
        }
        if (to->count > 0) to->name = from->name;
        points += to->count;
        x = y + from->run->count;
    }
    if (good) d->figure.x_label = "epoch";
    ole_status status = ole_drawing_done(drawing, d, good, error);
    if (status == OLE_OK && points == 0) {
        ole_drawing_free(d);
        *drawing = NULL;
    }
    return status;
}
