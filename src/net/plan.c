/*
 * src/net/plan.c - plans a network for a batch size, and runs it.
 *
 * Time is discrete: node i runs forward at time i and backward at 2n - i; the losses read outputs
 * at time n.  A node has up to three tensors: its output, the gradient of its output, and what its
 * op saves from forward for backward.  Their lifetimes follow from who reads them when;
 * net/memory.h places them.
 */
#include "net/plan.h"

#include "base/available_memory.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/recorder.h"
#include "net/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A node at run time: its planned op and the state of its gradient. */
typedef struct step {
    ole_op_plan op;
    bool planned;
    bool needs_gradient; /* it or a node before it has a trained parameter */
    bool shared;         /* its output contains another's or is contained in it */
    bool read;           /* its output is read between forward and backward */
    int first_writer;    /* the node whose backward writes its gradient first, or -1 */
    bool written;        /* its gradient has been written in this backward */
} step;

struct ole_plan {
    const ole_graph *graph;
    ole_params *params;
    const ole_backend *backend;
    ole_device_context *context;
    int64_t batch;
    bool train;
    step *step;             /* [nodes] */
    ole_lifetime *lifetime; /* [3 * nodes]: outputs, gradients, saved */
    char *block;
    char *scratch;
    void *input; /* the images in the backend's layout; NULL where plain float will do */
    const void *images;
    uint64_t step_number;
    size_t bytes, unshared;
    bool measure;
    ole_plan_times times;
    int skipped; /* the op whose nodes are skipped, or -1 */
    bool skip_backward;
    const ole_share *share;
    double smoothing;
};

/* ---- lifetimes ---------------------------------------------------------------------------- */

static ole_lifetime *output_of(const ole_plan *plan, int i) {
    return &plan->lifetime[i];
}

static ole_lifetime *gradient_of(const ole_plan *plan, int i) {
    return &plan->lifetime[plan->graph->nodes + i];
}

static ole_lifetime *saved_of(const ole_plan *plan, int i) {
    return &plan->lifetime[2 * plan->graph->nodes + i];
}

static int backward_time(const ole_plan *plan, int i) {
    return 2 * plan->graph->nodes - i;
}

/* The time by which node i's backward has certainly read its inputs. */
static int backward_end(const ole_plan *plan, int i) {
    return backward_time(plan, i) + plan->backend->backward_lag;
}

/* Finds which output gradients are needed, and which node writes each first: its last reader. */
static void find_gradients(ole_plan *plan) {
    const ole_graph *graph = plan->graph;
    for (int i = 0; i < graph->nodes; i++) {
        const ole_node *node = &graph->node[i];
        step *s = &plan->step[i];
        s->first_writer = -1;
        for (int p = 0; p < node->params; p++)
            if (ole_params_gradient(plan->params, node->first_param + p)) s->needs_gradient = true;
        for (int k = 0; k < OLE_MAX_INPUTS; k++) {
            if (node->input[k] < 0) continue;
            step *source = &plan->step[node->input[k]];
            s->needs_gradient |= source->needs_gradient;
            source->first_writer = i;
        }
    }
}

static void extend(ole_lifetime *t, int time) {
    if (time > t->last) t->last = time;
}

static void find_lifetimes(ole_plan *plan) {
    const ole_graph *graph = plan->graph;
    int n = graph->nodes;
    for (int i = 0; i < n; i++) {
        const step *s = &plan->step[i];
        *output_of(plan, i) = (ole_lifetime){s->op.y_bytes, i, s->read ? n : i, -1, 0};
        if (i == 0) output_of(plan, i)->bytes = 0;
        *saved_of(plan, i) = (ole_lifetime){s->op.saved_bytes, i, i, -1, 0};
        *gradient_of(plan, i) = (ole_lifetime){.alias = -1};
        if (!plan->train) continue;
        int back = backward_end(plan, i);
        extend(saved_of(plan, i), back);
        if (s->op.backward_reads_y || (s->read && plan->backend->recorder))
            extend(output_of(plan, i), back);
        if (!s->needs_gradient) continue;
        int from = s->first_writer >= 0 ? backward_time(plan, s->first_writer) : n;
        *gradient_of(plan, i) = (ole_lifetime){s->op.y_bytes, from, back, -1, 0};
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < OLE_MAX_INPUTS; k++) {
            int source = graph->node[i].input[k];
            if (source < 0) continue;
            extend(output_of(plan, source), i);
            if (plan->train && plan->step[i].op.backward_reads_x)
                extend(output_of(plan, source), backward_end(plan, i));
        }
}

/*
 * Outputs that begin with their input share its memory; both stay intact, so neither is overwritten
 * in place.  In place are: an output over an input that dies there, a gradient over the one it
 * comes from.
 */
static void find_aliases(ole_plan *plan) {
    const ole_graph *graph = plan->graph;
    for (int i = 1; i < graph->nodes; i++) {
        int source = graph->node[i].input[0];
        if (!plan->step[i].op.y_extends_x || source <= 0) continue;
        ole_lifetime *x = output_of(plan, source);
        if (x->alias >= 0) continue; /* already extended by an earlier node */
        x->alias = i;
        plan->step[source].shared = plan->step[i].shared = true;
    }
    for (int i = 1; i < graph->nodes; i++) {
        const step *s = &plan->step[i];
        int source = graph->node[i].input[0];
        if (source < 0) continue;
        ole_lifetime *x = output_of(plan, source), *y = output_of(plan, i);
        if (s->op.in_place && source > 0 && x->last == i && x->bytes >= y->bytes &&
            !plan->step[source].shared)
            y->alias = source;
        ole_lifetime *dx = gradient_of(plan, source), *dy = gradient_of(plan, i);
        if (s->op.dx_in_place && dx->bytes && dy->bytes >= dx->bytes &&
            plan->step[source].first_writer == i)
            dx->alias = graph->nodes + i;
    }
}

/* ---- planning ----------------------------------------------------------------------------- */

static ole_status plan_ops(ole_plan *plan, size_t *scratch, ole_error *error) {
    const ole_graph *graph = plan->graph;
    for (int i = 0; i < graph->nodes; i++) {
        const ole_node *node = &graph->node[i];
        ole_layout layouts[OLE_MAX_INPUTS] = {NULL};
        bool needs_dx = false;
        for (int k = 0; k < OLE_MAX_INPUTS; k++) {
            if (node->input[k] < 0) continue;
            layouts[k] = plan->step[node->input[k]].op.y_layout;
            needs_dx |= plan->step[node->input[k]].needs_gradient;
        }
        step *s = &plan->step[i];
        ole_status status = plan->backend->plan_op(plan->context, node, plan->batch, plan->train,
                                                   needs_dx, layouts, &s->op, error);
        if (status != OLE_OK) return status;
        s->planned = true;
        if (s->op.scratch_bytes > *scratch) *scratch = s->op.scratch_bytes;
    }
    return OLE_OK;
}

static ole_status allocate_block(ole_plan *plan, size_t scratch, ole_error *error) {
    int count = 3 * plan->graph->nodes;
    plan->unshared = ole_sum_all(plan->lifetime, count) + scratch;
    size_t block = ole_place_all(plan->lifetime, count);
    bool direct = plan->backend->element_size == sizeof(float) && !plan->backend->own_memory;
    size_t images = direct ? 0 : plan->step[0].op.y_bytes;
    if (block != SIZE_MAX) {
        plan->bytes = block + scratch + images;
        /* Host memory is touched at once, and the kernel kills a process that touches too much. */
        char what[48];
        snprintf(what, sizeof what, "a batch of %lld", (long long)plan->batch);
        const char *remedy =
            plan->train ? "use a smaller batch (--batch-size), smaller images or a smaller net"
                        : "close other programs, or use smaller images or a smaller net";
        ole_status status = OLE_OK;
        if (!plan->backend->own_memory) status = ole_memory_check(plan->bytes, what, remedy, error);
        if (status != OLE_OK) return status;
        plan->block = plan->backend->allocate(plan->context, block + 64);
        plan->scratch = plan->backend->allocate(plan->context, scratch + 64);
        if (images) plan->input = plan->backend->allocate(plan->context, images);
    }
    if (!plan->block || !plan->scratch || (images && !plan->input))
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory: a batch of %lld needs %.3g GiB; use a smaller one",
                        (long long)plan->batch, (double)plan->bytes / 1073741824.0);
    return OLE_OK;
}

ole_status ole_plan_create(ole_plan **result, const ole_graph *graph, ole_params *params,
                           const ole_backend *backend, ole_device_context *context,
                           const ole_plan_options *options, ole_error *error) {
    *result = NULL;
    if (options->batch < 1)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "batch size %lld: must be at least 1",
                        (long long)options->batch);
    size_t nodes = (size_t)graph->nodes;
    ole_plan *plan = calloc(1, sizeof *plan);
    step *steps = calloc(nodes, sizeof *steps);
    ole_lifetime *lifetimes = calloc(3 * nodes, sizeof *lifetimes);
    if (!plan || !steps || !lifetimes) {
        free(plan);
        free(steps);
        free(lifetimes);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the network's plan");
    }
    *plan = (ole_plan){.graph = graph,
                       .params = params,
                       .backend = backend,
                       .context = context,
                       .batch = options->batch,
                       .train = options->train,
                       .share = options->share,
                       .smoothing = options->smoothing,
                       .step = steps,
                       .lifetime = lifetimes,
                       .skipped = -1};
    find_gradients(plan);
    steps[graph->features].read = true;
    steps[graph->classifier].read = true;
    for (int t = 0; t < options->taps; t++)
        steps[options->tap[t]].read = true;
    size_t scratch = 0;
    ole_status status = plan_ops(plan, &scratch, error);
    if (status == OLE_OK) {
        find_lifetimes(plan);
        find_aliases(plan);
        status = allocate_block(plan, scratch, error);
    }
    if (status == OLE_OK)
        *result = plan;
    else
        ole_plan_free(plan);
    return status;
}

void ole_plan_free(ole_plan *plan) {
    if (!plan) return;
    for (int i = 0; i < plan->graph->nodes; i++)
        if (plan->step[i].planned) plan->backend->release_op(plan->context, &plan->step[i].op);
    void *memory[] = {plan->block, plan->scratch, plan->input};
    for (int k = 0; k < 3; k++)
        if (memory[k]) plan->backend->free(plan->context, memory[k]);
    free(plan->step);
    free(plan->lifetime);
    free(plan);
}

/* ---- running ------------------------------------------------------------------------------ */

static void *memory_of(const ole_plan *plan, const ole_lifetime *t) {
    return t->bytes ? plan->block + t->offset : NULL;
}

static const void *output_memory(const ole_plan *plan, int i) {
    return i == 0 ? plan->images : memory_of(plan, output_of(plan, i));
}

/* The arguments that forward and backward of a node share. */
static ole_op_call call_of(const ole_plan *plan, int i, bool train) {
    const ole_node *node = &plan->graph->node[i];
    ole_op_call call = {.y = memory_of(plan, output_of(plan, i)),
                        .saved = memory_of(plan, saved_of(plan, i)),
                        .scratch = plan->scratch,
                        .train = train,
                        .step = plan->step_number,
                        .share = plan->share};
    for (int k = 0; k < OLE_MAX_INPUTS; k++)
        if (node->input[k] >= 0) call.x[k] = output_memory(plan, node->input[k]);
    for (int p = 0; p < node->params; p++) {
        call.param[p] = ole_params_data(plan->params, node->first_param + p);
        call.dparam[p] = ole_params_gradient(plan->params, node->first_param + p);
    }
    return call;
}

typedef void op_function(ole_device_context *context, const ole_node *node, const ole_op_plan *plan,
                         const ole_op_call *call);

/* Runs one op unless it is skipped; adds its time to `times` if measuring. */
static void run(ole_plan *plan, int i, op_function *function, const ole_op_call *call,
                double *times) {
    const ole_node *node = &plan->graph->node[i];
    if ((int)node->op == plan->skipped && (times == plan->times.backward) == plan->skip_backward)
        return;
    double start = plan->measure ? ole_clock() : 0.0;
    function(plan->context, node, &plan->step[i].op, call);
    if (plan->measure) times[node->op] += ole_clock() - start;
}

/* images NULL: they are in plan->input already. */
static void begin_forward(ole_plan *plan, const float *images, uint64_t step_number) {
    plan->images = plan->input ? plan->input : images;
    plan->step_number = step_number;
    if (plan->input && images)
        plan->backend->from_plain(plan->context, plan->step[0].op.y_layout, plan->batch,
                                  plan->graph->node[0].out, images, false, plan->input);
    for (int i = 0; i < plan->graph->nodes; i++)
        plan->step[i].written = false;
}

/* A batch norm that is frozen, behind frozen layers only, keeps its statistics: it runs as in
 * evaluation. */
static bool is_still(const ole_plan *plan, int i) {
    const ole_node *node = &plan->graph->node[i];
    if (node->op != OLE_OP_NORM || plan->step[i].needs_gradient) return false;
    for (int p = 0; p < node->params; p++)
        if (!ole_params_is_frozen(plan->params, node->first_param + p)) return false;
    return true;
}

static void forward_node(ole_plan *plan, int i, bool train) {
    ole_op_call call = call_of(plan, i, train && !is_still(plan, i));
    run(plan, i, plan->backend->forward, &call, plan->times.forward);
}

void ole_plan_forward(ole_plan *plan, const float *images, bool train, uint64_t step_number) {
    begin_forward(plan, images, step_number);
    for (int i = 1; i < plan->graph->nodes; i++)
        forward_node(plan, i, train);
}

void ole_plan_read(const ole_plan *plan, int node, float *plain) {
    plan->backend->to_plain(plan->context, plan->step[node].op.y_layout, plan->batch,
                            plan->graph->node[node].out, output_memory(plan, node), plain);
}

void ole_plan_softmax(ole_plan *plan, const int32_t *labels, const ole_mix *mix, double scale,
                      float *scores, double *loss, int64_t *correct) {
    int c = plan->graph->classifier;
    void *dlogits = scale != 0.0 ? memory_of(plan, gradient_of(plan, c)) : NULL;
    plan->backend->softmax_loss(plan->context, plan->batch, plan->graph->classes,
                                output_memory(plan, c), labels, mix, plan->smoothing, scale,
                                dlogits, scores, loss, correct);
    plan->step[c].written = dlogits != NULL;
}

void *ole_plan_gradient(ole_plan *plan, int node, bool *accumulate) {
    step *s = &plan->step[node];
    if (!s->needs_gradient) return NULL;
    *accumulate = s->written;
    s->written = true;
    return memory_of(plan, gradient_of(plan, node));
}

void ole_plan_add_gradient(ole_plan *plan, int node, const float *gradient) {
    bool accumulate;
    void *memory = ole_plan_gradient(plan, node, &accumulate);
    if (memory)
        plan->backend->from_plain(plan->context, plan->step[node].op.y_layout, plan->batch,
                                  plan->graph->node[node].out, gradient, accumulate, memory);
}

void ole_plan_backward(ole_plan *plan, int i) {
    const ole_node *node = &plan->graph->node[i];
    const step *s = &plan->step[i];
    bool reached = i > 0 && s->written && s->needs_gradient;
    if (reached) {
        ole_op_call call = call_of(plan, i, true);
        call.dy = memory_of(plan, gradient_of(plan, i));
        for (int k = 0; k < OLE_MAX_INPUTS; k++)
            if (node->input[k] >= 0)
                call.dx[k] = ole_plan_gradient(plan, node->input[k], &call.accumulate[k]);
        run(plan, i, plan->backend->backward, &call, plan->times.backward);
    }
    for (int p = 0; p < node->params; p++)
        ole_params_mark(plan->params, node->first_param + p, reached);
    if (i == 0 && plan->backend->backward_done) plan->backend->backward_done(plan->context);
}

/* ---- recorded steps ----------------------------------------------------------------------- */

void *ole_plan_input(const ole_plan *plan) {
    return plan->input;
}

void ole_plan_queue_softmax(ole_plan *plan, const int32_t *labels, const ole_mix *mix,
                            double scale) {
    int c = plan->graph->classifier;
    void *dlogits = scale != 0.0 ? memory_of(plan, gradient_of(plan, c)) : NULL;
    plan->backend->recorder->softmax(plan->context, plan->step[c].op.y_layout,
                                     output_memory(plan, c), labels, mix, plan->smoothing, scale,
                                     dlogits);
    plan->step[c].written = dlogits != NULL;
}

const void *ole_plan_output(const ole_plan *plan, int node) {
    return output_memory(plan, node);
}

ole_layout ole_plan_layout(const ole_plan *plan, int node) {
    return plan->step[node].op.y_layout;
}

/* ---- inspection --------------------------------------------------------------------------- */

/*
 * Ranks with shared batch norm run every node, even after one has found something: the others wait
 * for its sums.
 */
int ole_plan_find_bad(ole_plan *plan, const float *images, uint64_t step_number) {
    int64_t largest = 1;
    for (int i = 0; i < plan->graph->nodes; i++) {
        int64_t size = plan->batch * ole_shape_size(plan->graph->node[i].out);
        if (size > largest) largest = size;
    }
    float *plain = malloc((size_t)largest * sizeof *plain);
    int found = -1;
    begin_forward(plan, images, step_number);
    bool shared = plan->share && plan->share->norm;
    for (int i = 0; i < plan->graph->nodes && (shared || (found < 0 && plain)); i++) {
        if (i > 0) forward_node(plan, i, true);
        if (found >= 0 || !plain) continue;
        ole_plan_read(plan, i, plain);
        int64_t size = plan->batch * ole_shape_size(plan->graph->node[i].out);
        for (int64_t e = 0; e < size; e++)
            if (!isfinite(plain[e])) found = i;
    }
    free(plain);
    return found;
}

void ole_plan_skip(ole_plan *plan, int op, bool backward) {
    plan->skipped = op;
    plan->skip_backward = backward;
}

void ole_plan_measure(ole_plan *plan, bool on) {
    plan->measure = on;
}

ole_plan_times ole_plan_get_times(ole_plan *plan) {
    ole_plan_times times = plan->times;
    plan->times = (ole_plan_times){0};
    return times;
}

size_t ole_plan_bytes(const ole_plan *plan) {
    return plan->bytes;
}

size_t ole_plan_bytes_unshared(const ole_plan *plan) {
    return plan->unshared;
}
