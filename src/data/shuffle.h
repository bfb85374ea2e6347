/* src/data/shuffle.h - a permutation as a function of (seed, stream, a): Fisher and Yates. */
#ifndef OLE_SRC_DATA_SHUFFLE_H
#define OLE_SRC_DATA_SHUFFLE_H

#include "base/philox.h"

/*
 * Permutes `count` < 2^32 items in place.  The number that picks the partner of position i is drawn
 * for (a, first + i), so that several shuffles of one stream can share an `a`.
 */
static inline void ole_shuffle(int64_t *items, int64_t count, uint64_t seed, uint32_t stream,
                               uint64_t a, uint64_t first) {
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t words[4];
        ole_philox(seed, stream, a, first + (uint64_t)i, words);
        int64_t j = ole_below(words[0], (uint32_t)i + 1);
        int64_t item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

#endif
