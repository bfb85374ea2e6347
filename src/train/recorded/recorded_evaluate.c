/*
 * src/train/recorded/recorded_evaluate.c - a split taken through the network by recorded batches:
 * what split_runner.c does where the device records its steps.
 */
#include "base/error.h"
#include "data/loader/loader.h"
#include "train/recorded/recorded_parts.h"

#include <stdlib.h>

void ole_queue_free_split(ole_queue *q, ole_queued_split *e) {
    for (int i = 0; i < 3; i++)
        q->recorder->recording_free(q->context, e->recording[i]);
    q->recorder->feed_free(q->context, e->feed);
    if (e->features) q->network->backend->free(q->context, e->features);
    if (e->logits) q->network->backend->free(q->context, e->logits);
}

/* Each rank takes a run of consecutive samples of the split. */
static ole_status open_evaluation(ole_queue *q, ole_queued_split *e, ole_split split,
                                  ole_error *error) {
    if (e->feed) return OLE_OK;
    int64_t all = q->set->splits.count[split];
    int rank = ole_ranks_rank(q->ranks);
    e->first = ole_ranks_first(q->ranks, all, rank);
    e->count = ole_ranks_first(q->ranks, all, rank + 1) - e->first;
    e->batches = e->count > 0 ? (e->count + q->batch - 1) / q->batch : 1;
    const ole_feed_spec feed = ole_queue_feed(q, split, e->batches);
    return q->recorder->feed_create(q->context, &feed, &e->feed, error);
}

/* Device memory for an output of the whole split, unless a recording that failed has left it. */
static bool allocate_kept(const ole_queue *q, const ole_queued_split *e, ole_shape shape,
                          float **kept) {
    size_t size = (size_t)(e->batches * q->batch * ole_shape_size(shape)) * sizeof(float);
    if (!*kept) *kept = q->network->backend->allocate(q->context, size);
    return *kept != NULL;
}

static ole_status record_evaluation(ole_queue *q, ole_queued_split *e, int kept, ole_error *error) {
    const ole_graph *graph = q->network->graph;
    const ole_recorder *r = q->recorder;
    ole_plan *plan = q->stepper->plan[0];
    ole_shape features = graph->node[graph->features].out;
    ole_shape logits = graph->node[graph->classifier].out;
    if ((kept > 0 && !allocate_kept(q, e, features, &e->features)) ||
        (kept > 1 && !allocate_kept(q, e, logits, &e->logits)))
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory on the device for the features of %lld samples",
                        (long long)e->count);
    ole_status status = r->begin(q->context, error);
    if (status != OLE_OK) return status;
    r->tick(q->context, e->feed);
    r->assemble(q->context, e->feed, q->batch, ole_plan_layout(plan, 0), ole_plan_input(plan),
                q->labels);
    ole_plan_queue_forward(plan, false);
    ole_plan_queue_softmax(plan, q->labels, 0.0);
    if (kept > 0)
        r->keep(q->context, q->batch, ole_plan_layout(plan, graph->features), features,
                ole_plan_output(plan, graph->features), e->features);
    if (kept > 1)
        r->keep(q->context, q->batch, ole_plan_layout(plan, graph->classifier), logits,
                ole_plan_output(plan, graph->classifier), e->logits);
    r->tock(q->context);
    return r->end(q->context, &e->recording[kept], error);
}

static ole_status run_evaluation(ole_queue *q, ole_queued_split *e, int kept, ole_queue_sums *sums,
                                 ole_error *error) {
    size_t length = (size_t)(e->batches * q->batch);
    int64_t *order = malloc(length * sizeof *order);
    double *rates = calloc((size_t)e->batches, sizeof *rates);
    ole_status status =
        order && rates ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; status == OLE_OK && i < (int64_t)length; i++)
        order[i] = i < e->count ? e->first + i : -1;
    const ole_feed_epoch epoch = {.order = order, .rates = rates};
    if (status == OLE_OK) status = q->recorder->start(q->context, e->feed, &epoch, error);
    for (int64_t b = 0; b < e->batches && status == OLE_OK; b++) {
        q->recorder->replay(q->context, e->recording[kept]);
        status = q->recorder->follow(q->context, OLE_QUEUE_AHEAD, error);
    }
    if (status == OLE_OK) status = q->recorder->read(q->context, sums, error);
    free(order);
    free(rates);
    return status;
}

/* Kept rows of `dim` floats of all ranks' samples, `all` of them. */
static ole_status read_kept(ole_queue *q, const ole_queued_split *e, const float *kept, int64_t dim,
                            int64_t all, float *rows, ole_error *error) {
    size_t bytes = (size_t)(e->count * dim) * sizeof *rows;
    float *mine = q->ranks ? malloc(bytes + 1) : rows;
    ole_status status = mine ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(q->ranks, status, error);
    if (status == OLE_OK) {
        q->network->backend->copy_out(q->context, kept, bytes, mine);
        status = ole_ranks_agree(q->ranks, ole_network_wait(q->network, error), error);
    }
    for (int r = 0; r < ole_ranks_size(q->ranks); r++)
        q->bytes[r] = dim * (int64_t)sizeof *rows *
                      (ole_ranks_first(q->ranks, all, r + 1) - ole_ranks_first(q->ranks, all, r));
    if (status == OLE_OK && q->ranks) ole_ranks_gather(q->ranks, mine, q->bytes, rows);
    if (q->ranks) free(mine);
    return status;
}

ole_status ole_queue_evaluate(ole_queue *q, ole_split split, ole_runner_outputs *out,
                              ole_error *error) {
    ole_queued_split *e = &q->split[split];
    int kept = out->logits ? 2 : out->features ? 1 : 0;
    ole_queue_sums sums;
    ole_status status = open_evaluation(q, e, split, error);
    if (status == OLE_OK && !e->recording[kept]) {
        q->recorder->lock(q->context);
        status = record_evaluation(q, e, kept, error);
        q->recorder->unlock(q->context);
    }
    if (status == OLE_OK) status = run_evaluation(q, e, kept, &sums, error);
    status = ole_ranks_agree(q->ranks, status, error);
    if (status != OLE_OK) return status;
    out->wrong = e->count - sums.correct;
    ole_ranks_sum(q->ranks, &out->wrong, 1, OLE_I64);
    int64_t all = q->set->splits.count[split], dim = ole_network_feature_size(q->network);
    if (out->features) status = read_kept(q, e, e->features, dim, all, out->features, error);
    if (status == OLE_OK && out->logits)
        status = read_kept(q, e, e->logits, q->network->graph->classes, all, out->logits, error);
    return kept > 0 ? status : ole_network_wait(q->network, error);
}
