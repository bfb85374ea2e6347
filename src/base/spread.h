/* src/base/spread.h - mean and standard deviation of numbers that come one by one. */
#ifndef OLE_SRC_BASE_SPREAD_H
#define OLE_SRC_BASE_SPREAD_H

#include <math.h>
#include <stdint.h>

typedef struct ole_spread {
    int64_t count;
    double mean;
    double squares; /* sum of squared differences from the mean */
} ole_spread;

static inline void ole_spread_add(ole_spread *s, double value) {
    double before = value - s->mean;
    s->mean += before / (double)++s->count;
    s->squares += before * (value - s->mean);
}

/* NaN of no numbers. */
static inline double ole_spread_mean(const ole_spread *s) {
    return s->count > 0 ? s->mean : NAN;
}

/* Of a sample (n - 1); NaN of fewer than two. */
static inline double ole_spread_deviation(const ole_spread *s) {
    return s->count > 1 ? sqrt(s->squares / (double)(s->count - 1)) : NAN;
}

#endif
