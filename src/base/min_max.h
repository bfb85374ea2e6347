/* src/base/min_max.h - the smaller and the larger of two counts. */
#ifndef OLE_SRC_BASE_MIN_MAX_H
#define OLE_SRC_BASE_MIN_MAX_H

#include <stdint.h>

static inline int64_t ole_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t ole_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
