/*
 * src/train/recorded/recorded.c - recording the steps of a run, and replaying them.
 *
 * A recorded step reads what changes from the device's clock, so one recording serves all steps of
 * a batch size.  Before it is recorded a step is rehearsed once with updates off: what libraries
 * and kernels load or allocate when they are first used is then there, and failures show.
 *
 * Ranks whose cards are linked (train/link.h) each queue the steps of their rows: the same
 * recordings, replayed as often, with the sums over ranks inside.  Losses are added up in every
 * step, so that all stop updating at the same bad one and reading them needs nobody else.
 */
#include "base/clock.h"
#include "base/error.h"
#include "data/loader/loader.h"
#include "train/recorded/recorded_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ------------------------------------------------------------------------------- */

ole_feed_spec ole_queue_feed(const ole_queue *q, ole_split split, int64_t batches) {
    const ole_augment *augment = ole_loader_augment(q->loader);
    const ole_splits *splits = &q->set->splits;
    return (ole_feed_spec){.resident = q->resident,
                           .samples = splits->count[split],
                           .index = splits->index[split],
                           .labels = splits->labels[split],
                           .seed = augment->seed,
                           .stream = OLE_RANDOM_AUGMENT,
                           .channels = ole_statistic_count(&q->set->info),
                           .table = &augment->table[0][0],
                           .mean = augment->mean,
                           .deviation = augment->deviation,
                           .batch = q->batch,
                           .batches = batches};
}

static ole_status bring_samples(ole_queue *q, ole_error *error) {
    const ole_source *source = &q->set->source;
    const ole_resident_spec resident = {.bytes = source->floating ? NULL : source->bytes,
                                        .floats = source->floating ? source->floats : NULL,
                                        .count = source->count,
                                        .channels = source->channels,
                                        .height = source->height,
                                        .width = source->width};
    ole_status status = q->recorder->resident_create(q->context, &resident, &q->resident, error);
    if (status != OLE_OK) return status;
    ole_feed_spec feed = ole_queue_feed(q, OLE_SPLIT_TRAIN, q->batches);
    feed.crop = ole_loader_augment(q->loader)->crop;
    feed.flip = ole_loader_augment(q->loader)->flip;
    return q->recorder->feed_create(q->context, &feed, &q->feed, error);
}

/* Fills q->order with our part of every batch of an epoch. */
static void take_order(ole_queue *q, int64_t epoch) {
    const ole_stepper *s = q->stepper;
    ole_loader_list(q->loader, epoch, q->list);
    for (int64_t b = 0; b < q->batches; b++) {
        int k = b == q->batches - 1 && s->batch[1] > 0;
        const int64_t *from = q->list + b * q->whole;
        from += ole_ranks_first(q->ranks, s->batch[k], ole_ranks_rank(q->ranks));
        for (int64_t i = 0; i < q->batch; i++)
            q->order[b * q->batch + i] = i < s->rows[k] ? from[i] : -1;
    }
}

/* Our share of the rows of a batch. */
double ole_queue_share(const ole_queue *q, int k) {
    return (double)q->stepper->rows[k] / (double)q->stepper->batch[k];
}

/* ---- recording ----------------------------------------------------------------------------- */

/* The next batch's images, and its labels, of all ranks where OLÉ is of all rows. */
static void queue_batch(ole_queue *q, int k) {
    const ole_stepper *s = q->stepper;
    q->recorder->assemble(q->context, q->feed, s->rows[k], ole_plan_layout(s->plan[k], 0),
                          ole_plan_input(s->plan[k]), q->labels);
    ole_queue_gather_labels(q, k);
}

/* Queues one step, or a part of one, of whole batches (k = 0) or of the last batch (1). */
static void queue_part(ole_queue *q, int k, ole_queue_part part) {
    const ole_recorder *r = q->recorder;
    ole_stepper *s = q->stepper;
    ole_plan *plan = s->plan[k];
    r->tick(q->context, q->feed);
    if (part != OLE_QUEUE_WITHOUT_DATA) queue_batch(q, k);
    ole_plan_queue_forward(plan, true);
    if (part == OLE_QUEUE_FORWARD) return;
    if (s->softmax && part != OLE_QUEUE_WITHOUT_SOFTMAX)
        ole_plan_queue_softmax(plan, q->labels, ole_queue_share(q, k));
    else if (s->softmax)
        ole_plan_assume_softmax(plan);
    ole_queue_seed(q, k, part != OLE_QUEUE_WITHOUT_OLE);
    if (q->ranks)
        ole_reduce_queue_backward(s->reduce, plan);
    else
        ole_plan_backward(plan);
    r->check(q->context);
    if (part != OLE_QUEUE_WITHOUT_UPDATE) ole_params_update(q->network->params, &s->update);
    r->tock(q->context);
}

static void queue_step(ole_queue *q, int k) {
    queue_part(q, k, OLE_QUEUE_STEP);
}

/* Gives back what keep_statistics() has kept, and its memory; `whole`: all of it. */
static void put_back_statistics(ole_queue *q, float **kept, bool whole) {
    const ole_network *n = q->network;
    for (int i = 0; kept && i < n->graph->params; i++) {
        if (whole && kept[i]) ole_params_set(n->params, i, kept[i]);
        free(kept[i]);
    }
    free(kept);
}

/* What evaluation uses and steps move along even where they update nothing; NULL without memory. */
static float **keep_statistics(ole_queue *q, ole_error *error) {
    const ole_network *n = q->network;
    float **kept = calloc((size_t)n->graph->params + 1, sizeof *kept);
    bool whole = kept != NULL;
    for (int i = 0; whole && i < n->graph->params; i++) {
        if (n->graph->param[i].trained) continue;
        kept[i] = malloc((size_t)n->graph->param[i].count * sizeof **kept);
        whole = kept[i] != NULL;
        if (whole) ole_params_get(n->params, i, kept[i]);
    }
    if (whole) return kept;
    put_back_statistics(q, kept, false);
    ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    return NULL;
}

static ole_status rehearse(ole_queue *q, int k, ole_error *error) {
    float **kept = keep_statistics(q, error);
    if (!kept) return OLE_ERROR_MEMORY;
    queue_step(q, k);
    ole_status status = ole_queue_acts_status(q, error);
    ole_status ran = ole_network_wait(q->network, status == OLE_OK ? error : NULL);
    put_back_statistics(q, kept, true);
    return status == OLE_OK ? ran : status;
}

static ole_status record(ole_queue *q, int k, ole_error *error) {
    ole_status status = q->recorder->begin(q->context, error);
    if (status != OLE_OK) return status;
    queue_step(q, k);
    status = q->recorder->end(q->context, &q->recording[k], error);
    return status == OLE_OK ? ole_queue_acts_status(q, error) : status;
}

/* Replays a recording for about `budget` seconds: the median of what bunches of replays took.
 * Ranks replay as often as rank 0. */
static ole_status time_replays(ole_queue *q, ole_recording *recording, double budget,
                               double *seconds, ole_error *error) {
    enum { BUNCHES = 15, MOST = 200 };
    double took[BUNCHES] = {0};
    int bunch = 1;
    ole_status status = OLE_OK;
    for (int i = -2; i < BUNCHES && status == OLE_OK; i++) {
        double start = ole_clock();
        for (int k = 0; k < bunch; k++)
            q->recorder->replay(q->context, recording);
        status = ole_network_wait(q->network, error);
        double each = (ole_clock() - start) / bunch;
        if (i == -1) bunch = (int)fmin(MOST, 1.0 + budget / BUNCHES / each);
        if (i == -1) ole_ranks_broadcast(q->ranks, &bunch, sizeof bunch, 0);
        int at = i;
        for (; at > 0 && took[at - 1] > each; at--)
            took[at] = took[at - 1];
        if (at >= 0) took[at] = each;
    }
    *seconds = took[BUNCHES / 2];
    return status;
}

/* OLÉ alone, on what the rehearsal left, recorded and timed. */
static ole_status time_ole(ole_queue *q, ole_error *error) {
    if (q->stepper->acts == 0) return OLE_OK;
    ole_recording *recording = NULL;
    ole_status status = q->recorder->begin(q->context, error);
    if (status != OLE_OK) return status;
    for (int i = 0; i < q->stepper->acts; i++)
        ole_plan_queue_seed(q->stepper->plan[0], q->act[i].act->node);
    q->recorder->check(q->context);
    status = q->recorder->end(q->context, &recording, error);
    if (status == OLE_OK) status = time_replays(q, recording, 0.02, &q->ole_seconds, error);
    q->recorder->recording_free(q->context, recording);
    return status;
}

/* Steps as they are recorded, and without anything between ranks. */
static ole_status time_both(ole_queue *q, ole_error *error) {
    ole_recording *alone = NULL;
    double with = 0.0, without = 0.0;
    ole_status status = time_replays(q, q->recording[0], 0.05, &with, error);
    if (status == OLE_OK) status = q->recorder->begin(q->context, error);
    if (status != OLE_OK) return status;
    q->link->linker->mute(q->context, true);
    queue_step(q, 0);
    q->link->linker->mute(q->context, false);
    status = q->recorder->end(q->context, &alone, error);
    if (status == OLE_OK) status = time_replays(q, alone, 0.05, &without, error);
    q->recorder->recording_free(q->context, alone);
    q->comm_seconds = fmax(0.0, with - without);
    return status;
}

/* What ranks cost a step. */
static ole_status time_ranks(ole_queue *q, ole_error *error) {
    if (!q->ranks) return OLE_OK;
    float **kept = keep_statistics(q, error);
    if (!kept) return OLE_ERROR_MEMORY;
    ole_status status = time_both(q, error);
    put_back_statistics(q, kept, true);
    return status;
}

/* An epoch that only lets steps run: with updates off, or at a rate of 0. */
static ole_status start_idle(ole_queue *q, bool updates, ole_error *error) {
    take_order(q, 0);
    memset(q->rates, 0, (size_t)q->batches * sizeof *q->rates);
    const ole_feed_epoch epoch = {.order = q->order, .rates = q->rates, .idle = !updates};
    return q->recorder->start(q->context, q->feed, &epoch, error);
}

static ole_status record_steps(ole_queue *q, ole_error *error) {
    ole_status status = OLE_OK;
    q->recorder->lock(q->context);
    for (int k = 1; k >= 0 && status == OLE_OK; k--) {
        if (q->stepper->rows[k] == 0) continue;
        status = start_idle(q, false, error);
        if (status == OLE_OK) status = rehearse(q, k, error);
        if (status == OLE_OK) status = record(q, k, error);
    }
    if (status == OLE_OK) status = time_ole(q, error);
    if (status == OLE_OK) status = time_ranks(q, error);
    q->recorder->unlock(q->context);
    return status;
}

const char *ole_queue_obstacle(const ole_stepper *stepper) {
    if (!stepper->reduce) return NULL;
    const ole_link *link = ole_reduce_link(stepper->reduce);
    int size = ole_ranks_size(ole_reduce_ranks(stepper->reduce));
    if (!link->direct) return link->how;
    if (stepper->batch[1] > 0 && stepper->batch[1] < size)
        return "the last batch of an epoch leaves ranks without samples: steps are run one by one";
    return NULL;
}

/* All that a rank does for itself before the first step. */
static ole_status prepare(ole_queue *q, ole_error *error) {
    const ole_backend *backend = q->network->backend;
    size_t parts = (size_t)ole_ranks_size(q->ranks);
    q->list = malloc((size_t)(q->batches * q->whole) * sizeof *q->list);
    q->order = malloc((size_t)(q->batches * q->batch) * sizeof *q->order);
    q->rates = calloc((size_t)q->batches, sizeof *q->rates);
    q->bytes = calloc(parts, sizeof *q->bytes);
    q->labels = backend->allocate(q->context, (size_t)q->batch * sizeof *q->labels);
    q->all_labels = backend->allocate(q->context, (size_t)q->whole * sizeof *q->all_labels);
    if (!q->list || !q->order || !q->rates || !q->bytes || !q->labels || !q->all_labels)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = bring_samples(q, error);
    for (int i = 0; i < q->stepper->acts && status == OLE_OK; i++)
        status = ole_queue_plan_act(q, i, error);
    return status;
}

/* Out of memory where the other ranks are under way: they would queue steps, and this one not. */
static ole_status fail_alone(ole_error *error) {
    ole_error cause = error ? *error : (ole_error){0};
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "%.400s: take smaller batches, or OLE_NCCL=off for steps that are run one by "
                    "one",
                    cause.message);
}

ole_status ole_queue_create(ole_queue **result, ole_stepper *stepper, const ole_dataset *set,
                            ole_loader *loader, ole_error *error) {
    *result = NULL;
    ole_queue *q = calloc(1, sizeof *q);
    if (!q) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *q = (ole_queue){.stepper = stepper,
                     .ranks = stepper->reduce ? ole_reduce_ranks(stepper->reduce) : NULL,
                     .link = stepper->reduce ? ole_reduce_link(stepper->reduce) : NULL,
                     .network = stepper->network,
                     .recorder = stepper->network->backend->recorder,
                     .context = stepper->network->context,
                     .set = set,
                     .loader = loader,
                     .whole = stepper->batch[0],
                     .batch = stepper->rows[0],
                     .batches = ole_loader_batches(loader)};
    ole_status status = ole_ranks_agree(q->ranks, prepare(q, error), error);
    if (status == OLE_OK) {
        status = record_steps(q, error);
        if (q->ranks && status == OLE_ERROR_MEMORY) status = fail_alone(error);
    }
    if (status == OLE_OK)
        *result = q;
    else
        ole_queue_free(q);
    return status;
}

void ole_queue_free(ole_queue *q) {
    if (!q) return;
    const ole_backend *backend = q->network->backend;
    for (int i = 0; i < q->stepper->acts; i++)
        ole_queue_free_act(q, i);
    for (int i = 0; i < OLE_QUEUE_SPLITS; i++)
        ole_queue_free_split(q, &q->split[i]);
    for (int k = 0; k < 2; k++)
        q->recorder->recording_free(q->context, q->recording[k]);
    q->recorder->feed_free(q->context, q->feed);
    q->recorder->resident_free(q->context, q->resident);
    if (q->labels) backend->free(q->context, q->labels);
    if (q->all_labels) backend->free(q->context, q->all_labels);
    free(q->list);
    free(q->order);
    free(q->rates);
    free(q->bytes);
    free(q);
}

/* ---- running ------------------------------------------------------------------------------- */

ole_status ole_queue_start(ole_queue *q, const ole_schedule *schedule, int64_t epoch, int64_t first,
                           int64_t updates, ole_error *error) {
    take_order(q, epoch);
    for (int64_t b = 0; b < q->batches; b++)
        q->rates[b] = ole_schedule_rate(schedule, epoch, b);
    const ole_feed_epoch start = {.epoch = epoch,
                                  .first = first,
                                  .step = (uint64_t)updates,
                                  .order = q->order,
                                  .rates = q->rates};
    q->next = first;
    return q->recorder->start(q->context, q->feed, &start, error);
}

ole_status ole_queue_step(ole_queue *q, ole_error *error) {
    bool last = q->next == q->batches - 1 && q->stepper->batch[1] > 0;
    q->recorder->replay(q->context, q->recording[last]);
    q->next++;
    return q->recorder->follow(q->context, OLE_QUEUE_AHEAD, error);
}

ole_status ole_queue_read(ole_queue *q, ole_queue_sums *sums, ole_error *error) {
    return q->recorder->read(q->context, sums, error);
}

double ole_queue_ole_seconds(const ole_queue *q) {
    return q->ole_seconds;
}

double ole_queue_comm_seconds(const ole_queue *q) {
    return q->comm_seconds;
}

int64_t ole_queue_nodes(const ole_queue *q) {
    return q->recorder->recording_nodes(q->recording[0]);
}

ole_status ole_queue_measure(ole_queue *q, ole_queue_part part, ole_op op, double budget,
                             double *seconds, ole_error *error) {
    ole_plan *plan = q->stepper->plan[0];
    ole_recording *recording = NULL;
    ole_status status = start_idle(q, part < OLE_QUEUE_STEP_IDLE, error);
    if (status == OLE_OK) status = q->recorder->begin(q->context, error);
    if (status != OLE_OK) return status;
    if (part >= OLE_QUEUE_WITHOUT_OP)
        ole_plan_skip(plan, (int)op, part == OLE_QUEUE_WITHOUT_OP_BACKWARD);
    queue_part(q, 0, part);
    ole_plan_skip(plan, -1, false);
    ole_queue_seed(q, 0, true);
    status = q->recorder->end(q->context, &recording, error);
    if (status == OLE_OK) status = time_replays(q, recording, budget, seconds, error);
    q->recorder->recording_free(q->context, recording);
    return status;
}
