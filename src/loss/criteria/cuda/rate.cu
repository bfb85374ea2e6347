/*
 * src/loss/criteria/cuda/rate.cu - MCR² (loss/criteria/mcr2.c) from the cosines G of unit rows: the
 * inverses and logarithms of determinants of I + a G, of the whole, and of I + a_c G_c, which are
 * the blocks on the diagonal of one matrix as large as the whole's.
 *
 * Gauss-Jordan elimination in place, by tiles of RATE_TILE: the matrices are definite and their
 * eigenvalues at least 1, so no pivot need be looked for.  A step inverts the tile P on the
 * diagonal, takes A_IK P A_KJ from every other tile, then multiplies those of its row and column
 * by P and -P.  The pivots' product is the determinant; those of a class belong to its places.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

enum { T = RATE_TILE, PITCH = T + 1 };

/* square[0] = I + a G, square[1] = its blocks of classes with their own a_c. */
__global__ void __launch_bounds__(THREADS) begin(const criterion_call c) {
    int i = warp_item(), used = *c.used;
    if (i >= used) return;
    double whole = (double)c.dim / ((double)used * c.param[0]);
    double own = (double)c.dim / ((double)c.count[i] * c.param[0]);
    for (int j = lane_of(); j < used; j += LANES) {
        int64_t at = (int64_t)i * c.rows + j;
        double cosine = c.square[0][at], one = i == j ? 1.0 : 0.0;
        c.square[0][at] = fma(whole, cosine, one);
        c.square[1][at] = alike(c, i, j) ? fma(own, cosine, one) : 0.0;
    }
}

/* Entry (i, j) of tile (ti, tj) of matrix z; the identity beyond the edge. */
__device__ double entry(const criterion_call &c, int z, int ti, int tj, int i, int j) {
    int row = ti * T + i, column = tj * T + j, used = *c.used;
    if (row >= used || column >= used) return row == column ? 1.0 : 0.0;
    return c.square[z][(int64_t)row * c.rows + column];
}

__device__ void put_entry(const criterion_call &c, int z, int ti, int tj, int i, int j, double v) {
    int row = ti * T + i, column = tj * T + j, used = *c.used;
    if (row < used && column < used) c.square[z][(int64_t)row * c.rows + column] = v;
}

/* pivot = the inverse of tile (k, k), room = logarithms of its pivots: a block of T x T threads per
 * matrix. */
__global__ void __launch_bounds__(T *T) invert_tile(const criterion_call c, int k) {
    __shared__ double row[T], column[T];
    int z = (int)blockIdx.x, i = (int)threadIdx.x / T, j = (int)threadIdx.x % T, used = *c.used;
    if (k * T >= used) return; /* the whole block */
    double v = entry(c, z, k, k, i, j);
    for (int p = 0; p < T; p++) {
        if (i == p) row[j] = v;
        if (j == p) column[i] = v;
        __syncthreads();
        double inverse = 1.0 / row[p];
        if (i == p && j == p) {
            if (k * T + p < used) c.room[z][k * T + p] = log(v);
            v = inverse;
        } else if (i == p) {
            v *= inverse;
        } else if (j == p) {
            v *= -inverse;
        } else {
            v -= column[i] * inverse * row[j];
        }
        __syncthreads();
    }
    c.pivot[z * T * T + i * T + j] = v;
}

/* A T x T tile in shared memory. */
typedef double Tile[T][PITCH];

/* c[i][j] for the entries of a thread: rows i0 + 8 q of column j. */
struct Product {
    double at[T / WARPS];
};

__device__ Product multiply(const Tile &a, const Tile &b) {
    int j = (int)threadIdx.x % T, i0 = (int)threadIdx.x / T;
    Product sums = {};
    for (int k = 0; k < T; k++)
#pragma unroll
        for (int q = 0; q < T / WARPS; q++)
            sums.at[q] = fma(a[i0 + WARPS * q][k], b[k][j], sums.at[q]);
    return sums;
}

template <class F>
__device__ void load(Tile &tile, F at) {
    for (int e = (int)threadIdx.x; e < T * T; e += THREADS)
        tile[e / T][e % T] = at(e / T, e % T);
}

/* A_IJ -= A_IK P A_KJ, I and J not k: a block per tile. */
__global__ void __launch_bounds__(THREADS) update_tiles(const criterion_call c, int k) {
    __shared__ Tile left, right, p;
    int z = (int)blockIdx.z, ti = (int)blockIdx.y, tj = (int)blockIdx.x, used = *c.used;
    if (k * T >= used || ti * T >= used || tj * T >= used || ti == k || tj == k) return;
    load(left, [&](int i, int j) { return entry(c, z, ti, k, i, j); });
    load(right, [&](int i, int j) { return entry(c, z, k, tj, i, j); });
    load(p, [&](int i, int j) { return c.pivot[z * T * T + i * T + j]; });
    __syncthreads();
    Product product = multiply(p, right);
    __syncthreads(); /* p and right have been read */
    int j = (int)threadIdx.x % T, i0 = (int)threadIdx.x / T;
#pragma unroll
    for (int q = 0; q < T / WARPS; q++)
        right[i0 + WARPS * q][j] = product.at[q];
    __syncthreads();
    product = multiply(left, right);
#pragma unroll
    for (int q = 0; q < T / WARPS; q++) {
        int i = i0 + WARPS * q;
        put_entry(c, z, ti, tj, i, j, entry(c, z, ti, tj, i, j) - product.at[q]);
    }
}

/* A_KJ <- P A_KJ (blockIdx.y 0), A_IK <- -A_IK P (1), A_KK <- P: a block per tile. */
__global__ void __launch_bounds__(THREADS) update_cross(const criterion_call c, int k) {
    __shared__ Tile tile, p;
    int z = (int)blockIdx.z, t = (int)blockIdx.x, used = *c.used;
    bool column = blockIdx.y == 1;
    if (k * T >= used || t * T >= used || (column && t == k)) return;
    load(p, [&](int i, int j) { return c.pivot[z * T * T + i * T + j]; });
    load(tile,
         [&](int i, int j) { return column ? entry(c, z, t, k, i, j) : entry(c, z, k, t, i, j); });
    __syncthreads();
    int j = (int)threadIdx.x % T, i0 = (int)threadIdx.x / T;
    Product product = column ? multiply(tile, p) : multiply(p, tile);
#pragma unroll
    for (int q = 0; q < T / WARPS; q++) {
        int i = i0 + WARPS * q;
        if (column)
            put_entry(c, z, t, k, i, j, -product.at[q]);
        else
            put_entry(c, z, k, t, i, j, t == k ? p[i][j] : product.at[q]);
    }
}

/* The value, and square[0] = the factor of u. */
__global__ void __launch_bounds__(THREADS) end(const criterion_call c) {
    int i = warp_item(), used = *c.used;
    if (i >= used) return;
    double whole = (double)c.dim / ((double)used * c.param[0]), share = c.count[i] / (double)used;
    double own = (double)c.dim / ((double)c.count[i] * c.param[0]);
    for (int j = lane_of(); j < used; j += LANES) {
        int64_t at = (int64_t)i * c.rows + j;
        double of_class = alike(c, i, j) ? share * own * c.square[1][at] : 0.0;
        c.square[0][at] = of_class - whole * c.square[0][at];
    }
    if (lane_of() == 0) c.value[i] = 0.5 * (share * c.room[1][i] - c.room[0][i]);
}

} // namespace

cudaError_t criterion_mcr2(const criterion_call *c, cudaStream_t stream) {
    unsigned tiles = blocks_of(c->rows, T);
    begin<<<blocks_of(c->rows, WARPS), THREADS, 0, stream>>>(*c);
    for (int k = 0; k < (int)tiles; k++) {
        invert_tile<<<2, T * T, 0, stream>>>(*c, k);
        update_tiles<<<dim3(tiles, tiles, 2), THREADS, 0, stream>>>(*c, k);
        update_cross<<<dim3(tiles, 2, 2), THREADS, 0, stream>>>(*c, k);
    }
    end<<<blocks_of(c->rows, WARPS), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
