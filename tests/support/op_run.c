/* tests/support/op_run.c - one case of the op table on one backend. */
#include "op_cases.h"
#include "ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

/* A backend at work on a case, and the memory it has been given. */
typedef struct runner {
    const ole_backend *backend;
    ole_device_context *context;
    const op_case *c;
    ole_node node;
    ole_param param[OLE_MAX_PARAMS];
    ole_op_plan plan, source[OLE_MAX_INPUTS]; /* source: the convolution that an input comes from */
    void *x[OLE_MAX_INPUTS], *dx[OLE_MAX_INPUTS], *y, *dy, *saved, *scratch;
    void *params[OLE_MAX_PARAMS], *dparams[OLE_MAX_PARAMS];
    ole_share share;
} runner;

/* ---- numbers in and out --------------------------------------------------------------------- */

static float *to_floats(op_tensor t) {
    float *plain = malloc((size_t)(t.count + 1) * sizeof *plain);
    for (int64_t i = 0; i < t.count; i++)
        plain[i] = (float)t.at[i];
    return plain;
}

static void from_floats(op_tensor t, float *plain) {
    for (int64_t i = 0; i < t.count; i++)
        t.at[i] = (double)plain[i];
    free(plain);
}

/* Tensors of doubles are plain and pass unrounded. */
static bool passes_doubles(const runner *r) {
    return r->backend->element_size == sizeof(double);
}

static void load(const runner *r, ole_layout layout, ole_shape shape, op_tensor from, void *to) {
    if (passes_doubles(r)) {
        memcpy(to, from.at, (size_t)from.count * sizeof(double));
        return;
    }
    float *plain = to_floats(from);
    r->backend->from_plain(r->context, layout, r->c->n, shape, plain, false, to);
    free(plain);
}

static void store(const runner *r, ole_layout layout, ole_shape shape, const void *from,
                  op_tensor to) {
    if (passes_doubles(r)) {
        memcpy(to.at, from, (size_t)to.count * sizeof(double));
        return;
    }
    float *plain = to_floats(to);
    r->backend->to_plain(r->context, layout, r->c->n, shape, from, plain);
    from_floats(to, plain);
}

static void load_param(const runner *r, int p, op_tensor from, void *to) {
    if (passes_doubles(r)) {
        memcpy(to, from.at, (size_t)from.count * sizeof(double));
        return;
    }
    float *plain = to_floats(from);
    r->backend->param_from_plain(r->context, &r->node, &r->param[p], plain, to);
    free(plain);
}

static void store_param(const runner *r, int p, const void *from, op_tensor to) {
    if (passes_doubles(r)) {
        memcpy(to.at, from, (size_t)to.count * sizeof(double));
        return;
    }
    float *plain = to_floats(to);
    r->backend->param_to_plain(r->context, &r->node, &r->param[p], from, plain);
    from_floats(to, plain);
}

static void store_gradient(const runner *r, int p, const void *from, op_tensor to) {
    if (!r->backend->gradient_to_plain) {
        store_param(r, p, from, to);
        return;
    }
    float *plain = to_floats(to);
    r->backend->gradient_to_plain(r->context, &r->node, &r->param[p], from, plain);
    from_floats(to, plain);
}

/* ---- planning ------------------------------------------------------------------------------- */

/* Where input `i` comes from: a 3x3 convolution, so that it lies as the backend likes, or plain. */
static ole_status plan_source(runner *r, int i, bool blocked, ole_error *error) {
    blocked = blocked && r->c->op != OLE_OP_LINEAR;
    ole_shape shape = op_case_input(r->c, i);
    const ole_layout plain[OLE_MAX_INPUTS] = {NULL};
    ole_node source = {.op = blocked ? OLE_OP_CONV : OLE_OP_INPUT,
                       .input = {blocked ? 0 : -1, -1},
                       .in = shape,
                       .out = shape,
                       .kernel = 3,
                       .stride = 1,
                       .pad = 1,
                       .name = "source"};
    return r->backend->plan_op(r->context, &source, r->c->n, true, true, plain, &r->source[i],
                               error);
}

static ole_status plan_all(runner *r, op_way way, ole_error *error) {
    ole_layout layouts[OLE_MAX_INPUTS] = {NULL};
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (r->node.input[i] < 0) continue;
        ole_status status = plan_source(r, i, way.blocked, error);
        if (status != OLE_OK) return status;
        layouts[i] = r->source[i].y_layout;
    }
    return r->backend->plan_op(r->context, &r->node, r->c->n, !way.eval, !way.only_dparam, layouts,
                               &r->plan, error);
}

static void *take(const runner *r, size_t bytes) {
    return r->backend->allocate(r->context, bytes);
}

static void place_all(runner *r, op_way way, const op_data *data) {
    bool y_fits = r->plan.y_bytes <= r->source[0].y_bytes;
    bool y_in_place = way.in_place && r->plan.in_place && y_fits && !r->plan.backward_reads_x;
    bool dx_in_place = way.in_place && r->plan.dx_in_place && !way.accumulate &&
                       r->source[0].y_bytes <= r->plan.y_bytes;
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (r->node.input[i] < 0) continue;
        r->x[i] = take(r, r->source[i].y_bytes);
        load(r, r->source[i].y_layout, op_case_input(r->c, i), data->tensor[OP_X + i], r->x[i]);
    }
    r->y = y_in_place ? r->x[0] : take(r, r->plan.y_bytes);
    r->dy = take(r, r->plan.y_bytes);
    load(r, r->plan.y_layout, r->node.out, data->tensor[OP_DY], r->dy);
    for (int i = 0; i < OLE_MAX_INPUTS; i++) {
        if (r->node.input[i] < 0) continue;
        bool over_dy = i == 0 && dx_in_place;
        r->dx[i] = over_dy ? r->dy : take(r, r->source[i].y_bytes);
        if (!over_dy)
            load(r, r->source[i].y_layout, op_case_input(r->c, i), data->tensor[OP_DX + i],
                 r->dx[i]);
    }
    for (int p = 0; p < r->node.params; p++) {
        size_t bytes = r->backend->param_bytes(r->context, &r->node, &r->param[p]);
        r->params[p] = take(r, bytes);
        r->dparams[p] = take(r, bytes);
        load_param(r, p, data->tensor[OP_PARAM + p], r->params[p]);
    }
    r->saved = take(r, r->plan.saved_bytes);
    r->scratch = take(r, r->plan.scratch_bytes);
}

static void free_all(runner *r) {
    void *all[] = {r->y == r->x[0] ? NULL : r->y,
                   r->dx[0] == r->dy ? NULL : r->dx[0],
                   r->x[0],
                   r->x[1],
                   r->dx[1],
                   r->dy,
                   r->saved,
                   r->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) r->backend->free(r->context, all[i]);
    for (int p = 0; p < r->node.params; p++) {
        r->backend->free(r->context, r->params[p]);
        r->backend->free(r->context, r->dparams[p]);
    }
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        if (r->node.input[i] >= 0) r->backend->release_op(r->context, &r->source[i]);
    r->backend->release_op(r->context, &r->plan);
}

/* ---- running -------------------------------------------------------------------------------- */

/* A sum over two ranks: the other's numbers are ours. */
static void add_other(ole_ranks *ranks, void *data, int64_t count, ole_dtype type) {
    (void)ranks, (void)type;
    for (int64_t i = 0; i < count; i++)
        ((double *)data)[i] *= 2;
}

static ole_op_call call_of(const runner *r, op_way way) {
    ole_op_call call = {.y = r->y,
                        .saved = r->plan.saved_bytes ? r->saved : NULL,
                        .scratch = r->scratch,
                        .train = !way.eval,
                        .step = way.step,
                        .share = way.shared ? &r->share : NULL};
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        call.x[i] = r->x[i];
    for (int p = 0; p < r->node.params; p++)
        call.param[p] = r->params[p];
    return call;
}

static void run_backward(const runner *r, op_way way, op_data *data) {
    ole_op_call call = call_of(r, way);
    call.dy = r->dy;
    for (int i = 0; i < OLE_MAX_INPUTS && !way.only_dparam; i++) {
        call.dx[i] = r->dx[i];
        call.accumulate[i] = way.accumulate;
    }
    for (int p = 0; p < r->node.params && !way.only_dx; p++)
        if (r->param[p].trained) call.dparam[p] = r->dparams[p];
    r->backend->backward(r->context, &r->node, &r->plan, &call);
    if (r->backend->backward_done) r->backend->backward_done(r->context);
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        if (call.dx[i])
            store(r, r->source[i].y_layout, op_case_input(r->c, i), r->dx[i],
                  data->tensor[OP_DX + i]);
    for (int p = 0; p < r->node.params; p++)
        if (call.dparam[p]) store_gradient(r, p, r->dparams[p], data->tensor[OP_DPARAM + p]);
}

ole_status op_run(const ole_backend *backend, ole_device_context *context, const op_case *c,
                  op_way way, op_data *data, ole_error *error) {
    static const ole_ranks_table table = {.sum = add_other};
    ole_ranks ranks = {.table = &table, .size = 2};
    double seconds = 0.0;
    runner r = {
        .backend = backend,
        .context = context,
        .c = c,
        .share =
            {.first_row = 3, .rows = 2 * c->n, .norm = true, .ranks = &ranks, .seconds = &seconds},
    };
    r.node = op_case_node(c, r.param);
    ole_status status = plan_all(&r, way, error);
    if (status != OLE_OK) return status;
    place_all(&r, way, data);
    ole_op_call call = call_of(&r, way);
    backend->forward(context, &r.node, &r.plan, &call);
    store(&r, r.plan.y_layout, r.node.out, r.y, data->tensor[OP_Y]);
    for (int p = 0; p < r.node.params; p++)
        store_param(&r, p, r.params[p], data->tensor[OP_PARAM + p]);
    if (!way.eval) run_backward(&r, way, data);
    free_all(&r);
    return OLE_OK;
}
