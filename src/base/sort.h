/* src/base/sort.h - what more than one file sorts by qsort() or selects from, and how. */
#ifndef OLE_SRC_BASE_SORT_H
#define OLE_SRC_BASE_SORT_H

#include <stdint.h>
#include <stdlib.h>

/* Doubles, the smallest first, or the largest; integers. */
static inline int ole_by_rising_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline int ole_by_falling_double(const void *a, const void *b) {
    return ole_by_rising_double(b, a);
}

static inline int ole_by_rising_integer(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts integers and leaves out repetitions; returns how many are left. */
static inline int64_t ole_distinct(int64_t *x, int64_t count) {
    int64_t different = 0;
    qsort(x, (size_t)count, sizeof *x, ole_by_rising_integer);
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || x[i] != x[different - 1]) x[different++] = x[i];
    return different;
}

/* Rows by a key each, random or a label, the smallest first; equal keys by row. */
typedef struct ole_keyed {
    uint64_t key;
    int64_t row;
} ole_keyed;

static inline int ole_by_key(const void *a, const void *b) {
    const ole_keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Values and where they stood, the largest first; equal ones in their order. */
typedef struct ole_ranked {
    double value;
    int64_t at;
} ole_ranked;

static inline int ole_by_falling_value(const void *a, const void *b) {
    const ole_ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/*
 * Defines NAME(x, count, wanted), which moves the `wanted` first of `count` items to the front, in
 * no order but with the last of them last (Hoare's selection); BEFORE(a, b) compares two items.
 */
#define OLE_DEFINE_SELECT(NAME, TYPE, BEFORE)                                                      \
    static void NAME(TYPE *x, int64_t count, int64_t wanted) {                                     \
        int64_t low = 0, high = count - 1;                                                         \
        while (low < high) {                                                                       \
            const TYPE pivot = x[low + (high - low) / 2];                                          \
            int64_t i = low, j = high;                                                             \
            while (i <= j) {                                                                       \
                while (BEFORE(x[i], pivot))                                                        \
                    i++;                                                                           \
                while (BEFORE(pivot, x[j]))                                                        \
                    j--;                                                                           \
                if (i > j) break;                                                                  \
                const TYPE swapped = x[i];                                                         \
                x[i++] = x[j];                                                                     \
                x[j--] = swapped;                                                                  \
            }                                                                                      \
            if (wanted <= j + 1)                                                                   \
                high = j;                                                                          \
            else if (wanted > i)                                                                   \
                low = i;                                                                           \
            else                                                                                   \
                return;                                                                            \
        }                                                                                          \
    }

#endif
