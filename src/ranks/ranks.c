/*
 * src/ranks/ranks.c - the functions of ranks.h for any group: what a rank alone needs is done here,
 * the rest by the group's table.
 */
#include "ranks/ranks.h"

#include <string.h>

int ole_ranks_rank(const ole_ranks *ranks) {
    return ranks ? ranks->rank : 0;
}

int ole_ranks_size(const ole_ranks *ranks) {
    return ranks ? ranks->size : 1;
}

void ole_ranks_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    if (ranks) ranks->table->sum(ranks, data, count, type);
}

void ole_ranks_start_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot) {
    if (ranks) ranks->table->start_sum(ranks, data, count, type, slot);
}

void ole_ranks_progress(ole_ranks *ranks) {
    if (ranks) ranks->table->progress(ranks);
}

void ole_ranks_wait(ole_ranks *ranks, int slot) {
    if (ranks) ranks->table->wait(ranks, slot);
}

void ole_ranks_gather(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all) {
    if (ranks)
        ranks->table->gather(ranks, mine, bytes, all);
    else if (mine != all && bytes[0] > 0)
        memcpy(all, mine, (size_t)bytes[0]);
}

void ole_ranks_broadcast(ole_ranks *ranks, void *data, int64_t bytes, int root) {
    if (ranks) ranks->table->broadcast(ranks, data, bytes, root);
}

void ole_ranks_barrier(ole_ranks *ranks) {
    int64_t nothing = 0;
    ole_ranks_sum(ranks, &nothing, 1, OLE_I64);
}

ole_ranks *ole_ranks_part(ole_ranks *ranks, int count) {
    return ranks ? ranks->table->part(ranks, count) : NULL;
}
