/*
 * src/train/ranks/link.h - how the ranks of a run reach each other's tensors where these do not lie
 * in host memory: from card to card (device/link.h) where every rank has a card of its own and the
 * library for it is there, else by way of host memory.
 */
#ifndef OLE_SRC_TRAIN_RANKS_LINK_H
#define OLE_SRC_TRAIN_RANKS_LINK_H

#include "device/link.h"
#include "model/network.h"
#include "ranks/ranks.h"

enum { OLE_LINK_HOW = 320 };

typedef struct ole_link {
    const ole_linker *linker; /* NULL: tensors lie in host memory */
    ole_device_context *context;
    bool direct;            /* from card to card */
    char how[OLE_LINK_HOW]; /* which of the two and why, for people; "" for host memory */
} ole_link;

/*
 * Collective: all ranks come to the same.  An error is one on all ranks where they do not train on
 * the same kind of device, and this rank's own where linking fails.  The context closes the link.
 */
ole_status ole_link_open(ole_link *link, ole_ranks *ranks, const ole_network *network,
                         ole_error *error);

#endif
