/*
 * src/train/recorded/recorded.c - recording the steps of a run, and replaying them.
 *
 * A recorded step reads everything that changes from device memory, so one recording serves all
 * steps of a batch size.  A step runs once with updates off before it is recorded: libraries and
 * kernels load and allocate what they need at first use, and failures show.
 *
 * Ranks whose GPUs are linked (train/ranks/link.h) each record the steps of their rows, with the
 * sums over ranks inside, and replay them equally often.  Every step sums the losses over the
 * ranks, so all stop updating at the same bad step, and reading the sums needs no other rank.
 */
#include "train/recorded/recorded.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sort.h"
#include "data/loader/loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples ------------------------------------------------------------------------------ */

ole_feed_spec ole_recorded_feed(const ole_recorded *r, ole_split split, int64_t batches) {
    const ole_augment *augment = ole_loader_augment(r->loader);
    const ole_splits *splits = &r->set->splits;
    return (ole_feed_spec){.resident = r->resident,
                           .samples = splits->count[split],
                           .index = splits->index[split],
                           .labels = splits->labels[split],
                           .seed = augment->seed,
                           .channels = ole_statistic_count(&r->set->info),
                           .table = &augment->table[0][0],
                           .mean = augment->mean,
                           .deviation = augment->deviation,
                           .batch = r->batch,
                           .batches = batches};
}

static ole_status upload_samples(ole_recorded *r, ole_error *error) {
    const ole_source *source = &r->set->source;
    const ole_resident_spec resident = {.bytes = source->floating ? NULL : source->bytes,
                                        .floats = source->floating ? source->floats : NULL,
                                        .count = source->count,
                                        .channels = source->channels,
                                        .height = source->height,
                                        .width = source->width};
    ole_status status = r->recorder->resident_create(r->context, &resident, &r->resident, error);
    if (status != OLE_OK) return status;
    ole_feed_spec feed = ole_recorded_feed(r, OLE_SPLIT_TRAIN, r->batches);
    feed.crop = ole_loader_augment(r->loader)->crop;
    feed.flip = ole_loader_augment(r->loader)->flip;
    feed.photo = ole_loader_augment(r->loader)->photo;
    feed.mixes = ole_loader_alpha(r->loader) > 0;
    return r->recorder->feed_create(r->context, &feed, &r->feed, error);
}

/* Fills r->order with this rank's part of every batch of an epoch, and what it is mixed with. */
static void take_order(ole_recorded *r, int64_t epoch) {
    const ole_stepper *s = r->stepper;
    ole_loader_list(r->loader, epoch, r->list);
    for (int64_t b = 0; b < r->batches; b++) {
        int k = b == r->batches - 1 && s->batch[1] > 0;
        const int64_t *from = r->list + b * r->whole;
        int64_t first = ole_ranks_first(r->ranks, s->batch[k], ole_ranks_rank(r->ranks));
        for (int64_t i = 0; i < r->batch; i++)
            r->order[b * r->batch + i] = i < s->rows[k] ? from[first + i] : -1;
        if (!r->others) continue;
        r->shares[b] = ole_mixup_share(ole_loader_augment(r->loader)->seed,
                                       ole_loader_alpha(r->loader), epoch, b);
        for (int64_t i = 0; i < r->batch; i++) {
            int64_t other = i < s->rows[k] ? ole_mixup_other(s->batch[k], first + i) : -1;
            r->others[b * r->batch + i] = other < 0 ? -1 : from[other];
        }
    }
}

/* ---- recording ---------------------------------------------------------------------------- */

/* Enqueues a step, or a part of one, for whole batches (k = 0) or for the last batch (1). */
static void queue_part(ole_recorded *r, int k, ole_recorded_part part) {
    ole_stepper *s = r->stepper;
    ole_plan *plan = s->plan[k];
    const ole_mix *mix = r->others ? &r->mix : NULL;
    r->recorder->tick(r->context, r->feed);
    if (part != OLE_RECORDED_WITHOUT_DATA) {
        r->recorder->assemble(r->context, r->feed, s->rows[k], ole_plan_layout(plan, 0),
                              ole_plan_input(plan), r->labels, mix);
        ole_recorded_gather_labels(r, k);
    }
    ole_plan_forward(plan, NULL, true, 0);
    if (part == OLE_RECORDED_FORWARD) return;
    if (s->softmax && part != OLE_RECORDED_WITHOUT_SOFTMAX)
        ole_plan_queue_softmax(plan, r->labels, mix, ole_stepper_share(s, k));
    else if (s->softmax) /* backward runs as if it had */
        ole_plan_gradient(plan, r->network->graph->classifier, &(bool){false});
    bool losses = part != OLE_RECORDED_WITHOUT_OLE;
    if (losses) ole_recorded_queue_criterion(r, k);
    if (r->ranks) ole_reduce_start(s->reduce, NULL, 0);
    for (int node = r->network->graph->nodes - 1; node >= 0; node--) {
        for (int i = 0; i < s->acts && losses; i++)
            if (s->act[i].node == node) ole_recorded_queue_act(r, i, k);
        if (losses) ole_recorded_queue_features(r, node, k);
        ole_plan_backward(plan, node);
        if (losses) ole_recorded_queue_classifier(r, node);
        if (r->ranks) ole_reduce_advance(s->reduce, node);
    }
    if (r->ranks) r->link->linker->bucket_join(r->context);
    r->recorder->check(r->context);
    if (part != OLE_RECORDED_WITHOUT_UPDATE) {
        ole_params_update(r->network->params, &s->update);
        ole_recorded_queue_updated(r);
    }
    r->recorder->tock(r->context);
}

/* Copies the running statistics, which steps change even with updates off, to or from `kept`;
 * returns how many there are.  NULL: only counts them. */
static size_t copy_statistics(const ole_network *n, float *kept, bool back) {
    size_t count = 0;
    for (int i = 0; i < n->graph->params; i++) {
        if (n->graph->param[i].trained) continue;
        if (kept && back)
            ole_params_set(n->params, i, kept + count);
        else if (kept)
            ole_params_get(n->params, i, kept + count);
        count += (size_t)n->graph->param[i].count;
    }
    return count;
}

/* Replays a recording for about `budget` seconds; returns the median time per replay.  Ranks replay
 * as often as rank 0. */
static ole_status time_replays(ole_recorded *r, ole_recording *recording, double budget,
                               double *seconds, ole_error *error) {
    enum { BUNCHES = 15, MOST = 200 };
    double took[BUNCHES] = {0};
    int bunch = 1;
    ole_status status = OLE_OK;
    for (int i = -2; i < BUNCHES && status == OLE_OK; i++) {
        double start = ole_clock();
        for (int k = 0; k < bunch; k++)
            r->recorder->replay(r->context, recording);
        status = ole_network_wait(r->network, error);
        double each = (ole_clock() - start) / bunch;
        if (i == -1) bunch = (int)fmin(MOST, 1.0 + budget / BUNCHES / each);
        if (i == -1) ole_ranks_broadcast(r->ranks, &bunch, sizeof bunch, 0);
        if (i >= 0) took[i] = each;
    }
    qsort(took, BUNCHES, sizeof *took, ole_by_rising_double);
    *seconds = took[BUNCHES / 2];
    return status;
}

/* Records and times OLÉ and a criterion alone, on the features of the last step. */
static ole_status time_ole(ole_recorded *r, ole_error *error) {
    if (r->stepper->acts == 0 && !r->criterion.table) return OLE_OK;
    ole_recording *recording = NULL;
    ole_status status = r->recorder->begin(r->context, error);
    if (status != OLE_OK) return status;
    for (int i = 0; i < r->stepper->acts; i++)
        ole_recorded_queue_act(r, i, 0);
    ole_recorded_queue_criterion(r, 0);
    r->recorder->check(r->context);
    status = r->recorder->end(r->context, &recording, error);
    if (status == OLE_OK) status = time_replays(r, recording, 0.02, &r->ole_seconds, error);
    r->recorder->recording_free(r->context, recording);
    return status;
}

/* Times the recorded steps with and without communication: the difference is the cost of the ranks.
 */
static ole_status time_ranks(ole_recorded *r, ole_error *error) {
    if (!r->ranks) return OLE_OK;
    ole_recording *alone = NULL;
    double with = 0.0, without = 0.0;
    ole_status status = time_replays(r, r->recording[0], 0.05, &with, error);
    if (status == OLE_OK) status = r->recorder->begin(r->context, error);
    if (status == OLE_OK) {
        r->link->linker->mute(r->context, true);
        queue_part(r, 0, OLE_RECORDED_STEP);
        r->link->linker->mute(r->context, false);
        status = r->recorder->end(r->context, &alone, error);
        if (status == OLE_OK) status = time_replays(r, alone, 0.05, &without, error);
        r->recorder->recording_free(r->context, alone);
        r->comm_seconds = fmax(0.0, with - without);
    }
    return status;
}

/* Starts an epoch without learning: updates off, or a learning rate of 0. */
static ole_status start_idle(ole_recorded *r, bool updates, ole_error *error) {
    take_order(r, 0);
    memset(r->rates, 0, (size_t)r->batches * sizeof *r->rates);
    const ole_feed_epoch epoch = {.order = r->order,
                                  .rates = r->rates,
                                  .others = r->others,
                                  .shares = r->shares,
                                  .idle = !updates};
    return r->recorder->start(r->context, r->feed, &epoch, error);
}

/* What went wrong while losses were queued. */
static ole_status check_losses(const ole_recorded *r, ole_error *error) {
    if (r->failure.status != OLE_OK && error) *error = r->failure;
    return r->failure.status;
}

static ole_status record_steps(ole_recorded *r, ole_error *error) {
    ole_status status = OLE_OK;
    float *kept = malloc((copy_statistics(r->network, NULL, false) + 1) * sizeof *kept);
    if (!kept) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    r->recorder->lock();
    copy_statistics(r->network, kept, false);
    for (int k = 1; k >= 0 && status == OLE_OK; k--) {
        if (r->stepper->rows[k] == 0) continue;
        status = start_idle(r, false, error);
        if (status != OLE_OK) break;
        queue_part(r, k, OLE_RECORDED_STEP); /* once before it is recorded */
        status = check_losses(r, error);
        ole_status ran = ole_network_wait(r->network, status == OLE_OK ? error : NULL);
        if (status == OLE_OK) status = ran;
        if (status == OLE_OK) status = r->recorder->begin(r->context, error);
        if (status != OLE_OK) break;
        queue_part(r, k, OLE_RECORDED_STEP);
        status = r->recorder->end(r->context, &r->recording[k], error);
        if (status == OLE_OK) status = check_losses(r, error);
    }
    if (status == OLE_OK) status = time_ole(r, error);
    if (status == OLE_OK) status = time_ranks(r, error);
    copy_statistics(r->network, kept, true);
    r->recorder->unlock();
    free(kept);
    return status;
}

const char *ole_recorded_obstacle(const ole_stepper *stepper) {
    if (!stepper->reduce) return NULL;
    const ole_reduce *reduce = stepper->reduce;
    if (!reduce->link.direct) return reduce->link.how;
    if (stepper->batch[1] > 0 && stepper->batch[1] < ole_ranks_size(reduce->ranks))
        return "the last batch of an epoch leaves ranks without samples, so steps run one by one";
    return NULL;
}

/* Each rank's local work before the first step. */
static ole_status prepare(ole_recorded *r, ole_error *error) {
    const ole_backend *backend = r->network->backend;
    size_t parts = (size_t)ole_ranks_size(r->ranks);
    r->list = malloc((size_t)(r->batches * r->whole) * sizeof *r->list);
    r->order = malloc((size_t)(r->batches * r->batch) * sizeof *r->order);
    r->rates = calloc((size_t)r->batches, sizeof *r->rates);
    r->bytes = calloc(parts, sizeof *r->bytes);
    r->labels = backend->allocate(r->context, (size_t)r->batch * sizeof *r->labels);
    r->all_labels = backend->allocate(r->context, (size_t)r->whole * sizeof *r->all_labels);
    if (!r->list || !r->order || !r->rates || !r->bytes || !r->labels || !r->all_labels)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (ole_loader_alpha(r->loader) > 0) {
        r->others = malloc((size_t)(r->batches * r->batch) * sizeof *r->others);
        r->shares = malloc((size_t)r->batches * sizeof *r->shares);
        r->mix.labels = backend->allocate(r->context, (size_t)r->batch * sizeof *r->mix.labels);
        r->mix.share = backend->allocate(r->context, sizeof *r->mix.share);
        if (!r->others || !r->shares || !r->mix.labels || !r->mix.share)
            return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    }
    ole_status status = upload_samples(r, error);
    for (int i = 0; i < r->stepper->acts && status == OLE_OK; i++)
        status = ole_recorded_plan_act(r, i, error);
    if (status == OLE_OK) status = ole_recorded_plan_criterion(r, error);
    return status;
}

ole_status ole_recorded_create(ole_recorded **result, ole_stepper *stepper, const ole_dataset *set,
                               ole_loader *loader, ole_error *error) {
    *result = NULL;
    ole_recorded *r = calloc(1, sizeof *r);
    if (!r) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    *r = (ole_recorded){.stepper = stepper,
                        .ranks = stepper->ranks,
                        .link = stepper->reduce ? &stepper->reduce->link : NULL,
                        .global = stepper->ranks && stepper->global && stepper->acts > 0,
                        .network = stepper->network,
                        .recorder = stepper->network->backend->recorder,
                        .context = stepper->network->context,
                        .set = set,
                        .loader = loader,
                        .whole = stepper->batch[0],
                        .batch = stepper->rows[0],
                        .batches = ole_loader_batches(loader)};
    ole_status status = ole_ranks_agree(r->ranks, prepare(r, error), error);
    if (status == OLE_OK) {
        status = record_steps(r, error);
        if (r->ranks && status == OLE_ERROR_MEMORY) { /* the other ranks do not run single steps */
            ole_error cause = error ? *error : (ole_error){0};
            status =
                ole_fail(error, OLE_ERROR_UNSUPPORTED,
                         "%.400s; use smaller batches, or OLE_NCCL=off to run steps one by one",
                         cause.message);
        }
    }
    if (status == OLE_OK)
        *result = r;
    else
        ole_recorded_free(r);
    return status;
}

void ole_recorded_free(ole_recorded *r) {
    if (!r) return;
    const ole_backend *backend = r->network->backend;
    for (int i = 0; i < r->stepper->acts; i++)
        ole_recorded_free_act(r, i);
    ole_recorded_free_criterion(r);
    for (int i = 0; i < OLE_RECORDED_SPLITS; i++)
        ole_recorded_free_split(r, &r->split[i]);
    for (int k = 0; k < 2; k++)
        r->recorder->recording_free(r->context, r->recording[k]);
    r->recorder->feed_free(r->context, r->feed);
    r->recorder->resident_free(r->context, r->resident);
    if (r->labels) backend->free(r->context, r->labels);
    if (r->all_labels) backend->free(r->context, r->all_labels);
    if (r->mix.labels) backend->free(r->context, r->mix.labels);
    if (r->mix.share) backend->free(r->context, r->mix.share);
    free(r->others);
    free(r->shares);
    free(r->list);
    free(r->order);
    free(r->rates);
    free(r->bytes);
    free(r);
}

/* ---- running ------------------------------------------------------------------------------ */

ole_status ole_recorded_start(ole_recorded *r, const ole_schedule *schedule, int64_t epoch,
                              int64_t first, int64_t updates, ole_error *error) {
    take_order(r, epoch);
    for (int64_t b = 0; b < r->batches; b++)
        r->rates[b] = ole_schedule_rate(schedule, epoch, b);
    const ole_feed_epoch start = {.epoch = epoch,
                                  .first = first,
                                  .step = (uint64_t)updates,
                                  .order = r->order,
                                  .rates = r->rates,
                                  .others = r->others,
                                  .shares = r->shares};
    r->next = first;
    ole_status status = r->recorder->start(r->context, r->feed, &start, error);
    if (status == OLE_OK) ole_recorded_send_state(r);
    return status;
}

ole_status ole_recorded_step(ole_recorded *r, ole_error *error) {
    bool last = r->next == r->batches - 1 && r->stepper->batch[1] > 0;
    r->recorder->replay(r->context, r->recording[last]);
    r->next++;
    return r->recorder->follow(r->context, OLE_RECORDED_AHEAD, error);
}

ole_status ole_recorded_read(ole_recorded *r, ole_step_sums *sums, ole_error *error) {
    ole_status status = r->recorder->read(r->context, sums, error);
    if (status != OLE_OK) return status;
    ole_recorded_receive_state(r);
    return ole_network_wait(r->network, error);
}

int64_t ole_recorded_nodes(const ole_recorded *r) {
    return r->recorder->recording_nodes(r->recording[0]);
}

ole_status ole_recorded_measure(ole_recorded *r, ole_recorded_part part, ole_op op, double budget,
                                double *seconds, ole_error *error) {
    ole_plan *plan = r->stepper->plan[0];
    ole_recording *recording = NULL;
    ole_status status = start_idle(r, part < OLE_RECORDED_STEP_IDLE, error);
    if (status == OLE_OK) status = r->recorder->begin(r->context, error);
    if (status != OLE_OK) return status;
    if (part >= OLE_RECORDED_WITHOUT_OP)
        ole_plan_skip(plan, (int)op, part == OLE_RECORDED_WITHOUT_OP_BACKWARD);
    queue_part(r, 0, part);
    ole_plan_skip(plan, -1, false);
    status = r->recorder->end(r->context, &recording, error);
    if (status == OLE_OK) status = time_replays(r, recording, budget, seconds, error);
    r->recorder->recording_free(r->context, recording);
    return status;
}
