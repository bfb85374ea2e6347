/*
 * src/train/ranks/reduce_device.c - sums of gradients in device memory.
 *
 * Through the host a bucket is read when it is started, which waits for the device, and written
 * back when all sums are there.
 */
#include "train/ranks/reduce_device.h"

#include "base/error.h"

#include <stdlib.h>

struct ole_device_buckets {
    const ole_link *link;
    ole_ranks *ranks;
    ole_params *params;
    const ole_graph *graph;
    int count;
    ole_bucket **bucket; /* [count] */
    float **host;        /* [count]: what the host adds up; not for a direct link */
    float *plain;        /* the largest parameter */
};

/* The parameters whose gradients lie in a piece of the block: how many, into `items`. */
static int list_items(const ole_params *params, const ole_graph *graph, ole_bucket_range range,
                      ole_update_item *items) {
    size_t all;
    int count = 0;
    const char *from = (const char *)ole_params_gradients(params, &all) + range.offset;
    for (int n = graph->nodes - 1; n >= 0; n--) {
        const ole_node *node = &graph->node[n];
        for (int i = node->first_param; i < node->first_param + node->params; i++) {
            const char *gradient = ole_params_gradient(params, i);
            if (!gradient || gradient < from || gradient >= from + range.bytes) continue;
            items[count++] =
                (ole_update_item){.node = node, .param = &graph->param[i], .gradient = gradient};
        }
    }
    return count;
}

static ole_status make_bucket(ole_device_buckets *b, int i, const ole_update_item *items, int count,
                              ole_error *error) {
    const ole_linker *linker = b->link->linker;
    ole_status status = linker->bucket_create(b->link->context, items, count, &b->bucket[i], error);
    if (status != OLE_OK || b->link->direct) return status;
    b->host[i] = calloc((size_t)linker->bucket_size(b->bucket[i]) + 1, sizeof(float));
    return b->host[i] ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for gradients");
}

static float *room_for_largest(const ole_graph *graph) {
    int64_t largest = 1;
    for (int i = 0; i < graph->params; i++)
        if (graph->param[i].count > largest) largest = graph->param[i].count;
    return malloc((size_t)largest * sizeof(float));
}

ole_status ole_device_buckets_create(ole_device_buckets **result, const ole_link *link,
                                     ole_ranks *ranks, ole_params *params, const ole_graph *graph,
                                     const ole_bucket_range *range, int count, ole_error *error) {
    *result = NULL;
    ole_device_buckets *b = calloc(1, sizeof *b);
    ole_update_item *items = calloc((size_t)graph->params + 1, sizeof *items);
    if (b)
        *b = (ole_device_buckets){.link = link,
                                  .ranks = ranks,
                                  .params = params,
                                  .graph = graph,
                                  .count = count,
                                  .bucket = calloc((size_t)count + 1, sizeof *b->bucket),
                                  .host = calloc((size_t)count + 1, sizeof *b->host),
                                  .plain = room_for_largest(graph)};
    bool whole = b && items && b->bucket && b->host && b->plain;
    ole_status status = whole ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < count && status == OLE_OK; i++)
        status = make_bucket(b, i, items, list_items(params, graph, range[i], items), error);
    free(items);
    if (status == OLE_OK)
        *result = b;
    else
        ole_device_buckets_free(b);
    return status;
}

void ole_device_buckets_free(ole_device_buckets *b) {
    if (!b) return;
    for (int i = 0; i < b->count; i++) {
        if (b->bucket) b->link->linker->bucket_free(b->link->context, b->bucket[i]);
        if (b->host) free(b->host[i]);
    }
    free(b->bucket);
    free(b->host);
    free(b->plain);
    free(b);
}

void ole_device_buckets_start(ole_device_buckets *b, int i) {
    const ole_linker *linker = b->link->linker;
    if (b->link->direct) {
        linker->bucket_sum(b->link->context, b->bucket[i]);
        return;
    }
    linker->bucket_read(b->link->context, b->bucket[i], b->host[i]);
    ole_ranks_start_sum(b->ranks, b->host[i], linker->bucket_size(b->bucket[i]), OLE_F32, i);
}

void ole_device_buckets_finish(ole_device_buckets *b) {
    const ole_linker *linker = b->link->linker;
    if (b->link->direct) {
        linker->bucket_join(b->link->context);
        return;
    }
    for (int i = 0; i < b->count; i++) {
        ole_ranks_wait(b->ranks, i);
        linker->bucket_write(b->link->context, b->bucket[i], b->host[i]);
    }
}

void ole_device_take_over(ole_device_buckets *b, int i) {
    int64_t count = b->graph->param[i].count;
    ole_params_get(b->params, i, b->plain);
    ole_ranks_broadcast(b->ranks, b->plain, count * (int64_t)sizeof(float), 0);
    ole_params_set(b->params, i, b->plain);
}
