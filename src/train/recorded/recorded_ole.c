/*
 * src/train/recorded/recorded_ole.c - OLÉ in recorded steps: the loss of a node's output and its
 * gradient, all in device memory.
 *
 * With ranks, each gathers the rows of all ranks, evaluates the loss of the whole batch and keeps
 * its own rows of the gradient.
 */
#include "base/error.h"
#include "train/recorded/recorded.h"

/* Gathers rows of `size` bytes from all ranks, in device memory. */
static void gather_rows(const ole_recorded *r, int k, const void *mine, int64_t size, void *all) {
    ole_ranks_part_bytes(r->ranks, r->stepper->batch[k], size, r->bytes);
    r->link->linker->gather(r->context, mine, r->bytes, all);
}

static int64_t row_bytes(const ole_recorded_act *a) {
    return a->rows.dim * (a->rows.dtype == OLE_BF16 ? 2 : 4);
}

/* The rows that the loss reads: the tensor itself, a plain copy, or the rows of all ranks. */
static const void *find_rows(ole_recorded_act *a, const void *output) {
    const ole_recorded *r = a->recorded;
    ole_layout layout = ole_plan_layout(r->stepper->plan[a->k], a->act->node);
    if (a->rows.direct && !a->global) return output;
    float *plain = a->global ? a->plain : (float *)a->features;
    if (!a->rows.direct) r->recorder->rows_read(r->context, layout, output, plain);
    if (a->global) gather_rows(r, a->k, a->rows.direct ? output : plain, row_bytes(a), a->features);
    return a->features;
}

/* Adds this rank's rows of a->gradient to the node's gradient. */
static void put_gradient(const ole_recorded_act *a, void *gradient, bool accumulate) {
    const ole_recorded *r = a->recorded;
    const ole_stepper *s = r->stepper;
    ole_layout layout = ole_plan_layout(s->plan[a->k], a->act->node);
    int64_t first =
        a->global ? ole_ranks_first(r->ranks, s->batch[a->k], ole_ranks_rank(r->ranks)) : 0;
    const char *ours = a->gradient + first * row_bytes(a);
    if (a->rows.direct)
        r->recorder->rows_take(r->context, layout, ours, accumulate, gradient);
    else
        r->recorder->rows_add(r->context, layout, (const float *)ours, accumulate, gradient);
}

/* An ole_plan_seeder: evaluates the loss of the node's output and adds its gradient. */
static void seed(void *argument, const void *output, void *gradient, bool accumulate) {
    ole_recorded_act *a = argument;
    const ole_recorded *r = a->recorded;
    const ole_stepper *s = r->stepper;
    double share = ole_recorded_share(r, a->k);
    bool own = a->rows.direct && !a->global; /* the loss writes the node's gradient itself */
    ole_loss_batch batch = {.rows = a->global ? s->batch[a->k] : s->rows[a->k],
                            .features = find_rows(a, output),
                            .labels = a->global ? r->all_labels : r->labels,
                            .label_type = OLE_I32};
    ole_loss_gradient to = {.data = own ? gradient : a->gradient,
                            .upstream = a->act->weight * (a->global ? 1.0 : share),
                            .accumulate = own && accumulate};
    if (ole_loss_queue(a->loss, &batch, &to, a->outcome, r->recorder->stream(r->context),
                       &a->recorded->failure) != OLE_OK) {
        a->failed = true;
        return;
    }
    if (!own) put_gradient(a, gradient, accumulate);
    r->recorder->add_loss(r->context, a->outcome, a->act->weight, share);
}

/* Device memory of an act. */
static ole_status allocate_act(ole_recorded *r, ole_recorded_act *a, ole_error *error) {
    const ole_backend *backend = r->network->backend;
    bool copies = a->global || !a->rows.direct, plain = a->global && !a->rows.direct;
    size_t size = (size_t)((a->global ? r->whole : r->batch) * row_bytes(a));
    a->outcome = backend->allocate(r->context, sizeof *a->outcome);
    if (copies) {
        a->features = backend->allocate(r->context, size);
        a->gradient = backend->allocate(r->context, size);
    }
    if (plain) a->plain = backend->allocate(r->context, (size_t)(r->batch * row_bytes(a)));
    if (a->outcome && (!copies || (a->features && a->gradient)) && (!plain || a->plain))
        return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory on the device for OLE at layer %s",
                    r->network->graph->node[a->act->node].name);
}

ole_status ole_recorded_plan_act(ole_recorded *r, int i, ole_error *error) {
    const ole_network *n = r->network;
    const ole_act *act = &r->stepper->act[i];
    ole_recorded_act *a = &r->act[i];
    *a = (ole_recorded_act){.recorded = r, .act = act, .global = r->ranks && r->stepper->global};
    a->rows = r->recorder->rows(r->context, ole_plan_layout(r->stepper->plan[0], act->node),
                                n->graph->node[act->node].out);
    ole_status status = allocate_act(r, a, error);
    if (status != OLE_OK) return status;
    ole_loss_options options = r->stepper->loss;
    options.device = OLE_DEVICE_CUDA;
    options.gpu = r->recorder->gpu(r->context);
    return ole_loss_plan_create(&a->loss, a->global ? r->whole : r->batch, a->rows.dim,
                                a->rows.dtype, &options, error);
}

void ole_recorded_free_act(ole_recorded *r, int i) {
    ole_recorded_act *a = &r->act[i];
    for (int k = 0; k < 2; k++)
        if (r->stepper->plan[k])
            ole_plan_seed_with(r->stepper->plan[k], r->stepper->act[i].node, NULL, NULL);
    void *memory[] = {a->outcome, a->features, a->gradient, a->plain};
    for (int m = 0; m < 4; m++)
        if (memory[m]) r->network->backend->free(r->context, memory[m]);
    ole_loss_plan_destroy(a->loss);
}

void ole_recorded_gather_labels(ole_recorded *r, int k) {
    bool global = false;
    for (int i = 0; i < r->stepper->acts; i++)
        global = global || r->act[i].global;
    if (global) gather_rows(r, k, r->labels, sizeof *r->labels, r->all_labels);
}

void ole_recorded_seed(ole_recorded *r, int k, bool on) {
    for (int i = 0; i < r->stepper->acts; i++) {
        r->act[i].k = k;
        ole_plan_seed_with(r->stepper->plan[k], r->act[i].act->node, on ? seed : NULL, &r->act[i]);
    }
}

ole_status ole_recorded_acts_status(const ole_recorded *r, ole_error *error) {
    for (int i = 0; i < r->stepper->acts; i++)
        if (r->act[i].failed) {
            if (error) *error = r->failure;
            return r->failure.status;
        }
    return OLE_OK;
}
