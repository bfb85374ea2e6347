/*
 * src/train/ranks/link.h - how ranks reach each other's tensors in device memory: from GPU to GPU
 * (device/link.h) if every rank has a GPU of its own and NCCL is there, else through host memory.
 */
#ifndef OLE_SRC_TRAIN_RANKS_LINK_H
#define OLE_SRC_TRAIN_RANKS_LINK_H

#include "device/link.h"
#include "model/network.h"
#include "ranks/ranks.h"

enum { OLE_LINK_HOW = 320 };

typedef struct ole_link {
    const ole_linker *linker; /* NULL: tensors are in host memory */
    ole_device_context *context;
    bool direct;            /* from GPU to GPU */
    char how[OLE_LINK_HOW]; /* which of the two and why, to print; "": host tensors */
} ole_link;

/*
 * Collective; the result is the same on all ranks.  Training on different kinds of devices is an
 * error on all ranks; failing to link is this rank's own.  The context closes the link.
 */
ole_status ole_link_open(ole_link *link, ole_ranks *ranks, const ole_network *network,
                         ole_error *error);

#endif
