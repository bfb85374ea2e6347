/*
 * src/report/axis.h - from numbers to an axis: its range, round numbers on it, places on the paper.
 */
#ifndef OLE_SRC_REPORT_AXIS_H
#define OLE_SRC_REPORT_AXIS_H

#include "report/text.h"

#include <stdbool.h>

enum { OLE_AXIS_TICKS = 24 };

typedef struct ole_axis {
    bool log;
    double min, max; /* of the numbers */
    double from, to; /* on the paper */
    int ticks;       /* how many */
    double at[OLE_AXIS_TICKS];
    double step; /* between ticks of a linear axis; for whole numbers 1 at least */
} ole_axis;

/* The range of numbers as it grows; without NaN, infinities and (log) numbers <= 0. */
typedef struct ole_range {
    bool log;
    double min, max;
    bool whole; /* all numbers are whole, such as epochs; false at first */
} ole_range;

ole_range ole_range_start(bool log);
void ole_range_add(ole_range *range, double value);
bool ole_range_empty(const ole_range *range);

/*
 * The axis of a range: a share `pad` of its length more on each side; `min` and `max` (NaN: none)
 * overrule it.  About `wanted` ticks.
 */
void ole_axis_make(ole_axis *axis, const ole_range *range, double min, double max, double pad,
                   int wanted);

double ole_axis_place(const ole_axis *axis, double value);

/* The tick's number, in `out`; all of a linear axis with the same decimals. */
const char *ole_axis_tick(const ole_axis *axis, int i, char out[OLE_NUMBER_ROOM]);

#endif
