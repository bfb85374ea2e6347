/*
 * src/report/axis.c - ranges and round numbers.
 */
#include "report/axis.h"

#include <math.h>
#include <stdio.h>

ole_range ole_range_start(bool log) {
    return (ole_range){log, HUGE_VAL, -HUGE_VAL, false};
}

void ole_range_add(ole_range *range, double value) {
    if (!isfinite(value) || (range->log && value <= 0)) return;
    if (value < range->min) range->min = value;
    if (value > range->max) range->max = value;
}

bool ole_range_empty(const ole_range *range) {
    return range->min > range->max;
}

/* 1, 2 or 5 times a power of ten, not below `least`. */
static double round_step(double least) {
    double power = pow(10, floor(log10(least)));
    double digits = least / power;
    return power * (digits <= 1.0001 ? 1 : digits <= 2.0001 ? 2 : digits <= 5.0001 ? 5 : 10);
}

static void add_tick(ole_axis *axis, double value) {
    if (axis->ticks < OLE_AXIS_TICKS) axis->at[axis->ticks++] = value;
}

static void linear_ticks(ole_axis *axis, int wanted) {
    double length = axis->max - axis->min;
    axis->step = fmax(axis->step, round_step(length / wanted));
    double slack = 1e-9 * length;
    for (double k = ceil((axis->min - slack) / axis->step); k * axis->step <= axis->max + slack;
         k += 1) {
        if (axis->ticks == OLE_AXIS_TICKS) break;
        add_tick(axis, k * axis->step);
    }
}

/* Powers of ten from low to high; their quotient may be more than a number holds. */
static double decades_of(double low, double high) {
    return log10(high) - log10(low);
}

/* Powers of ten; over less than two of them also 2 and 5 times, over many only some. */
static void log_ticks(ole_axis *axis, int wanted) {
    double first = floor(log10(axis->min)), last = ceil(log10(axis->max));
    double decades = decades_of(axis->min, axis->max);
    int stride = decades > wanted ? (int)ceil(decades / wanted) : 1;
    for (double e = first; e <= last; e += stride) {
        static const double factors[] = {1, 2, 5};
        for (int f = 0; f < (decades < 2.5 ? 3 : 1); f++) {
            double value = factors[f] * pow(10, e);
            if (value >= axis->min * (1 - 1e-9) && value <= axis->max * (1 + 1e-9))
                add_tick(axis, value);
        }
    }
}

/* The range of a logarithmic axis on both sides, as far as there are numbers. */
static void widen(double *low, double *high, double factor) {
    if (*low / factor > 0) *low /= factor;
    if (isfinite(*high * factor)) *high *= factor;
}

void ole_axis_make(ole_axis *axis, const ole_range *range, double min, double max, double pad,
                   int wanted) {
    double low = range->min, high = range->max;
    if (ole_range_empty(range)) low = range->log ? 0.1 : 0, high = 1;
    if (low == high && range->log) widen(&low, &high, 2);
    if (low == high) {
        double half = low == 0 ? 1 : fabs(low) / 10;
        low -= half, high += half;
    }
    if (range->log) {
        widen(&low, &high, pow(10, pad * decades_of(low, high)));
    } else {
        double more = (high - low) * pad;
        low -= more, high += more;
    }
    *axis = (ole_axis){.log = range->log,
                       .min = isnan(min) ? low : min,
                       .max = isnan(max) ? high : max,
                       .to = 1,
                       .step = range->whole ? 1 : 0};
    if (!(axis->min < axis->max)) { /* only one end was given, beyond all numbers */
        if (isnan(min))
            axis->min = axis->log ? axis->max / 10 : axis->max - 1;
        else
            axis->max = axis->log ? axis->min * 10 : axis->min + 1;
    }
    (axis->log ? log_ticks : linear_ticks)(axis, wanted);
}

double ole_axis_place(const ole_axis *axis, double value) {
    double share = axis->log ? decades_of(axis->min, value) / decades_of(axis->min, axis->max)
                             : (value - axis->min) / (axis->max - axis->min);
    return axis->from + share * (axis->to - axis->from);
}

const char *ole_axis_tick(const ole_axis *axis, int i, char out[OLE_NUMBER_ROOM]) {
    double value = axis->at[i];
    if (axis->log || fmax(fabs(axis->min), fabs(axis->max)) >= 1e7 || axis->step < 1e-5)
        return ole_shown_number(out, value, axis->log ? 6 : 4);
    int decimals = 0;
    for (double step = axis->step; decimals < 6 && fabs(step - round(step)) > 1e-6; step *= 10)
        decimals++;
    long long scale = llround(pow(10, decimals)), n = llround(value * (double)scale);
    const char *sign = n < 0 ? "\u2212" : "";
    if (n < 0) n = -n;
    if (decimals == 0)
        snprintf(out, OLE_NUMBER_ROOM, "%s%lld", sign, n);
    else
        snprintf(out, OLE_NUMBER_ROOM, "%s%lld.%0*lld", sign, n / scale, decimals, n % scale);
    return out;
}
