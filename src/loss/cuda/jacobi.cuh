/*
 * src/loss/cuda/jacobi.cuh - one-sided Jacobi rotations on the columns of L by a block: pairs of
 * columns are turned until all are orthogonal; then they are σ_j u_j, and no rotation need be
 * remembered.
 *
 * Eight lanes work on a pair, each on R rows of both columns.  All pairs of r columns come in
 * levels: the columns are cut into two halves, and each of the first half, which stays in
 * registers, meets each of the second in turn; then each half is cut likewise, all halves at once.
 * So a round moves only half of the columns through shared memory, and there are about r + log r
 * rounds a sweep for any r.
 */
#ifndef OLE_SRC_LOSS_CUDA_JACOBI_CUH
#define OLE_SRC_LOSS_CUDA_JACOBI_CUH

#include "loss/cuda/element.cuh"

enum { PAIR_LANES = 8, MAX_SWEEPS = 30 };

/* Cosines are rotated away down to ROTATE; a sweep that met none over CALM ends the loop: the
 * convergence is quadratic, so that what it left is below ROTATE. Both squared. */
#define JACOBI_ROTATE 1e-30
#define JACOBI_CALM 1e-18

/* About 20 bits, any range; PTX has them, C++ does not. */
__device__ static inline double rough_reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

__device__ static inline double rough_rsqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

__device__ static inline double sum_of_lanes(double v) {
#pragma unroll
    for (int offset = PAIR_LANES / 2; offset; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

struct Rotation {
    double cosine, sine, tangent;
};

/*
 * Makes columns with squares a, b and product c orthogonal: x' = cos x - sin y, y' = sin x + cos y.
 * The angle is as good as 20 bits, which only leaves 1e-6 of the cosine for the next sweep; that it
 * is a rotation (cos^2 + sin^2 = 1) holds to float64's rounding.
 */
__device__ static inline Rotation rotation_of(double a, double b, double c) {
    double zeta = (b - a) * rough_reciprocal(2.0 * c);
    double size = fmin(fabs(zeta), 1e100), square = fma(size, size, 1.0);
    double t = copysign(rough_reciprocal(fma(square, rough_rsqrt(square), size)), zeta);
    double x = fma(t, t, 1.0), y = rough_rsqrt(x);
    double half = 0.5 * x;
    y = y * fma(-half * y, y, 1.5);
    y = y * fma(-half * y, y, 1.5);
    return Rotation{y, t * y, t};
}

/* One rotation: x (square a, kept up to date) and column y in memory. True: far from orthogonal
 * before. */
template <int R>
__device__ bool meet(double (&x)[R], double &a, double *y, bool there) {
    double v[R], b = 0.0, c = 0.0;
#pragma unroll
    for (int i = 0; i < R; i++) {
        v[i] = there ? y[i * PAIR_LANES] : 0.0;
        b = fma(v[i], v[i], b);
        c = fma(x[i], v[i], c);
    }
    b = sum_of_lanes(b);
    c = sum_of_lanes(c);
    double square = c * c, limit = a * b;
    if (!(square > JACOBI_ROTATE * limit)) return false;
    Rotation q = rotation_of(a, b, c);
#pragma unroll
    for (int i = 0; i < R; i++) {
        double old = x[i];
        x[i] = fma(q.cosine, old, -q.sine * v[i]);
        y[i * PAIR_LANES] = fma(q.sine, old, q.cosine * v[i]);
    }
    a = q.cosine * q.cosine * fma(q.tangent, fma(q.tangent, b, -2.0 * c), a);
    return square > JACOBI_CALM * limit;
}

/* All meetings of a level: 2^level groups of columns, each of at most 2 `half`. */
template <int R>
__device__ bool run_level(double *columns, int pitch, int count, int level, int half) {
    int lane = (int)threadIdx.x % PAIR_LANES, pair = (int)threadIdx.x / PAIR_LANES;
    int group = pair / half, k = pair % half;
    bool inside = group < 1 << level;
    int begin = group * count >> level, end = (group + 1) * count >> level;
    int middle = (2 * group + 1) * count >> (level + 1);
    bool own = inside && begin + k < middle;
    double x[R], a = 0.0;
    double *mine = columns + (own ? begin + k : 0) * pitch + lane;
#pragma unroll
    for (int i = 0; i < R; i++) {
        x[i] = own ? mine[i * PAIR_LANES] : 0.0;
        a = fma(x[i], x[i], a);
    }
    a = sum_of_lanes(a);
    bool restless = false;
    for (int round = 0; round < half; round++) {
        int other = k + round;
        if (other >= half) other -= half;
        other += middle;
        bool there = own && other < end;
        restless |= meet<R>(x, a, columns + (there ? other : 0) * pitch + lane, there);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < R; i++)
        if (own) mine[i * PAIR_LANES] = x[i];
    __syncthreads();
    return restless;
}

/*
 * All threads of the block (at least 4 `count` of them).  columns: `count` of 8 R rows each,
 * `pitch` doubles apart, an odd multiple of 8 (then two neighbours fall on distinct banks).
 */
template <int R>
__device__ void orthogonalise(double *columns, int pitch, int count) {
    for (int sweep = 0; sweep < MAX_SWEEPS && count > 1; sweep++) {
        bool restless = false;
        for (int level = 0; 1 << level < count; level++) {
            int half = (count + (2 << level) - 1) >> (level + 1);
            restless |= run_level<R>(columns, pitch, count, level, half);
        }
        if (!__syncthreads_or(restless)) break;
    }
}

#endif
