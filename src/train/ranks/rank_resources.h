/* src/train/ranks/rank_resources.h - a rank's share of its host: threads and a GPU. */
#ifndef OLE_SRC_TRAIN_RANKS_RANK_RESOURCES_H
#define OLE_SRC_TRAIN_RANKS_RANK_RESOURCES_H

#include "ranks/ranks.h"

enum { OLE_DEVICE_NAME = 20 };

/*
 * `given` threads, or for 0 the rank's share: the processors that it may use, but no more than are
 * there for each rank of the host.  So ranks that the launcher has bound keep what they are bound
 * to, and ranks that it has not bound do not get in each other's way.
 */
int ole_rank_threads(int given, const ole_ranks *ranks);

/* `device`, or where that leaves the GPU open and there are several, "cuda:N" in `name`: ranks of
 * a host take one after the other. */
const char *ole_rank_device(const char *device, const ole_ranks *ranks, char name[OLE_DEVICE_NAME]);

#endif
