/*
 * src/loss/cuda/small.cu - the matrices with at most LOSS_SMALL rows or columns, one block per
 * matrix, classes and the whole batch in one launch: from the Gram matrix in two parts to the
 * triangular factor L (factor.cuh), and from L to norm, rank and
 *
 *     K = sum over σ_j > threshold of u_j u_j^T / σ_j ,
 *
 * with which polar(A) = K A (or A K, where the Gram matrix was of columns).  K is for the rows as
 * block_scale() scales them.  The whole comes first, since it takes longest.
 *
 * From L there are two ways: matrix iteration (polar.cuh), quick, where it proves that every σ is
 * over the threshold; else singular values and left vectors by one-sided Jacobi (jacobi.cuh).
 */
#include "loss/cuda/factor.cuh"
#include "loss/cuda/jacobi.cuh"
#include "loss/cuda/polar.cuh"

namespace {

enum { THREADS = FACTOR_THREADS };

/* One matrix of the launch. */
struct Matrix {
    int slot;    /* where norm and rank go */
    int start;   /* first sorted row */
    int side;    /* of the Gram matrix */
    int columns; /* it is of columns */
    double *k;   /* [side, LOSS_SMALL] */
};

struct Memory {
    double l[LOSS_SMALL * (LOSS_SMALL + 8)];
    FactorMemory factor;
    double sigma[LOSS_SMALL];
    double weight[LOSS_SMALL]; /* 1/σ where σ is kept, else 0 */
    double scratch[THREADS / 32];
};

/* What block `index` works on; false: nothing. */
__device__ bool choose(const loss_call &call, int index, Matrix *m) {
    int used = *call.used, p = index - 1;
    if (index > used || used == 0) return false;
    if (!(call.terms & (index == 0 ? LOSS_WHOLE : LOSS_CLASSES))) return false;
    if (index > 0 && call.first[p] != p) return false;
    int rows = index == 0 ? used : call.count[p];
    m->slot = index == 0 ? call.max_rows : p;
    m->start = index == 0 ? 0 : p;
    m->side = smaller_side(call, rows);
    m->columns = rows > call.dim;
    m->k = index == 0 ? call.k_whole : call.k_class + (int64_t)p * LOSS_SMALL;
    return m->side <= LOSS_SMALL;
}

/* Entry (i, j), j <= i, of the Gram matrix, its partial sums added. */
__device__ double2 gram_entry(const loss_call &call, const Matrix &m, int i, int j) {
    int gi = m.columns ? i : m.start + i, gj = m.columns ? j : m.start + j;
    int ti = gi / GRAM_TILE, tj = gj / GRAM_TILE;
    int inside = gi % GRAM_TILE * GRAM_TILE + gj % GRAM_TILE, splits = call.row_splits;
    const double2 *from;
    if (m.columns) {
        int matrix = m.slot == call.max_rows ? 0 : 1 + m.slot / (call.dim + 1);
        splits = matrix == 0 ? call.column_splits : 1;
        from = call.gram_columns + column_gram_at(call, matrix, ti * (ti + 1) / 2 + tj);
    } else {
        from = call.gram_rows + ((int64_t)ti * GRAM_BAND + (ti - tj)) * splits * GRAM_ENTRIES;
    }
    double2 sum = from[inside];
    for (int s = 1; s < splits; s++) {
        double2 part = from[s * GRAM_ENTRIES + inside];
        double t = sum.x + part.x, b = t - sum.x;
        sum.y += part.y + ((sum.x - (t - b)) + (part.x - b));
        sum.x = t;
    }
    double t = sum.x + sum.y;
    return make_double2(t, sum.y - (t - sum.x));
}

__device__ void take(double2 sum, double2 &entry) {
    entry = sum;
}

__device__ void take(double2 sum, double &entry) {
    entry = sum.x;
}

template <int B, class E>
__device__ void load(const loss_call &call, const Matrix &m, Entries<B, E> *g) {
    int tx = (int)threadIdx.x % FACTOR_SIDE, ty = (int)threadIdx.x / FACTOR_SIDE;
    const double2 zero = make_double2(0.0, 0.0);
#pragma unroll
    for (int a = 0; a < B; a++)
#pragma unroll
        for (int b = 0; b <= a; b++) {
            int i = ty + FACTOR_SIDE * a, j = tx + FACTOR_SIDE * b;
            int low = i < j ? i : j, high = i < j ? j : i;
            take(high < m.side ? gram_entry(call, m, high, low) : zero, g->at[a][b]);
        }
}

template <int B, class E>
__device__ void load_and_factor(const loss_call &call, const Matrix &m, Memory *memory, Factor *f) {
    Entries<B, E> g;
    load(call, m, &g);
    factor(g, m.side, &memory->factor, f);
}

/* σ of each column of L; then the columns have length 1. Eight threads a column. */
template <int R>
__device__ void normalise(Memory *memory, int pitch, int count) {
    int lane = (int)threadIdx.x % PAIR_LANES;
    for (int j = (int)threadIdx.x / PAIR_LANES; j < LOSS_SMALL; j += THREADS / PAIR_LANES) {
        double *column = memory->l + (j < count ? j : 0) * pitch + lane;
        double v[R], square = 0.0;
#pragma unroll
        for (int i = 0; i < R; i++) {
            v[i] = j < count ? column[i * PAIR_LANES] : 0.0;
            square = fma(v[i], v[i], square);
        }
        double sigma = sqrt(sum_of_lanes(square));
        double inverse = sigma > 0.0 ? 1.0 / sigma : 0.0;
#pragma unroll
        for (int i = 0; i < R; i++)
            if (j < count) column[i * PAIR_LANES] = v[i] * inverse;
        if (lane == 0) memory->sigma[j] = sigma;
    }
    __syncthreads();
}

/* Norm and rank to their places, and the weights of the directions. The first warp. */
__device__ void judge(const loss_call &call, const Matrix &m, Memory *memory, double scale) {
    if (threadIdx.x >= 32) return;
    int lane = (int)threadIdx.x;
    double s0 = memory->sigma[lane], s1 = memory->sigma[lane + 32];
    double sum = s0 + s1, most = fmax(s0, s1);
    for (int offset = 16; offset; offset >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
        most = fmax(most, __shfl_xor_sync(0xffffffffu, most, offset));
    }
    double threshold = fmax(call.cut_absolute * scale, call.cut_relative * most);
    memory->weight[lane] = s0 > threshold ? 1.0 / s0 : 0.0;
    memory->weight[lane + 32] = s1 > threshold ? 1.0 / s1 : 0.0;
    int rank = __reduce_add_sync(0xffffffffu, (s0 > threshold) + (s1 > threshold));
    if (lane != 0) return;
    call.norm[m.slot] = sum / scale;
    call.rank[m.slot] = rank;
}

/* K, by the same 16 x 16 threads with B x B entries each. */
template <int B>
__device__ void write_inverse(const Matrix &m, const Memory *memory, int pitch, int count) {
    int tx = (int)threadIdx.x % FACTOR_SIDE, ty = (int)threadIdx.x / FACTOR_SIDE;
    double k[B][B] = {};
    for (int j = 0; j < count; j++) {
        const double *column = memory->l + j * pitch;
        double weight = memory->weight[j], row[B], other[B];
#pragma unroll
        for (int a = 0; a < B; a++) {
            row[a] = weight * column[ty + FACTOR_SIDE * a];
            other[a] = column[tx + FACTOR_SIDE * a];
        }
#pragma unroll
        for (int a = 0; a < B; a++)
#pragma unroll
            for (int b = 0; b < B; b++)
                k[a][b] = fma(row[a], other[b], k[a][b]);
    }
#pragma unroll
    for (int a = 0; a < B; a++)
#pragma unroll
        for (int b = 0; b < B; b++) {
            int i = ty + FACTOR_SIDE * a, j = tx + FACTOR_SIDE * b;
            if (i < m.side && j < m.side) m.k[i * LOSS_SMALL + j] = k[a][b];
        }
}

/* Norm, rank and K from L by matrix iteration; false: a σ may be under the threshold. */
template <int N>
__device__ bool solve_by_iteration(const loss_call &call, const Matrix &m, Memory *memory,
                                   int pitch, int rank, double scale) {
    extern __shared__ __align__(16) double iterated[];
    Polar p = polar_place<N>(iterated);
    if (!polar_run<N>(memory->l, pitch, rank, call.cut_absolute * scale, call.cut_relative, p,
                      memory->scratch))
        return false;
    double norm = polar_norm<N>(memory->l, pitch, rank, p, memory->scratch);
    if (threadIdx.x == 0) {
        call.norm[m.slot] = norm / scale;
        call.rank[m.slot] = rank;
    }
    if (call.gradient) polar_inverse<N>(p, m.side, m.k, LOSS_SMALL);
    return true;
}

template <int B>
__device__ void solve(const loss_call &call, const Matrix &m, Memory *memory, double scale) {
    enum { R = 2 * B, PITCH = 8 * (R + 1) };
    Factor f = {memory->l, PITCH, 0, true, 0.0};
    if (call.dtype != OLE_F64) load_and_factor<B, double>(call, m, memory, &f);
    if (f.finite && (f.rank < m.side || f.least < FACTOR_PLAIN))
        load_and_factor<B, double2>(call, m, memory, &f);
    if (!f.finite) {
        if (threadIdx.x == 0) {
            call.norm[m.slot] = nan("");
            call.rank[m.slot] = 0;
        }
        return;
    }
    if (solve_by_iteration<16 * B>(call, m, memory, PITCH, f.rank, scale)) return;
    orthogonalise<R>(memory->l, PITCH, f.rank);
    normalise<R>(memory, PITCH, f.rank);
    judge(call, m, memory, scale);
    __syncthreads();
    if (call.gradient) write_inverse<B>(m, memory, PITCH, f.rank);
}

/* A single row, or a single column: σ is its length. */
__device__ void solve_one(const loss_call &call, const Matrix &m, double scale) {
    if (threadIdx.x != 0) return;
    double2 g = gram_entry(call, m, 0, 0);
    double sigma = sqrt(g.x);
    bool kept = sigma > fmax(call.cut_absolute * scale, call.cut_relative * sigma);
    call.norm[m.slot] = sigma / scale;
    call.rank[m.slot] = kept;
    m.k[0] = kept ? 1.0 / sigma : 0.0;
}

__global__ void __launch_bounds__(THREADS, 1) solve_small(const loss_call call) {
    __shared__ Memory memory;
    Matrix m;
    if (!choose(call, (int)blockIdx.x, &m)) return;
    double scale = block_scale(call, memory.scratch);
    if (m.side == 1)
        solve_one(call, m, scale);
    else if (m.side <= 16)
        solve<1>(call, m, &memory, scale);
    else if (m.side <= 32)
        solve<2>(call, m, &memory, scale);
    else
        solve<4>(call, m, &memory, scale);
}

} // namespace

cudaError_t loss_small_prepare(void) {
    return cudaFuncSetAttribute(solve_small, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)polar_bytes<LOSS_SMALL>());
}

cudaError_t loss_launch_small(const loss_call *call, cudaStream_t stream) {
    int side = call->rows < call->dim ? call->rows : call->dim;
    size_t shared = side <= 16   ? polar_bytes<16>()
                    : side <= 32 ? polar_bytes<32>()
                                 : polar_bytes<LOSS_SMALL>();
    return launch(solve_small, dim3((unsigned)(call->rows + 1)), THREADS, call, stream, shared);
}
