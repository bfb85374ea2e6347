/*
 * src/net/memory.h - places for tensors in one block: those that live at the same time lie apart,
 * others may share.
 */
#ifndef OLE_SRC_NET_MEMORY_H
#define OLE_SRC_NET_MEMORY_H

#include "ole/base.h"

/* A tensor that is needed from time `first` to time `last`. */
typedef struct ole_lifetime {
    size_t bytes; /* 0: needs no place */
    int first, last;
    int alias;     /* shares the place of this other one (of a lower or higher index), or -1 */
    size_t offset; /* filled */
} ole_lifetime;

/*
 * Fills the offsets (multiples of 64) and returns the size of the block, or SIZE_MAX when memory
 * for the search itself runs out.  Greedy by size: the largest first, each at the lowest offset
 * where it meets no neighbour in time; within a few percent of the lower bound on real networks.
 */
size_t ole_place_all(ole_lifetime *tensor, int count);

/* What they would take apart. */
size_t ole_sum_all(const ole_lifetime *tensor, int count);

#endif
