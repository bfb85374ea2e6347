/*
 * src/loss/criteria/cuda/pairs.cu - the losses of pairs of unit rows: contrastive, triplet, SupCon
 * and OPL, whose formulas are in the files of their names in loss/criteria.
 *
 * square[0] holds distances or cosines. A loss writes row by row, a warp each, its derivative by
 * them to square[1] (each pair in one half, or each anchor's row), and the part of the value.  Then
 * square[0] becomes the symmetric factor with du = square[0] u.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

enum { TILE = 16 };

/* From the differences, not from the cosines: those of rows that are close cancel. */
__global__ void __launch_bounds__(TILE *TILE) distances(const criterion_call c) {
    __shared__ double a[TILE][TILE + 1], b[TILE][TILE + 1];
    int tx = (int)threadIdx.x % TILE, ty = (int)threadIdx.x / TILE, used = *c.used;
    int i0 = (int)blockIdx.y * TILE, j0 = (int)blockIdx.x * TILE;
    if (i0 >= used || j0 >= used) return; /* the whole block */
    double sum = 0.0;
    for (int d0 = 0; d0 < c.dim; d0 += TILE) {
        bool there = d0 + tx < c.dim;
        a[ty][tx] = there && i0 + ty < used ? c.u[(int64_t)(i0 + ty) * c.dim + d0 + tx] : 0.0;
        b[ty][tx] = there && j0 + ty < used ? c.u[(int64_t)(j0 + ty) * c.dim + d0 + tx] : 0.0;
        __syncthreads();
#pragma unroll
        for (int d = 0; d < TILE; d++) {
            double apart = a[ty][d] - b[tx][d];
            sum = fma(apart, apart, sum);
        }
        __syncthreads();
    }
    if (i0 + ty < used && j0 + tx < used)
        c.square[0][(int64_t)(i0 + ty) * c.rows + j0 + tx] = sqrt(sum);
}

/* Pairs of one class, and of the others. */
struct PairCounts {
    double same, other;
};

__device__ PairCounts count_pairs(const criterion_call &c) {
    double n = (double)*c.used;
    double same = sum_places(c, [&](int p) { return (double)(c.count[p] - 1); }) / 2.0;
    return PairCounts{same, n * (n - 1.0) / 2.0 - same};
}

__global__ void __launch_bounds__(THREADS) contrastive(const criterion_call c) {
    PairCounts pairs = count_pairs(c);
    int i = warp_item(), lane = lane_of(), used = *c.used;
    if (i >= used) return;
    double margin = c.param[0], power = c.param[1], value = 0.0;
    for (int j = lane; j < used; j += LANES) {
        int64_t at = (int64_t)i * c.rows + j;
        double d = c.square[0][at], slope = 0.0;
        if (j < i && alike(c, i, j)) {
            value += pow(d, power) / power / pairs.same;
            slope = pow(d, power - 1.0) / pairs.same;
        } else if (j < i && d < margin) {
            value += pow(margin - d, power) / power / pairs.other;
            slope = -pow(margin - d, power - 1.0) / pairs.other;
        }
        c.square[1][at] = slope;
    }
    value = warp_sum(value);
    if (lane == 0) c.value[i] = value;
}

/* A row of distances and its number; -1: none. */
struct Extreme {
    double distance;
    int at;
};

/* The nearest (or the farthest) of the lanes', the first of equals. */
__device__ Extreme warp_extreme(Extreme e, bool nearest) {
#pragma unroll
    for (int offset = LANES / 2; offset; offset >>= 1) {
        Extreme o = {__shfl_xor_sync(0xffffffffu, e.distance, offset),
                     __shfl_xor_sync(0xffffffffu, e.at, offset)};
        bool better = nearest ? o.distance < e.distance : o.distance > e.distance;
        if (o.at >= 0 && (e.at < 0 || better || (o.distance == e.distance && o.at < e.at))) e = o;
    }
    return e;
}

/* room[0] counts triplets, and the derivatives count them too. */
__global__ void __launch_bounds__(THREADS) triplet_hard(const criterion_call c) {
    int a = warp_item(), lane = lane_of(), used = *c.used;
    if (a >= used) return;
    const double *d = c.square[0] + (int64_t)a * c.rows;
    Extreme far = {0.0, -1}, near = {0.0, -1};
    for (int i = lane; i < used; i += LANES) {
        if (i == a) continue;
        if (alike(c, i, a)) {
            if (far.at < 0 || d[i] > far.distance) far = Extreme{d[i], i};
        } else {
            if (near.at < 0 || d[i] < near.distance) near = Extreme{d[i], i};
        }
    }
    far = warp_extreme(far, false);
    near = warp_extreme(near, true);
    bool found = far.at >= 0 && near.at >= 0;
    double loss = found ? fmax(far.distance - near.distance + c.param[0], 0.0) : 0.0;
    for (int i = lane; i < used; i += LANES)
        c.square[1][(int64_t)a * c.rows + i] =
            loss > 0.0 ? (double)((i == far.at) - (i == near.at)) : 0.0;
    if (lane != 0) return;
    c.room[0][a] = found;
    c.value[a] = loss;
}

__global__ void __launch_bounds__(THREADS) triplet_semi_hard(const criterion_call c) {
    int a = warp_item(), lane = lane_of(), used = *c.used;
    if (a >= used) return;
    const double *d = c.square[0] + (int64_t)a * c.rows;
    double *slope = c.square[1] + (int64_t)a * c.rows;
    double margin = c.param[0], sum = 0.0, triplets = 0.0;
    int first = c.first[a], end = first + c.count[a];
    for (int i = lane; i < used; i += LANES) {
        int hits = 0; /* triplets in which i is the negative, or the positive */
        if (i < first || i >= end) {
            for (int p = first; p < end; p++) {
                if (p == a || d[i] <= d[p] || d[i] >= d[p] + margin) continue;
                sum += d[p] - d[i] + margin;
                hits++;
            }
            triplets += hits;
            hits = -hits;
        } else if (i != a) {
            for (int n = 0; n < used; n++)
                hits += (n < first || n >= end) && d[n] > d[i] && d[n] < d[i] + margin;
        }
        slope[i] = hits;
    }
    sum = warp_sum(sum);
    triplets = warp_sum(triplets);
    if (lane != 0) return;
    c.room[0][a] = triplets;
    c.value[a] = sum;
}

/* What the value and the derivatives of triplets are yet to be divided by, at least 1. */
__device__ double count_triplets(const criterion_call &c) {
    return fmax(sum_places(c, [&](int p) { return c.room[0][p]; }), 1.0);
}

/* square[0] = the factor of u for the derivative by distances in square[1]; equal rows pull at
 * nothing. */
__global__ void __launch_bounds__(THREADS) pull(const criterion_call c, bool triplets) {
    double total = triplets ? count_triplets(c) : 1.0, sum = 0.0;
    int i = warp_item(), lane = lane_of(), used = *c.used;
    if (i >= used) return;
    for (int j = lane; j < used; j += LANES) {
        int64_t at = (int64_t)i * c.rows + j;
        double distance = c.square[0][at];
        double slope = (c.square[1][at] + c.square[1][(int64_t)j * c.rows + i]) / total;
        double factor = j != i && distance > 0.0 ? slope / distance : 0.0;
        if (j != i) c.square[0][at] = -factor;
        sum += factor;
    }
    sum = warp_sum(sum);
    if (lane != 0) return;
    c.square[0][(int64_t)i * c.rows + i] = sum;
    if (triplets) c.value[i] /= total;
}

/* square[0] = square[1] and its transpose, for the derivative by cosines. */
__global__ void __launch_bounds__(THREADS) add_transpose(const criterion_call c) {
    int i = warp_item(), used = *c.used;
    if (i >= used) return;
    for (int j = lane_of(); j < used; j += LANES)
        c.square[0][(int64_t)i * c.rows + j] =
            c.square[1][(int64_t)i * c.rows + j] + c.square[1][(int64_t)j * c.rows + i];
}

__global__ void __launch_bounds__(THREADS) supcon(const criterion_call c) {
    double tau = c.param[0];
    double anchors = sum_places(c, [&](int p) { return c.count[p] > 1 ? 1.0 : 0.0; });
    int i = warp_item(), lane = lane_of(), used = *c.used;
    if (i >= used) return;
    const double *cosine = c.square[0] + (int64_t)i * c.rows;
    double *slope = c.square[1] + (int64_t)i * c.rows;
    double positives = (double)(c.count[i] - 1), largest = -INFINITY, sum = 0.0, value = 0.0;
    bool is_anchor = c.count[i] > 1;
    for (int j = lane; j < used; j += LANES)
        if (j != i) largest = fmax(largest, cosine[j]);
    largest = warp_largest(largest);
    for (int j = lane; j < used; j += LANES)
        if (j != i) sum += exp((cosine[j] - largest) / tau);
    sum = warp_sum(sum);
    for (int j = lane; j < used; j += LANES) {
        double d = 0.0;
        if (is_anchor && j != i) {
            d = exp((cosine[j] - largest) / tau) / sum;
            if (alike(c, i, j)) {
                d -= 1.0 / positives;
                value += ((largest - cosine[j]) / tau + log(sum)) / positives;
            }
            d /= tau * anchors;
        }
        slope[j] = d;
    }
    value = warp_sum(value);
    if (lane == 0) c.value[i] = is_anchor ? value / anchors : 0.0;
}

/* room: sums of the cosines with earlier rows of the same class, and of others. */
__global__ void __launch_bounds__(THREADS) opl_sums(const criterion_call c) {
    int i = warp_item(), lane = lane_of();
    if (i >= *c.used) return;
    double same = 0.0, other = 0.0;
    for (int j = lane; j < i; j += LANES) {
        double cosine = c.square[0][(int64_t)i * c.rows + j];
        bool is_same = alike(c, i, j);
        same += is_same ? cosine : 0.0;
        other += is_same ? 0.0 : cosine;
    }
    same = warp_sum(same);
    other = warp_sum(other);
    if (lane != 0) return;
    c.room[0][i] = same;
    c.room[1][i] = other;
}

__global__ void __launch_bounds__(THREADS) opl(const criterion_call c) {
    PairCounts pairs = count_pairs(c);
    double gamma = c.param[0];
    double same = sum_places(c, [&](int p) { return c.room[0][p]; });
    double other = sum_places(c, [&](int p) { return c.room[1][p]; });
    same = pairs.same > 0.0 ? same / pairs.same : 1.0;
    other = pairs.other > 0.0 ? other / pairs.other : 0.0;
    double sign = c.param[1] == 0.0 || other > 0.0 ? 1.0 : other < 0.0 ? -1.0 : 0.0;
    int i = warp_item(), used = *c.used;
    if (i >= used) return;
    for (int j = lane_of(); j < used; j += LANES) {
        double slope = alike(c, i, j) ? -1.0 / pairs.same : gamma * sign / pairs.other;
        c.square[0][(int64_t)i * c.rows + j] = i == j ? 0.0 : slope;
    }
    if (lane_of() == 0) c.value[i] = i == 0 ? 1.0 - same + gamma * sign * other : 0.0;
}

unsigned grid_of(const criterion_call *c) {
    return blocks_of(c->rows, WARPS);
}

} // namespace

cudaError_t criterion_distances(const criterion_call *c, cudaStream_t stream) {
    unsigned tiles = blocks_of(c->rows, TILE);
    distances<<<dim3(tiles, tiles), TILE * TILE, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_contrastive(const criterion_call *c, cudaStream_t stream) {
    contrastive<<<grid_of(c), THREADS, 0, stream>>>(*c);
    pull<<<grid_of(c), THREADS, 0, stream>>>(*c, false);
    return cudaGetLastError();
}

cudaError_t criterion_triplet(const criterion_call *c, cudaStream_t stream) {
    bool semi_hard = c->param[1] != 0.0;
    if (semi_hard)
        triplet_semi_hard<<<grid_of(c), THREADS, 0, stream>>>(*c);
    else
        triplet_hard<<<grid_of(c), THREADS, 0, stream>>>(*c);
    pull<<<grid_of(c), THREADS, 0, stream>>>(*c, true);
    return cudaGetLastError();
}

cudaError_t criterion_supcon(const criterion_call *c, cudaStream_t stream) {
    supcon<<<grid_of(c), THREADS, 0, stream>>>(*c);
    add_transpose<<<grid_of(c), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_opl(const criterion_call *c, cudaStream_t stream) {
    opl_sums<<<grid_of(c), THREADS, 0, stream>>>(*c);
    opl<<<grid_of(c), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
