/*
 * src/device/cuda/ops/pool.cu - max and average pooling, as PyTorch's with ceil_mode off.
 *
 * Where a window reaches into the padding, the maximum is over the pixels that exist; the average
 * counts the others as zeros.  Max pooling saves one byte per output: the position of the maximum
 * in its window (the first of equal values; NaN is larger than everything).  Backward runs over dx:
 * a thread gathers the gradients of the windows around its pixel, in the order of the windows.
 */
#include "device/cuda/ops/kernels.cuh"

extern "C" {
#include "base/error.h"
}

namespace {

/* Sizes of a call: x [n, h, w, groups * 8], y [n, out_h, out_w, groups * 8]. */
struct pool_shape {
    int n, h, w, out_h, out_w, groups;
    int kernel, stride, pad; /* of the whole image: one window, as large as it is wide and high */
    int kernel_h;            /* kernel, but for the whole image */
    float factor;            /* average: 1 / pixels of a window, those in the padding too */
};

/* What thread `i` works on: eight channels of a pixel of an image that is `h` by `w`. */
struct pool_place {
    int group, column, row, image;

    __device__ pool_place(int64_t i, int groups, int h, int w) {
        group = (int)(i % groups);
        int64_t pixel = i / groups;
        column = (int)(pixel % w);
        row = (int)(pixel / w % h);
        image = (int)(pixel / w / h);
    }
};

/* Vector of a pixel of image `image`. */
__device__ int64_t vector_at(int image, int row, int column, int h, int w, int groups, int group) {
    return (((int64_t)image * h + row) * w + column) * groups + group;
}

/* ---- forward ------------------------------------------------------------------------------ */

__device__ void clear(float (&f)[8], float value) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        f[k] = value;
}

/* saved: eight bytes a vector, or NULL. */
template <class T>
__global__ void max_forward(const void *x, pool_shape s, void *y, uint2 *saved, int64_t count) {
    FOR_EACH(i, count) {
        pool_place at(i, s.groups, s.out_h, s.out_w);
        int top = at.row * s.stride - s.pad, left = at.column * s.stride - s.pad;
        float best[8];
        uint32_t where[8] = {0, 0, 0, 0, 0, 0, 0, 0};
        bool any = false;
        clear(best, 0.0f);
        for (int r = max(top, 0); r < min(top + s.kernel_h, s.h); r++)
            for (int c = max(left, 0); c < min(left + s.kernel, s.w); c++) {
                float value[8];
                uint32_t here = (uint32_t)((r - top) * s.kernel + c - left);
                load8<T>(x, vector_at(at.image, r, c, s.h, s.w, s.groups, at.group), value);
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    bool above = value[k] > best[k] || (isnan(value[k]) && !isnan(best[k]));
                    bool better = !any || above;
                    best[k] = better ? value[k] : best[k];
                    where[k] = better ? here : where[k];
                }
                any = true;
            }
        store8<T>(y, i, best);
        if (saved)
            saved[i] = make_uint2(where[0] | where[1] << 8 | where[2] << 16 | where[3] << 24,
                                  where[4] | where[5] << 8 | where[6] << 16 | where[7] << 24);
    }
}

template <class T>
__global__ void average_forward(const void *x, pool_shape s, void *y, int64_t count) {
    FOR_EACH(i, count) {
        pool_place at(i, s.groups, s.out_h, s.out_w);
        int top = at.row * s.stride - s.pad, left = at.column * s.stride - s.pad;
        float sum[8];
        clear(sum, 0.0f);
        for (int r = max(top, 0); r < min(top + s.kernel_h, s.h); r++)
            for (int c = max(left, 0); c < min(left + s.kernel, s.w); c++)
                add_to(sum, load8<T>(x, vector_at(at.image, r, c, s.h, s.w, s.groups, at.group)));
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[k] *= s.factor;
        store8<T>(y, i, sum);
    }
}

/* The whole image: a block sums up to 32 groups of one image, `rows` threads each. */
template <class T>
__global__ void average_image(const void *x, int area, int groups, int width, float factor,
                              void *y) {
    __shared__ float part[EACH_THREADS][9]; /* 9: neighbours in different banks */
    int rows = EACH_THREADS / width, row = (int)threadIdx.x / width;
    int group = (int)blockIdx.x * width + (int)threadIdx.x % width;
    bool works = group < groups && row < rows;
    float sum[8];
    clear(sum, 0.0f);
#pragma unroll 4
    for (int p = row; works && p < area; p += rows)
        add_to(sum, load8<T>(x, ((int64_t)blockIdx.y * area + p) * groups + group));
#pragma unroll
    for (int k = 0; k < 8; k++)
        part[threadIdx.x][k] = sum[k];
    __syncthreads();
    if (row > 0 || !works) return;
    for (int r = 1; r < rows; r++)
#pragma unroll
        for (int k = 0; k < 8; k++)
            sum[k] += part[r * width + threadIdx.x][k];
#pragma unroll
    for (int k = 0; k < 8; k++)
        sum[k] *= factor;
    store8<T>(y, (int64_t)blockIdx.y * groups + group, sum);
}

/* ---- backward ----------------------------------------------------------------------------- */

/* The windows that hold a coordinate: `first` to `last`. */
struct window_range {
    int first, last;

    __device__ window_range(int at, int kernel, int stride, int pad, int windows) {
        int reach = at + pad - kernel + 1;
        first = reach > 0 ? (reach + stride - 1) / stride : 0;
        last = min((at + pad) / stride, windows - 1);
    }
};

/* dx (+)= sum, of a thread's vector. */
template <class T>
__device__ void put(void *dx, bool accumulate, int64_t i, float (&sum)[8]) {
    if (accumulate) add_to(sum, load8<T>(dx, i));
    store8<T>(dx, i, sum);
}

/* saved: NULL for the average. */
template <class T>
__global__ void pool_backward(const void *dy, const uint2 *saved, pool_shape s, bool accumulate,
                              void *dx, int64_t count) {
    FOR_EACH(i, count) {
        pool_place at(i, s.groups, s.h, s.w);
        window_range rows(at.row, s.kernel_h, s.stride, s.pad, s.out_h);
        window_range columns(at.column, s.kernel, s.stride, s.pad, s.out_w);
        float sum[8];
        clear(sum, 0.0f);
        for (int r = rows.first; r <= rows.last; r++)
            for (int c = columns.first; c <= columns.last; c++) {
                int64_t from = vector_at(at.image, r, c, s.out_h, s.out_w, s.groups, at.group);
                uint32_t here = (uint32_t)((at.row + s.pad - r * s.stride) * s.kernel + at.column +
                                           s.pad - c * s.stride);
                uint2 where = saved ? saved[from] : make_uint2(0, 0);
                float value[8];
                load8<T>(dy, from, value);
#pragma unroll
                for (int k = 0; k < 8; k++) {
                    uint32_t chosen = (k < 4 ? where.x : where.y) >> 8 * (k % 4) & 255;
                    if (!saved)
                        sum[k] = fmaf(value[k], s.factor, sum[k]);
                    else if (chosen == here)
                        sum[k] += value[k];
                }
            }
        put<T>(dx, accumulate, i, sum);
    }
}

/* ---- the ops ------------------------------------------------------------------------------ */

pool_shape shape_of(const cuda_call *c) {
    const cuda_layout &x = state_of(c)->x[0], &y = state_of(c)->y;
    const ole_node *node = c->node;
    bool whole = node->kernel == 0;
    pool_shape s = {x.n, x.h, x.w, y.h, y.w, x.part[0].pitch / 8, 0, 0, 0, 0, 0};
    s.kernel = whole ? x.w : node->kernel;
    s.kernel_h = whole ? x.h : node->kernel;
    s.stride = whole ? (x.h > x.w ? x.h : x.w) : node->stride;
    s.pad = whole ? 0 : node->pad;
    s.factor = (float)(1 / ((double)s.kernel * s.kernel_h));
    return s;
}

ole_status plan_max(const cuda_request *request, ole_op_plan *plan, ole_error *error) {
    if (request->node->kernel > 15)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "%s: max pooling over %dx%d; the limit is 15x15", request->node->name,
                        request->node->kernel, request->node->kernel);
    ole_status status = cuda_plan_state(request, plan, error);
    if (status == OLE_OK && request->train)
        plan->saved_bytes =
            (size_t)vectors_of(static_cast<const cuda_state *>(plan->state)->y) * sizeof(uint2);
    return status;
}

void run_max_forward(const cuda_call *c) {
    const cuda_state *s = state_of(c);
    int64_t count = vectors_of(s->y);
    uint2 *saved = s->train ? static_cast<uint2 *>(c->call->saved) : NULL;
    LAUNCH_EACH(c->context, s->y.type, count, max_forward, c->call->x[0], shape_of(c), c->call->y,
                saved);
}

void run_average_image(const cuda_call *c) {
    pool_shape s = shape_of(c);
    int width = s.groups < 32 ? s.groups : 32;
    dim3 grid((unsigned)((s.groups + width - 1) / width), (unsigned)s.n);
    for_type(state_of(c)->y.type, [&](auto element) {
        average_image<decltype(element)><<<grid, EACH_THREADS, 0, c->context->stream>>>(
            c->call->x[0], s.h * s.w, s.groups, width, s.factor, c->call->y);
    });
    cuda_launched(c->context, "average_image");
}

void run_average_forward(const cuda_call *c) {
    int64_t count = vectors_of(state_of(c)->y);
    if (c->node->kernel == 0 && state_of(c)->y.n <= 65535) {
        run_average_image(c);
        return;
    }
    LAUNCH_EACH(c->context, state_of(c)->y.type, count, average_forward, c->call->x[0], shape_of(c),
                c->call->y);
}

void run_backward(const cuda_call *c) {
    int64_t count = vectors_of(state_of(c)->x[0]);
    bool max = c->node->op == OLE_OP_MAXPOOL;
    const uint2 *saved = max ? static_cast<const uint2 *>(c->call->saved) : NULL;
    if (!c->call->dx[0]) return;
    LAUNCH_EACH(c->context, state_of(c)->y.type, count, pool_backward, c->call->dy, saved,
                shape_of(c), c->call->accumulate[0], c->call->dx[0]);
}

} // namespace

const cuda_op cuda_maxpool = {false, plan_max, run_max_forward, run_backward};
const cuda_op cuda_avgpool = {false, cuda_plan_state, run_average_forward, run_backward};
