/*
 * src/device/cpu/concat.c - concatenation along C; images go to the stacked layout (cpu.h).
 *
 * Forward, a stacked first input is copied in one piece with its moments, unless it is already in
 * place; the second input's channels follow, filling up the last block first, and their moments are
 * computed.  Backward, the gradient of a stacked first input is a prefix of dy and usually the same
 * memory, so only the few channels of the second are copied.  Lanes of that prefix beyond its last
 * channel hold gradients of other channels; nobody reads them.
 *
 * Vectors (H = W = 1) are copied in their own layout.
 */
#include "base/error.h"
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct concat_state {
    cpu_state base;
    cpu_view x[OLE_MAX_INPUTS], y;
    int64_t first[OLE_MAX_INPUTS]; /* first channel in y */
} concat_state;

static bool is_prefix(const concat_state *s) {
    return s->base.x_layout[0] == &cpu_stacked;
}

static ole_status plan_concat(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    ole_shape out = r->node->out;
    ole_layout layout = out.h * out.w > 1 ? &cpu_stacked : cpu_best_layout(r->context, out);
    concat_state *s = cpu_state_create(r, layout, sizeof *s, plan);
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < OLE_MAX_INPUTS; i++)
        s->x[i] = cpu_view_images(r->context, r->x_layout[i], r->n, r->x_shape[i]);
    s->y = cpu_view_images(r->context, layout, r->n, out);
    s->first[1] = r->x_shape[0].c;
    plan->dx_in_place = plan->y_extends_x = is_prefix(s);
    return OLE_OK;
}

/* ---- forward ------------------------------------------------------------------------------ */

typedef struct concat_run {
    const cpu_call *c;
    const concat_state *state;
    int input;
    int64_t count; /* elements to copy in one piece */
    const void *from;
    void *to;
} concat_run;

static void copy_slice(void *argument, int64_t task) {
    const concat_run *r = argument;
    int64_t first, length;
    cpu_slice(r->count, task, &first, &length);
    const cpu_view *view = &r->state->y;
    memcpy(cpu_at(view, r->to, first), cpu_at(view, r->from, first), (size_t)length * view->item);
}

static void copy_piece(const cpu_call *c, int64_t count, const void *from, void *to) {
    concat_run r = {.c = c, .state = c->state, .count = count, .from = from, .to = to};
    if (from != to) cpu_parallel(c->context, cpu_slices(count), copy_slice, &r);
}

/* Computes the moments of a group of an input and stores them with its channels in y. */
static void find_moments(void *argument, int64_t group) {
    const concat_run *r = argument;
    const concat_state *s = r->state;
    const cpu_view *x = &s->x[r->input];
    cpu_moments m = {0};
    const void *from = cpu_at(x, r->c->call->x[r->input], group * x->group_stride);
    const cpu_kernels *kernels = cpu_kernels_of(r->c->context, s->base.x_layout[r->input]);
    for (int64_t image = 0; image < x->images; image++)
        kernels->moments(cpu_view_run(x, group), cpu_at(x, from, image * x->image_stride), &m);
    for (int64_t i = 0; i < x->width && group * x->width + i < x->channels; i++) {
        int64_t channel = s->first[r->input] + group * x->width + i, lane = channel % s->y.width;
        double *to = cpu_stacked_moments(&s->y, r->c->call->y, channel / s->y.width);
        to[lane] = m.mean[i];
        to[s->y.width + lane] = m.squares[i];
    }
}

static void copy_input(const cpu_call *c, int i) {
    const concat_state *s = c->state;
    cpu_copy copy = {.from = s->x[i],
                     .to = s->y,
                     .to_first = s->first[i],
                     .channels = s->x[i].channels,
                     .pad = i == 1};
    cpu_copy_channels(c->context, &copy, c->call->x[i], c->call->y);
    concat_run r = {.c = c, .state = s, .input = i};
    if (c->call->train && s->base.y_layout == &cpu_stacked)
        cpu_parallel(c->context, s->x[i].groups, find_moments, &r);
}

static void forward(const cpu_call *c) {
    const concat_state *s = c->state;
    if (is_prefix(s))
        copy_piece(c, s->x[0].size, c->call->x[0], c->call->y);
    else
        copy_input(c, 0);
    copy_input(c, 1);
}

/* ---- backward ----------------------------------------------------------------------------- */

static void backward(const cpu_call *c) {
    const concat_state *s = c->state;
    for (int i = OLE_MAX_INPUTS - 1; i >= 0; i--) {
        if (!c->call->dx[i]) continue;
        bool add = c->call->accumulate[i];
        if (i == 0 && is_prefix(s) && !add) {
            copy_piece(c, s->x[0].size, c->call->dy, c->call->dx[0]);
            continue;
        }
        cpu_copy copy = {.from = s->y,
                         .to = s->x[i],
                         .from_first = s->first[i],
                         .channels = s->x[i].channels,
                         .accumulate = add,
                         .pad = true};
        cpu_copy_channels(c->context, &copy, c->call->dy, c->call->dx[i]);
    }
}

const cpu_op cpu_op_concat = {plan_concat, forward, backward};
