/* tests/support/peak_memory.h - the most memory this process has filled so far, in bytes. */
#ifndef OLE_TESTS_PEAK_MEMORY_H
#define OLE_TESTS_PEAK_MEMORY_H

#include <stdint.h>
#include <sys/resource.h>

/* What reading a small file, however hostile, may take. */
static const int64_t small_cost = 200 * 1000 * 1000;

static inline int64_t peak_memory(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

#endif
