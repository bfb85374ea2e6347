/*
 * src/ranks/mpi/mpi.c - groups of MPI processes: the module libole_mpi.so, with start.c and watch.c
 * for what MPI cannot notice.
 *
 * MPI moves the bytes, and the sums are added here, in the order of the ranks: so their bits depend
 * neither on the MPI nor on its choice of algorithm, nor on which rank is on which host.  A large
 * sum is cut into slices, one a rank: each rank gets its slice of all others (alltoall), adds, and
 * the slices are gathered: the same traffic as a ring's.  A small one is gathered whole and added
 * by everyone.  Each slot has a communicator of its own, because its second half starts when the
 * first has arrived, which is not in the same order on all ranks.
 *
 * Errors are MPI's own to handle, which ends all processes.
 */
#include "ranks/mpi.h"

#include "base/error.h"
#include "base/module.h"
#include "ranks/launcher.h"
#include "ranks/mpi/start.h"
#include "ranks/mpi/watch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL = 1 << 14,         /* bytes of all ranks together: gathered whole */
    PIECE = 1 << 20,         /* elements of a large sum that travel at once */
    BYTES = 1 << 26,         /* at most in one call of MPI, whose counts are ints */
    SLOTS = OLE_RANKS_SLOTS, /* and one more, for sums that are waited for at once */
};

typedef enum stage { IDLE, WHOLE, SLICES, RESULTS } stage;

/* A sum under way. */
typedef struct job {
    MPI_Comm comm;
    stage stage;
    char *data;
    int64_t count, done, piece; /* elements: of all, of the pieces before this one, of this one */
    ole_dtype type;
    char *buffer; /* what the others sent */
    size_t room;
    int *counts, *places, *mine, *theirs; /* of a piece's slices, by rank */
} job;

typedef struct mpi_ranks {
    ole_ranks base;
    MPI_Comm comm;
    bool finalize;    /* we initialised MPI */
    ole_watch *watch; /* or NULL; a part has that of its whole */
    job jobs[SLOTS + 1];
    MPI_Request requests[SLOTS + 1];
} mpi_ranks;

static MPI_Datatype mpi_type(ole_dtype type) {
    return type == OLE_F32 ? MPI_FLOAT : type == OLE_F64 ? MPI_DOUBLE : MPI_INT64_T;
}

/* There is no way to fail half-way through a sum: MPI ends all ranks and reports it. */
static void *need(const mpi_ranks *group, void *memory) {
    if (!memory) MPI_Abort(group->comm, 1);
    return memory;
}

/* ---- Sums --------------------------------------------------------------------------------- */

static char *buffer_of(mpi_ranks *group, job *j, size_t bytes) {
    if (j->room < bytes) {
        j->buffer = need(group, realloc(j->buffer, bytes));
        j->room = bytes;
    }
    return j->buffer;
}

/* sums[count] becomes the sum of `size` blocks of as many elements. */
static void add_blocks(char *sums, const char *blocks, int size, int64_t count, ole_dtype type) {
    size_t bytes = (size_t)count * ole_dtype_size(type);
    if (count == 0) return;
    memcpy(sums, blocks, bytes);
    for (int r = 1; r < size; r++)
        ole_ranks_add(sums, blocks + (size_t)r * bytes, count, type);
}

static void cut_into_slices(const ole_ranks *ranks, job *j) {
    for (int r = 0; r < ranks->size; r++) {
        j->places[r] = (int)ole_ranks_first(ranks, j->piece, r);
        j->counts[r] = (int)ole_ranks_first(ranks, j->piece, r + 1) - j->places[r];
    }
    for (int r = 0; r < ranks->size; r++) {
        j->mine[r] = j->counts[ranks->rank];
        j->theirs[r] = j->mine[r] * r;
    }
}

static void start_piece(mpi_ranks *group, int slot) {
    job *j = &group->jobs[slot];
    int64_t left = j->count - j->done;
    size_t element = ole_dtype_size(j->type), size = (size_t)group->base.size;
    MPI_Datatype type = mpi_type(j->type);
    MPI_Request *request = &group->requests[slot];
    char *data = j->data + (size_t)j->done * element;
    j->piece = left < PIECE ? left : PIECE;
    if (left == 0) {
        j->stage = IDLE;
    } else if ((size_t)j->piece * element * size <= SMALL) {
        char *all = buffer_of(group, j, SMALL);
        j->stage = WHOLE;
        MPI_Iallgather(data, (int)j->piece, type, all, (int)j->piece, type, j->comm, request);
    } else {
        cut_into_slices(&group->base, j);
        char *blocks = buffer_of(group, j, ((size_t)j->piece + size) * element);
        j->stage = SLICES;
        MPI_Ialltoallv(data, j->counts, j->places, type, blocks, j->mine, j->theirs, type, j->comm,
                       request);
    }
}

/* What was asked for last has arrived. */
static void go_on(mpi_ranks *group, int slot) {
    job *j = &group->jobs[slot];
    size_t element = ole_dtype_size(j->type);
    char *data = j->data + (size_t)j->done * element;
    int size = group->base.size, rank = group->base.rank;
    if (j->stage == WHOLE) add_blocks(data, j->buffer, size, j->piece, j->type);
    if (j->stage == SLICES) {
        add_blocks(data + (size_t)j->places[rank] * element, j->buffer, size, j->mine[0], j->type);
        j->stage = RESULTS;
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, j->counts, j->places,
                        mpi_type(j->type), j->comm, &group->requests[slot]);
        return;
    }
    j->done += j->piece;
    start_piece(group, slot);
}

static void start_sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type, int slot) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    job *j = &group->jobs[slot];
    if (j->comm == MPI_COMM_NULL) { /* by all ranks at the same time */
        size_t size = (size_t)group->base.size;
        MPI_Comm_dup(group->comm, &j->comm);
        j->counts = need(group, calloc(4 * size, sizeof *j->counts));
        j->places = j->counts + size;
        j->mine = j->places + size;
        j->theirs = j->mine + size;
    }
    j->data = data;
    j->count = count;
    j->done = 0;
    j->type = type;
    start_piece(group, slot);
}

/*
 * Goes on with the sums whose messages have arrived; `some` is MPI_Testsome or MPI_Waitsome.  The
 * statuses are not looked at; given because gcc takes MPICH's way to leave them out for a mistake.
 */
static void go_on_with(mpi_ranks *group,
                       int (*some)(int, MPI_Request[], int *, int[], MPI_Status[])) {
    int arrived, slots[SLOTS + 1];
    MPI_Status statuses[SLOTS + 1];
    some(SLOTS + 1, group->requests, &arrived, slots, statuses);
    for (int i = 0; i < arrived; i++) /* MPI_UNDEFINED, when nothing is under way, is negative */
        go_on(group, slots[i]);
}

static void progress(ole_ranks *ranks) {
    go_on_with((mpi_ranks *)ranks, MPI_Testsome);
}

static void wait_slot(ole_ranks *ranks, int slot) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    while (group->jobs[slot].stage != IDLE)
        go_on_with(group, MPI_Waitsome);
}

static void sum(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    size_t bytes = (size_t)count * ole_dtype_size(type);
    if (count > 0 && bytes * (size_t)ranks->size <= SMALL) {
        _Alignas(16) char all[SMALL];
        MPI_Allgather(data, (int)count, mpi_type(type), all, (int)count, mpi_type(type),
                      group->comm);
        add_blocks(data, all, ranks->size, count, type);
    } else {
        start_sum(ranks, data, count, type, SLOTS);
        wait_slot(ranks, SLOTS);
    }
}

/* ---- Bytes -------------------------------------------------------------------------------- */

static void broadcast(ole_ranks *ranks, void *data, int64_t bytes, int root) {
    char *at = data;
    for (int64_t left = bytes; left > 0;) {
        int part = left < BYTES ? (int)left : BYTES;
        MPI_Bcast(at, part, MPI_BYTE, root, ((mpi_ranks *)ranks)->comm);
        at += part;
        left -= part;
    }
}

static void gather(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    int64_t sum_of_bytes = 0, before = 0;
    for (int r = 0; r < ranks->size; r++) {
        sum_of_bytes += bytes[r];
        if (r < ranks->rank) before += bytes[r];
    }
    bool in_place = (const char *)mine == (char *)all + before;
    if (sum_of_bytes > BYTES) { /* too much for one call: rank after rank */
        if (!in_place && bytes[ranks->rank] > 0)
            memcpy((char *)all + before, mine, (size_t)bytes[ranks->rank]);
        char *part = all;
        for (int r = 0; r < ranks->size; part += bytes[r++])
            broadcast(ranks, part, bytes[r], r);
        return;
    }
    int *counts = need(group, malloc(2 * (size_t)ranks->size * sizeof *counts));
    int *places = counts + ranks->size, at = 0;
    for (int r = 0; r < ranks->size; r++) {
        places[r] = at;
        at += counts[r] = (int)bytes[r];
    }
    MPI_Allgatherv(in_place ? MPI_IN_PLACE : mine, counts[ranks->rank], MPI_BYTE, all, counts,
                   places, MPI_BYTE, group->comm);
    free(counts);
}

/* ---- Groups ------------------------------------------------------------------------------- */

static mpi_ranks *make_group(MPI_Comm comm);

static ole_ranks *take_part(ole_ranks *ranks, int count) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    MPI_Comm comm;
    MPI_Comm_split(group->comm, ranks->rank < count ? 0 : MPI_UNDEFINED, ranks->rank, &comm);
    if (comm == MPI_COMM_NULL) return NULL;
    mpi_ranks *inner = need(group, make_group(comm));
    inner->base.is_part = true;
    inner->watch = group->watch;
    return &inner->base;
}

static void fail(ole_ranks *ranks, const char *reason) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    if (group->watch) ole_watch_fail(group->watch, reason);
}

/* A part has the watch of its whole, which outlives it. */
static void close_group(ole_ranks *ranks) {
    mpi_ranks *group = (mpi_ranks *)ranks;
    ole_watch *watch = ranks->is_part ? NULL : group->watch;
    if (watch) ole_ranks_barrier(ranks);
    for (int s = 0; s <= SLOTS; s++) {
        job *j = &group->jobs[s];
        if (j->comm != MPI_COMM_NULL) MPI_Comm_free(&j->comm);
        free(j->buffer);
        free(j->counts);
    }
    MPI_Comm_free(&group->comm);
    if (group->finalize) MPI_Finalize();
    free(group);
    if (watch) ole_watch_close(watch);
}

static const ole_ranks_table table = {
    .name = "mpi",
    .sum = sum,
    .start_sum = start_sum,
    .progress = progress,
    .wait = wait_slot,
    .gather = gather,
    .broadcast = broadcast,
    .part = take_part,
    .fail = fail,
    .close = close_group,
};

/* A group that owns `comm`; NULL without memory. */
static mpi_ranks *make_group(MPI_Comm comm) {
    mpi_ranks *group = calloc(1, sizeof *group);
    if (!group) return NULL;
    group->base.table = &table;
    group->comm = comm;
    for (int s = 0; s <= SLOTS; s++) {
        group->jobs[s].comm = MPI_COMM_NULL;
        group->requests[s] = MPI_REQUEST_NULL;
    }
    MPI_Comm_rank(comm, &group->base.rank);
    MPI_Comm_size(comm, &group->base.size);
    MPI_Comm host;
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, group->base.rank, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &group->base.on_host);
    MPI_Comm_size(host, &group->base.ranks_on_host);
    MPI_Comm_free(&host);
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    snprintf(group->base.host, sizeof group->base.host, "%.*s", length, name);
    return group;
}

static ole_status open_world(ole_ranks **ranks, ole_error *error) {
    int initialized, finalized, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&finalized);
    if (finalized)
        return ole_fail(
            error, OLE_ERROR_UNSUPPORTED,
            "MPI: this process has already joined and left its group, which works once only");
    MPI_Initialized(&initialized);
    if (initialized)
        MPI_Query_thread(&level);
    else
        MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (level < MPI_THREAD_FUNNELED) {
        if (!initialized) MPI_Finalize();
        return ole_fail(
            error, OLE_ERROR_UNSUPPORTED,
            "MPI: this MPI is built without threads (MPI_THREAD_SINGLE); use a build with threads");
    }
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    mpi_ranks *group = make_group(comm);
    if (!group) {
        MPI_Abort(comm, 1); /* does not return */
        return OLE_ERROR_MEMORY;
    }
    group->finalize = !initialized;
    *ranks = &group->base;
    return OLE_OK;
}

static ole_status open_watched(ole_ranks **out, const ole_ranks_options *options,
                               ole_error *error) {
    ole_start *start = ole_start_begin(options);
    ole_ranks *ranks = NULL;
    ole_status status = open_world(&ranks, error);
    int launched = ole_launcher_size();
    if (status == OLE_OK && ranks->size == 1 && launched > 1)
        status =
            ole_fail(error, OLE_ERROR_ARGUMENT, /* all processes would do the same */
                     "MPI: one of %d processes finds no others: the launcher does not belong to "
                     "the MPI that 'ole info' shows; use its mpirun, or srun --mpi=pmix or pmi2",
                     launched);
    if (status == OLE_OK)
        status = ole_watch_start(&((mpi_ranks *)ranks)->watch, ranks, options, error);
    if (status == OLE_OK)
        *out = ranks;
    else if (ranks)
        close_group(ranks);
    ole_start_end(start);
    return status;
}

/* The library's own words, up to the first comma: "Open MPI v4.1.4, package: ...". */
static void describe(char *out, size_t room) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, version, subversion;
    MPI_Get_library_version(library, &length);
    library[strcspn(library, ",\n")] = '\0';
    MPI_Get_version(&version, &subversion);
    snprintf(out, room, "%.80s, MPI %d.%d; threads: serialized requested, funneled sufficient",
             library, version, subversion);
}

extern OLE_API const ole_mpi_table ole_mpi;
const ole_mpi_table ole_mpi = {
    .version = OLE_VERSION_TEXT,
    .describe = describe,
    .open = open_watched,
};
