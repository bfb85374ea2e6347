/* src/train/ranks/rank_resources.h - a rank's share of its host: threads and a GPU. */
#ifndef OLE_SRC_TRAIN_RANKS_RANK_RESOURCES_H
#define OLE_SRC_TRAIN_RANKS_RANK_RESOURCES_H

#include "ranks/ranks.h"

enum { OLE_DEVICE_NAME = 20 };

/*
 * `given` threads, or for 0 the rank's share: the processors that it may use, but no more than
 * there are per rank of the host. So ranks bound by the launcher use what they are bound to, and
 * unbound ranks do not compete.
 */
int ole_rank_threads(int given, const ole_ranks *ranks);

/* `device` or, if that leaves the choice among several GPUs open, "cuda:N" in `name`: the ranks of
 * a host take turns. */
const char *ole_rank_device(const char *device, const ole_ranks *ranks, char name[OLE_DEVICE_NAME]);

#endif
