/*
 * tests/support/thread_ranks.c - ranks that are threads of one process.
 *
 * The ranks of a group meet in a room.  Each call lays what it has to share on its place there;
 * behind a barrier everyone reads what the others laid, and a second barrier keeps it lying until
 * all have.  Sums are in the order of the ranks, so their bits are fixed.
 */
#include "thread_ranks.h"

#include "base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct room {
    pthread_barrier_t barrier;
    atomic_int inside; /* groups that are not closed; the last one takes the room away */
    struct room *next; /* rank 0 lays the room of a part here */
    void *places[];    /* of each rank */
} room;

/* A sum that was started: done by wait(). */
typedef struct promise {
    void *data;
    int64_t count;
    ole_dtype type;
} promise;

typedef struct thread_group {
    ole_ranks base;
    room *room;
    promise promises[OLE_RANKS_SLOTS];
} thread_group;

static void meet(room *here) {
    pthread_barrier_wait(&here->barrier);
}

/* Shows `data` to the others, until meet() is called once more. */
static room *show(ole_ranks *ranks, const void *data) {
    room *here = ((thread_group *)ranks)->room;
    here->places[ranks->rank] = (void *)(uintptr_t)data;
    meet(here);
    return here;
}

/* Each rank adds its part of the elements, for all. */
static void sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    room *here = show(ranks, data);
    size_t size = ole_dtype_size(type);
    int64_t first = ole_ranks_first(ranks, count, ranks->rank);
    int64_t part = ole_ranks_first(ranks, count, ranks->rank + 1) - first;
    size_t from = (size_t)first * size;
    for (int r = 1; r < ranks->size && part > 0; r++)
        ole_ranks_add((char *)here->places[0] + from, (char *)here->places[r] + from, part, type);
    for (int r = 1; r < ranks->size && part > 0; r++)
        memcpy((char *)here->places[r] + from, (char *)here->places[0] + from, (size_t)part * size);
    meet(here);
}

static void start_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot) {
    ((thread_group *)ranks)->promises[slot] = (promise){data, count, type};
}

static void progress(ole_ranks *ranks) {
    (void)ranks;
}

static void wait_slot(ole_ranks *ranks, int slot) {
    promise *promised = &((thread_group *)ranks)->promises[slot];
    if (promised->type) sum(ranks, promised->data, promised->count, promised->type);
    *promised = (promise){0};
}

static void gather(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all) {
    room *here = show(ranks, mine);
    char *out = all;
    for (int r = 0; r < ranks->size; r++) {
        if (bytes[r] > 0 && here->places[r] != out) memcpy(out, here->places[r], (size_t)bytes[r]);
        out += bytes[r];
    }
    meet(here);
}

static void broadcast(ole_ranks *ranks, void *data, int64_t bytes, int root) {
    room *here = show(ranks, data);
    if (ranks->rank != root && bytes > 0) memcpy(data, here->places[root], (size_t)bytes);
    meet(here);
}

static room *open_room(int size) {
    room *made = calloc(1, sizeof *made + (size_t)size * sizeof(void *));
    if (!made) return NULL;
    if (pthread_barrier_init(&made->barrier, NULL, (unsigned)size) != 0) {
        free(made);
        return NULL;
    }
    atomic_init(&made->inside, size);
    return made;
}

static void leave_room(room *here) {
    if (atomic_fetch_sub(&here->inside, 1) > 1) return;
    pthread_barrier_destroy(&here->barrier);
    free(here);
}

static ole_ranks *enter_room(room *here, int rank, int size);

/* There is no way to fail; a test that has no memory left for a room ends. */
static ole_ranks *take_part(ole_ranks *ranks, int count) {
    room *here = ((thread_group *)ranks)->room;
    if (ranks->rank == 0 && !(here->next = open_room(count))) abort();
    meet(here);
    ole_ranks *inner = NULL;
    if (ranks->rank < count && !(inner = enter_room(here->next, ranks->rank, count))) abort();
    if (inner) inner->is_part = true;
    meet(here);
    return inner;
}

static void close_threads(ole_ranks *ranks) {
    leave_room(((thread_group *)ranks)->room);
    free(ranks);
}

static const ole_ranks_table table = {
    .name = "threads",
    .sum = sum,
    .start_sum = start_sum,
    .progress = progress,
    .wait = wait_slot,
    .gather = gather,
    .broadcast = broadcast,
    .part = take_part,
    .close = close_threads,
};

static ole_ranks *enter_room(room *here, int rank, int size) {
    thread_group *made = calloc(1, sizeof *made);
    if (!made) return NULL;
    made->base = (ole_ranks){
        .table = &table, .rank = rank, .size = size, .on_host = rank, .ranks_on_host = size};
    gethostname(made->base.host, sizeof made->base.host - 1);
    made->room = here;
    return &made->base;
}

ole_status thread_ranks(ole_ranks **groups, int size, ole_error *error) {
    room *made = open_room(size);
    bool enough = made != NULL;
    for (int r = 0; r < size; r++) {
        groups[r] = made ? enter_room(made, r, size) : NULL;
        enough = enough && groups[r];
    }
    if (enough) return OLE_OK;
    for (int r = 0; r < size; r++) {
        free(groups[r]);
        groups[r] = NULL;
    }
    if (made) {
        atomic_store(&made->inside, 1);
        leave_room(made);
    }
    return ole_fail(error, OLE_ERROR_MEMORY, "ranks: no memory for %d threads", size);
}
