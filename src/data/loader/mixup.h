/*
 * src/data/loader/mixup.h - mixup (Zhang et al. 2018): each row of a batch is blended with another,
 * and trained towards both labels, each by its share.
 *
 * Row i of n is blended with row n - 1 - i, after augmentation and normalisation, and all rows of a
 * batch with the same share, drawn from Beta(alpha, alpha).  Both rows of a pair are kept, so a
 * share and its complement make the same batch, in another order.  The larger one is taken: then
 * every row holds more of its own image than of the other.
 */
#ifndef OLE_SRC_DATA_LOADER_MIXUP_H
#define OLE_SRC_DATA_LOADER_MIXUP_H

#include "base/philox.h"

/* a = epoch, b = batch * 2^20 + draw: two pairs of uniform numbers */
enum { OLE_RANDOM_MIXUP = 14 };

/* What the rows of a batch were blended with. */
typedef struct ole_mix {
    int32_t *labels; /* [rows] of the other rows */
    float *share;    /* [1] of each row's own image; the other has 1 - share */
} ole_mix;

OLE_PHILOX float ole_mix_blend(float own, float other, float share) {
    return share * own + (1 - share) * other;
}

/* The share of a batch, from 1/2 to 1, for alpha over 0. */
float ole_mixup_share(uint64_t seed, double alpha, int64_t epoch, int64_t batch);

/* Which of n rows row i is blended with; -1: none, the row in the middle stays as it is. */
static inline int64_t ole_mixup_other(int64_t n, int64_t i) {
    return n - 1 - i == i ? -1 : n - 1 - i;
}

#endif
