/* src/device/share.h - sums over ranks in the middle of an op, in host memory. */
#ifndef OLE_SRC_DEVICE_SHARE_H
#define OLE_SRC_DEVICE_SHARE_H

#include "base/clock.h"
#include "device/backend.h"
#include "ranks/ranks.h"

/* data[count] becomes the sum over the ranks that have rows. */
static inline void ole_share_sum(const ole_share *share, double *data, int64_t count) {
    double start = ole_clock();
    ole_ranks_sum(share->ranks, data, count, OLE_F64);
    *share->seconds += ole_clock() - start;
}

#endif
