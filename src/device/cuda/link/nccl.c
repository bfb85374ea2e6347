/*
 * src/device/cuda/link/nccl.c - NCCL, loaded when ranks on different GPUs first need it: from
 * $OLE_NCCL if set ("off": never), else from where the system finds libnccl.so.2.  Building needs
 * only its header; a build without it has no NCCL.
 */
#include "device/cuda/link/link.h"

#include "base/error.h"

#ifdef OLE_HAVE_NCCL
#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(ncclUniqueId) == OLE_LINK_ID, "the id's size");

/* The functions that we use. */
static struct {
    __typeof__(ncclGetVersion) *get_version;
    __typeof__(ncclGetErrorString) *get_error;
    __typeof__(ncclGetUniqueId) *get_id;
    __typeof__(ncclCommInitRank) *init;
    __typeof__(ncclCommDestroy) *destroy;
    __typeof__(ncclCommAbort) *abort;
    __typeof__(ncclAllReduce) *all_reduce;
    __typeof__(ncclAllGather) *all_gather;
    __typeof__(ncclBroadcast) *broadcast;
    __typeof__(ncclGroupStart) *group_start;
    __typeof__(ncclGroupEnd) *group_end;
} nccl;

static struct {
    pthread_mutex_t mutex;
    bool tried, found;
    ole_error failure;
} library = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the functions of the table ----------------------------------------------------------- */

static const char *reason_of(ncclResult_t code) {
    return code == ncclSuccess ? NULL : nccl.get_error(code);
}

static const char *make_id(unsigned char id[OLE_LINK_ID]) {
    ncclUniqueId unique;
    ncclResult_t code = nccl.get_id(&unique);
    memcpy(id, &unique, sizeof unique);
    return reason_of(code);
}

static const char *open_group(void **group, const unsigned char id[OLE_LINK_ID], int rank,
                              int size) {
    ncclUniqueId unique;
    ncclComm_t made = NULL;
    memcpy(&unique, id, sizeof unique);
    ncclResult_t code = nccl.init(&made, size, unique, rank);
    *group = made;
    return reason_of(code);
}

static void close_group(void *group, bool broken) {
    if (broken)
        nccl.abort(group);
    else
        nccl.destroy(group);
}

static const char *sum(void *group, void *data, int64_t count, ole_dtype type,
                       cudaStream_t stream) {
    return reason_of(nccl.all_reduce(data, data, (size_t)count,
                                     type == OLE_F64 ? ncclDouble : ncclFloat, ncclSum, group,
                                     stream));
}

/* Parts of different sizes: a broadcast per rank, all in one group. */
static ncclResult_t gather_uneven(ncclComm_t group, const void *mine, const int64_t *bytes,
                                  int size, char *all, cudaStream_t stream) {
    ncclResult_t code = nccl.group_start();
    for (int r = 0; r < size && code == ncclSuccess; all += bytes[r], r++)
        if (bytes[r] > 0)
            code = nccl.broadcast(mine, all, (size_t)bytes[r], ncclInt8, r, group, stream);
    ncclResult_t ended = nccl.group_end();
    return code == ncclSuccess ? ended : code;
}

static const char *gather(void *group, const void *mine, const int64_t *bytes, int size, void *all,
                          cudaStream_t stream) {
    bool even = true;
    for (int r = 1; r < size; r++)
        even = even && bytes[r] == bytes[0];
    return reason_of(even ? nccl.all_gather(mine, all, (size_t)bytes[0], ncclInt8, group, stream)
                          : gather_uneven(group, mine, bytes, size, all, stream));
}

/* ---- loading ------------------------------------------------------------------------------ */

static cuda_collectives table = {
    .make_id = make_id, .open = open_group, .close = close_group, .sum = sum, .gather = gather};

static bool find_functions(void *handle) {
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"ncclGetVersion", &nccl.get_version}, {"ncclGetErrorString", &nccl.get_error},
                  {"ncclGetUniqueId", &nccl.get_id},     {"ncclCommInitRank", &nccl.init},
                  {"ncclCommDestroy", &nccl.destroy},    {"ncclCommAbort", &nccl.abort},
                  {"ncclAllReduce", &nccl.all_reduce},   {"ncclAllGather", &nccl.all_gather},
                  {"ncclBroadcast", &nccl.broadcast},    {"ncclGroupStart", &nccl.group_start},
                  {"ncclGroupEnd", &nccl.group_end}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *found = dlsym(handle, wanted[i].name);
        if (!found) return false;
        memcpy(wanted[i].place, &found, sizeof found);
    }
    return true;
}

static ole_status load(ole_error *error) {
    const char *given = getenv("OLE_NCCL");
    if (given && strcmp(given, "off") == 0)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "NCCL: turned off by OLE_NCCL=off");
    void *handle = dlopen(given && *given ? given : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "NCCL: %.200s; install libnccl2, or name the file in OLE_NCCL", dlerror());
    int version = 0;
    if (!find_functions(handle) || nccl.get_version(&version) != ncclSuccess)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "NCCL: the library found is not version 2");
    snprintf(table.version, sizeof table.version, "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    return OLE_OK;
}

const cuda_collectives *cuda_collectives_load(ole_error *error) {
    pthread_mutex_lock(&library.mutex);
    if (!library.tried) library.found = load(&library.failure) == OLE_OK;
    library.tried = true;
    pthread_mutex_unlock(&library.mutex);
    if (!library.found && error) *error = library.failure;
    return library.found ? &table : NULL;
}

#else

const cuda_collectives *cuda_collectives_load(ole_error *error) {
    ole_fail(error, OLE_ERROR_UNSUPPORTED, "NCCL: this build is without it, as nccl.h was missing");
    return NULL;
}

#endif
