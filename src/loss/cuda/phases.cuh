/*
 * src/loss/cuda/phases.cuh - the phases of iterate.cu: the work of all blocks of the GPU on
 * all larger matrices between two barriers.  A phase shares its tiles or rows out over the blocks;
 * an entry's value does not depend on the thread that computes it.
 *
 * Memory of a matrix (see loss_call): Y in y[..][0 or 1] and side x side matrices in
 * square[..][0..2], both at offsets by the matrix's first row.
 */
#ifndef OLE_SRC_LOSS_CUDA_PHASES_CUH
#define OLE_SRC_LOSS_CUDA_PHASES_CUH

#include "loss/cuda/element.cuh"
#include "loss/cuda/product.cuh"
#include "loss/cuda/schedule.cuh"

enum { PHASE_WARPS = PRODUCT_THREADS / 32 };

__device__ static inline int kind_of(const loss_call &call, const loss_large &m) {
    return m.slot == call.max_rows ? 0 : 1;
}

__device__ static inline double *square_of(const loss_call &call, const loss_large &m, int which) {
    return call.square[kind_of(call, m)][which] + m.start * call.square_pitch;
}

__device__ static inline double *vector_of(const loss_call &call, const loss_large &m, int which) {
    return call.vector[kind_of(call, m)][which] + m.start;
}

__device__ static inline const double *input_of(const loss_call &call, const loss_large &m) {
    return call.sorted + (int64_t)m.start * call.dim;
}

/* Buffer `which` of Y, or the input for -1. */
__device__ static inline const double *y_of(const loss_call &call, const loss_large &m, int which) {
    return which < 0 ? input_of(call, m)
                     : call.y[kind_of(call, m)][which] + (int64_t)m.start * call.dim;
}

/* The smaller side of a [rows, dim] matrix as vectors over the longer one. */
__device__ static inline Vectors short_side(const loss_call &call, const loss_large &m,
                                            const double *y) {
    return m.columns ? Vectors{y, 1, call.dim, m.side} : Vectors{y, call.dim, 1, m.side};
}

__device__ static inline int long_side(const loss_call &call, const loss_large &m) {
    return m.columns ? m.rows : call.dim;
}

/* body(matrix, index, item) for items 0 to count(matrix) of all active matrices, over `workers` of
 * which this is number `self`. */
template <typename Count, typename Body>
__device__ void share(const loss_call &call, int64_t workers, int64_t self, Count count,
                      Body body) {
    int64_t base = 0;
    for (int s = 0; s < call.max_large; s++) {
        const loss_large m = call.large[s];
        if (!m.active) continue;
        int64_t items = count(m);
        for (int64_t t = (self + workers - base % workers) % workers; t < items; t += workers)
            body(m, s, t);
        base += items;
    }
}

/* Items to blocks. */
template <typename Count, typename Body>
__device__ void share_blocks(const loss_call &call, Count count, Body body) {
    share(call, gridDim.x, blockIdx.x, count, body);
}

/* Items to warps. */
template <typename Count, typename Body>
__device__ void share_warps(const loss_call &call, Count count, Body body) {
    share(call, (int64_t)gridDim.x * PHASE_WARPS,
          (int64_t)blockIdx.x * PHASE_WARPS + threadIdx.x / 32, count, body);
}

/* body(matrix, index) for each active matrix, one block per matrix. */
template <typename Body>
__device__ void each_matrix(const loss_call &call, Body body) {
    for (int s = (int)blockIdx.x; s < call.max_large; s += (int)gridDim.x) {
        __syncthreads(); /* a write of the body before is seen by the whole block */
        const loss_large m = call.large[s];
        if (m.active) body(m, s);
    }
}

__device__ static inline double warp_sum(double v) {
    for (int offset = 16; offset; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

/* The sum (or the largest) of value(i), i < count; the same on all threads of the block. */
template <bool LARGEST, typename Value>
__device__ double block_total(int64_t count, Value value) {
    __shared__ double shared[PHASE_WARPS];
    double v = 0.0;
    for (int64_t i = threadIdx.x; i < count; i += PRODUCT_THREADS)
        v = LARGEST ? fmax(v, value(i)) : v + value(i);
    return block_combine<LARGEST, PHASE_WARPS>(v, shared);
}

__device__ static inline int tiles_along(int n) {
    return (n + PRODUCT_TILE - 1) / PRODUCT_TILE;
}

__device__ static inline int64_t triangle_tiles(const loss_large &m) {
    int64_t n = tiles_along(m.side);
    return n * (n + 1) / 2;
}

/* Tile t of a lower triangle, row by row. */
__device__ static inline void triangle_tile(int64_t t, int *i, int *j) {
    int64_t row = (int64_t)((sqrt(8.0 * (double)t + 1.0) - 1.0) / 2.0);
    while (row * (row + 1) / 2 > t)
        row--;
    while ((row + 1) * (row + 2) / 2 <= t)
        row++;
    *i = (int)row;
    *j = (int)(t - row * (row + 1) / 2);
}

/*
 * to = f(vectors of a times vectors of b) for a product that is symmetric: the lower triangle is
 * computed and mirrored, to the last bit, since an asymmetry left by rounding would grow in the
 * iteration.  finish(i, j, product) gives the entry.
 */
template <typename Sides, typename Finish>
__device__ void symmetric_product(const loss_call &call, int to, ProductMemory *memory, Sides sides,
                                  Finish finish) {
    share_blocks(
        call, [](const loss_large &m) { return triangle_tiles(m); },
        [&](const loss_large &m, int s, int64_t t) {
            int ti, tj;
            triangle_tile(t, &ti, &tj);
            Vectors a, b;
            int depth = sides(m, &a, &b);
            ProductSums sums;
            int i0 = ti * PRODUCT_TILE, j0 = tj * PRODUCT_TILE;
            product_tile(a, i0, b, j0, depth, memory, sums);
            double *out = square_of(call, m, to), worst = 0.0;
            product_entries(sums, i0, j0, [&](int i, int j, double v) {
                if (i >= m.side || j > i) return;
                double w = finish(m, i, j, v);
                worst = fmax(worst, fabs(w - (i == j ? 1.0 : 0.0)));
                out[(int64_t)i * m.side + j] = w;
                out[(int64_t)j * m.side + i] = w;
            });
            worst = block_total<true>(PRODUCT_THREADS, [&](int64_t) { return worst; });
            if (threadIdx.x == 0) call.deviation[s * call.deviation_pitch + t] = worst;
        });
}

/* square[0] = Y Y^T (of the smaller side), Y in buffer `from`. */
__device__ static inline void gram_phase(const loss_call &call, int from, ProductMemory *memory) {
    symmetric_product(
        call, 0, memory,
        [&](const loss_large &m, Vectors *a, Vectors *b) {
            *a = *b = short_side(call, m, y_of(call, m, from));
            return long_side(call, m);
        },
        [](const loss_large &, int, int, double v) { return v; });
}

/* square[2] = q(S) = a + b S + c S^2 of S = square[from]; where `first`, for Y over its bound. */
__device__ static inline void mix_phase(const loss_call &call, int from, Quintic q, bool first,
                                        ProductMemory *memory) {
    symmetric_product(
        call, 2, memory,
        [&](const loss_large &m, Vectors *a, Vectors *b) {
            *a = *b = Vectors{square_of(call, m, from), m.side, 1, m.side};
            return m.side;
        },
        [&](const loss_large &m, int i, int j, double v) {
            double inverse = first ? 1.0 / m.bound : 1.0, unit = inverse * inverse;
            double s = square_of(call, m, from)[(int64_t)i * m.side + j];
            double w = q.c * unit * unit * v + q.b * unit * s + (i == j ? q.a : 0.0);
            return w * inverse;
        });
}

/* square[to] = square[a] square[b], of commuting symmetric matrices. */
__device__ static inline void square_phase(const loss_call &call, int left, int right, int to,
                                           ProductMemory *memory) {
    symmetric_product(
        call, to, memory,
        [&](const loss_large &m, Vectors *a, Vectors *b) {
            *a = Vectors{square_of(call, m, left), m.side, 1, m.side};
            *b = Vectors{square_of(call, m, right), m.side, 1, m.side};
            return m.side;
        },
        [](const loss_large &, int, int, double v) { return v; });
}

/* out(m)[i, j] = the product of the sides, for a [rows(m), columns(m)] result. */
template <typename Shape, typename Sides, typename Out>
__device__ void full_product(const loss_call &call, ProductMemory *memory, Shape shape, Sides sides,
                             Out out) {
    share_blocks(
        call,
        [&](const loss_large &m) {
            int2 n = shape(m);
            return (int64_t)tiles_along(n.x) * tiles_along(n.y);
        },
        [&](const loss_large &m, int, int64_t t) {
            int2 n = shape(m);
            int across = tiles_along(n.y);
            int i0 = (int)(t / across) * PRODUCT_TILE, j0 = (int)(t % across) * PRODUCT_TILE;
            Vectors a, b;
            int depth = sides(m, &a, &b);
            ProductSums sums;
            product_tile(a, i0, b, j0, depth, memory, sums);
            double *to = out(m);
            product_entries(sums, i0, j0, [&](int i, int j, double v) {
                if (i < n.x && j < n.y) to[(int64_t)i * n.y + j] = v;
            });
        });
}

/* Y in buffer `to` = M Y (or Y M, of columns) with M = square[2]; from < -1: m.current. */
__device__ static inline void turn_phase(const loss_call &call, int from, int to,
                                         ProductMemory *memory) {
    full_product(
        call, memory, [&](const loss_large &m) { return make_int2(m.rows, call.dim); },
        [&](const loss_large &m, Vectors *a, Vectors *b) {
            const double *y = y_of(call, m, from < -1 ? m.current : from);
            Vectors square = {square_of(call, m, 2), m.side, 1, m.side};
            *a = m.columns ? Vectors{y, call.dim, 1, m.rows} : square;
            *b = m.columns ? square : Vectors{y, 1, call.dim, call.dim};
            return m.side;
        },
        [&](const loss_large &m) {
            int which = from < -1 ? 1 - m.current : to;
            return call.y[kind_of(call, m)][which] + (int64_t)m.start * call.dim;
        });
}

/* square[1] = W A^T (of the smaller side), W in the current buffer. */
__device__ static inline void against_input_phase(const loss_call &call, ProductMemory *memory) {
    full_product(
        call, memory, [&](const loss_large &m) { return make_int2(m.side, m.side); },
        [&](const loss_large &m, Vectors *a, Vectors *b) {
            *a = short_side(call, m, y_of(call, m, m.current));
            *b = short_side(call, m, input_of(call, m));
            return long_side(call, m);
        },
        [&](const loss_large &m) { return square_of(call, m, 1); });
}

/* change(matrix, i, j) for all entries of the side x side matrices, one row per warp. */
template <typename Change>
__device__ void entries_phase(const loss_call &call, Change change) {
    share_warps(
        call, [](const loss_large &m) { return (int64_t)m.side; },
        [&](const loss_large &m, int, int64_t i) {
            for (int j = (int)threadIdx.x % 32; j < m.side; j += 32)
                change(m, (int)i, j);
        });
}

/* vector[to][i] = the sum over j < columns(m) of term(m, i, j), i < rows(m). */
template <typename Shape, typename Term>
__device__ void row_sums_phase(const loss_call &call, int to, Shape shape, Term term) {
    share_warps(
        call, [&](const loss_large &m) { return (int64_t)shape(m).x; },
        [&](const loss_large &m, int, int64_t i) {
            double sum = 0.0;
            for (int j = (int)threadIdx.x % 32; j < shape(m).y; j += 32)
                sum += term(m, (int)i, j);
            sum = warp_sum(sum);
            if (threadIdx.x % 32 == 0) vector_of(call, m, to)[i] = sum;
        });
}

#endif
