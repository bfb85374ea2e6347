/* src/base/clock.h - seconds that only go forward, for measuring: on the wall and of processors. */
#ifndef OLE_SRC_BASE_CLOCK_H
#define OLE_SRC_BASE_CLOCK_H

#include <time.h>

/* Processor seconds of all threads of the process. */
static inline double ole_processor_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double ole_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
