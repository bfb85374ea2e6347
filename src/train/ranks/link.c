/* src/train/ranks/link.c - choosing between GPU to GPU and host memory, the same on all ranks. */
#include "train/ranks/link.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The information about itself that a rank sends to the others. */
typedef struct rank_info {
    char backend[16];
    char host[64];
    char gpu[OLE_LINK_GPU];
    char why_not[160]; /* it cannot be linked; "": it can */
} rank_info;

/* On rank 0 it also makes the `id` by which all ranks find each other. */
static rank_info describe(const ole_link *link, const ole_ranks *ranks, const ole_network *network,
                          unsigned char id[OLE_LINK_ID]) {
    rank_info mine = {0};
    ole_error error = {0};
    snprintf(mine.backend, sizeof mine.backend, "%s", network->backend->name);
    snprintf(mine.host, sizeof mine.host, "%s", ranks->host);
    if (!link->linker) return mine;
    link->linker->gpu(link->context, mine.gpu);
    ole_status status = link->linker->check(&error);
    if (status == OLE_OK && ranks->rank == 0) status = link->linker->make_id(id, &error);
    if (status != OLE_OK) snprintf(mine.why_not, sizeof mine.why_not, "%.159s", error.message);
    return mine;
}

/* Writes why ranks cannot be linked into `how`; false if they can. */
static bool find_obstacle(const rank_info *all, int size, char how[OLE_LINK_HOW]) {
    static const char *const instead = "sums go through host memory and steps run one by one";
    for (int r = 0; r < size; r++)
        for (int s = r + 1; s < size; s++)
            if (strcmp(all[r].host, all[s].host) == 0 && strcmp(all[r].gpu, all[s].gpu) == 0) {
                snprintf(how, OLE_LINK_HOW, "ranks %d and %d share GPU %s of %s: %s", r, s,
                         all[r].gpu, all[r].host, instead);
                return true;
            }
    for (int r = 0; r < size; r++)
        if (all[r].why_not[0]) {
            snprintf(how, OLE_LINK_HOW, "rank %d (%s): %s; %s", r, all[r].host, all[r].why_not,
                     instead);
            return true;
        }
    return false;
}

ole_status ole_link_open(ole_link *link, ole_ranks *ranks, const ole_network *network,
                         ole_error *error) {
    unsigned char id[OLE_LINK_ID] = {0};
    int size = ole_ranks_size(ranks);
    *link = (ole_link){.linker = network->backend->linker, .context = network->context};
    rank_info mine = describe(link, ranks, network, id);
    rank_info *all = ole_ranks_gather_records(ranks, &mine, sizeof mine, error);
    if (!all) return OLE_ERROR_MEMORY;
    ole_status status = OLE_OK;
    for (int r = 1; r < size && status == OLE_OK; r++)
        if (strcmp(all[r].backend, all[0].backend) != 0)
            status = ole_fail(error, OLE_ERROR_ARGUMENT,
                              "rank %d (%s) would train on %s, rank 0 (%s) on %s; use the same "
                              "--device on all ranks",
                              r, all[r].host, all[r].backend, all[0].host, all[0].backend);
    bool possible = status == OLE_OK && link->linker && !find_obstacle(all, size, link->how);
    free(all);
    if (!possible) return status;
    ole_ranks_broadcast(ranks, id, sizeof id, 0);
    status = link->linker->open(link->context, id, ranks->rank, size, error);
    link->direct = status == OLE_OK;
    if (link->direct)
        snprintf(link->how, sizeof link->how, "%d ranks, each on its own GPU, through NCCL", size);
    return status;
}
