/*
 * src/loss/cuda/polar.cuh - the polar factor of a small matrix by a block, all of it in shared
 * memory: the steps of schedule.cuh on the rows of M = L^T, products on the tensor cores (mma
 * m8n8k4, float64).
 *
 *     Y <- q(Y Y^T) Y, R <- q(Y Y^T) R          from Y = M / bound, R = 1 / bound
 *
 * until Y = R M = W, the polar factor of M.  With M = V Σ U^T that is W = V U^T, R = V Σ^-1 V^T,
 * and K = U Σ^-1 U^T = W^T R W.  A few dozen products, where Jacobi rotations take a few hundred
 * rounds; but it cannot exclude any σ: if one may be under the threshold, the caller uses
 * jacobi.cuh.
 */
#ifndef OLE_SRC_LOSS_CUDA_POLAR_CUH
#define OLE_SRC_LOSS_CUDA_POLAR_CUH

#include "loss/cuda/element.cuh"
#include "loss/cuda/product.cuh"
#include "loss/cuda/schedule.cuh"

enum { POLAR_WARPS = 8, POLAR_THREADS = 32 * POLAR_WARPS, POLAR_ROUNDS = 2 };

/* How the warps share an N x N product: each has TM x TN tiles of 8 x 8. */
template <int N>
struct PolarTiles;
template <>
struct PolarTiles<64> {
    enum { TM = 2, TN = 4, ACTIVE = 8 };
};
template <>
struct PolarTiles<32> {
    enum { TM = 1, TN = 2, ACTIVE = 8 };
};
template <>
struct PolarTiles<16> {
    enum { TM = 1, TN = 1, ACTIVE = 4 };
};

/* Doubles from one row to the next: 4 mod 16, so that a half-warp's accesses meet distinct banks.
 */
template <int N>
__host__ __device__ constexpr int polar_pitch() {
    return N + 4;
}

template <int N>
__host__ __device__ constexpr size_t polar_bytes() {
    return 3 * (size_t)N * (size_t)polar_pitch<N>() * sizeof(double);
}

/* Three N x N matrices in shared memory: the iterate, the square or polynomial, the multiplier. */
struct Polar {
    double *y, *s, *r;
};

template <int N>
__device__ Polar polar_place(double *memory) {
    constexpr int size = N * polar_pitch<N>();
    return Polar{memory, memory + size, memory + 2 * size};
}

/* A thread's entries of a product. */
template <int N>
struct PolarSums {
    double at[PolarTiles<N>::TM][PolarTiles<N>::TN][2];
};

template <int N>
__device__ bool polar_works() {
    return (int)threadIdx.x / 32 < PolarTiles<N>::ACTIVE;
}

/* body(i, j, sum) for each entry of the thread. */
template <int N, typename Body>
__device__ void polar_entries(PolarSums<N> &sums, Body body) {
    typedef PolarTiles<N> T;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int i0 = warp / 2 * 8 * T::TM + lane / 4, j0 = warp % 2 * 8 * T::TN + 2 * (lane % 4);
    if (!polar_works<N>()) return;
#pragma unroll
    for (int m = 0; m < T::TM; m++)
#pragma unroll
        for (int n = 0; n < T::TN; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                body(i0 + 8 * m, j0 + 8 * n + e, sums.at[m][n][e]);
}

/* Element (i, k) of a matrix, or of its transpose. */
template <int N, bool TRANSPOSED>
__device__ double polar_element(const double *a, int i, int k) {
    return TRANSPOSED ? a[k * polar_pitch<N>() + i] : a[i * polar_pitch<N>() + k];
}

/* sums = A B, where A is a or (LEFT) its transpose, B is b or (RIGHT) its transpose. */
template <int N, bool LEFT, bool RIGHT>
__device__ void polar_product(const double *a, const double *b, PolarSums<N> &sums) {
    typedef PolarTiles<N> T;
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    int i0 = warp / 2 * 8 * T::TM + lane / 4, j0 = warp % 2 * 8 * T::TN + lane / 4;
    sums = PolarSums<N>{};
    if (!polar_works<N>()) return;
#pragma unroll 4
    for (int k = lane % 4; k < N; k += 4) {
        double left[T::TM], right[T::TN];
#pragma unroll
        for (int m = 0; m < T::TM; m++)
            left[m] = polar_element<N, LEFT>(a, i0 + 8 * m, k);
#pragma unroll
        for (int n = 0; n < T::TN; n++)
            right[n] = polar_element<N, !RIGHT>(b, j0 + 8 * n, k);
#pragma unroll
        for (int m = 0; m < T::TM; m++)
#pragma unroll
            for (int n = 0; n < T::TN; n++)
                product_mma(sums.at[m][n], left[m], right[n]);
    }
}

/* Writes a product; all threads have read the old contents. */
template <int N>
__device__ void polar_write(PolarSums<N> &sums, double *to) {
    polar_entries<N>(sums, [&](int i, int j, double v) { to[i * polar_pitch<N>() + j] = v; });
}

/* s = Y Y^T. Symmetric to the last bit, since both halves add the same products in one order. */
template <int N>
__device__ void polar_gram(const Polar &p) {
    PolarSums<N> sums;
    polar_product<N, false, true>(p.y, p.y, sums);
    polar_write<N>(sums, p.s);
    __syncthreads();
}

/* One step, from s = Y Y^T to the next. */
template <int N>
__device__ void polar_step(const Polar &p, const Quintic &q) {
    constexpr int pitch = polar_pitch<N>();
    PolarSums<N> sums, other;
    polar_product<N, false, true>(p.s, p.s, sums);
    polar_entries<N>(sums, [&](int i, int j, double &v) {
        v = fma(q.c, v, fma(q.b, p.s[i * pitch + j], i == j ? q.a : 0.0));
    });
    __syncthreads();
    polar_write<N>(sums, p.s);
    __syncthreads();
    polar_product<N, false, false>(p.s, p.y, sums);
    polar_product<N, false, false>(p.s, p.r, other);
    __syncthreads();
    polar_write<N>(sums, p.y);
    polar_write<N>(other, p.r);
    __syncthreads();
    polar_gram<N>(p);
}

/* The root of the largest sum of absolute values of a row of s: no σ is larger. */
template <int N>
__device__ double polar_bound(const Polar &p, double *shared) {
    double most = 0.0;
    for (int i = (int)threadIdx.x / 4; i < N; i += POLAR_THREADS / 4) {
        double sum = 0.0;
        for (int j = (int)threadIdx.x % 4; j < N; j += 4)
            sum += fabs(p.s[i * polar_pitch<N>() + j]);
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        most = fmax(most, sum);
    }
    return sqrt(block_combine<true, POLAR_WARPS>(most, shared));
}

/* How far the first `rank` rows and columns of s are from the identity. */
template <int N>
__device__ double polar_deviation(const Polar &p, int rank, double *shared) {
    double worst = 0.0;
    for (int e = (int)threadIdx.x; e < N * N; e += POLAR_THREADS) {
        int i = e / N, j = e % N;
        if (i < rank && j < rank)
            worst = fmax(worst, fabs(p.s[i * polar_pitch<N>() + j] - (i == j ? 1.0 : 0.0)));
    }
    return block_combine<true, POLAR_WARPS>(worst, shared);
}

/* y = M / bound, s = Y Y^T and r = 1 / bound; the bound, or 0. Row j of M is l[j * pitch + ...]. */
template <int N>
__device__ double polar_begin(const double *l, int l_pitch, int rank, const Polar &p,
                              double *shared) {
    constexpr int pitch = polar_pitch<N>();
    for (int e = (int)threadIdx.x; e < N * N; e += POLAR_THREADS)
        p.y[e / N * pitch + e % N] = e / N < rank ? l[e / N * l_pitch + e % N] : 0.0;
    __syncthreads();
    polar_gram<N>(p);
    double bound = polar_bound<N>(p, shared), inverse = bound > 0.0 ? 1.0 / bound : 0.0;
    for (int e = (int)threadIdx.x; e < N * N; e += POLAR_THREADS) {
        int at = e / N * pitch + e % N;
        p.y[at] *= inverse;
        p.s[at] *= inverse * inverse;
        p.r[at] = e / N == e % N ? inverse : 0.0;
    }
    __syncthreads();
    return bound;
}

/*
 * All POLAR_THREADS of the block.  True: y is the polar factor of M, r the inverse root of M M^T,
 * and no σ was under the threshold, max(cut_absolute, cut_relative * σ_max).  False: that may be.
 */
template <int N>
__device__ bool polar_run(const double *l, int l_pitch, int rank, double cut_absolute,
                          double cut_relative, const Polar &p, double *shared) {
    double bound = polar_begin<N>(l, l_pitch, rank, p, shared);
    if (!(bound > 0.0) || !isfinite(bound)) return false;
    double threshold = fmax(cut_absolute, cut_relative * bound);
    for (int round = 0; round < POLAR_ROUNDS; round++) {
        int steps = round == 0 ? FIRST_STEPS : SECOND_STEPS;
        for (int k = 0; k < steps; k++)
            polar_step<N>(p, round == 0 ? FIRST[k] : SECOND[k]);
        if (polar_deviation<N>(p, rank, shared) <= CONVERGED)
            return threshold <= MARGIN * REACHED[round] * bound;
    }
    return false;
}

/* ‖M‖_* = <W, M>. */
template <int N>
__device__ double polar_norm(const double *l, int l_pitch, int rank, const Polar &p,
                             double *shared) {
    double sum = 0.0;
    for (int e = (int)threadIdx.x; e < N * N; e += POLAR_THREADS)
        if (e / N < rank)
            sum = fma(p.y[e / N * polar_pitch<N>() + e % N], l[e / N * l_pitch + e % N], sum);
    return block_combine<false, POLAR_WARPS>(sum, shared);
}

/* K = W^T R W, its first `side` rows and columns, `k_pitch` wide. Uses s. */
template <int N>
__device__ void polar_inverse(const Polar &p, int side, double *k, int k_pitch) {
    PolarSums<N> sums;
    polar_product<N, false, false>(p.r, p.y, sums);
    polar_write<N>(sums, p.s);
    __syncthreads();
    polar_product<N, true, false>(p.y, p.s, sums);
    polar_entries<N>(sums, [&](int i, int j, double v) {
        if (i < side && j < side) k[i * k_pitch + j] = v;
    });
}

#endif
