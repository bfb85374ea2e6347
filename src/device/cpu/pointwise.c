/*
 * src/device/cpu/pointwise.c - elementwise ops: ReLU, addition (with an optional ReLU), flattening,
 * dropout.
 *
 * ReLU and addition need no special care for padding: zeros give zeros.
 */
#include "base/error.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"

#include <string.h>

/* ---- loops over slices -------------------------------------------------------------------- */

/* Arguments of an elementwise kernel; each task handles one slice. */
typedef struct elements {
    const cpu_call *c;
    const void *a, *b;
    void *to;
    bool relu, accumulate;
    int64_t count;
    size_t item;
} elements;

/* A slice of the arrays. */
typedef struct slice {
    const cpu_kernels *kernels;
    const void *a, *b;
    void *to;
    int64_t first, length;
} slice;

static slice slice_of(const elements *e, int64_t task) {
    slice s;
    cpu_slice(e->count, task, &s.first, &s.length);
    int64_t skip = s.first * (int64_t)e->item;
    s.kernels = cpu_kernels_of(e->c->context, ((const cpu_state *)e->c->state)->y_layout);
    s.a = (const char *)e->a + skip;
    s.b = e->b ? (const char *)e->b + skip : NULL;
    s.to = (char *)e->to + skip;
    return s;
}

static void run_slices(const cpu_call *c, const elements *e, cpu_task *task) {
    elements copy = *e;
    copy.c = c;
    copy.count = ((const cpu_state *)c->state)->y_size;
    copy.item = ((const cpu_state *)c->state)->y_item;
    cpu_parallel(c->context, cpu_slices(copy.count), task, &copy);
}

static void relu_slice(void *argument, int64_t task) {
    slice s = slice_of(argument, task);
    s.kernels->relu(s.length, s.a, s.to);
}

static void add_slice(void *argument, int64_t task) {
    const elements *e = argument;
    slice s = slice_of(e, task);
    s.kernels->add(s.length, s.a, s.b, e->relu, s.to);
}

/* to (+)= a where b > 0 (everywhere if b is NULL) */
static void pass_slice(void *argument, int64_t task) {
    const elements *e = argument;
    slice s = slice_of(e, task);
    s.kernels->pass(s.length, s.a, s.b, e->accumulate, s.to);
}

/* ---- ReLU and addition -------------------------------------------------------------------- */

static ole_status plan_relu(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (!cpu_state_create(r, r->x_layout[0], sizeof(cpu_state), plan))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    plan->backward_reads_y = plan->in_place = plan->dx_in_place = true;
    return OLE_OK;
}

static void relu_forward(const cpu_call *c) {
    run_slices(c, &(elements){.a = c->call->x[0], .to = c->call->y}, relu_slice);
}

static void relu_backward(const cpu_call *c) {
    if (!c->call->dx[0]) return;
    elements e = {.a = c->call->dy,
                  .b = c->call->y,
                  .to = c->call->dx[0],
                  .accumulate = c->call->accumulate[0]};
    run_slices(c, &e, pass_slice);
}

/* A second input in another layout than the first is converted in scratch. */
static ole_status plan_add(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (!cpu_state_create(r, r->x_layout[0], sizeof(cpu_state), plan))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (r->x_layout[1] != r->x_layout[0]) plan->scratch_bytes = plan->y_bytes;
    plan->backward_reads_y = r->node->relu;
    plan->in_place = plan->dx_in_place = true;
    return OLE_OK;
}

static void add_forward(const cpu_call *c) {
    const cpu_state *s = c->state;
    elements e = {.a = c->call->x[0], .b = c->call->x[1], .to = c->call->y, .relu = c->node->relu};
    if (s->x_layout[1] != s->x_layout[0]) {
        cpu_convert(c->context, s->x_layout[1], s->x_layout[0], s->n, s->x_shape[1], e.b, false,
                    c->call->scratch);
        e.b = c->call->scratch;
    }
    run_slices(c, &e, add_slice);
}

static void pass_both_slice(void *argument, int64_t task) {
    const elements *e = argument;
    const ole_op_call *call = e->c->call;
    slice s = slice_of(e, task);
    int64_t skip = s.first * (int64_t)e->item;
    void *const dx[2] = {(char *)call->dx[0] + skip, (char *)call->dx[1] + skip};
    s.kernels->pass_both(s.length, s.a, s.b, call->accumulate, dx);
}

/* The gradient of one input, through scratch if its layout differs. */
static void add_backward_one(const cpu_call *c, int i) {
    const cpu_state *s = c->state;
    bool other = s->x_layout[i] != s->x_layout[0];
    elements e = {.a = c->call->dy,
                  .b = c->node->relu ? c->call->y : NULL,
                  .to = other ? c->call->scratch : c->call->dx[i],
                  .accumulate = !other && c->call->accumulate[i]};
    if (e.to == e.a && !c->node->relu) return; /* in place, and no ReLU to apply */
    run_slices(c, &e, pass_slice);
    if (other)
        cpu_convert(c->context, s->x_layout[0], s->x_layout[i], s->n, s->x_shape[i], e.to,
                    c->call->accumulate[i], c->call->dx[i]);
}

static void add_backward(const cpu_call *c) {
    const cpu_state *s = c->state;
    bool both = c->call->dx[0] && c->call->dx[1] && s->x_layout[0] == s->x_layout[1] &&
                c->call->dx[0] != c->call->dx[1];
    bool copy = c->call->dx[0] == c->call->dy && !c->node->relu;
    if (both && !copy) {
        elements e = {.a = c->call->dy, .b = c->node->relu ? c->call->y : NULL};
        run_slices(c, &e, pass_both_slice);
        return;
    }
    for (int i = 0; i < OLE_MAX_INPUTS; i++) /* masking dy twice changes nothing */
        if (c->call->dx[i]) add_backward_one(c, i);
}

/* ---- flattening --------------------------------------------------------------------------- */

static ole_status plan_flatten(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (!cpu_state_create(r, NULL, sizeof(cpu_state), plan))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    plan->in_place = plan->dx_in_place = !r->x_layout[0];
    return OLE_OK;
}

static void flatten_forward(const cpu_call *c) {
    const cpu_state *s = c->state;
    if (c->call->y != c->call->x[0])
        cpu_convert(c->context, s->x_layout[0], NULL, s->n, s->x_shape[0], c->call->x[0], false,
                    c->call->y);
}

static void flatten_backward(const cpu_call *c) {
    const cpu_state *s = c->state;
    if (c->call->dx[0] && c->call->dx[0] != c->call->dy)
        cpu_convert(c->context, NULL, s->x_layout[0], s->n, s->x_shape[0], c->call->dy,
                    c->call->accumulate[0], c->call->dx[0]);
}

/* ---- dropout ------------------------------------------------------------------------------ */

/* Saves one byte per element of y, in its layout: 1 if it stays. */
static ole_status plan_dropout(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (!cpu_state_create(r, r->x_layout[0], sizeof(cpu_state), plan))
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    plan->saved_bytes = r->train ? (size_t)((const cpu_state *)plan->state)->y_size : 0;
    plan->in_place = plan->dx_in_place = true;
    return OLE_OK;
}

/* Draws the mask of one image. Element e of the whole batch, in plain order, is decided by word e
 * % 4 of Philox counter e / 4. */
static void draw_image(void *argument, int64_t image) {
    const cpu_call *c = argument;
    const cpu_state *s = c->state;
    cpu_view v = cpu_view_images(c->context, s->y_layout, s->n, s->y_shape);
    uint8_t *mask = (uint8_t *)c->call->saved + image * v.image_stride;
    uint64_t a = (c->call->step << 20) + (uint64_t)c->node->index;
    uint64_t e = (uint64_t)((ole_first_row(c->call) + image) * ole_shape_size(s->y_shape));
    uint32_t word[4];
    ole_philox(c->context->options.seed, OLE_RANDOM_DROPOUT, a, e / 4, word);
    for (int64_t channel = 0; channel < v.channels; channel++)
        for (int64_t row = 0; row < v.rows; row++, e++) {
            if (e % 4 == 0)
                ole_philox(c->context->options.seed, OLE_RANDOM_DROPOUT, a, e / 4, word);
            mask[channel / v.width * v.group_stride + row * v.row_stride + channel % v.width] =
                ole_uniform(word[e % 4]) >= c->node->rate;
        }
}

static void mask_slice(void *argument, int64_t task) {
    const elements *e = argument;
    slice s = slice_of(e, task);
    const uint8_t *mask = (const uint8_t *)e->c->call->saved + s.first;
    float factor = (float)(1 / (1 - (double)e->c->node->rate));
    s.kernels->apply_mask(s.length, s.a, mask, factor, e->accumulate, s.to);
}

static void dropout_forward(const cpu_call *c) {
    const cpu_state *s = c->state;
    elements e = {.a = c->call->x[0], .to = c->call->y};
    if (!c->call->train) {
        if (e.to != e.a) memcpy(e.to, e.a, (size_t)s->y_size * s->y_item);
        return;
    }
    cpu_parallel(c->context, s->n, draw_image, (void *)c);
    run_slices(c, &e, mask_slice);
}

static void dropout_backward(const cpu_call *c) {
    if (!c->call->dx[0]) return;
    elements e = {.a = c->call->dy, .to = c->call->dx[0], .accumulate = c->call->accumulate[0]};
    run_slices(c, &e, mask_slice);
}

const cpu_op cpu_op_relu = {plan_relu, relu_forward, relu_backward};
const cpu_op cpu_op_add = {plan_add, add_forward, add_backward};
const cpu_op cpu_op_flatten = {plan_flatten, flatten_forward, flatten_backward};
const cpu_op cpu_op_dropout = {plan_dropout, dropout_forward, dropout_backward};
