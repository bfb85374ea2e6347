/*
 * src/device/cuda/ops/norm_backward.cu - kernels of batch norm's backward.
 *
 * With g the gradient dy where the ReLU is active, sums over the n pixels of a channel, and
 * d = x - mean:
 *
 *     dbeta = sum g        dgamma = inverse * sum (g d)
 *     dx = gamma inverse (g - sum g / n - d inverse^2 sum (g d) / n)
 *     dresidual = g
 *
 * If other ranks have parts of the batch, the sums in dx are over all of them; dbeta and dgamma are
 * of this rank's rows and are added up later, with the gradients of all parameters.
 */
#include "device/cuda/ops/norm.cuh"

namespace {

/* Of the block's channels: the ReLU's threshold, and dx = g * scale + d * slope + level. */
struct coefficients {
    float mean[CHUNK_CHANNELS], scale[CHUNK_CHANNELS], beta[CHUNK_CHANNELS];
    float slope[CHUNK_CHANNELS], level[CHUNK_CHANNELS];
};

/* Eight of them. */
struct coefficients8 {
    float mean[8], scale[8], beta[8];

    __device__ explicit coefficients8(const coefficients &of) {
        int first = (int)(threadIdx.x & 1) * 8;
        load_channels(of.mean, first, mean);
        load_channels(of.scale, first, scale);
        load_channels(of.beta, first, beta);
    }
};

/* What each of the first 16 threads keeps of its channel. */
struct own_channel {
    float scale, inverse;
};

/* For all threads: the coefficients that do not depend on the sums. */
__device__ own_channel start_channels(const norm_backward &a, coefficients &of) {
    int c = chunk_channel(a.pitch);
    own_channel own = {0.0f, 0.0f};
    if (threadIdx.x < CHUNK_CHANNELS) {
        own.inverse = c < 0 ? 0.0f : a.saved[a.pitch + c];
        own.scale = (c >= 0 && a.gamma ? a.gamma[c] : 1.0f) * own.inverse;
        of.mean[threadIdx.x] = c < 0 ? 0.0f : a.saved[c];
        of.scale[threadIdx.x] = own.scale;
        of.beta[threadIdx.x] = c >= 0 && a.beta ? a.beta[c] : 0.0f;
    }
    __syncthreads();
    return own;
}

/* The sums over all ranks: thread i < 32 gets the chunk's i-th, [2, 16]. */
__device__ double shared_total(const norm_backward &a) {
    int c = (int)blockIdx.y * CHUNK_CHANNELS + (int)(threadIdx.x % CHUNK_CHANNELS);
    if (threadIdx.x >= 32 || c >= a.pitch) return 0.0;
    return a.shared[threadIdx.x / CHUNK_CHANNELS * a.pitch + c];
}

/* Threads below 16: the gradients of their channel from its two sums, of this rank's rows. */
__device__ void keep_gradients(const norm_backward &a, double total, double product,
                               double inverse) {
    int c = chunk_channel(a.pitch);
    if (c < 0) return;
    if (a.dgamma) a.dgamma[c] = (float)(product * inverse);
    if (a.dbeta) a.dbeta[c] = (float)total;
}

/* All threads: slope and level from the sums; the chunk's first block keeps the gradients. */
template <bool SHARED>
__device__ void finish_channels(const norm_backward &a, const own_channel &own, coefficients &of) {
    double total = SHARED ? shared_total(a) : chunk_total(a.partials, (int)gridDim.x);
    if (threadIdx.x < 32) {
        double product = __shfl_down_sync(0xffffffffu, total, CHUNK_CHANNELS);
        double inverse = (double)own.inverse, scale = (double)own.scale;
        if (threadIdx.x < CHUNK_CHANNELS) {
            of.slope[threadIdx.x] = (float)(-scale * inverse * inverse * product * a.inverse_count);
            of.level[threadIdx.x] = (float)(-scale * total * a.inverse_count);
        }
        if (!SHARED && blockIdx.x == 0) keep_gradients(a, total, product, inverse);
    }
    __syncthreads();
}

/* ---- the passes over pixels --------------------------------------------------------------- */

/* g from dy: zero where the ReLU cut. */
template <class T>
__device__ void cut(const norm_backward &a, const coefficients8 &of, const float (&x)[8],
                    const vector8<T> &y, float (&g)[8]) {
    if (!a.relu) return;
    float value[8];
    if (a.y) {
        widen(y, value);
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            value[k] = norm_value(x[k], of.mean[k], of.scale[k], of.beta[k]);
    }
#pragma unroll
    for (int k = 0; k < 8; k++)
        g[k] = value[k] > 0.0f ? g[k] : 0.0f;
}

/* What a step reads of x, dy and, if it shows where the ReLU is active, y. */
template <class T>
struct pixel_read {
    vector8<T> x, dy, y;
};

/* A tile holds x and dy. */
template <class T, bool TILE, class Column>
__device__ pixel_read<T> read_pixel(const norm_backward &a, const Column &column,
                                    const chunk_place &at, const norm_tile<T> &tile, int step) {
    pixel_read<T> r;
    int64_t i = at.pixel(step) * (int64_t)(a.pitch / 8) + at.group;
    r.x = TILE ? tile.load(0, step) : column.load(a.x, at.pixel(step));
    r.dy = TILE ? tile.load(1, step) : load8<T>(a.dy, i);
    r.y = a.y ? load8<T>(a.y, i) : r.x;
    return r;
}

/* Partial sums of the block. In a tile dy is replaced by g. */
template <class T, bool TILE, class Column>
__device__ void sum_pixels(const norm_backward &a, const Column &column, const chunk_place &at,
                           const norm_tile<T> &tile, const coefficients &shared) {
    enum { BATCH = norm_batch < T, Column, TILE ? 3 : 5 > ::STEPS };
    coefficients8 of(shared);
    float sums[16];
    chunk_clear(sums);
    for (int s = 0; s < at.steps; s += BATCH) {
        pixel_read<T> r[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++)
            r[b] = read_pixel<T, TILE>(a, column, at, tile, min(s + b, at.steps - 1));
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float x[8], g[8];
            if (s + b >= at.steps) continue;
            widen(r[b].x, x);
            widen(r[b].dy, g);
            cut(a, of, x, r[b].y, g);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                sums[k] += g[k];
                sums[k + 8] = fmaf(g[k], x[k] - of.mean[k], sums[k + 8]);
            }
            if (!TILE || !a.relu) continue;
            narrow(g, r[b].dy);
            tile.store(1, s + b, r[b].dy);
        }
    }
    chunk_partial(sums, chunk_own(a.partials));
}

/* dx of a pixel from x and g, and g itself where dx is the residual's gradient too. */
__device__ void find_dx(const norm_backward &a, const coefficients8 &of, const float (&slope)[8],
                        const float (&level)[8], const float (&x)[8], const float (&g)[8],
                        float (&dx)[8]) {
#pragma unroll
    for (int k = 0; k < 8; k++) {
        dx[k] = fmaf(g[k], of.scale[k], fmaf(x[k] - of.mean[k], slope[k], level[k]));
        if (a.both) dx[k] += g[k];
    }
}

/* dx and the residual's gradient of the block's pixels. A tile holds x and g. */
template <class T, bool TILE, class Column>
__device__ void apply(const norm_backward &a, const Column &column, const chunk_place &at,
                      const norm_tile<T> &tile, const coefficients &shared) {
    enum { BATCH = norm_batch < T, Column, TILE ? 3 : 5 > ::STEPS };
    coefficients8 of(shared);
    float slope[8], level[8];
    int64_t groups = a.pitch / 8;
    load_channels(shared.slope, (int)(threadIdx.x & 1) * 8, slope);
    load_channels(shared.level, (int)(threadIdx.x & 1) * 8, level);
    for (int s = 0; s < at.steps; s += BATCH) {
        pixel_read<T> r[BATCH];
        vector8<T> old[BATCH], old_residual[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int step = min(s + b, at.steps - 1), pixel = at.pixel(step);
            if (!TILE) r[b] = read_pixel<T, TILE>(a, column, at, tile, step);
            if (a.add) old[b] = column.load(a.dx, pixel);
            if (a.add_residual) old_residual[b] = load8<T>(a.dresidual, pixel * groups + at.group);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            float x[8], g[8], dx[8];
            if (s + b >= at.steps) continue;
            int pixel = at.pixel(s + b);
            widen(TILE ? tile.load(0, s + b) : r[b].x, x);
            widen(TILE ? tile.load(1, s + b) : r[b].dy, g);
            if (!TILE) cut(a, of, x, r[b].y, g);
            find_dx(a, of, slope, level, x, g, dx);
            if (a.add) add_to(dx, old[b]);
            if (a.dx) {
                vector8<T> v;
                narrow(dx, v);
                column.store(a.dx, pixel, v, !a.add);
            }
            if (a.add_residual) add_to(g, old_residual[b]);
            if (a.dresidual) store8<T>(a.dresidual, pixel * groups + at.group, g);
        }
    }
}

/* ---- kernels ------------------------------------------------------------------------------ */

template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS, 1) norm_gradient_sums(norm_backward a, View view) {
    __shared__ __align__(16) coefficients of;
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    auto column = view.template column<T>(at.group);
    start_channels(a, of);
    sum_pixels<T, false>(a, column, at, norm_tile<T>{NULL, 2}, of);
}

/* One block a chunk: this rank's sums, from partial sums of `blocks` blocks; and its gradients. */
__global__ void __launch_bounds__(CHUNK_THREADS, 1)
    norm_gradient_share(norm_backward a, int blocks) {
    double total = chunk_total(a.partials, blocks);
    int c = chunk_channel(a.pitch);
    if (threadIdx.x >= 32) return;
    double product = __shfl_down_sync(0xffffffffu, total, CHUNK_CHANNELS);
    if (c < 0) return;
    a.shared[c] = total;
    a.shared[a.pitch + c] = product;
    keep_gradients(a, total, product, (double)a.saved[a.pitch + c]);
}

template <class T, class View, bool SHARED>
__global__ void __launch_bounds__(CHUNK_THREADS, 1)
    norm_gradient_apply(norm_backward a, View view) {
    __shared__ __align__(16) coefficients of;
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    auto column = view.template column<T>(at.group);
    own_channel own = start_channels(a, of);
    finish_channels<SHARED>(a, own, of);
    apply<T, false>(a, column, at, norm_tile<T>{NULL, 2}, of);
}

/* Both, x and g being kept in shared memory between them. */
template <class T, class View>
__global__ void __launch_bounds__(CHUNK_THREADS, 1)
    norm_gradient_fused(norm_backward a, View view, norm_way way) {
    extern __shared__ uint4 kept[];
    __shared__ __align__(16) coefficients of;
    norm_tile<T> tile = {kept, 2};
    chunk_place at = chunk_place_of(a.pitch, a.pixels);
    auto column = view.template column<T>(at.group);
    plain_column<T> whole = plain_view{a.pitch}.column<T>(at.group);
    for (int s = 0; s < at.steps; s++)
        tile.fetch(1, s, whole, a.dy, at.pixel(s));
#pragma unroll 4
    for (int s = 0; s < at.steps; s++)
        tile.fetch(0, s, column, a.x, at.pixel(s));
    __pipeline_commit();
    own_channel own = start_channels(a, of);
    __pipeline_wait_prior(0);
    sum_pixels<T, true>(a, column, at, tile, of);
    norm_wait(way);
    finish_channels<false>(a, own, of);
    apply<T, true>(a, column, at, tile, of);
}

} // namespace

bool norm_backward_fits(const cuda_layout &x, size_t tile) {
    bool fits = false;
    for_type_and_view(x.type, x, [&](auto element, auto view) {
        fits = norm_fits(norm_gradient_fused<decltype(element), decltype(view)>, tile);
    });
    return fits;
}

void norm_run_backward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                       const norm_backward &a) {
    for_type_and_view(x.type, x, [&](auto element, auto view) {
        typedef decltype(element) T;
        typedef decltype(view) View;
        if (a.shared) {
            norm_launch(context, shape, norm_gradient_apply<T, View, true>, "norm_gradient_apply",
                        a, view);
            return;
        }
        if (shape.way != NORM_TWO) {
            norm_launch(context, shape, norm_gradient_fused<T, View>, "norm_gradient_fused", a,
                        view, shape.way);
            return;
        }
        norm_launch(context, shape, norm_gradient_sums<T, View>, "norm_gradient_sums", a, view);
        norm_launch(context, shape, norm_gradient_apply<T, View, false>, "norm_gradient_apply", a,
                    view);
    });
}

void norm_share_backward(ole_device_context *context, const cuda_layout &x, const norm_shape &shape,
                         const norm_backward &a) {
    norm_shape one = {NORM_TWO, 1, shape.chunks, 0};
    for_type_and_view(x.type, x, [&](auto element, auto view) {
        norm_launch(context, shape, norm_gradient_sums<decltype(element), decltype(view)>,
                    "norm_gradient_sums", a, view);
    });
    norm_launch(context, one, norm_gradient_share, "norm_gradient_share", a, shape.blocks);
}
