/*
 * src/train/ranks/reduce.c - sums over ranks while backward runs.
 *
 * Every rank starts the same sums in the same order: the numbers, then the buckets from the last
 * node to the first, with batch norm's sums between.  Ranks without rows take no part in the
 * latter: for such a batch, batch norm has a group of its own, the ranks that have rows.
 */
#include "train/ranks/reduce.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKET = 128 * 1024, BUCKET = 1024 * 1024, NUMBERS_SLOT = OLE_RANKS_SLOTS - 1 };

static void plan_share(ole_reduce *r, int k, int64_t rows) {
    ole_reduce_batch *b = &r->batch[k];
    int rank = ole_ranks_rank(r->ranks);
    int64_t first = ole_ranks_first(r->ranks, rows, rank);
    b->rows = ole_ranks_first(r->ranks, rows, rank + 1) - first;
    b->absent = rows > 0 && rows < ole_ranks_size(r->ranks);
    b->share = (ole_share){.first_row = first,
                           .rows = rows,
                           .norm = r->sync_norm && rows > 0,
                           .linked = r->link.direct && !b->absent,
                           .ranks = b->absent ? ole_ranks_part(r->ranks, (int)rows) : r->ranks,
                           .seconds = &r->seconds};
}

/* ---- Buckets ------------------------------------------------------------------------------ */

/*
 * Puts gradients into the last bucket, or into a new one if that is full.  The gaps that frozen
 * parameters leave inside a bucket are summed too: their gradients are zero.  items[params] are the
 * gradients in the order of backward.
 */
static void plan_buckets(ole_reduce *r, ole_update_item *items) {
    const ole_graph *graph = r->network->graph;
    const ole_params *params = r->network->params;
    ole_reduce_bucket *b = NULL;
    size_t all;
    const char *block = ole_params_gradients(params, &all);
    size_t least = all / (OLE_MOST_BUCKETS / 2) + 1, most = least > BUCKET ? least : BUCKET;
    int count = 0;
    for (int n = graph->nodes - 1; n >= 0; n--) {
        const ole_node *node = &graph->node[n];
        for (int i = node->first_param; i < node->first_param + node->params; i++) {
            char *gradient = ole_params_gradient(params, i);
            if (!gradient) continue;
            size_t offset = (size_t)(gradient - block);
            bool full = b && b->bytes >= (r->buckets == 1 ? FIRST_BUCKET : most);
            bool far = b && offset - b->offset - b->bytes > most;
            if (!b || ((full || far) && r->buckets < OLE_MOST_BUCKETS)) {
                b = &r->bucket[r->buckets++];
                *b = (ole_reduce_bucket){.offset = offset, .first = count};
            }
            b->bytes = offset + ole_params_size(params, i) - b->offset;
            b->node = n;
            b->count++;
            items[count++] =
                (ole_update_item){.node = node, .param = &graph->param[i], .gradient = gradient};
        }
    }
}

/* ---- Creating ----------------------------------------------------------------------------- */

/* Opens the link, and creates the device's buckets if gradients are in device memory. */
static ole_status connect(ole_reduce *r, ole_error *error) {
    ole_status status = ole_link_open(&r->link, r->ranks, r->network, error);
    if (status != OLE_OK) return status;
    const ole_linker *linker = r->link.linker;
    ole_update_item *items = calloc((size_t)r->network->graph->params + 1, sizeof *items);
    r->plain = ole_network_plain(r->network);
    if (items) plan_buckets(r, items);
    if (!items || !r->plain) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int i = 0; linker && i < r->buckets && status == OLE_OK; i++) {
        ole_reduce_bucket *b = &r->bucket[i];
        status =
            linker->bucket_create(r->link.context, items + b->first, b->count, &b->device, error);
        if (status != OLE_OK || r->link.direct) continue;
        b->host = calloc((size_t)linker->bucket_size(b->device) + 1, sizeof *b->host);
        if (!b->host) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for gradients");
    }
    free(items);
    return ole_ranks_agree(r->ranks, status, error);
}

ole_status ole_reduce_create(ole_reduce **reduce, ole_network *network, ole_ranks *ranks,
                             const int64_t rows[2], bool sync_norm, ole_error *error) {
    *reduce = NULL;
    ole_status status = OLE_OK;
    ole_reduce *r = calloc(1, sizeof *r);
    unsigned char *marks = calloc((size_t)network->graph->params + 1, 1);
    if (!r || !marks)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    else if (network->backend->own_memory && !network->backend->linker)
        status = ole_fail(error, OLE_ERROR_UNSUPPORTED,
                          "device %s does not train on multiple ranks; use --device cpu",
                          network->backend->name);
    status = ole_ranks_agree(ranks, status, error);
    if (status != OLE_OK) {
        free(r);
        free(marks);
        return status;
    }
    *r = (ole_reduce){.network = network, .ranks = ranks, .sync_norm = sync_norm, .marks = marks};
    status = connect(r, error);
    if (status != OLE_OK) {
        ole_reduce_free(r);
        return status;
    }
    for (int k = 0; k < 2; k++)
        plan_share(r, k, rows[k]);
    *reduce = r;
    return OLE_OK;
}

void ole_reduce_free(ole_reduce *r) {
    if (!r) return;
    for (int k = 0; k < 2; k++)
        if (r->batch[k].absent) ole_ranks_close(r->batch[k].share.ranks);
    for (int i = 0; i < r->buckets; i++) {
        if (r->link.linker) r->link.linker->bucket_free(r->link.context, r->bucket[i].device);
        free(r->bucket[i].host);
    }
    free(r->plain);
    free(r->marks);
    free(r);
}

/* ---- A step ------------------------------------------------------------------------------- */

void ole_reduce_start(ole_reduce *r, double *numbers, int count) {
    r->started = 0;
    if (count > 0) ole_ranks_start_sum(r->ranks, numbers, count, OLE_F64, NUMBERS_SLOT);
}

void ole_reduce_advance(ole_reduce *r, int node) {
    const ole_backend *backend = r->network->backend;
    const ole_linker *linker = r->link.linker;
    size_t all;
    char *block = ole_params_gradients(r->network->params, &all);
    ole_dtype type = backend->element_size == sizeof(double) ? OLE_F64 : OLE_F32;
    for (; r->started < r->buckets && r->bucket[r->started].node >= node; r->started++) {
        const ole_reduce_bucket *b = &r->bucket[r->started];
        if (linker && r->link.direct) {
            linker->bucket_sum(r->link.context, b->device);
        } else if (linker) { /* reading waits for the device */
            linker->bucket_read(r->link.context, b->device, b->host);
            ole_ranks_start_sum(r->ranks, b->host, linker->bucket_size(b->device), OLE_F32,
                                r->started);
        } else {
            ole_ranks_start_sum(r->ranks, block + b->offset,
                                (int64_t)(b->bytes / backend->element_size), type, r->started);
        }
    }
    ole_ranks_progress(r->ranks);
}

void ole_reduce_advance_empty(ole_reduce *r) {
    size_t bytes;
    void *block = ole_params_gradients(r->network->params, &bytes);
    if (r->link.linker)
        r->link.linker->clear(r->link.context, block, bytes);
    else
        memset(block, 0, bytes);
    ole_reduce_advance(r, 0);
}

/* Copies a parameter from rank 0. */
static void take_over(ole_reduce *r, int i) {
    ole_params *params = r->network->params;
    if (!r->link.linker) {
        ole_ranks_broadcast(r->ranks, ole_params_data(params, i),
                            (int64_t)ole_params_size(params, i), 0);
        return;
    }
    ole_params_get(params, i, r->plain);
    ole_ranks_broadcast(r->ranks, r->plain,
                        r->network->graph->param[i].count * (int64_t)sizeof *r->plain, 0);
    ole_params_set(params, i, r->plain);
}

/* Gives ranks without rows what they lack: running statistics, and which gradients exist. */
static void catch_up(ole_reduce *r) {
    const ole_graph *graph = r->network->graph;
    for (int i = 0; i < graph->params; i++) {
        r->marks[i] = ole_params_is_marked(r->network->params, i);
        if (!graph->param[i].trained && r->sync_norm) take_over(r, i);
    }
    ole_ranks_broadcast(r->ranks, r->marks, graph->params, 0);
    for (int i = 0; i < graph->params; i++)
        ole_params_mark(r->network->params, i, r->marks[i]);
}

void ole_reduce_finish(ole_reduce *r, int k) {
    double start = ole_clock();
    ole_ranks_wait(r->ranks, NUMBERS_SLOT);
    if (r->link.direct) r->link.linker->bucket_join(r->link.context);
    for (int i = 0; i < r->buckets && !r->link.direct; i++) {
        const ole_reduce_bucket *b = &r->bucket[i];
        ole_ranks_wait(r->ranks, i);
        if (b->device) r->link.linker->bucket_write(r->link.context, b->device, b->host);
    }
    if (r->batch[k].absent) catch_up(r);
    r->seconds += ole_clock() - start;
}

void ole_reduce_statistics(ole_reduce *r) {
    const ole_graph *graph = r->network->graph;
    for (int i = 0; i < graph->params && !r->sync_norm; i++) {
        if (graph->param[i].trained) continue;
        ole_params_get(r->network->params, i, r->plain);
        for (int64_t e = 0; e < graph->param[i].count; e++)
            r->plain[e] /= (float)ole_ranks_size(r->ranks);
        ole_ranks_sum(r->ranks, r->plain, graph->param[i].count, OLE_F32);
        ole_params_set(r->network->params, i, r->plain);
    }
}
