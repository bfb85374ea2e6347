/*
 * src/loss/criteria/cuda/rows.cu - rows and class vectors in float64, sorted and of unit length;
 * the way back from the gradient of the unit vectors; and the outcome.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

/* Vectors to read, and where they go: `plain` and `unit` may be NULL. */
struct Source {
    const float *from;
    const int *order, *used; /* NULL: `count` vectors as they lie */
    int count, dim;
    double *plain, *unit, *length;
};

/* A warp per vector. */
__global__ void __launch_bounds__(THREADS) read_vectors(const Source s) {
    int item = warp_item(), lane = lane_of();
    if (item >= (s.used ? *s.used : s.count)) return;
    const float *from = s.from + (int64_t)(s.order ? s.order[item] : item) * s.dim;
    int64_t to = (int64_t)item * s.dim;
    double square = 0.0; /* of floats: neither overflows nor vanishes */
    for (int d = lane; d < s.dim; d += LANES) {
        double v = (double)from[d];
        square = fma(v, v, square);
        if (s.plain) s.plain[to + d] = v;
    }
    if (!s.unit) return;
    double length = sqrt(warp_sum(square));
    for (int d = lane; d < s.dim; d += LANES)
        s.unit[to + d] = length == 0.0 ? 0.0 : (double)from[d] / length;
    if (lane == 0) s.length[item] = length;
}

__device__ void put(const ole_criterion_slopes &out, void *to, int64_t at, double v) {
    if (out.dtype == OLE_F64)
        static_cast<double *>(to)[at] = v;
    else
        static_cast<float *>(to)[at] = (float)v;
}

/* Through the length of a vector: by a block, for element d of the gradient dv. */
struct Chain {
    double along, length;
};

__device__ Chain chain_of(const double *dv, const double *v, double length, int dim) {
    double along = 0.0;
    for (int d = (int)threadIdx.x; d < dim; d += THREADS)
        along = fma(dv[d], v[d], along);
    return Chain{block_sum(along), length};
}

__device__ double through(const Chain &chain, double dv, double v) {
    return chain.length > 0.0 ? (dv - chain.along * v) / chain.length : 0.0;
}

/* Block i: zeros to row i where it is ignored, and the gradient of the row at place i. */
__global__ void __launch_bounds__(THREADS) row_gradients(const criterion_call c) {
    int i = (int)blockIdx.x;
    if (c.in.labels[i] < 0)
        for (int d = (int)threadIdx.x; d < c.dim; d += THREADS)
            put(c.out, c.out.dx, (int64_t)i * c.dim + d, 0.0);
    if (i >= *c.used) return;
    const double *du = c.du + i * c.du_pitch, *u = c.u ? c.u + (int64_t)i * c.dim : nullptr;
    int64_t to = (int64_t)c.order[i] * c.dim;
    Chain chain = {};
    if (c.unit) chain = chain_of(du, u, c.length[i], c.dim);
    double extra = c.along ? c.along[i] : 0.0;
    for (int d = (int)threadIdx.x; d < c.dim; d += THREADS) {
        double v = c.unit ? through(chain, du[d], u[d]) : du[d];
        if (c.along) v += extra * u[d];
        put(c.out, c.out.dx, to + d, c.out.weight * v);
    }
}

/* Block j: the gradient of class vector j and of its bias. */
__global__ void __launch_bounds__(THREADS) class_gradients(const criterion_call c) {
    int j = (int)blockIdx.x;
    int64_t at = (int64_t)j * c.dim;
    const double *dw = c.dunit_w + at, *w = c.unit ? c.unit_w + at : nullptr;
    Chain chain = {};
    if (c.unit) chain = chain_of(dw, w, c.w_length[j], c.dim);
    double extra = 0.0, bias = 0.0;
    if (c.lengths)
        extra = sum_places(c, [&](int p) { return c.logits[(int64_t)p * c.classes + j]; });
    if (!c.unit) bias = sum_places(c, [&](int p) { return c.dlogits[(int64_t)p * c.classes + j]; });
    for (int d = (int)threadIdx.x; d < c.dim; d += THREADS) {
        double v = c.unit ? through(chain, dw[d], w[d]) : dw[d];
        if (c.lengths) v += extra * w[d];
        put(c.out, c.out.dw, at + d, v);
    }
    if (threadIdx.x == 0) put(c.out, c.out.db, j, bias);
}

__global__ void __launch_bounds__(THREADS) finish(const criterion_call c) {
    __shared__ int first_bad;
    double value = sum_places(c, [&](int p) { return c.value[p]; });
    double right = sum_places(c, [&](int p) { return c.right ? (double)c.right[p] : 0.0; });
    if (threadIdx.x == 0) first_bad = c.rows;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < c.rows; i += THREADS)
        if (c.bad[i]) atomicMin(&first_bad, i);
    __syncthreads();
    if (threadIdx.x != 0) return;
    bool bad = first_bad < c.rows;
    *c.outcome = {bad ? nan("") : value, bad ? 0 : (int64_t)right, bad ? first_bad : -1};
}

} // namespace

cudaError_t criterion_sort_rows(const criterion_call *c, cudaStream_t stream) {
    const Source rows = {c->in.x, c->order, c->used, 0, c->dim, c->x, c->u, c->length};
    read_vectors<<<blocks_of(c->rows, WARPS), THREADS, 0, stream>>>(rows);
    return cudaGetLastError();
}

cudaError_t criterion_class_vectors(const criterion_call *c, cudaStream_t stream) {
    const Source vectors = {c->in.w, nullptr, nullptr,   c->classes,
                            c->dim,  c->w,    c->unit_w, c->w_length};
    read_vectors<<<blocks_of(c->classes, WARPS), THREADS, 0, stream>>>(vectors);
    return cudaGetLastError();
}

cudaError_t criterion_row_gradients(const criterion_call *c, cudaStream_t stream) {
    row_gradients<<<(unsigned)c->rows, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_class_gradients(const criterion_call *c, cudaStream_t stream) {
    class_gradients<<<(unsigned)c->classes, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_finish(const criterion_call *c, cudaStream_t stream) {
    finish<<<1, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
