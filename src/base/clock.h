/* src/base/clock.h - seconds that only go forward, for measuring. */
#ifndef OLE_SRC_BASE_CLOCK_H
#define OLE_SRC_BASE_CLOCK_H

#include <time.h>

static inline double ole_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
