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

void ole_recorded_gather_labels(ole_recorded *r, int k) {
    if (r->global) gather_rows(r, k, r->labels, sizeof *r->labels, r->all_labels);
}

static int64_t row_bytes(const ole_recorded_act *a) {
    return a->rows.dim * (a->rows.dtype == OLE_BF16 ? 2 : 4);
}

/* The rows that the loss reads: the tensor itself, a plain copy, or the rows of all ranks. */
static const void *find_rows(const ole_recorded *r, const ole_recorded_act *a, int node, int k) {
    const void *output = ole_plan_output(r->stepper->plan[k], node);
    if (a->rows.direct && !r->global) return output;
    float *plain = r->global ? a->plain : (float *)a->features;
    if (!a->rows.direct)
        r->recorder->rows_read(r->context, ole_plan_layout(r->stepper->plan[k], node), output,
                               plain);
    if (r->global) gather_rows(r, k, a->rows.direct ? output : plain, row_bytes(a), a->features);
    return a->features;
}

void ole_recorded_queue_act(ole_recorded *r, int i, int k) {
    const ole_recorded_act *a = &r->act[i];
    const ole_stepper *s = r->stepper;
    int node = s->act[i].node;
    ole_layout layout = ole_plan_layout(s->plan[k], node);
    double weight = s->act[i].weight, share = ole_stepper_share(s, k);
    bool accumulate = false, own = a->rows.direct && !r->global; /* the loss writes there itself */
    void *gradient = ole_plan_gradient(s->plan[k], node, &accumulate); /* NULL: all is frozen */
    const ole_loss_batch batch = {.rows = r->global ? s->batch[k] : s->rows[k],
                                  .features = find_rows(r, a, node, k),
                                  .labels = r->global ? r->all_labels : r->labels,
                                  .label_type = OLE_I32};
    const ole_loss_gradient to = {.data = own ? gradient : a->gradient,
                                  .upstream = weight * (r->global ? 1.0 : share),
                                  .accumulate = own && accumulate};
    if (ole_loss_queue(a->loss, &batch, gradient ? &to : NULL, a->outcome,
                       r->recorder->stream(r->context), &r->failure) != OLE_OK)
        return;
    int64_t first = r->global ? ole_ranks_first(r->ranks, s->batch[k], r->ranks->rank) : 0;
    const char *ours = own ? NULL : a->gradient + first * row_bytes(a);
    if (gradient && !own && a->rows.direct)
        r->recorder->rows_take(r->context, layout, ours, accumulate, gradient);
    else if (gradient && !own)
        r->recorder->rows_add(r->context, layout, (const float *)ours, accumulate, gradient);
    r->recorder->add_loss(r->context, a->outcome, weight, share);
}

/* Device memory of an act. */
static ole_status allocate_act(ole_recorded *r, int i, ole_error *error) {
    const ole_backend *backend = r->network->backend;
    ole_recorded_act *a = &r->act[i];
    bool copies = r->global || !a->rows.direct, plain = r->global && !a->rows.direct;
    size_t size = (size_t)((r->global ? r->whole : r->batch) * row_bytes(a));
    a->outcome = backend->allocate(r->context, sizeof *a->outcome);
    if (copies) {
        a->features = backend->allocate(r->context, size);
        a->gradient = backend->allocate(r->context, size);
    }
    if (plain) a->plain = backend->allocate(r->context, (size_t)(r->batch * row_bytes(a)));
    if (a->outcome && (!copies || (a->features && a->gradient)) && (!plain || a->plain))
        return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory on the device for OLE at layer %s",
                    r->network->graph->node[r->stepper->act[i].node].name);
}

ole_status ole_recorded_plan_act(ole_recorded *r, int i, ole_error *error) {
    int node = r->stepper->act[i].node;
    ole_recorded_act *a = &r->act[i];
    a->rows = r->recorder->rows(r->context, ole_plan_layout(r->stepper->plan[0], node),
                                r->network->graph->node[node].out);
    ole_status status = allocate_act(r, i, error);
    if (status != OLE_OK) return status;
    ole_loss_options options = r->stepper->loss;
    options.device = OLE_DEVICE_CUDA;
    options.gpu = r->recorder->gpu(r->context);
    return ole_loss_plan_create(&a->loss, r->global ? r->whole : r->batch, a->rows.dim,
                                a->rows.dtype, &options, error);
}

void ole_recorded_free_act(ole_recorded *r, int i) {
    ole_recorded_act *a = &r->act[i];
    void *memory[] = {a->outcome, a->features, a->gradient, a->plain};
    for (int m = 0; m < 4; m++)
        if (memory[m]) r->network->backend->free(r->context, memory[m]);
    ole_loss_plan_destroy(a->loss);
}
