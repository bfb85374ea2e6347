/*
 * src/device/cuda/link/link.c - device/link.h on CUDA: sums between GPUs, and gradients in buckets.
 *
 * All communication is enqueued on one stream, link->stream, through one communicator: every rank
 * enqueues the same calls in the same order, and no two of its kernels ever wait for each other.
 * Sums that the step needs next (statistics, losses, features) make context->stream wait; buckets
 * do not, until bucket_join().  In a recorded step both become edges of the graph.
 */
#include "device/cuda/link/link.h"

#include "base/error.h"
#include "device/cuda/cuda.h"
#include "device/share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cuda_link {
    const cuda_collectives *collectives;
    void *group;
    int rank, size;
    cudaStream_t stream;
    cudaEvent_t from, to; /* where stream waits for context->stream, and the other way */
    bool muted;
    bool pending; /* buckets that context->stream does not wait for yet */
};

/* Contiguous float gradients are summed in place and need no tiles. */
struct ole_bucket {
    cuda_bucket_item *items; /* device memory, like the next two */
    int32_t *tiles;
    float *floats;
    bool in_place;
    int tile_count;
    int64_t size;
};

/* ---- opening ------------------------------------------------------------------------------ */

static void name_gpu(ole_device_context *context, char name[OLE_LINK_GPU]) {
    memset(name, 0, OLE_LINK_GPU);
    if (cudaDeviceGetPCIBusId(name, OLE_LINK_GPU, context->gpu) == cudaSuccess) return;
    cudaGetLastError();
    snprintf(name, OLE_LINK_GPU, "cuda:%d", context->gpu);
}

static ole_status check(ole_error *error) {
    return cuda_collectives_load(error) ? OLE_OK : OLE_ERROR_UNSUPPORTED;
}

static ole_status make_id(unsigned char id[OLE_LINK_ID], ole_error *error) {
    const cuda_collectives *collectives = cuda_collectives_load(error);
    if (!collectives) return OLE_ERROR_UNSUPPORTED;
    const char *reason = collectives->make_id(id);
    if (!reason) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED, "NCCL: cannot create a group of ranks: %s",
                    reason);
}

void cuda_link_close(ole_device_context *context) {
    struct cuda_link *link = context->link;
    if (!link) return;
    if (link->group) link->collectives->close(link->group, context->failed != OLE_OK);
    if (link->from) cudaEventDestroy(link->from);
    if (link->to) cudaEventDestroy(link->to);
    if (link->stream) cudaStreamDestroy(link->stream);
    free(link);
    context->link = NULL;
}

static ole_status open_stream(ole_device_context *context, struct cuda_link *link) {
    int least, greatest;
    cudaSetDevice(context->gpu);
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cuda_failed(context,
                cudaStreamCreateWithPriority(&link->stream, cudaStreamNonBlocking, greatest),
                "linking the GPUs");
    cudaEvent_t *events[] = {&link->from, &link->to};
    for (int i = 0; i < 2; i++)
        cuda_failed(context, cudaEventCreateWithFlags(events[i], cudaEventDisableTiming),
                    "linking the GPUs");
    return context->failed;
}

static ole_status open_link(ole_device_context *context, const unsigned char id[OLE_LINK_ID],
                            int rank, int size, ole_error *error) {
    const cuda_collectives *collectives = cuda_collectives_load(error);
    if (!collectives) return OLE_ERROR_UNSUPPORTED;
    struct cuda_link *link = calloc(1, sizeof *link);
    if (!link) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *link = (struct cuda_link){.collectives = collectives, .rank = rank, .size = size};
    context->link = link;
    if (open_stream(context, link) != OLE_OK) return cuda_failure(context, error);
    const char *reason = collectives->open(&link->group, id, rank, size);
    if (!reason) return OLE_OK;
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "NCCL: rank %d of %d cannot be linked: %s; NCCL_DEBUG=INFO prints more, "
                    "OLE_NCCL=off trains without NCCL",
                    rank, size, reason);
}

/* ---- streams ------------------------------------------------------------------------------ */

static bool failed(ole_device_context *context, const char *reason, const char *doing) {
    if (!reason) return false;
    if (context->failed == OLE_OK)
        context->failed = ole_fail(&context->failure, OLE_ERROR_IO, "NCCL, %s: %s", doing, reason);
    return true;
}

static void follow(ole_device_context *context, cudaEvent_t event, cudaStream_t first,
                   cudaStream_t second) {
    if (!cuda_failed(context, cudaEventRecord(event, first), "between ranks"))
        cuda_failed(context, cudaStreamWaitEvent(second, event, 0), "between ranks");
}

/* Work enqueued on link->stream from now on waits for what context->stream has. */
static struct cuda_link *begin(ole_device_context *context) {
    cudaSetDevice(context->gpu);
    follow(context, context->link->from, context->stream, context->link->stream);
    return context->link;
}

/* Work enqueued on context->stream from now on waits for what link->stream has. */
static void join(ole_device_context *context) {
    follow(context, context->link->to, context->link->stream, context->stream);
    context->link->pending = false;
}

static bool is_silent(const ole_device_context *context) {
    return context->failed != OLE_OK || context->link->muted;
}

static void mute(ole_device_context *context, bool on) {
    context->link->muted = on;
}

static void sum(ole_device_context *context, void *data, int64_t count, ole_dtype type) {
    if (is_silent(context)) return;
    struct cuda_link *link = begin(context);
    failed(context, link->collectives->sum(link->group, data, count, type, link->stream), "a sum");
    join(context);
}

static void gather(ole_device_context *context, const void *mine, const int64_t *bytes, void *all) {
    if (is_silent(context)) return;
    struct cuda_link *link = begin(context);
    failed(context,
           link->collectives->gather(link->group, mine, bytes, link->size, all, link->stream),
           "gathering");
    join(context);
}

/* ---- buckets ------------------------------------------------------------------------------ */

static void bucket_free(ole_device_context *context, ole_bucket *bucket) {
    if (!bucket) return;
    cudaStreamSynchronize(context->stream);
    cudaFree(bucket->items);
    cudaFree(bucket->tiles);
    if (!bucket->in_place) cudaFree(bucket->floats);
    free(bucket);
}

/* Lists the items of a bucket; returns its floats. */
static int64_t list_items(const ole_device_context *context, const ole_update_item *given,
                          int count, cuda_bucket_item *items) {
    int64_t first = 0;
    for (int i = 0; i < count; i++) {
        bool narrow = context->type == CUDA_BFLOAT16 && cuda_param_is_weight(given[i].param);
        items[i] = (cuda_bucket_item){.gradient = (void *)(uintptr_t)given[i].gradient,
                                      .size = cuda_param_size(given[i].param),
                                      .first = first,
                                      .type = narrow ? CUDA_BFLOAT16 : CUDA_FLOAT};
        first += items[i].size;
    }
    return first;
}

/* Floats from the first gradient to the end of the last, if nothing else but alignment gaps lies
 * between; otherwise 0. */
static int64_t span_of(const cuda_bucket_item *items, int count) {
    const float *start = count > 0 ? items[0].gradient : NULL, *end = start;
    for (int i = 0; i < count; i++) {
        const float *gradient = items[i].gradient;
        bool next = gradient >= end && gradient - end < CUDA_ALIGNMENT / (int)sizeof *gradient;
        if (items[i].type != CUDA_FLOAT || !next) return 0;
        end = gradient + items[i].size;
    }
    return end - start;
}

static void *send(ole_device_context *context, const void *from, size_t bytes) {
    return cuda_send(context, from, bytes, "planning buckets");
}

static ole_status bucket_create(ole_device_context *context, const ole_update_item *given,
                                int count, ole_bucket **result, ole_error *error) {
    ole_bucket *bucket = calloc(1, sizeof *bucket);
    cuda_bucket_item *items = calloc((size_t)count + 1, sizeof *items);
    int64_t size = items ? list_items(context, given, count, items) : 0;
    int tile_count = 0;
    int32_t *tiles = cuda_make_tiles(given, count, &tile_count);
    bool whole = bucket && items && tiles;
    *result = NULL;
    cudaSetDevice(context->gpu);
    int64_t span = whole ? span_of(items, count) : 0;
    if (span > 0) {
        *bucket = (ole_bucket){.floats = items[0].gradient, .in_place = true, .size = span};
    } else if (whole) {
        bucket->size = size;
        bucket->tile_count = tile_count;
        bucket->items = send(context, items, (size_t)count * sizeof *items);
        bucket->tiles = send(context, tiles, (size_t)bucket->tile_count * 2 * sizeof *tiles);
        bucket->floats = send(context, NULL, (size_t)size * sizeof(float));
    }
    free(items);
    free(tiles);
    if (whole && context->failed == OLE_OK) {
        *result = bucket;
        return OLE_OK;
    }
    bucket_free(context, bucket);
    if (!whole) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for buckets of gradients");
    return cuda_failure(context, error);
}

static int64_t bucket_size(const ole_bucket *bucket) {
    return bucket->size;
}

static void pack(ole_device_context *context, ole_bucket *b, cudaStream_t stream) {
    if (b->tile_count > 0)
        cuda_bucket_pack(context, b->items, b->tiles, b->tile_count, b->floats, stream);
}

static void unpack(ole_device_context *context, ole_bucket *b, cudaStream_t stream) {
    if (b->tile_count > 0)
        cuda_bucket_unpack(context, b->items, b->tiles, b->tile_count, b->floats, stream);
}

/* Weight gradients may still be running on the side stream. */
static void bucket_sum(ole_device_context *context, ole_bucket *bucket) {
    if (is_silent(context)) return;
    struct cuda_link *link = begin(context);
    cuda_side_follow(context, link->stream);
    pack(context, bucket, link->stream);
    failed(context,
           link->collectives->sum(link->group, bucket->floats, bucket->size, OLE_F32, link->stream),
           "gradients");
    unpack(context, bucket, link->stream);
    link->pending = true;
}

static void bucket_join(ole_device_context *context) {
    if (context->link->pending) join(context);
}

static void clear(ole_device_context *context, void *memory, size_t bytes) {
    cudaSetDevice(context->gpu);
    cuda_failed(context, cudaMemsetAsync(memory, 0, bytes, context->stream), "clearing gradients");
}

static void bucket_read(ole_device_context *context, ole_bucket *bucket, float *to) {
    cudaSetDevice(context->gpu);
    cuda_side_follow(context, context->stream);
    pack(context, bucket, context->stream);
    cuda_copy(context, to, bucket->floats, (size_t)bucket->size * sizeof *to,
              cudaMemcpyDeviceToHost, "reading gradients");
}

static void bucket_write(ole_device_context *context, ole_bucket *bucket, const float *from) {
    cuda_copy(context, bucket->floats, from, (size_t)bucket->size * sizeof *from,
              cudaMemcpyHostToDevice, "writing gradients");
    unpack(context, bucket, context->stream);
}

const ole_linker cuda_linker = {
    .gpu = name_gpu,
    .check = check,
    .make_id = make_id,
    .open = open_link,
    .sum = sum,
    .gather = gather,
    .bucket_create = bucket_create,
    .bucket_free = bucket_free,
    .bucket_size = bucket_size,
    .bucket_sum = bucket_sum,
    .bucket_join = bucket_join,
    .mute = mute,
    .clear = clear,
    .bucket_read = bucket_read,
    .bucket_write = bucket_write,
};

/* ---- Sums in the middle of a layer ----------------------------------------------------------- */

/* Waits for the GPU; cannot be recorded. */
static void sum_through_host(ole_device_context *context, const ole_share *share, double *data,
                             int64_t count) {
    size_t bytes = (size_t)count * sizeof *data;
    double *host = calloc((size_t)count, sizeof *host);
    if (!host) {
        cuda_failed(context, cudaErrorMemoryAllocation, "adding up the ranks' statistics");
        return;
    }
    /* A rank whose GPU has failed still takes part: the others wait for it. */
    cuda_copy(context, host, data, bytes, cudaMemcpyDeviceToHost, "reading statistics");
    ole_share_sum(share, host, count);
    cuda_copy(context, data, host, bytes, cudaMemcpyHostToDevice, "writing statistics");
    free(host);
}

void cuda_share_sum(ole_device_context *context, const ole_share *share, double *data,
                    int64_t count) {
    if (share->linked)
        sum(context, data, count, OLE_F64);
    else
        sum_through_host(context, share, data, count);
}
