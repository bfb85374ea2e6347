/*
 * src/device/cuda/ops/pointwise.cu - ops that move or change elements one by one: ReLU, addition
 * (with an optional ReLU behind it), dropout, flattening; and adding a bias.
 *
 * Padding needs no care in ReLU and addition: zeros give zeros.
 */
#include "device/cuda/ops/kernels.cuh"

extern "C" {
#include "base/error.h"
}
#include "base/philox.h"

namespace {

/* y's vectors of eight, one a thread. */
int64_t vectors_of(const cuda_call *c) {
    return vectors_of(state_of(c)->y);
}

/* ---- ReLU and addition -------------------------------------------------------------------- */

/* y = a + b, or a where b is NULL; rectified where `relu`. */
template <class T>
__global__ void add(const void *a, const void *b, bool relu, void *y, int64_t count) {
    FOR_EACH(i, count) {
        float sum[8];
        load8<T>(a, i, sum);
        if (b) add_to(sum, load8<T>(b, i));
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[k] = relu ? rectified(sum[k]) : sum[k];
        store8<T>(y, i, sum);
    }
}

/* Where a gradient goes. */
struct target {
    void *dx; /* NULL: nowhere */
    bool accumulate;
};

template <class T>
__device__ void put(target to, int64_t i, const float (&gradient)[8]) {
    float sum[8];
    if (!to.dx) return;
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum[k] = 0.0f;
    if (to.accumulate) load8<T>(to.dx, i, sum);
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum[k] += gradient[k];
    store8<T>(to.dx, i, sum);
}

/* dy where y > 0 (everywhere if y is NULL) to both targets, which may be dy or each other. */
template <class T>
__global__ void pass(const void *dy, const void *y, target first, target second, int64_t count) {
    FOR_EACH(i, count) {
        float gradient[8], value[8];
        load8<T>(dy, i, gradient);
        if (y) {
            load8<T>(y, i, value);
#pragma unroll
            for (int k = 0; k < 8; k++)
                gradient[k] = value[k] > 0.0f ? gradient[k] : 0.0f;
        }
        put<T>(first, i, gradient);
        put<T>(second, i, gradient);
    }
}

ole_status plan_relu(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    ole_status status = cuda_plan_state(request, plan, error);
    if (status == OLE_OK) plan->backward_reads_y = plan->in_place = plan->dx_in_place = true;
    return status;
}

ole_status plan_add(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    ole_status status = plan_relu(request, plan, error);
    if (status == OLE_OK) plan->backward_reads_y = request->node->relu;
    return status;
}

bool rectifies(const cuda_call *c) {
    return c->node->relu || c->node->op == OLE_OP_RELU;
}

/* A ReLU is an addition without a second input. */
void add_forward(const cuda_call *c) {
    LAUNCH_EACH(c->context, state_of(c)->y.type, vectors_of(c), add, c->call->x[0], c->call->x[1],
                rectifies(c), c->call->y);
}

void add_backward(const cuda_call *c) {
    bool relu = rectifies(c);
    target to[OLE_MAX_INPUTS];
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        to[k] = {c->call->dx[k], c->call->accumulate[k]};
        if (to[k].dx == c->call->dy && !relu) to[k].dx = NULL; /* in place, and nothing to cut */
    }
    if (!to[0].dx && !to[1].dx) return;
    LAUNCH_EACH(c->context, state_of(c)->y.type, vectors_of(c), pass, c->call->dy,
                relu ? c->call->y : NULL, to[0], to[1]);
}

/* ---- flattening --------------------------------------------------------------------------- */

/* An image of `area` pixels with `channels` values each, `pitch` apart, and the vector of `row`
 * elements that it becomes. */
struct flat_shape {
    int64_t area, channels, pitch, row;
};

/* y[n][c * area + p] = x[n][p][c]: eight neighbours of the vector from eight places. */
template <class T>
__global__ void flatten(const T *x, flat_shape s, void *y, int64_t count) {
    FOR_EACH(i, count) {
        int64_t n = i / (s.row / 8), first = i % (s.row / 8) * 8;
        float value[8];
#pragma unroll
        for (int k = 0; k < 8; k++) {
            int64_t c = (first + k) / s.area, p = (first + k) % s.area;
            value[k] = c < s.channels ? (float)x[(n * s.area + p) * s.pitch + c] : 0.0f;
        }
        store8<T>(y, i, value);
    }
}

template <class T>
__global__ void unflatten(const T *dy, flat_shape s, target to, int64_t count) {
    FOR_EACH(i, count) {
        int64_t pixel = i / (s.pitch / 8), first = i % (s.pitch / 8) * 8;
        int64_t n = pixel / s.area, p = pixel % s.area;
        float value[8];
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] =
                first + k < s.channels ? (float)dy[n * s.row + (first + k) * s.area + p] : 0.0f;
        put<T>(to, i, value);
    }
}

ole_status plan_flatten(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    ole_status status = cuda_plan_state(request, plan, error);
    if (status == OLE_OK)
        plan->in_place = plan->dx_in_place = request->node->in.h * request->node->in.w == 1;
    return status;
}

flat_shape flat_shape_of(const cuda_call *c) {
    const cuda_layout &x = state_of(c)->x[0];
    return {(int64_t)x.h * x.w, x.c, x.part[0].pitch, state_of(c)->y.part[0].pitch};
}

void flatten_forward(const cuda_call *c) {
    if (c->call->y == c->call->x[0]) return;
    LAUNCH_EACH(c->context, state_of(c)->y.type, vectors_of(c), flatten,
                static_cast<const decltype(element) *>(c->call->x[0]), flat_shape_of(c),
                c->call->y);
}

void flatten_backward(const cuda_call *c) {
    int64_t count = vectors_of(state_of(c)->x[0]);
    target to = {c->call->dx[0], c->call->accumulate[0]};
    if (!to.dx || to.dx == c->call->dy) return;
    LAUNCH_EACH(c->context, state_of(c)->y.type, count, unflatten,
                static_cast<const decltype(element) *>(c->call->dy), flat_shape_of(c), to);
}

/* ---- dropout ------------------------------------------------------------------------------ */

/* What decides which elements stay: element e of the whole batch, counted in plain order
 * [N, C, area], is word e % 4 of the counter (step * 2^20 + node, e / 4). */
struct dropout_draw {
    uint64_t seed;
    const cuda_clock *clock;
    int node;
    float rate;
    int64_t area, channels, pitch;
    int64_t first_row;
};

/* Bit k: channel k of vector i stays. */
__device__ uint32_t draw(const dropout_draw &d, int64_t i) {
    int64_t pixel = i / (d.pitch / 8), first = i % (d.pitch / 8) * 8;
    int64_t n = d.first_row + pixel / d.area, p = pixel % d.area;
    uint64_t a = (d.clock->step << 20) + (uint64_t)d.node, drawn = UINT64_MAX;
    uint32_t word[4] = {0, 0, 0, 0}, stays = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        uint64_t e = (uint64_t)((n * d.channels + first + k) * d.area + p);
        if (e / 4 != drawn) ole_philox(d.seed, OLE_RANDOM_DROPOUT, a, e / 4, word);
        drawn = e / 4;
        uint32_t mine = e % 4 == 0   ? word[0]
                        : e % 4 == 1 ? word[1]
                        : e % 4 == 2 ? word[2]
                                     : word[3];
        stays |= (uint32_t)(ole_uniform(mine) >= d.rate) << k;
    }
    return stays;
}

/* Saves a byte a vector: which of its channels stay. */
template <class T>
__global__ void drop(const void *x, dropout_draw d, float factor, uint8_t *saved, void *y,
                     int64_t count) {
    FOR_EACH(i, count) {
        float value[8];
        load8<T>(x, i, value);
        uint32_t stays = draw(d, i);
        if (saved) saved[i] = (uint8_t)stays;
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] = stays >> k & 1 ? value[k] * factor : 0.0f;
        store8<T>(y, i, value);
    }
}

template <class T>
__global__ void drop_gradient(const void *dy, const uint8_t *saved, float factor, target to,
                              int64_t count) {
    FOR_EACH(i, count) {
        float value[8];
        load8<T>(dy, i, value);
        uint32_t stays = saved[i];
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] = stays >> k & 1 ? value[k] * factor : 0.0f;
        put<T>(to, i, value);
    }
}

ole_status plan_dropout(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    ole_status status = cuda_plan_state(request, plan, error);
    if (status != OLE_OK) return status;
    const cuda_state *state = static_cast<const cuda_state *>(plan->state);
    plan->saved_bytes = request->train ? (size_t)vectors_of(state->y) : 0;
    plan->in_place = plan->dx_in_place = true;
    return OLE_OK;
}

float factor_of(const ole_node *node) {
    return (float)(1 / (1 - (double)node->rate));
}

void dropout_forward(const cuda_call *c) {
    const cuda_layout &x = state_of(c)->x[0];
    if (!c->call->train) {
        if (c->call->y != c->call->x[0]) add_forward(c); /* of nothing: a copy */
        return;
    }
    dropout_draw d = {c->context->options.seed, c->context->clock,
                      c->node->index,           c->node->rate,
                      (int64_t)x.h * x.w,       x.c,
                      x.part[0].pitch,          ole_first_row(c->call)};
    LAUNCH_EACH(c->context, x.type, vectors_of(c), drop, c->call->x[0], d, factor_of(c->node),
                static_cast<uint8_t *>(c->call->saved), c->call->y);
}

void dropout_backward(const cuda_call *c) {
    target to = {c->call->dx[0], c->call->accumulate[0]};
    if (!to.dx) return;
    LAUNCH_EACH(c->context, state_of(c)->y.type, vectors_of(c), drop_gradient, c->call->dy,
                static_cast<const uint8_t *>(c->call->saved), factor_of(c->node), to);
}

/* ---- a bias ------------------------------------------------------------------------------- */

template <class T>
__global__ void add_bias(const float *bias, int groups, void *y, int64_t count) {
    FOR_EACH(i, count) {
        float value[8];
        load8<T>(y, i, value);
        add_to(value, load8<float>(bias + (int)(i % groups) * 8, 0));
        store8<T>(y, i, value);
    }
}

} // namespace

extern "C" void cuda_add_bias(ole_device_context *context, const cuda_layout *layout,
                              const float *bias, void *y) {
    LAUNCH_EACH(context, layout->type, vectors_of(*layout), add_bias, bias,
                layout->part[0].pitch / 8, y);
}

const cuda_op cuda_relu = {false, plan_relu, add_forward, add_backward};
const cuda_op cuda_add = {false, plan_add, add_forward, add_backward};
const cuda_op cuda_dropout = {false, plan_dropout, dropout_forward, dropout_backward};
const cuda_op cuda_flatten = {false, plan_flatten, flatten_forward, flatten_backward};
