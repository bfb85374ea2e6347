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

enum { THREADS = 256 };

/* This thread's vectors of `count`. */
#define FOR_VECTORS(i, count)                                                                      \
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < (count);                     \
         i += (int64_t)gridDim.x * THREADS)

const cuda_state *state_of(const cuda_call *c) {
    return static_cast<const cuda_state *>(c->state);
}

/* y's vectors of eight, one a thread. */
int64_t vectors_of(const cuda_call *c) {
    return vectors_of(state_of(c)->y);
}

unsigned blocks_of(const cuda_call *c) {
    return blocks_for(c->context, vectors_of(c), THREADS);
}

ole_status plan_state(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    if (cuda_state_create(request, sizeof(cuda_state), plan)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
}

/* ---- ReLU and addition -------------------------------------------------------------------- */

/* y = a + b, or a where b is NULL; rectified where `relu`. */
template <class T>
__global__ void add(const void *a, const void *b, bool relu, void *y, int64_t count) {
    FOR_VECTORS(i, count) {
        float sum[8], other[8];
        load8<T>(a, i, sum);
        if (b) {
            load8<T>(b, i, other);
#pragma unroll
            for (int k = 0; k < 8; k++)
                sum[k] += other[k];
        }
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
    FOR_VECTORS(i, count) {
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
    ole_status status = plan_state(request, plan, error);
    if (status == OLE_OK) plan->backward_reads_y = plan->in_place = plan->dx_in_place = true;
    return status;
}

ole_status plan_add(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    ole_status status = plan_relu(request, plan, error);
    if (status == OLE_OK) plan->backward_reads_y = request->node->relu;
    return status;
}

/* ReLU too: an addition without a second input. */
void run_add(const cuda_call *c, bool relu) {
    for_type(state_of(c)->y.type, [&](auto element) {
        add<decltype(element)><<<blocks_of(c), THREADS, 0, c->context->stream>>>(
            c->call->x[0], c->call->x[1], relu, c->call->y, vectors_of(c));
    });
    cuda_launched(c->context, "add");
}

void run_pass(const cuda_call *c, bool relu) {
    target to[OLE_MAX_INPUTS];
    for (int k = 0; k < OLE_MAX_INPUTS; k++) {
        to[k] = {c->call->dx[k], c->call->accumulate[k]};
        if (to[k].dx == c->call->dy && !relu) to[k].dx = NULL; /* in place, and nothing to cut */
    }
    if (!to[0].dx && !to[1].dx) return;
    for_type(state_of(c)->y.type, [&](auto element) {
        pass<decltype(element)><<<blocks_of(c), THREADS, 0, c->context->stream>>>(
            c->call->dy, relu ? c->call->y : NULL, to[0], to[1], vectors_of(c));
    });
    cuda_launched(c->context, "pass");
}

void relu_forward(const cuda_call *c) {
    run_add(c, true);
}

void relu_backward(const cuda_call *c) {
    run_pass(c, true);
}

void add_forward(const cuda_call *c) {
    run_add(c, c->node->relu);
}

void add_backward(const cuda_call *c) {
    run_pass(c, c->node->relu);
}

/* ---- flattening --------------------------------------------------------------------------- */

/* An image of `area` pixels and `channels`, `pitch` a pixel, against a vector of `row` elements. */
struct flat_shape {
    int64_t area, channels, pitch, row;
};

/* y[n][c * area + p] = x[n][p][c]: eight neighbours of the vector from eight places. */
template <class T>
__global__ void flatten(const T *x, flat_shape s, void *y, int64_t count) {
    FOR_VECTORS(i, count) {
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
    FOR_VECTORS(i, count) {
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
    ole_status status = plan_state(request, plan, error);
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
    for_type(state_of(c)->y.type, [&](auto element) {
        typedef decltype(element) T;
        flatten<T><<<blocks_of(c), THREADS, 0, c->context->stream>>>(
            static_cast<const T *>(c->call->x[0]), flat_shape_of(c), c->call->y, vectors_of(c));
    });
    cuda_launched(c->context, "flatten");
}

void flatten_backward(const cuda_call *c) {
    int64_t count = vectors_of(state_of(c)->x[0]);
    target to = {c->call->dx[0], c->call->accumulate[0]};
    if (!to.dx || to.dx == c->call->dy) return;
    for_type(state_of(c)->y.type, [&](auto element) {
        typedef decltype(element) T;
        unflatten<T><<<blocks_for(c->context, count, THREADS), THREADS, 0, c->context->stream>>>(
            static_cast<const T *>(c->call->dy), flat_shape_of(c), to, count);
    });
    cuda_launched(c->context, "unflatten");
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
    FOR_VECTORS(i, count) {
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
    FOR_VECTORS(i, count) {
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
    ole_status status = plan_state(request, plan, error);
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
        if (c->call->y != c->call->x[0]) run_add(c, false);
        return;
    }
    dropout_draw d = {c->context->options.seed, c->context->clock,
                      c->node->index,           c->node->rate,
                      (int64_t)x.h * x.w,       x.c,
                      x.part[0].pitch,          ole_first_row(c->call)};
    for_type(x.type, [&](auto element) {
        drop<decltype(element)><<<blocks_of(c), THREADS, 0, c->context->stream>>>(
            c->call->x[0], d, factor_of(c->node), static_cast<uint8_t *>(c->call->saved),
            c->call->y, vectors_of(c));
    });
    cuda_launched(c->context, "drop");
}

void dropout_backward(const cuda_call *c) {
    target to = {c->call->dx[0], c->call->accumulate[0]};
    if (!to.dx) return;
    for_type(state_of(c)->y.type, [&](auto element) {
        drop_gradient<decltype(element)><<<blocks_of(c), THREADS, 0, c->context->stream>>>(
            c->call->dy, static_cast<const uint8_t *>(c->call->saved), factor_of(c->node), to,
            vectors_of(c));
    });
    cuda_launched(c->context, "drop_gradient");
}

/* ---- a bias ------------------------------------------------------------------------------- */

template <class T>
__global__ void add_bias(const float *bias, int groups, void *y, int64_t count) {
    FOR_VECTORS(i, count) {
        float value[8], b[8];
        load8<T>(y, i, value);
        load_channels(bias, (int)(i % groups) * 8, b);
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] += b[k];
        store8<T>(y, i, value);
    }
}

} // namespace

extern "C" void cuda_add_bias(ole_device_context *context, const cuda_layout *layout,
                              const float *bias, void *y) {
    int64_t count = vectors_of(*layout);
    for_type(layout->type, [&](auto element) {
        add_bias<decltype(element)>
            <<<blocks_for(context, count, THREADS), THREADS, 0, context->stream>>>(
                bias, layout->part[0].pitch / 8, y, count);
    });
    cuda_launched(context, "add_bias");
}

const cuda_op cuda_relu = {false, plan_relu, relu_forward, relu_backward};
const cuda_op cuda_add = {false, plan_add, add_forward, add_backward};
const cuda_op cuda_dropout = {false, plan_dropout, dropout_forward, dropout_backward};
const cuda_op cuda_flatten = {false, plan_flatten, flatten_forward, flatten_backward};
