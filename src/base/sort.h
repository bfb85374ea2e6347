/* src/base/sort.h - comparisons for qsort() that more than one file needs. */
#ifndef OLE_SRC_BASE_SORT_H
#define OLE_SRC_BASE_SORT_H

/* Doubles, the smallest first, or the largest. */
static inline int ole_by_rising_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int ole_by_falling_double(const void *a, const void *b) {
    return ole_by_rising_double(b, a);
}

#endif
