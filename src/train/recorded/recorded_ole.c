/*
 * src/train/recorded/recorded_ole.c - OLÉ in queued steps: the loss of a node's output and its
 * gradient, all in device memory.
 *
 * Of ranks each gathers the rows of all, evaluates the loss of the whole batch and takes its own
 * rows of the gradient.
 */
#include "base/error.h"
#include "train/recorded/recorded_parts.h"

/* Rows of `size` bytes each of all ranks, from ours, in device memory. */
static void gather_rows(const ole_queue *q, int k, const void *mine, int64_t size, void *all) {
    int64_t batch = q->stepper->batch[k];
    for (int r = 0; r < ole_ranks_size(q->ranks); r++)
        q->bytes[r] =
            size * (ole_ranks_first(q->ranks, batch, r + 1) - ole_ranks_first(q->ranks, batch, r));
    q->link->linker->gather(q->context, mine, q->bytes, all);
}

static int64_t row_bytes(const ole_queued_act *a) {
    return a->rows.dim * (a->rows.dtype == OLE_BF16 ? 2 : 4);
}

/* The rows that the loss is of: the tensor itself, a plain copy, or the rows of all ranks. */
static const void *find_rows(ole_queued_act *a, const void *output) {
    const ole_queue *q = a->queue;
    ole_layout layout = ole_plan_layout(q->stepper->plan[a->k], a->act->node);
    if (a->rows.direct && !a->global) return output;
    float *plain = a->global ? a->plain : (float *)a->features;
    if (!a->rows.direct) q->recorder->rows_read(q->context, layout, output, plain);
    if (a->global) gather_rows(q, a->k, a->rows.direct ? output : plain, row_bytes(a), a->features);
    return a->features;
}

/* Our rows of a->gradient to the node's. */
static void put_gradient(const ole_queued_act *a, void *gradient, bool accumulate) {
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
    ole_queued_act *a = argument;
    const ole_queue *q = a->queue;
    const ole_stepper *s = q->stepper;
    double share = ole_queue_share(q, a->k);
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
    q->recorder->add_loss(q->context, a->outcome, a->act->weight, share);
}

/* Device memory of an act. */
static ole_status allocate_act(ole_queue *q, ole_queued_act *a, ole_error *error) {
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

ole_status ole_queue_plan_act(ole_queue *q, int i, ole_error *error) {
    const ole_network *n = q->network;
    const ole_act *act = &q->stepper->act[i];
    ole_queued_act *a = &q->act[i];
    *a = (ole_queued_act){.queue = q, .act = act, .global = q->ranks && q->stepper->global};
    a->rows = q->recorder->rows(q->context, ole_plan_layout(q->stepper->plan[0], act->node),
                                q->batch, n->graph->node[act->node].out);
    ole_status status = allocate_act(q, a, error);
    if (status != OLE_OK) return status;
    ole_loss_options options = q->stepper->loss;
    options.device = OLE_DEVICE_CUDA;
    options.card = q->recorder->card(q->context);
    return ole_loss_plan_create(&a->loss, a->global ? q->whole : q->batch, a->rows.dim,
                                a->rows.dtype, &options, error);
}

void ole_queue_free_act(ole_queue *q, int i) {
    ole_queued_act *a = &q->act[i];
    for (int k = 0; k < 2; k++)
        if (q->stepper->plan[k])
            ole_plan_seed_with(q->stepper->plan[k], q->stepper->act[i].node, NULL, NULL);
    void *memory[] = {a->outcome, a->features, a->gradient, a->plain};
    for (int m = 0; m < 4; m++)
        if (memory[m]) q->network->backend->free(q->context, memory[m]);
    ole_loss_plan_destroy(a->loss);
}

void ole_queue_gather_labels(ole_queue *q, int k) {
    bool global = false;
    for (int i = 0; i < q->stepper->acts; i++)
        global = global || q->act[i].global;
    if (global) gather_rows(q, k, q->labels, sizeof *q->labels, q->all_labels);
}

void ole_queue_seed(ole_queue *q, int k, bool on) {
    for (int i = 0; i < q->stepper->acts; i++) {
        q->act[i].k = k;
        ole_plan_seed_with(q->stepper->plan[k], q->act[i].act->node, on ? seed : NULL, &q->act[i]);
    }
}

ole_status ole_queue_acts_status(const ole_queue *q, ole_error *error) {
    for (int i = 0; i < q->stepper->acts; i++)
        if (q->act[i].failed) {
            if (error) *error = q->failure;
            return q->failure.status;
        }
    return OLE_OK;
}
