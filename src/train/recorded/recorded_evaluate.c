/*
 * src/train/recorded/recorded_evaluate.c - runs a split through the network by recorded batches:
 * the counterpart of model/split_runner.c on devices that record their steps.
 */
#include "base/error.h"
#include "data/dataset.h"
#include "train/recorded/recorded.h"

#include <stdlib.h>

void ole_recorded_free_split(ole_recorded *r, ole_recorded_split *e) {
    for (int i = 0; i < 4; i++)
        r->recorder->recording_free(r->context, e->recording[i]);
    r->recorder->feed_free(r->context, e->feed);
    for (int i = 0; i < 2; i++)
        if (e->kept[i]) r->network->backend->free(r->context, e->kept[i]);
}

/* `kept` selects what is kept and allocated: features, logits, both or nothing. */
static ole_status record_evaluation(ole_recorded *r, ole_recorded_split *e, int kept,
                                    ole_error *error) {
    const ole_graph *graph = r->network->graph;
    const int node[2] = {graph->features, graph->classifier};
    ole_plan *plan = r->stepper->plan[0];
    for (int i = 0; i < 2; i++) {
        if (!(kept & 1 << i)) continue;
        int64_t floats = e->batches * r->batch * ole_shape_size(graph->node[node[i]].out);
        if (!e->kept[i]) /* unless a recording that failed has left it */
            e->kept[i] = r->network->backend->allocate(r->context, (size_t)floats * sizeof(float));
        if (!e->kept[i])
            return ole_fail(error, OLE_ERROR_MEMORY,
                            "out of memory on the device for the %s of %lld samples",
                            i == 0 ? "features" : "logits", (long long)e->count);
    }
    ole_status status = r->recorder->begin(r->context, error);
    if (status != OLE_OK) return status;
    r->recorder->tick(r->context, e->feed);
    r->recorder->assemble(r->context, e->feed, r->batch, ole_plan_layout(plan, 0),
                          ole_plan_input(plan), r->labels, NULL);
    ole_plan_forward(plan, NULL, false, 0);
    ole_plan_queue_softmax(plan, r->labels, NULL, 0.0);
    for (int i = 0; i < 2; i++)
        if (kept & 1 << i)
            r->recorder->keep(r->context, ole_plan_layout(plan, node[i]),
                              ole_plan_output(plan, node[i]), e->kept[i]);
    r->recorder->tock(r->context);
    return r->recorder->end(r->context, &e->recording[kept], error);
}

static ole_status run_evaluation(ole_recorded *r, ole_recorded_split *e, int kept,
                                 ole_step_sums *sums, ole_error *error) {
    size_t length = (size_t)(e->batches * r->batch);
    int64_t *order = malloc(length * sizeof *order);
    double *rates = calloc((size_t)e->batches, sizeof *rates);
    ole_status status =
        order && rates ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; status == OLE_OK && i < (int64_t)length; i++)
        order[i] = i < e->count ? e->first + i : -1;
    const ole_feed_epoch epoch = {.order = order, .rates = rates};
    if (status == OLE_OK) status = r->recorder->start(r->context, e->feed, &epoch, error);
    for (int64_t b = 0; b < e->batches && status == OLE_OK; b++) {
        r->recorder->replay(r->context, e->recording[kept]);
        status = r->recorder->follow(r->context, OLE_RECORDED_AHEAD, error);
    }
    if (status == OLE_OK) status = r->recorder->read(r->context, sums, error);
    free(order);
    free(rates);
    return status;
}

/* Kept rows of `dim` floats of all ranks' samples, `all` of them. */
static ole_status read_kept(ole_recorded *r, const ole_recorded_split *e, const float *kept,
                            int64_t dim, int64_t all, float *rows, ole_error *error) {
    size_t bytes = (size_t)(e->count * dim) * sizeof *rows;
    float *mine = r->ranks ? malloc(bytes + 1) : rows;
    ole_status status = mine ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_ranks_agree(r->ranks, status, error);
    if (status == OLE_OK) {
        r->network->backend->copy_out(r->context, kept, bytes, mine);
        status = ole_ranks_agree(r->ranks, ole_network_wait(r->network, error), error);
    }
    ole_ranks_part_bytes(r->ranks, all, dim * (int64_t)sizeof *rows, r->bytes);
    if (status == OLE_OK && r->ranks) ole_ranks_gather(r->ranks, mine, r->bytes, rows);
    if (r->ranks) free(mine);
    return status;
}

ole_status ole_recorded_evaluate(ole_recorded *r, ole_split split, ole_runner_outputs *out,
                                 ole_error *error) {
    ole_recorded_split *e = &r->split[split];
    int kept = (out->features ? OLE_KEEP_FEATURES : 0) | (out->logits ? OLE_KEEP_LOGITS : 0);
    int rank = ole_ranks_rank(r->ranks);
    int64_t all = r->set->splits.count[split], dim = ole_network_feature_size(r->network);
    ole_step_sums sums;
    ole_status status = OLE_OK;
    if (!e->feed) { /* each rank takes consecutive samples of the split */
        e->first = ole_ranks_first(r->ranks, all, rank);
        e->count = ole_ranks_first(r->ranks, all, rank + 1) - e->first;
        e->batches = e->count > 0 ? (e->count + r->batch - 1) / r->batch : 1;
        const ole_feed_spec feed = ole_recorded_feed(r, split, e->batches);
        status = r->recorder->feed_create(r->context, &feed, &e->feed, error);
    }
    if (status == OLE_OK && !e->recording[kept]) {
        r->recorder->lock();
        status = record_evaluation(r, e, kept, error);
        r->recorder->unlock();
    }
    if (status == OLE_OK) status = run_evaluation(r, e, kept, &sums, error);
    status = ole_ranks_agree(r->ranks, status, error);
    if (status != OLE_OK) return status;
    out->wrong = e->count - sums.correct;
    ole_ranks_sum(r->ranks, &out->wrong, 1, OLE_I64);
    if (out->features) status = read_kept(r, e, e->kept[0], dim, all, out->features, error);
    if (status == OLE_OK && out->logits)
        status = read_kept(r, e, e->kept[1], r->network->graph->classes, all, out->logits, error);
    return kept > 0 ? status : ole_network_wait(r->network, error);
}
