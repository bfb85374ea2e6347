/*
 * src/net/memory.h - places tensors in one memory block: tensors alive at the same time never
 * overlap, the others may share memory.
 */
#ifndef OLE_SRC_NET_MEMORY_H
#define OLE_SRC_NET_MEMORY_H

#include "ole/base.h"

/* A tensor that must exist from time `first` to time `last`, both included. */
typedef struct ole_lifetime {
    size_t bytes; /* 0: takes no memory */
    int first, last;
    int alias;     /* index of the tensor whose memory it shares, or -1 */
    size_t offset; /* result: byte offset in the block */
} ole_lifetime;

/*
 * Fills in the offsets (multiples of 64) and returns the block's size in bytes, or SIZE_MAX if
 * memory for the search itself runs out.  Greedy by size: the largest tensor first, each at the
 * lowest free offset.  On real networks this is within a few percent of the lower bound.
 */
size_t ole_place_all(ole_lifetime *tensor, int count);

/* Bytes the tensors would take without sharing. */
size_t ole_sum_all(const ole_lifetime *tensor, int count);

#endif
