/*
 * src/train/recorded/recorded_evaluate.c - a split taken through the network by recorded batches:
 * what split_runner.c does where the device records its steps.
 */
#include "base/error.h"
#include "data/loader/loader.h"
#include "train/recorded/recorded_parts.h"

#include <stdlib.h>

void ole_queue_free_split(ole_queue *q, ole_queued_split *e) {
    for (int i = 0; i < 2; i++)
        q->recorder->recording_free(q->context, e->recording[i]);
    q->recorder->feed_free(q->context, e->feed);
    if (e->all) q->network->backend->free(q->context, e->all);
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

static ole_status record_evaluation(ole_queue *q, ole_queued_split *e, bool features,
                                    ole_error *error) {
    const ole_graph *graph = q->network->graph;
    const ole_recorder *r = q->recorder;
    ole_plan *plan = q->stepper->plan[0];
    ole_shape shape = graph->node[graph->features].out;
    if (features && !e->all) { /* not NULL after a recording that failed */
        size_t size = (size_t)(e->batches * q->batch * ole_shape_size(shape)) * sizeof(float);
        e->all = q->network->backend->allocate(q->context, size);
        if (!e->all)
            return ole_fail(error, OLE_ERROR_MEMORY,
                            "out of memory on the device for the features of %lld samples",
                            (long long)e->count);
    }
    ole_status status = r->begin(q->context, error);
    if (status != OLE_OK) return status;
    r->tick(q->context, e->feed);
    r->assemble(q->context, e->feed, q->batch, ole_plan_layout(plan, 0), ole_plan_input(plan),
                q->labels);
    ole_plan_queue_forward(plan, false);
    ole_plan_queue_softmax(plan, q->labels, 0.0);
    if (features)
        r->keep(q->context, q->batch, ole_plan_layout(plan, graph->features), shape,
                ole_plan_output(plan, graph->features), e->all);
    r->tock(q->context);
    return r->end(q->context, &e->recording[features], error);
}

static ole_status run_evaluation(ole_queue *q, ole_queued_split *e, bool features,
                                 ole_queue_sums *sums, ole_error *error) {
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
        q->recorder->replay(q->context, e->recording[features]);
        status = q->recorder->follow(q->context, OLE_QUEUE_AHEAD, error);
    }
    if (status == OLE_OK) status = q->recorder->read(q->context, sums, error);
    free(order);
    free(rates);
    return status;
}

/* The kept features of all ranks' samples. */
static ole_status read_features(ole_queue *q, const ole_queued_split *e, int64_t all,
                                float *features, ole_error *error) {
    int64_t dim = ole_network_feature_size(q->network);
    size_t bytes = (size_t)(e->count * dim) * sizeof *features;
    float *mine = q->ranks ? malloc(bytes + 1) : features;
    ole_status status = mine ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(q->ranks, status, error);
    if (status == OLE_OK) {
        q->network->backend->copy_out(q->context, e->all, bytes, mine);
        status = ole_ranks_agree(q->ranks, ole_network_wait(q->network, error), error);
    }
    for (int r = 0; r < ole_ranks_size(q->ranks); r++)
        q->bytes[r] = dim * (int64_t)sizeof *features *
                      (ole_ranks_first(q->ranks, all, r + 1) - ole_ranks_first(q->ranks, all, r));
    if (status == OLE_OK && q->ranks) ole_ranks_gather(q->ranks, mine, q->bytes, features);
    if (q->ranks) free(mine);
    return status;
}

ole_status ole_queue_evaluate(ole_queue *q, ole_split split, int64_t *wrong, float *features,
                              ole_error *error) {
    ole_queued_split *e = &q->split[split];
    ole_queue_sums sums;
    ole_status status = open_evaluation(q, e, split, error);
    if (status == OLE_OK && !e->recording[features != NULL]) {
        q->recorder->lock(q->context);
        status = record_evaluation(q, e, features != NULL, error);
        q->recorder->unlock(q->context);
    }
    if (status == OLE_OK) status = run_evaluation(q, e, features != NULL, &sums, error);
    status = ole_ranks_agree(q->ranks, status, error);
    if (status != OLE_OK) return status;
    *wrong = e->count - sums.correct;
    ole_ranks_sum(q->ranks, wrong, 1, OLE_I64);
    int64_t all = q->set->splits.count[split];
    return features ? read_features(q, e, all, features, error)
                    : ole_network_wait(q->network, error);
}
