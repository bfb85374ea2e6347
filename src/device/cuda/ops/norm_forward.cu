/*
 * src/device/cuda/ops/norm_forward.cu - kernels of batch norm's forward: sums of a batch,
 * statistics from them, y = relu((x - mean) * scale + beta + residual).
 *
 * The sums are of x less its first pixel, and of that squared: far less is lost of a variance that
 * is small beside the mean than by sums of x itself.  Where other ranks have parts of the batch,
 * each finds the moments of its own, moves them, in double, to a shift that all of them know, the
 * running mean, and the sums around that are added up.
 */
#include "device/cuda/ops/norm.cuh"

namespace {

/* What the block's first 16 threads know of their channels before the sums are ready. */
struct own_channel {
    float gamma, beta, running_mean, running_var, first;
};

/* y = (x - mean) * scale + beta */
struct affine {
    float mean[CHUNK_CHANNELS], scale[CHUNK_CHANNELS], beta[CHUNK_CHANNELS];
};

template <class T>
__device__ own_channel own_channel_of(const norm_forward &a) {
    int c = chunk_channel(a.pitch);
    own_channel own = {1.0f, 0.0f, 0.0f, 1.0f, 0.0f};
    if (c < 0) return own;
    if (a.gamma) own.gamma = a.gamma[c];
    if (a.beta) own.beta = a.beta[c];
    own.running_mean = a.running_mean[c];
    own.running_var = a.running_var[c];
    if (a.source == NORM_SUMS) own.first = (float)static_cast<const T *>(a.x)[c];
    return own;
}

__device__ chunk_moments brought_moments(const plain_view &view, const void *x, int c) {
    (void)view, (void)x, (void)c;
    return {0.0, 0.0}; /* one tensor brings none */
}

template <int GRAIN>
__device__ chunk_moments brought_moments(const stacked_view<GRAIN> &view, const void *x, int c) {
    int i = view.find(c);
    if (i < 0) return {0.0, 0.0}; /* padding */
    const double *from =
        reinterpret_cast<const double *>(static_cast<const char *>(x) + view.list[i].moments);
    int within = c - view.list[i].first;
    return {from[within], from[view.list[i].pitch + within]};
}

/* Moments of the whole batch from the sums over all ranks. */
__device__ chunk_moments shared_moments(const norm_forward &a, int c) {
    double distance = a.shared[c] * a.inverse_count;
    double rest = a.shared[a.pitch + c] - a.shared[c] * distance;
    return {a.shared[2 * a.pitch + c] + distance, rest < 0.0 ? 0.0 : rest}; /* NaN stays */
}

/* Statistics of a channel, stored by the chunk's first block, and the coefficients from them. */
__device__ void finish_channel(const norm_forward &a, const own_channel &own, chunk_moments m,
                               int c, affine &to) {
    const double eps = 1e-5, momentum = 0.1;
    bool batch = a.source != NORM_RUNNING;
    float mean = batch ? (float)m.mean : own.running_mean;
    double variance = batch ? m.squares * a.inverse_count : (double)own.running_var;
    float inverse = (float)rsqrt(variance + eps);
    to.mean[threadIdx.x] = mean;
    to.scale[threadIdx.x] = own.gamma * inverse;
    to.beta[threadIdx.x] = own.beta;
    if (!batch || blockIdx.x > 0) return;
    a.saved[c] = mean;
    a.saved[a.pitch + c] = inverse;
    double unbiased = m.squares * a.inverse_unbiased;
    a.running_mean[c] = (float)((1 - momentum) * (double)own.running_mean + momentum * m.mean);
    a.running_var[c] = (float)((1 - momentum) * (double)own.running_var + momentum * unbiased);
}

/* All threads: the affine map of the block's channels, from whatever the source is. */
template <class View>
__device__ void find_affine(const norm_forward &a, const View &view, const own_channel &own,
                            affine &to) {
    int c = chunk_channel(a.pitch);
    if (a.source == NORM_SUMS) {
        double total = chunk_total(a.partials, (int)gridDim.x);
        if (threadIdx.x < 32) {
            chunk_moments m = chunk_moments_of(total, a.inverse_count, own.first);
            if (c >= 0) finish_channel(a, own, m, c, to);
        }
    } else if (c >= 0) {
        chunk_moments m = {0.0, 0.0};
        if (a.source == NORM_MOMENTS) m = brought_moments(view, a.x, c);
        if (a.source == NORM_SHARED) m = shared_moments(a, c);
        finish_channel(a, own, m, c, to);
    }
    __syncthreads();
}

/* ---- the passes over pixels --------------------------------------------------------------- */

/* Partial sums of the block. */
template <class T, bool TILE>
__device__ void sum_pixels(const norm_forward &a, const plain_column<T> &column,
                           const chunk_place &at, const norm_tile<T> &tile) {
    float sums[16], first[8];
    enum { BATCH = norm_batch<T, plain_column<T>, 1>::STEPS };
    chunk_clear(sums);
    if (at.steps > 0) widen(column.load(a.x, 0), first);
    for (int s = 0; s < at.steps; s += BATCH) {
        vector8<T> x[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int step = min(s + b, at.steps - 1);
            x[b] = TILE ? tile.load(0, step) : column.load(a.x, at.pixel(step));
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float value[8];
            widen(x[b], value);
            if (s + b < at.steps) chunk_add_moments(sums, value, first);
        }
    }
    chunk_partial(sums, chunk_own(a.partials));
}

/* y of the block's pixels. */
template <class T, bool TILE, class Column>
__device__ void apply(const norm_forward &a, const Column &column, const chunk_place &at,
                      const norm_tile<T> &tile, const affine &of) {
    float mean[8], scale[8], beta[8];
    int64_t groups = a.pitch / 8;
    enum { BATCH = norm_batch<T, Column, 2>::STEPS };
    load_channels(of.mean, (int)(threadIdx.x & 1) * 8, mean);
    load_channels(of.scale, (int)(threadIdx.x & 1) * 8, scale);
    load_channels(of.beta, (int)(threadIdx.x & 1) * 8, beta);
    for (int s = 0; s < at.steps; s += BATCH) {
        vector8<T> x[BATCH], other[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int step = min(s + b, at.steps - 1), pixel = at.pixel(step);
            x[b] = TILE ? tile.load(0, step) : column.load(a.x, pixel);
            if (a.residual) other[b] = load8<T>(a.residual, pixel * groups + at.group);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float value[8];
            widen(x[b], value);
#pragma unroll
            for (int k = 0; k < 8; k++)
                value[k] = norm_value(value[k], mean[k], scale[k], beta[k]);
            if (a.residual) add_to(value, other[b]);
#pragma unroll
            for (int k = 0; k < 8; k++)
                value[k] = a.relu ? rectified(value[k]) : value[k];
            if (s + b < at.steps) store8<T>(a.y, at.pixel(s + b) * groups + at.group, value);
        }
    }
}

/* ---- kernels ------------------------------------------------------------------------------ */

template <class T>
__global__ void __launch_bounds__(CHUNK_THREADS, 1) norm_sums(norm_forward a) {
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    plain_column<T> column = plain_view{a.pitch}.column<T>(at.group);
    sum_pixels<T, false>(a, column, at, norm_tile<T>{NULL, 1});
}

template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS, 1) norm_apply(norm_forward a, View view) {
    __shared__ __align__(16) affine of;
    own_channel own = own_channel_of<T>(a);
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    auto column = view.template column<T>(at.group);
    find_affine(a, view, own, of);
    apply<T, false>(a, column, at, norm_tile<T>{NULL, 1}, of);
}

/* One block a chunk: sums of this rank's part around the shift, from partial sums of `blocks`
 * blocks or from the moments that x brings. */
template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS, 1)
    norm_share(norm_forward a, View view, int blocks) {
    int c = chunk_channel(a.pitch);
    own_channel own = own_channel_of<T>(a);
    double count = (double)a.pixels, total = 0.0;
    if (a.source == NORM_SUMS) total = chunk_total(a.partials, blocks);
    if (threadIdx.x >= 32) return;
    chunk_moments m = chunk_moments_of(total, 1.0 / count, own.first);
    if (c < 0) return;
    if (a.source == NORM_MOMENTS) m = brought_moments(view, a.x, c);
    double shift = (double)own.running_mean, distance = m.mean - shift;
    a.shared[c] = count * distance;
    a.shared[a.pitch + c] = m.squares + count * distance * distance;
    a.shared[2 * a.pitch + c] = shift;
}

/* Both, x being kept in shared memory between them. */
template <class T>
__global__ void __launch_bounds__(CHUNK_THREADS, 1) norm_fused(norm_forward a, norm_way way) {
    extern __shared__ uint4 kept[];
    __shared__ __align__(16) affine of;
    norm_tile<T> tile = {kept, 1};
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    plain_view view = {a.pitch};
    plain_column<T> column = view.column<T>(at.group);
    for (int s = 0; s < at.steps; s++)
        tile.fetch(0, s, column, a.x, at.pixel(s));
    __pipeline_commit();
    own_channel own = own_channel_of<T>(a);
    __pipeline_wait_prior(0);
    sum_pixels<T, true>(a, column, at, tile);
    norm_wait(way);
    find_affine(a, view, own, of);
    apply<T, true>(a, column, at, tile, of);
}

} // namespace

bool norm_knows_clusters(void) {
    cudaFuncAttributes own;
    cudaError_t code = cudaFuncGetAttributes(&own, norm_fused<float>);
    if (code != cudaSuccess) cudaGetLastError(); /* a grid is taken */
    return code == cudaSuccess && own.ptxVersion >= 90;
}

bool norm_forward_fits(cuda_type type, size_t tile) {
    return type == CUDA_FLOAT ? norm_fits(norm_fused<float>, tile)
                              : norm_fits(norm_fused<bfloat16>, tile);
}

void norm_run_forward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                      const norm_forward &a) {
    for_type(x.type, [&](auto element) {
        typedef decltype(element) T;
        if (a.source == NORM_SUMS && shape.way != NORM_TWO) {
            norm_launch(context, shape, norm_fused<T>, "norm_fused", a, shape.way);
            return;
        }
        if (a.source == NORM_SUMS) norm_launch(context, shape, norm_sums<T>, "norm_sums", a);
        for_view(x, [&](auto view) {
            norm_launch(context, shape, norm_apply<T, decltype(view)>, "norm_apply", a, view);
        });
    });
}

void norm_share_forward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                        const norm_forward &a) {
    norm_shape one = {NORM_TWO, 1, shape.chunks, 0};
    for_type(x.type, [&](auto element) {
        typedef decltype(element) T;
        if (a.source == NORM_SUMS) norm_launch(context, shape, norm_sums<T>, "norm_sums", a);
        for_view(x, [&](auto view) {
            norm_launch(context, one, norm_share<T, decltype(view)>, "norm_share", a, view,
                        shape.blocks);
        });
    });
}
