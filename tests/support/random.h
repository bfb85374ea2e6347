/* tests/support/random.h - a small generator for test data: the same numbers on every machine. */
#ifndef OLE_TESTS_RANDOM_H
#define OLE_TESTS_RANDOM_H

#include <math.h>
#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random;

/* SplitMix64. */
static inline uint64_t random_bits(test_random *r) {
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* In [0, 1). */
static inline double random_uniform(test_random *r) {
    return (double)(random_bits(r) >> 11) * 0x1p-53;
}

/* 0 to n - 1. */
static inline int64_t random_below(test_random *r, int64_t n) {
    return (int64_t)(random_bits(r) % (uint64_t)n);
}

/* Standard normal, by Box and Muller. */
static inline double random_normal(test_random *r) {
    double u = 1.0 - random_uniform(r), v = random_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

#endif
