/* src/data/loader/mixup.c - the share of a batch that is mixed. */
#include "data/loader/mixup.h"

#include <math.h>

/* A word as a number in (0, 1). */
static double inside(uint32_t word) {
    return (word + 0.5) * 0x1p-32;
}

/*
 * Jöhnk's method: u^(1/alpha) / (u^(1/alpha) + v^(1/alpha)) for uniform u and v, taken where the
 * denominator is at most 1.  In logarithms, as the powers underflow for a small alpha.
 */
float ole_mixup_share(uint64_t seed, double alpha, int64_t epoch, int64_t batch) {
    enum { DRAWS = 1 << 20 }; /* for an alpha of 4, one pair in 70 is taken */
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        uint32_t words[4];
        ole_philox(seed, OLE_RANDOM_MIXUP, (uint64_t)epoch, (uint64_t)batch * DRAWS + draw, words);
        for (int k = 0; k < 4; k += 2) {
            double x = log(inside(words[k])) / alpha, y = log(inside(words[k + 1])) / alpha;
            if (exp(x) + exp(y) > 1) continue;
            return (float)(1 / (1 + exp(-fabs(x - y))));
        }
    }
    return 0.5f;
}
