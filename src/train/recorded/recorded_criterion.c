/*
 * src/train/recorded/recorded_criterion.c - a criterion in recorded steps: what
 * run/criterion_step.c does on the host, all in device memory.
 *
 * Its state, the centres of classes, lives on the host between epochs and whenever the device's
 * sums are read: ole_recorded_start() sends it, ole_recorded_read() fetches it.
 */
#include "base/cuda_module.h"
#include "base/error.h"
#include "train/recorded/recorded.h"

static const ole_criterion_step *step_of(const ole_recorded *r) {
    return &r->stepper->criterion;
}

static bool has(const ole_recorded *r, unsigned trait) {
    return r->criterion.table && step_of(r)->criterion->traits & trait;
}

/* With ranks each would have to gather the features of all. */
bool ole_recorded_has_criterion(const ole_stepper *s) {
    const ole_criterion *criterion = s->criterion.criterion;
    const void *table;
    if (!criterion) return true;
    if (s->reduce || ole_cuda_module_table("ole_cuda_criterion", &table, NULL) != OLE_OK)
        return false;
    return ((const ole_cuda_criterion_table *)table)->has(criterion->name);
}

/* ---- Planning ----------------------------------------------------------------------------- */

static void *take(const ole_recorded *r, int64_t count, size_t size, bool *failed) {
    if (count == 0) return NULL;
    void *memory = r->network->backend->allocate(r->context, (size_t)count * size);
    if (!memory) *failed = true;
    return memory;
}

ole_status ole_recorded_plan_criterion(ole_recorded *r, ole_error *error) {
    ole_recorded_criterion *c = &r->criterion;
    if (!step_of(r)->criterion) return OLE_OK;
    const void *table;
    ole_status status = ole_cuda_module_table("ole_cuda_criterion", &table, error);
    if (status != OLE_OK) return status;
    c->table = table;
    const ole_criterion_plan_options options = ole_criterion_step_options(step_of(r));
    int64_t features = options.rows * options.dim, weights = options.classes * options.dim;
    bool head = has(r, OLE_CRITERION_HEAD), failed = false;
    c->state = has(r, OLE_CRITERION_CENTERS) ? weights : 0;
    c->outcome = take(r, 1, sizeof *c->outcome, &failed);
    c->x = take(r, features, sizeof *c->x, &failed);
    c->dx = take(r, features, sizeof *c->dx, &failed);
    c->centers = take(r, c->state, sizeof *c->centers, &failed);
    for (int bias = 0; bias < 2 && head; bias++) { /* a bias that does not exist is zeros */
        int64_t count = bias ? options.classes : weights;
        c->param[bias] = take(r, count, sizeof *c->param[bias], &failed);
        c->slope[bias] = take(r, count, sizeof *c->slope[bias], &failed);
    }
    if (failed)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory on the device for the loss %s",
                        options.criterion->name);
    return c->table->create(&c->plan, &options, r->recorder->gpu(r->context), error);
}

void ole_recorded_free_criterion(ole_recorded *r) {
    ole_recorded_criterion *c = &r->criterion;
    void *memory[] = {c->outcome,  c->x,        c->dx,       c->centers,
                      c->param[0], c->param[1], c->slope[0], c->slope[1]};
    for (int m = 0; m < 8; m++)
        if (memory[m]) r->network->backend->free(r->context, memory[m]);
    if (c->table) c->table->destroy(c->plan);
}

/* ---- State -------------------------------------------------------------------------------- */

void ole_recorded_send_state(ole_recorded *r) {
    const ole_recorded_criterion *c = &r->criterion;
    if (c->state > 0)
        r->network->backend->copy_in(r->context, step_of(r)->centers,
                                     (size_t)c->state * sizeof *c->centers, c->centers);
}

void ole_recorded_receive_state(ole_recorded *r) {
    const ole_recorded_criterion *c = &r->criterion;
    if (c->state > 0)
        r->network->backend->copy_out(r->context, c->centers, (size_t)c->state * sizeof *c->centers,
                                      step_of(r)->centers);
}

/* ---- Steps -------------------------------------------------------------------------------- */

void ole_recorded_queue_criterion(ole_recorded *r, int k) {
    const ole_recorded_criterion *c = &r->criterion;
    const ole_graph *graph = r->network->graph;
    if (!c->table) return;
    const ole_plan *plan = r->stepper->plan[k];
    r->recorder->rows_read(r->context, ole_plan_layout(plan, graph->features),
                           ole_plan_output(plan, graph->features), c->x);
    for (int bias = 0; bias < 2; bias++) {
        int p = ole_classifier_param(graph, bias);
        if (p >= 0 && c->param[bias])
            r->recorder->param_read(r->context, &graph->param[p],
                                    ole_params_data(r->network->params, p), c->param[bias]);
    }
    const ole_criterion_queued batch = {.rows = r->stepper->rows[k],
                                        .step = r->recorder->step(r->context),
                                        .x = c->x,
                                        .labels = r->labels,
                                        .w = c->param[0],
                                        .b = c->param[1],
                                        .centers = c->centers};
    const ole_criterion_slopes slopes = {.dtype = OLE_F32,
                                         .weight = step_of(r)->weight,
                                         .dx = c->dx,
                                         .dw = c->slope[0],
                                         .db = c->slope[1]};
    if (c->table->queue(c->plan, &batch, &slopes, c->outcome, r->recorder->stream(r->context),
                        &r->failure) == OLE_OK)
        r->recorder->add_criterion(r->context, c->outcome, step_of(r)->weight,
                                   has(r, OLE_CRITERION_HEAD));
}

void ole_recorded_queue_features(ole_recorded *r, int node, int k) {
    ole_plan *plan = r->stepper->plan[k];
    if (!r->criterion.table || node != r->network->graph->features) return;
    bool accumulate;
    void *gradient = ole_plan_gradient(plan, node, &accumulate);
    if (gradient)
        r->recorder->rows_add(r->context, ole_plan_layout(plan, node), r->criterion.dx, accumulate,
                              gradient);
}

void ole_recorded_queue_classifier(ole_recorded *r, int node) {
    const ole_graph *graph = r->network->graph;
    ole_params *params = r->network->params;
    if (!has(r, OLE_CRITERION_HEAD) || node != graph->classifier) return;
    for (int bias = 0; bias < 2; bias++) {
        int p = ole_classifier_param(graph, bias);
        void *gradient = p >= 0 ? ole_params_gradient(params, p) : NULL;
        if (!gradient) continue;
        r->recorder->gradient_write(r->context, &graph->param[p], r->criterion.slope[bias],
                                    gradient);
        ole_params_mark(params, p, true);
    }
}

void ole_recorded_queue_updated(ole_recorded *r) {
    int p = ole_classifier_param(r->network->graph, false);
    if (has(r, OLE_CRITERION_UNIT) && p >= 0)
        r->recorder->unit_rows(r->context, &r->network->graph->param[p],
                               ole_params_data(r->network->params, p));
}
