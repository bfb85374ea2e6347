/*
 * src/train/ranks/reduce.c - adding up over ranks while backward runs.
 *
 * Every rank starts the same sums in the same order: the numbers, then the buckets from the last
 * node to the first, with batch norm's sums between.  Ranks without rows take no part in the
 * latter: for such a batch batch norm has a group of its own, of the ranks that do have rows.
 *
 * Device memory: reduce_device.c has its buckets.
 */
#include "train/ranks/reduce.h"

#include "base/clock.h"
#include "base/error.h"
#include "train/ranks/reduce_device.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BUCKET = 128 * 1024,
    BUCKET = 1024 * 1024,
    NUMBERS_SLOT = OLE_RANKS_SLOTS - 1,
    MOST_BUCKETS = OLE_RANKS_SLOTS - 1,
};

/* A piece of the block of gradients; `node` is the last whose backward writes into it. */
typedef struct bucket {
    size_t offset, bytes;
    int node;
} bucket;

/* Of batches of one size. */
typedef struct batch_share {
    ole_share share;
    ole_reduce *reduce;
    ole_ranks *group; /* of those that have rows */
    int64_t rows;     /* ours */
    bool owned;       /* the group is our own part of all ranks */
    bool absent;      /* some rank has no rows */
} batch_share;

struct ole_reduce {
    ole_network *network;
    ole_ranks *ranks;
    bool sync_norm;
    batch_share batch[2];
    bucket bucket[MOST_BUCKETS];
    int buckets, started;
    ole_link link;
    ole_device_buckets *device; /* of gradients in device memory; else NULL */
    unsigned char *marks;       /* [params]: whether backward reached them */
    double seconds;
};

/* ---- Batch norm ---------------------------------------------------------------------------- */

/* The sum of an ole_share. */
static void sum_norm(void *argument, double *data, int64_t count) {
    batch_share *b = argument;
    double start = ole_clock();
    ole_ranks_sum(b->group, data, count, OLE_F64);
    b->reduce->seconds += ole_clock() - start;
}

/* The queue_sum of an ole_share, of a direct link; there is one stream. */
static void queue_norm(void *argument, double *data, int64_t count, void *stream) {
    const ole_link *link = &((batch_share *)argument)->reduce->link;
    (void)stream;
    link->linker->sum(link->context, data, count, OLE_F64);
}

static void plan_share(ole_reduce *r, int k, int64_t rows) {
    batch_share *b = &r->batch[k];
    int rank = ole_ranks_rank(r->ranks), size = ole_ranks_size(r->ranks);
    int64_t first = ole_ranks_first(r->ranks, rows, rank);
    b->reduce = r;
    b->rows = ole_ranks_first(r->ranks, rows, rank + 1) - first;
    b->share = (ole_share){.first_row = first,
                           .rows = rows,
                           .norm = r->sync_norm && rows > 0,
                           .sum = sum_norm,
                           .argument = b};
    b->group = r->ranks;
    b->absent = rows > 0 && rows < size;
    if (r->link.direct && !b->absent) b->share.queue_sum = queue_norm;
    if (!b->absent) return;
    b->group = ole_ranks_part(r->ranks, (int)rows);
    b->owned = b->group != NULL;
}

/* ---- Buckets ------------------------------------------------------------------------------- */

/* What a bucket holds before it is closed: more than usual where there would be too many. */
static size_t bucket_size(size_t all) {
    size_t least = all / (MOST_BUCKETS / 2) + 1;
    return least > BUCKET ? least : BUCKET;
}

/*
 * Adds a gradient: to the bucket at work, or to a new one where that is full.  Frozen parameters
 * leave gaps that are summed along where both neighbours are in one bucket: their gradients are
 * zero.
 */
static void add_gradient(ole_reduce *r, size_t offset, size_t bytes, int node, size_t most) {
    bucket *last = r->buckets > 0 ? &r->bucket[r->buckets - 1] : NULL;
    size_t limit = r->buckets == 1 ? FIRST_BUCKET : most;
    bool full = !last || (last->bytes >= limit && r->buckets < MOST_BUCKETS);
    bool far = last && offset - last->offset - last->bytes > most && r->buckets < MOST_BUCKETS;
    if (full || far) {
        r->bucket[r->buckets++] = (bucket){offset, bytes, node};
        return;
    }
    last->bytes = offset + bytes - last->offset;
    last->node = node;
}

static void plan_buckets(ole_reduce *r) {
    const ole_graph *graph = r->network->graph;
    const ole_params *params = r->network->params;
    size_t all;
    const char *block = ole_params_gradients(params, &all);
    for (int n = graph->nodes - 1; n >= 0; n--) {
        const ole_node *node = &graph->node[n];
        for (int i = node->first_param; i < node->first_param + node->params; i++) {
            const char *gradient = ole_params_gradient(params, i);
            if (gradient)
                add_gradient(r, (size_t)(gradient - block), ole_params_size(params, i), n,
                             bucket_size(all));
        }
    }
}

/* Starts those buckets that are complete when backward has reached `node`. */
static void start_buckets(ole_reduce *r, int node) {
    const ole_backend *backend = r->network->backend;
    size_t all;
    char *block = ole_params_gradients(r->network->params, &all);
    ole_dtype type = backend->element_size == sizeof(double) ? OLE_F64 : OLE_F32;
    for (; r->started < r->buckets && r->bucket[r->started].node >= node; r->started++) {
        const bucket *b = &r->bucket[r->started];
        if (r->device)
            ole_device_buckets_start(r->device, r->started);
        else
            ole_ranks_start_sum(r->ranks, block + b->offset,
                                (int64_t)(b->bytes / backend->element_size), type, r->started);
    }
}

/* An ole_plan_reached. */
static void reached(void *argument, int node) {
    ole_reduce *r = argument;
    start_buckets(r, node);
    ole_ranks_progress(r->ranks);
}

/* ---- Creating ------------------------------------------------------------------------------ */

/* The link, and where gradients lie in device memory their buckets. */
static ole_status connect(ole_reduce *r, ole_error *error) {
    const ole_network *n = r->network;
    ole_bucket_range range[MOST_BUCKETS];
    ole_status status = ole_link_open(&r->link, r->ranks, n, error);
    if (status != OLE_OK) return status;
    plan_buckets(r);
    if (!r->link.linker) return OLE_OK;
    for (int i = 0; i < r->buckets; i++)
        range[i] = (ole_bucket_range){r->bucket[i].offset, r->bucket[i].bytes};
    status = ole_device_buckets_create(&r->device, &r->link, r->ranks, n->params, n->graph, range,
                                       r->buckets, error);
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
                          "device %s does not train over several processes: take --device cpu",
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
        if (r->batch[k].owned) ole_ranks_close(r->batch[k].group);
    ole_device_buckets_free(r->device);
    free(r->marks);
    free(r);
}

ole_ranks *ole_reduce_ranks(const ole_reduce *r) {
    return r->ranks;
}

const ole_link *ole_reduce_link(const ole_reduce *r) {
    return &r->link;
}

int64_t ole_reduce_rows(const ole_reduce *r, int k) {
    return r->batch[k].rows;
}

const ole_share *ole_reduce_share(const ole_reduce *r, int k) {
    return &r->batch[k].share;
}

/* ---- A step -------------------------------------------------------------------------------- */

void ole_reduce_start(ole_reduce *r, double *numbers, int count) {
    ole_ranks_start_sum(r->ranks, numbers, count, OLE_F64, NUMBERS_SLOT);
}

static void clear_gradients(ole_reduce *r) {
    size_t bytes;
    void *block = ole_params_gradients(r->network->params, &bytes);
    if (r->device)
        r->link.linker->clear(r->link.context, block, bytes);
    else
        memset(block, 0, bytes);
}

void ole_reduce_backward(ole_reduce *r, ole_plan *plan) {
    r->started = 0;
    if (plan) {
        ole_plan_watch_backward(plan, reached, r);
        ole_plan_backward(plan);
    } else {
        clear_gradients(r);
    }
    start_buckets(r, 0);
}

void ole_reduce_queue_backward(ole_reduce *r, ole_plan *plan) {
    ole_reduce_backward(r, plan);
    r->link.linker->bucket_join(r->link.context);
}

/* A parameter's memory as it lies on rank 0. */
static void take_over(ole_reduce *r, int i) {
    if (r->device)
        ole_device_take_over(r->device, i);
    else
        ole_ranks_broadcast(r->ranks, ole_params_data(r->network->params, i),
                            (int64_t)ole_params_size(r->network->params, i), 0);
}

/* What ranks without rows have missed: the running statistics, and which gradients there are. */
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
    for (int i = 0; i < r->buckets && !r->device; i++)
        ole_ranks_wait(r->ranks, i);
    if (r->device) ole_device_buckets_finish(r->device);
    if (r->batch[k].absent) catch_up(r);
    r->seconds += ole_clock() - start;
}

ole_status ole_reduce_statistics(ole_reduce *r, ole_error *error) {
    const ole_graph *graph = r->network->graph;
    if (r->sync_norm) return OLE_OK;
    float *plain = ole_network_plain(r->network);
    ole_status status = plain ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(r->ranks, status, error);
    for (int i = 0; i < graph->params && status == OLE_OK; i++) {
        if (graph->param[i].trained) continue;
        ole_params_get(r->network->params, i, plain);
        for (int64_t e = 0; e < graph->param[i].count; e++)
            plain[e] /= (float)ole_ranks_size(r->ranks);
        ole_ranks_sum(r->ranks, plain, graph->param[i].count, OLE_F32);
        ole_params_set(r->network->params, i, plain);
    }
    free(plain);
    return status;
}

double ole_reduce_seconds(const ole_reduce *r) {
    return r->seconds;
}

int ole_reduce_buckets(const ole_reduce *r, size_t *largest) {
    *largest = 0;
    for (int i = 0; i < r->buckets; i++)
        if (r->bucket[i].bytes > *largest) *largest = r->bucket[i].bytes;
    return r->buckets;
}
