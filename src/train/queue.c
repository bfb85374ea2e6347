/*
 * src/train/queue.c - recording the steps of a run, and replaying them.
 *
 * A recorded step reads what changes from the device's clock, so one recording serves all steps of
 * a batch size.  Before it is recorded a step is rehearsed once with updates off: what libraries
 * and kernels load or allocate when they are first used is then there, and failures show.
 *
 * Ranks whose cards are linked (train/link.h) each queue the steps of their rows: the same
 * recordings, replayed as often, with the sums over ranks inside.  Losses are added up in every
 * step, so that all stop updating at the same bad one and reading them needs nobody else.
 */
#include "train/queue.h"

#include "base/clock.h"
#include "base/error.h"
#include "data/loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 32 };

/* One place where OLÉ acts, on the device. */
typedef struct queued_act {
    ole_queue *queue;
    const ole_act *act;
    int k; /* of the plan being recorded */
    ole_loss_plan *loss;
    ole_rows rows;
    bool global;               /* of the rows of all ranks */
    ole_loss_outcome *outcome; /* device memory, like the next three */
    char *features, *gradient; /* of all rows, where the tensor itself will not do */
    float *plain;              /* our rows on their way to all ranks, where it will not do */
    bool failed;
} queued_act;

/* A split brought over for evaluation. */
typedef struct evaluation {
    ole_feed *feed;
    ole_recording *recording[2]; /* without and with features kept */
    float *all;                  /* device memory [batches * batch, D] */
    int64_t first, count;        /* our samples of it */
    int64_t batches;
} evaluation;

enum { SPLITS = 3 };

struct ole_queue {
    ole_stepper *stepper;
    const ole_network *network;
    const ole_recorder *recorder;
    ole_device_context *context;
    const ole_dataset *set;
    ole_loader *loader;
    ole_resident *resident;
    ole_feed *feed;
    ole_recording *recording[2]; /* of whole batches and of the last */
    ole_ranks *ranks;            /* NULL: alone */
    const ole_link *link;        /* between them */
    int64_t *bytes;              /* [ranks]: what each gives in a gather */
    int32_t *labels;             /* device memory [batch] */
    int32_t *all_labels;         /* ... of all ranks */
    queued_act act[OLE_MAX_ACTS];
    evaluation evaluation[SPLITS];
    int64_t *list;  /* of the epoch, [batches * whole] samples */
    int64_t *order; /* our part of it, [batches * batch] */
    double *rates;
    int64_t whole; /* samples of a whole batch on all ranks */
    int64_t batch; /* ... and ours */
    int64_t batches;
    int64_t next; /* batch of the epoch */
    double ole_seconds;
    ole_error failure; /* of OLÉ while a step was recorded */
};

/* ---- samples ------------------------------------------------------------------------------- */

static ole_feed_spec feed_spec(const ole_queue *q, ole_split split, int64_t batches) {
    const ole_augment *augment = ole_loader_augment(q->loader);
    const ole_splits *splits = &q->set->splits;
    return (ole_feed_spec){.resident = q->resident,
                           .samples = splits->count[split],
                           .index = splits->index[split],
                           .labels = splits->labels[split],
                           .seed = augment->seed,
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
    ole_feed_spec feed = feed_spec(q, OLE_SPLIT_TRAIN, q->batches);
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
static double share_of(const ole_queue *q, int k) {
    return (double)q->stepper->rows[k] / (double)q->stepper->batch[k];
}

/* ---- OLÉ ----------------------------------------------------------------------------------- */

/* Rows of `size` bytes each of all ranks, from ours, in device memory. */
static void gather_rows(const ole_queue *q, int k, const void *mine, int64_t size, void *all) {
    int64_t batch = q->stepper->batch[k];
    for (int r = 0; r < ole_ranks_size(q->ranks); r++)
        q->bytes[r] =
            size * (ole_ranks_first(q->ranks, batch, r + 1) - ole_ranks_first(q->ranks, batch, r));
    q->link->linker->gather(q->context, mine, q->bytes, all);
}

static int64_t row_bytes(const queued_act *a) {
    return a->rows.dim * (a->rows.dtype == OLE_BF16 ? 2 : 4);
}

/* The rows that the loss is of: the tensor itself, a plain copy, or the rows of all ranks. */
static const void *find_rows(queued_act *a, const void *output) {
    const ole_queue *q = a->queue;
    ole_layout layout = ole_plan_layout(q->stepper->plan[a->k], a->act->node);
    if (a->rows.direct && !a->global) return output;
    float *plain = a->global ? a->plain : (float *)a->features;
    if (!a->rows.direct) q->recorder->rows_read(q->context, layout, output, plain);
    if (a->global) gather_rows(q, a->k, a->rows.direct ? output : plain, row_bytes(a), a->features);
    return a->features;
}

/* Our rows of a->gradient to the node's. */
static void put_gradient(const queued_act *a, void *gradient, bool accumulate) {
    const ole_queue *q = a->queue;
    const ole_stepper *s = q->stepper;
    ole_layout layout = ole_plan_layout(s->plan[a->k], a->act->node);
    int64_t first =
        a->global ? ole_ranks_first(q->ranks, s->batch[a->k], ole_ranks_rank(q->ranks)) : 0;
    const char *ours = a->gradient + first * row_bytes(a);
    if (a->rows.direct)
        q->recorder->rows_take(q->context, layout, ours, accumulate, gradient);
    else
        q->recorder->rows_add(q->context, layout, (const float *)ours, accumulate, gradient);
}

/* An ole_plan_seeder: the loss of the node's output, its gradient added to the node's. */
static void seed(void *argument, const void *output, void *gradient, bool accumulate) {
    queued_act *a = argument;
    const ole_queue *q = a->queue;
    const ole_stepper *s = q->stepper;
    double share = share_of(q, a->k);
    bool own = a->rows.direct && !a->global; /* the loss writes the node's gradient itself */
    ole_loss_batch batch = {.rows = a->global ? s->batch[a->k] : s->rows[a->k],
                            .features = find_rows(a, output),
                            .labels = a->global ? q->all_labels : q->labels,
                            .label_type = OLE_I32};
    ole_loss_gradient to = {.data = own ? gradient : a->gradient,
                            .upstream = a->act->weight * (a->global ? 1.0 : share),
                            .accumulate = own && accumulate};
    if (ole_loss_queue(a->loss, &batch, &to, a->outcome, q->recorder->stream(q->context),
                       &a->queue->failure) != OLE_OK) {
        a->failed = true;
        return;
    }
    if (!own) put_gradient(a, gradient, accumulate);
    q->recorder->add_ole(q->context, a->outcome, a->act->weight, share);
}

/* Device memory of an act. */
static ole_status allocate_act(ole_queue *q, queued_act *a, ole_error *error) {
    const ole_backend *backend = q->network->backend;
    bool copies = a->global || !a->rows.direct, plain = a->global && !a->rows.direct;
    size_t size = (size_t)((a->global ? q->whole : q->batch) * row_bytes(a));
    a->outcome = backend->allocate(q->context, sizeof *a->outcome);
    if (copies) {
        a->features = backend->allocate(q->context, size);
        a->gradient = backend->allocate(q->context, size);
    }
    if (plain) a->plain = backend->allocate(q->context, (size_t)(q->batch * row_bytes(a)));
    if (a->outcome && (!copies || (a->features && a->gradient)) && (!plain || a->plain))
        return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory on the device for OLE at layer %s",
                    q->network->graph->node[a->act->node].name);
}

static ole_status plan_act(ole_queue *q, int i, ole_error *error) {
    const ole_network *n = q->network;
    const ole_act *act = &q->stepper->act[i];
    queued_act *a = &q->act[i];
    *a = (queued_act){.queue = q, .act = act, .global = q->ranks && act->across};
    a->rows = q->recorder->rows(q->context, ole_plan_layout(q->stepper->plan[0], act->node),
                                q->batch, n->graph->node[act->node].out);
    ole_status status = allocate_act(q, a, error);
    if (status != OLE_OK) return status;
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.device = OLE_DEVICE_CUDA;
    options.card = q->recorder->card(q->context);
    return ole_loss_plan_create(&a->loss, a->global ? q->whole : q->batch, a->rows.dim,
                                a->rows.dtype, &options, error);
}

/* ---- recording ----------------------------------------------------------------------------- */

static void seed_acts(ole_queue *q, int k, bool on) {
    for (int i = 0; i < q->stepper->acts; i++) {
        q->act[i].k = k;
        ole_plan_seed_with(q->stepper->plan[k], q->act[i].act->node, on ? seed : NULL, &q->act[i]);
    }
}

/* The next batch's images, and its labels, of all ranks where OLÉ is of all rows. */
static void queue_batch(ole_queue *q, int k) {
    const ole_stepper *s = q->stepper;
    bool global = false;
    for (int i = 0; i < s->acts; i++)
        global = global || q->act[i].global;
    q->recorder->assemble(q->context, q->feed, s->rows[k], ole_plan_layout(s->plan[k], 0),
                          ole_plan_input(s->plan[k]), q->labels);
    if (global) gather_rows(q, k, q->labels, sizeof *q->labels, q->all_labels);
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
        ole_plan_queue_softmax(plan, q->labels, share_of(q, k));
    else if (s->softmax)
        ole_plan_assume_softmax(plan);
    seed_acts(q, k, part != OLE_QUEUE_WITHOUT_OLE);
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

static ole_status acts_status(const ole_queue *q, ole_error *error) {
    for (int i = 0; i < q->stepper->acts; i++)
        if (q->act[i].failed) {
            if (error) *error = q->failure;
            return q->failure.status;
        }
    return OLE_OK;
}

/* What evaluation uses and training moves along: kept over a rehearsal. */
static ole_status rehearse(ole_queue *q, int k, ole_error *error) {
    const ole_network *n = q->network;
    float **kept = calloc((size_t)n->graph->params, sizeof *kept);
    bool whole = kept != NULL;
    for (int i = 0; whole && i < n->graph->params; i++) {
        if (n->graph->param[i].trained) continue;
        kept[i] = malloc((size_t)n->graph->param[i].count * sizeof **kept);
        whole = kept[i] != NULL;
        if (whole) ole_params_get(n->params, i, kept[i]);
    }
    ole_status status = whole ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (whole) {
        queue_step(q, k);
        status = acts_status(q, error);
        ole_status ran = ole_network_wait(n, status == OLE_OK ? error : NULL);
        if (status == OLE_OK) status = ran;
    }
    for (int i = 0; kept && i < n->graph->params; i++) {
        if (whole && kept[i]) ole_params_set(n->params, i, kept[i]);
        free(kept[i]);
    }
    free(kept);
    return status;
}

static ole_status record(ole_queue *q, int k, ole_error *error) {
    ole_status status = q->recorder->begin(q->context, error);
    if (status != OLE_OK) return status;
    queue_step(q, k);
    status = q->recorder->end(q->context, &q->recording[k], error);
    return status == OLE_OK ? acts_status(q, error) : status;
}

/* Replays a recording for about `budget` seconds: the median of what bunches of replays took.
 * Ranks replay as often as rank 0. */
static ole_status time_replays(ole_queue *q, ole_recording *recording, double budget,
                               double *seconds, ole_error *error) {
    enum { BUNCHES = 15, MOST = 200 };
    double took[BUNCHES];
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

/* An epoch that only lets steps run: with updates off, or at a rate of 0. */
static ole_status start_idle(ole_queue *q, bool updates, ole_error *error) {
    take_order(q, 0);
    memset(q->rates, 0, (size_t)q->batches * sizeof *q->rates);
    const ole_epoch epoch = {.order = q->order, .rates = q->rates, .idle = !updates};
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
        status = plan_act(q, i, error);
    return status;
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
    if (status == OLE_OK) status = record_steps(q, error);
    if (status == OLE_OK)
        *result = q;
    else
        ole_queue_free(q);
    return status;
}

static void free_evaluation(ole_queue *q, evaluation *e) {
    for (int i = 0; i < 2; i++)
        q->recorder->recording_free(q->context, e->recording[i]);
    q->recorder->feed_free(q->context, e->feed);
    if (e->all) q->network->backend->free(q->context, e->all);
}

void ole_queue_free(ole_queue *q) {
    if (!q) return;
    const ole_backend *backend = q->network->backend;
    for (int i = 0; i < q->stepper->acts; i++) {
        for (int k = 0; k < 2; k++)
            if (q->stepper->plan[k])
                ole_plan_seed_with(q->stepper->plan[k], q->stepper->act[i].node, NULL, NULL);
        void *memory[] = {q->act[i].outcome, q->act[i].features, q->act[i].gradient,
                          q->act[i].plain};
        for (int m = 0; m < 4; m++)
            if (memory[m]) backend->free(q->context, memory[m]);
        ole_loss_plan_destroy(q->act[i].loss);
    }
    for (int i = 0; i < SPLITS; i++)
        free_evaluation(q, &q->evaluation[i]);
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
    const ole_epoch start = {.epoch = epoch,
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
    return q->recorder->follow(q->context, AHEAD, error);
}

ole_status ole_queue_read(ole_queue *q, ole_queue_sums *sums, ole_error *error) {
    return q->recorder->read(q->context, sums, error);
}

double ole_queue_ole_seconds(const ole_queue *q) {
    return q->ole_seconds;
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
    seed_acts(q, 0, true);
    status = q->recorder->end(q->context, &recording, error);
    if (status == OLE_OK) status = time_replays(q, recording, budget, seconds, error);
    q->recorder->recording_free(q->context, recording);
    return status;
}

/* ---- evaluation ---------------------------------------------------------------------------- */

/* Each rank has its part of the split's samples, one after the other. */
static ole_status open_evaluation(ole_queue *q, evaluation *e, ole_split split, ole_error *error) {
    if (e->feed) return OLE_OK;
    int64_t all = q->set->splits.count[split];
    int rank = ole_ranks_rank(q->ranks);
    e->first = ole_ranks_first(q->ranks, all, rank);
    e->count = ole_ranks_first(q->ranks, all, rank + 1) - e->first;
    e->batches = e->count > 0 ? (e->count + q->batch - 1) / q->batch : 1;
    const ole_feed_spec feed = feed_spec(q, split, e->batches);
    return q->recorder->feed_create(q->context, &feed, &e->feed, error);
}

static ole_status record_evaluation(ole_queue *q, evaluation *e, bool features, ole_error *error) {
    if (e->recording[features]) return OLE_OK;
    const ole_graph *graph = q->network->graph;
    const ole_recorder *r = q->recorder;
    ole_plan *plan = q->stepper->plan[0];
    ole_shape shape = graph->node[graph->features].out;
    if (features) {
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

static ole_status run_evaluation(ole_queue *q, evaluation *e, bool features, ole_queue_sums *sums,
                                 ole_error *error) {
    size_t length = (size_t)(e->batches * q->batch);
    int64_t *order = malloc(length * sizeof *order);
    double *rates = calloc((size_t)e->batches, sizeof *rates);
    ole_status status =
        order && rates ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; status == OLE_OK && i < (int64_t)length; i++)
        order[i] = i < e->count ? e->first + i : -1;
    const ole_epoch epoch = {.order = order, .rates = rates};
    if (status == OLE_OK) status = q->recorder->start(q->context, e->feed, &epoch, error);
    for (int64_t b = 0; b < e->batches && status == OLE_OK; b++) {
        q->recorder->replay(q->context, e->recording[features]);
        status = q->recorder->follow(q->context, AHEAD, error);
    }
    if (status == OLE_OK) status = q->recorder->read(q->context, sums, error);
    free(order);
    free(rates);
    return status;
}

/* The kept features of all ranks' samples. */
static ole_status read_features(ole_queue *q, const evaluation *e, int64_t all, float *features,
                                ole_error *error) {
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
    evaluation *e = &q->evaluation[split];
    ole_queue_sums sums;
    ole_status status = open_evaluation(q, e, split, error);
    q->recorder->lock(q->context);
    if (status == OLE_OK) status = record_evaluation(q, e, features != NULL, error);
    q->recorder->unlock(q->context);
    if (status == OLE_OK) status = run_evaluation(q, e, features != NULL, &sums, error);
    status = ole_ranks_agree(q->ranks, status, error);
    if (status != OLE_OK) return status;
    *wrong = e->count - sums.correct;
    ole_ranks_sum(q->ranks, wrong, 1, OLE_I64);
    int64_t all = q->set->splits.count[split];
    return features ? read_features(q, e, all, features, error)
                    : ole_network_wait(q->network, error);
}
