/*
 * src/ranks/ranks.h - what ranks tell each other.
 *
 * A group is a table of collective functions: every rank calls the same ones in the same order with
 * the same counts.  mpi/ is the module that mpirun's processes load; threads.c makes the threads
 * of one process ranks, for tests.  A NULL group is one rank alone, and every function here takes
 * it.
 *
 * None of them can fail: a rank that is gone ends the others (mpi/watch.c).  Sums have the same
 * bits on every rank, and in every run with as many ranks.
 */
#ifndef OLE_SRC_RANKS_RANKS_H
#define OLE_SRC_RANKS_RANKS_H

#include "base/export.h"

#include "ole/ranks.h"

/* Sums that are under way at the same time at most. */
enum { OLE_RANKS_SLOTS = 64 };

typedef struct ole_ranks_table {
    const char *name; /* "mpi", "threads" */
    /* data[count] of type OLE_F32, OLE_F64 or OLE_I64 becomes the sum over all ranks. */
    void (*sum)(ole_ranks *ranks, void *data, int64_t count, ole_dtype type);
    /* The same while the caller goes on: data is not touched until wait(slot). */
    void (*start_sum)(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot);
    void (*progress)(ole_ranks *ranks); /* moves what is under way; never waits */
    void (*wait)(ole_ranks *ranks, int slot);
    /* bytes[r] bytes of each rank r, one after the other, on every rank. */
    void (*gather)(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all);
    /* `bytes` bytes of rank `root` on every rank. */
    void (*broadcast)(ole_ranks *ranks, void *data, int64_t bytes, int root);
    /* The first `count` ranks as a group of their own, NULL on the others; closed by close(). */
    ole_ranks *(*part)(ole_ranks *ranks, int count);
    /* Tells the others why this rank ends; NULL: they notice by themselves. */
    void (*fail)(ole_ranks *ranks, const char *reason);
    void (*close)(ole_ranks *ranks);
} ole_ranks_table;

/* What every implementation's group begins with. */
struct ole_ranks {
    const ole_ranks_table *table;
    int rank, size;
    char host[64];     /* of this rank */
    int on_host;       /* this rank's number among those of its host, from 0 */
    int ranks_on_host; /* ... of so many */
    bool is_part;      /* made by ole_ranks_part() */
};

/* The functions of the table, for any group or NULL. */
OLE_INTERNAL void ole_ranks_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type);
OLE_INTERNAL void ole_ranks_start_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type,
                                      int slot);
OLE_INTERNAL void ole_ranks_progress(ole_ranks *ranks);
OLE_INTERNAL void ole_ranks_wait(ole_ranks *ranks, int slot);
OLE_INTERNAL void ole_ranks_gather(ole_ranks *ranks, const void *mine, const int64_t *bytes,
                                   void *all);
OLE_INTERNAL void ole_ranks_broadcast(ole_ranks *ranks, void *data, int64_t bytes, int root);
OLE_INTERNAL void ole_ranks_barrier(ole_ranks *ranks);
OLE_INTERNAL ole_ranks *ole_ranks_part(ole_ranks *ranks, int count);

/* A part of `count` things: rank r has those from ole_ranks_first(r) to before that of r + 1. */
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

/* `size` ranks that are threads of this process: groups[size]. For tests. */
ole_status ole_ranks_threads(ole_ranks **groups, int size, ole_error *error);

#endif
