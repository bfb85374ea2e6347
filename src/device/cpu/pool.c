/*
 * src/device/cpu/pool.c - max and average pooling on blocks of channels, as in PyTorch with
 * ceil_mode off.
 *
 * Where a window reaches into the padding, the maximum ignores it and the average counts it as
 * zeros.  Max pooling saves one byte per output: which pixel of the window was the maximum.  The
 * first of equal values wins, and NaN beats everything.  A task is one group of one image.
 */
#include "base/error.h"
#include "base/min_max.h"
#include "device/cpu/cpu.h"

#include <string.h>

typedef struct pool_state {
    cpu_state base;
    cpu_view x, y;
} pool_state;

/* One call, shared by its tasks. */
typedef struct pool_run {
    const cpu_call *c;
    const pool_state *state;
    const cpu_kernels *kernels;
    bool max;
    float factor; /* average: 1 / pixels per window, including padding */
} pool_run;

static ole_status plan_pool(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    const ole_node *node = r->node;
    /* a plain image pooled to one pixel is a plain vector, with differently grouped channels */
    bool vector = node->out.h * node->out.w == 1 && cpu_item(r->context, r->x_layout[0]) == 4;
    ole_layout layout = vector ? NULL : r->x_layout[0];
    pool_state *state = cpu_state_create(r, layout, sizeof *state, plan);
    if (!state) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    state->x = cpu_view_images(r->context, r->x_layout[0], r->n, node->in);
    state->y = cpu_view_images(r->context, layout, r->n, node->out);
    if (vector) { /* group channels like x */
        state->y.width = state->x.width;
        state->y.groups = state->x.groups;
        state->y.group_stride = state->x.width;
    } else if (!layout && node->in.h * node->in.w == 1) {
        state->x.width = 1; /* a pixel that grows: one channel per group, like y */
        state->x.groups = node->in.c;
        state->x.group_stride = state->x.row_stride = 1;
    }
    return OLE_OK;
}

static ole_status plan_max(const cpu_plan_request *r, ole_op_plan *plan, ole_error *error) {
    if (r->node->kernel > 15)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "layer %s: a max pooling window of %dx%d is too large; the limit is 15x15",
                        r->node->name, r->node->kernel, r->node->kernel);
    ole_status status = plan_pool(r, plan, error);
    if (status == OLE_OK && r->train)
        plan->saved_bytes = (size_t)((const cpu_state *)plan->state)->y_size;
    return status;
}

static cpu_window window_of(const pool_run *p, int width, int64_t i, int64_t j) {
    const ole_node *node = p->c->node;
    cpu_window whole = {0, node->in.h, 0, node->in.w, node->in.w, p->state->x.row_stride, width};
    if (node->kernel == 0) return whole;
    int64_t top = i * node->stride - node->pad, left = j * node->stride - node->pad;
    whole.top = ole_max(top, 0);
    whole.bottom = ole_min(top + node->kernel, node->in.h);
    whole.left = ole_max(left, 0);
    whole.right = ole_min(left + node->kernel, node->in.w);
    return whole;
}

/* What a task handles: the offsets of its plane in x and y, and the channels per pixel. */
typedef struct plane {
    int64_t x, y;
    int width;
} plane;

static plane plane_of(const pool_run *p, int64_t task) {
    const cpu_view *x = &p->state->x, *y = &p->state->y;
    int64_t image = task / x->groups, group = task % x->groups;
    return (plane){image * x->image_stride + group * x->group_stride,
                   image * y->image_stride + group * y->group_stride, cpu_view_run(y, group).width};
}

/* Loops over the outputs of a plane: `w` is the window, `at` the offset in y. */
#define FOR_OUTPUTS(p, where, w, at)                                                               \
    for (int64_t i_ = 0, at = (where).y; i_ < (p)->c->node->out.h; i_++)                           \
        for (int64_t j_ = 0, go_ = 1; j_ < (p)->c->node->out.w;                                    \
             j_++, at += (p)->state->y.row_stride, go_ = 1)                                        \
            for (cpu_window w = window_of(p, (where).width, i_, j_); go_; go_ = 0)

static void forward_plane(void *argument, int64_t task) {
    const pool_run *p = argument;
    plane here = plane_of(p, task);
    const void *x = cpu_at(&p->state->x, p->c->call->x[0], here.x);
    uint8_t *saved = p->state->base.train ? p->c->call->saved : NULL;
    FOR_OUTPUTS(p, here, w, at) {
        void *y = cpu_at(&p->state->y, p->c->call->y, at);
        if (p->max)
            p->kernels->max_window(&w, x, y, saved ? saved + at : NULL);
        else
            p->kernels->sum_window(&w, x, p->factor, y);
    }
}

/* The plane of dx, to which windows add; cleared first unless gradients accumulate. */
static void *open_dx(const pool_run *p, plane here) {
    const cpu_view *x = &p->state->x;
    void *dx = cpu_at(x, p->c->call->dx[0], here.x);
    if (p->c->call->accumulate[0]) return dx;
    if (x->row_stride == x->width)
        memset(dx, 0, (size_t)(x->rows * x->width) * x->item);
    else /* a plain vector: one pixel */
        memset(dx, 0, (size_t)here.width * x->item);
    return dx;
}

static void backward_plane(void *argument, int64_t task) {
    const pool_run *p = argument;
    plane here = plane_of(p, task);
    const uint8_t *saved = p->c->call->saved;
    void *dx = open_dx(p, here);
    FOR_OUTPUTS(p, here, w, at) {
        const void *dy = cpu_at(&p->state->y, p->c->call->dy, at);
        if (p->max)
            p->kernels->max_spread(&w, dy, saved + at, dx);
        else
            p->kernels->sum_spread(&w, dy, p->factor, dx);
    }
}

static void run_planes(const cpu_call *c, cpu_task *task) {
    const ole_node *node = c->node;
    double pixels =
        node->kernel ? (double)node->kernel * node->kernel : (double)(node->in.h * node->in.w);
    const pool_state *state = c->state;
    pool_run p = {.c = c,
                  .state = state,
                  .kernels = cpu_kernels_of(c->context, state->base.x_layout[0]),
                  .max = node->op == OLE_OP_MAXPOOL,
                  .factor = (float)(1 / pixels)};
    cpu_parallel(c->context, p.state->x.images * p.state->x.groups, task, &p);
}

static void forward(const cpu_call *c) {
    run_planes(c, forward_plane);
}

static void backward(const cpu_call *c) {
    if (c->call->dx[0]) run_planes(c, backward_plane);
}

const cpu_op cpu_op_maxpool = {plan_max, forward, backward};
const cpu_op cpu_op_avgpool = {plan_pool, forward, backward};
