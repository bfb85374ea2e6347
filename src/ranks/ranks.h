/*
 * src/ranks/ranks.h - communication between ranks.
 *
 * A group is a table of collective functions: every rank calls the same ones in the same order with
 * the same counts.  mpi/ is the module that processes under mpirun load; tests have ranks that are
 * threads of one process.  Every function here takes a NULL group: one rank alone.
 *
 * The functions cannot fail: a lost rank ends the others (mpi/watch.c).  Sums have the same bits on
 * every rank, and in every run with the same number of ranks.
 */
#ifndef OLE_SRC_RANKS_RANKS_H
#define OLE_SRC_RANKS_RANKS_H

#include "base/export.h"

#include "ole/ranks.h"

/* At most this many sums at the same time. */
enum { OLE_RANKS_SLOTS = 64 };

typedef struct ole_ranks_table {
    const char *name; /* "mpi", "threads" */
    /* data[count] of type OLE_F32, OLE_F64 or OLE_I64 becomes the sum over all ranks. */
    void (*sum)(ole_ranks *ranks, void *data, int64_t count, ole_dtype type);
    /* The same in the background: the caller does not touch data until wait(slot). */
    void (*start_sum)(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot);
    void (*progress)(ole_ranks *ranks); /* advances background sums; never waits */
    void (*wait)(ole_ranks *ranks, int slot);
    /* bytes[r] bytes of each rank r, one after the other, on every rank. */
    void (*gather)(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all);
    /* `bytes` bytes of rank `root` on every rank. */
    void (*broadcast)(ole_ranks *ranks, void *data, int64_t bytes, int root);
    /* The first `count` ranks as a group of their own, NULL on the others; closed by close(). */
    ole_ranks *(*part)(ole_ranks *ranks, int count);
    /* Tells the others why this rank ends; NULL: they detect it themselves. */
    void (*fail)(ole_ranks *ranks, const char *reason);
    void (*close)(ole_ranks *ranks);
} ole_ranks_table;

/* Every implementation's group begins with this. */
struct ole_ranks {
    const ole_ranks_table *table;
    int rank, size;
    char host[64];     /* of this rank */
    int on_host;       /* this rank's number among those of its host, from 0 */
    int ranks_on_host; /* number of ranks there */
    bool is_part;      /* made by ole_ranks_part() */
};

/* The functions of the table, for any group or NULL. */
static inline void ole_ranks_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    if (ranks) ranks->table->sum(ranks, data, count, type);
}

static inline void ole_ranks_start_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type,
                                       int slot) {
    if (ranks) ranks->table->start_sum(ranks, data, count, type, slot);
}

static inline void ole_ranks_progress(ole_ranks *ranks) {
    if (ranks) ranks->table->progress(ranks);
}

static inline void ole_ranks_wait(ole_ranks *ranks, int slot) {
    if (ranks) ranks->table->wait(ranks, slot);
}

static inline void ole_ranks_broadcast(ole_ranks *ranks, void *data, int64_t bytes, int root) {
    if (ranks) ranks->table->broadcast(ranks, data, bytes, root);
}

static inline ole_ranks *ole_ranks_part(ole_ranks *ranks, int count) {
    return ranks ? ranks->table->part(ranks, count) : NULL;
}

OLE_INTERNAL void ole_ranks_gather(ole_ranks *ranks, const void *mine, const int64_t *bytes,
                                   void *all);

/* Returns when all ranks have called it. */
static inline void ole_ranks_barrier(ole_ranks *ranks) {
    int64_t nothing = 0;
    ole_ranks_sum(ranks, &nothing, 1, OLE_I64);
}

/* Divides `count` items: rank r has those from ole_ranks_first(r) up to that of r + 1. */
static inline int64_t ole_ranks_first(const ole_ranks *ranks, int64_t count, int rank) {
    int64_t size = ranks ? ranks->size : 1, left = count % size;
    return count / size * rank + (rank < left ? rank : left);
}

/* One step of a sum over ranks, in rank order: sum[count] += more[count], of type OLE_F32, OLE_F64
 * or OLE_I64. */
static inline void ole_ranks_add(void *sum, const void *more, int64_t count, ole_dtype type) {
    if (type == OLE_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)sum)[i] += ((const float *)more)[i];
    else if (type == OLE_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)sum)[i] += ((const double *)more)[i];
    else
        for (int64_t i = 0; i < count; i++)
            ((int64_t *)sum)[i] += ((const int64_t *)more)[i];
}

/* The bytes of each rank's part of `count` rows of `size` bytes, into bytes[ranks]. */
static inline void ole_ranks_part_bytes(const ole_ranks *ranks, int64_t count, int64_t size,
                                        int64_t *bytes) {
    for (int r = 0; r < ole_ranks_size(ranks); r++)
        bytes[r] = size * (ole_ranks_first(ranks, count, r + 1) - ole_ranks_first(ranks, count, r));
}

/* `size` bytes from each rank, in rank order, on every rank; free() it.  NULL, with an error on
 * every rank, if any is out of memory. */
OLE_INTERNAL void *ole_ranks_gather_records(ole_ranks *ranks, const void *mine, size_t size,
                                            ole_error *error);

#endif
