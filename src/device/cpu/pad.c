/*
 * src/device/cpu/pad.c - channels of zeros around those of the input (OLE_OP_PAD), in the layout
 * that a convolution of the output's shape has, so that the two can be added as they are.
 */
#include "base/error.h"
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct pad_state {
    cpu_state base;
    cpu_view x, y;
    int64_t first; /* channel of y */
} pad_state;

static ole_status plan_pad(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    const ole_node *node = r->node;
    ole_layout layout = cpu_best_layout(r->context, node->out);
    pad_state *s = cpu_state_create(r, layout, sizeof *s, plan);
    if (!s) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    s->x = cpu_view_images(r->context, r->x_layout[0], r->n, node->in);
    s->y = cpu_view_images(r->context, layout, r->n, node->out);
    s->first = ole_pad_first(node->in, node->out);
    return OLE_OK;
}

static void clear_slice(void *argument, int64_t task) {
    const cpu_call *c = argument;
    const cpu_view *y = &((const pad_state *)c->state)->y;
    int64_t first, length;
    cpu_slice(y->size, task, &first, &length);
    memset(cpu_at(y, c->call->y, first), 0, (size_t)length * y->item);
}

static void forward(const cpu_call *c) {
    const pad_state *s = c->state;
    cpu_parallel(c->context, cpu_slices(s->y.size), clear_slice, (void *)c);
    cpu_copy copy = {.from = s->x, .to = s->y, .to_first = s->first, .channels = s->x.channels};
    cpu_copy_channels(c->context, &copy, c->call->x[0], c->call->y);
}

static void backward(const cpu_call *c) {
    const pad_state *s = c->state;
    cpu_copy copy = {.from = s->y,
                     .to = s->x,
                     .from_first = s->first,
                     .channels = s->x.channels,
                     .accumulate = c->call->accumulate[0],
                     .pad = true};
    if (c->call->dx[0]) cpu_copy_channels(c->context, &copy, c->call->dy, c->call->dx[0]);
}

const cpu_op cpu_op_pad = {plan_pad, forward, backward};
