/*
 * src/loss/cuda/factor.cuh - A A^T = L L^T by a block, with complete pivoting, from a Gram matrix
 * in two float64 parts: the entries live in registers, 16 x 16 threads with B x B entries each.
 *
 * L has the singular values and left singular vectors of A.  The elimination runs in the two-part
 * arithmetic, so that a pivot 1e-28 of the largest (σ 1e-14 of the largest) is still right; the
 * factor itself is rounded to float64, each column to its own size, which moves σ by no more than
 * rounding A would.  Pivoting makes the columns fall, which reveals the rank, and makes the Jacobi
 * rotations after it (jacobi.cuh) converge in few sweeps.  Rows are not moved: a row that has been
 * a pivot is dead, and reads as zero from then on.
 *
 * The same elimination in plain float64 takes a third of the time; what it gives is kept where no
 * pivot falls far (FACTOR_PLAIN), which the features of a net in training mostly fulfil.
 */
#ifndef OLE_SRC_LOSS_CUDA_FACTOR_CUH
#define OLE_SRC_LOSS_CUDA_FACTOR_CUH

#include "loss/cuda/element.cuh"

enum { FACTOR_THREADS = 256, FACTOR_SIDE = 16 };

/* Pivots under this share of the largest are rounding errors. */
#define FACTOR_NOISE 1e-30f

/* For input of float32 or less the plain elimination is good enough down to this share of the
 * largest pivot: it moves σ² by some 1e-15 of the largest, and so the weakest direction by 1e-9 of
 * itself over this. */
#define FACTOR_PLAIN 1e-6

struct FactorMemory {
    double2 column[LOSS_SMALL]; /* of the pivot; dead rows zero */
    double plain[LOSS_SMALL];   /* the same of the plain elimination */
    unsigned key[LOSS_SMALL];   /* a diagonal entry's size and place, in one comparable number */
};

/* The rows of L: column j of L is memory [j * pitch, j * pitch + rows). */
struct Factor {
    double *l;
    int pitch;
    int rank;
    bool finite;  /* false: there is NaN or Inf in the matrix, and no factor */
    double least; /* the last pivot's share of the largest */
};

/* Size in the high bits of a float (the diagonal over the largest), place in the low six. */
__device__ static inline unsigned pivot_key(double diagonal, double unit, int place) {
    float size = (float)(diagonal * unit);
    return size > FACTOR_NOISE ? (__float_as_uint(size) & ~63u) | (unsigned)place : 0u;
}

/* (hi + lo) -= a * b, all of two parts; hi stays the sum to float64's rounding. */
__device__ static inline void subtract_product(double2 &entry, double2 a, double2 b) {
    double p = a.x * b.x;
    double e = fma(a.x, b.x, -p);
    e = fma(a.x, b.y, e);
    e = fma(a.y, b.x, e);
    double s = entry.x - p, v = s - entry.x;
    double lost = (entry.x - (s - v)) - (p + v);
    double low = entry.y + (lost - e);
    entry.x = s + low;
    entry.y = low - (entry.x - s);
}

/* a / d of two parts, from 1 / d to about float64's rounding. */
__device__ static inline double2 divide(double2 a, double2 d, double reciprocal) {
    double q = a.x * reciprocal;
    double rest = fma(-q, d.x, a.x) + fma(-q, d.y, a.y);
    return make_double2(q, rest * reciprocal);
}

/* The same operations for plain float64. */
__device__ static inline void subtract_product(double &entry, double a, double b) {
    entry = fma(-a, b, entry);
}

__device__ static inline double divide(double a, double, double reciprocal) {
    return a * reciprocal;
}

__device__ static inline double leading(double2 v) {
    return v.x;
}

__device__ static inline double leading(double v) {
    return v;
}

__device__ static inline double2 *column_of(FactorMemory *m, double2) {
    return m->column;
}

__device__ static inline double *column_of(FactorMemory *m, double) {
    return m->plain;
}

/* The entries (ty + 16 a, tx + 16 b), b <= a, of a symmetric matrix; E is double2 or double. */
template <int B, class E>
struct Entries {
    E at[B][B];
};

/* Column `pivot` to memory. An entry above the stored blocks is its mirror image's. */
template <int B, class E>
__device__ void publish_column(const Entries<B, E> &g, int pivot, uint64_t alive, FactorMemory *m) {
    int tx = (int)threadIdx.x % FACTOR_SIDE, ty = (int)threadIdx.x / FACTOR_SIDE;
    int block = pivot / FACTOR_SIDE, inside = pivot % FACTOR_SIDE;
    const E zero = {};
    E *column = column_of(m, zero);
#pragma unroll
    for (int a = 0; a < B; a++)
#pragma unroll
        for (int b = 0; b <= a; b++) {
            int i = ty + FACTOR_SIDE * a, k = tx + FACTOR_SIDE * b;
            if (b == block && tx == inside) column[i] = alive >> i & 1 ? g.at[a][b] : zero;
            if (a == block && b < a && ty == inside) column[k] = alive >> k & 1 ? g.at[a][b] : zero;
        }
}

template <int B, class E>
__device__ void eliminate(Entries<B, E> &g, uint64_t alive, double unit, FactorMemory *m, E d,
                          double reciprocal) {
    int tx = (int)threadIdx.x % FACTOR_SIDE, ty = (int)threadIdx.x / FACTOR_SIDE;
    const E *column = column_of(m, d);
    E row[B], share[B];
#pragma unroll
    for (int a = 0; a < B; a++) {
        row[a] = column[ty + FACTOR_SIDE * a];
        share[a] = divide(column[tx + FACTOR_SIDE * a], d, reciprocal);
    }
#pragma unroll
    for (int a = 0; a < B; a++) {
#pragma unroll
        for (int b = 0; b <= a; b++)
            subtract_product(g.at[a][b], row[a], share[b]);
        int i = ty + FACTOR_SIDE * a;
        if (tx == ty) m->key[i] = alive >> i & 1 ? pivot_key(leading(g.at[a][a]), unit, i) : 0u;
    }
}

/* The largest key of LOSS_SMALL; the same for all threads. */
__device__ static inline unsigned largest_key(const FactorMemory *m, int rows) {
    int lane = (int)threadIdx.x % 32;
    unsigned key = lane < rows ? m->key[lane] : 0u;
    if (lane + 32 < rows) key = max(key, m->key[lane + 32]);
    return __reduce_max_sync(0xffffffffu, key);
}

/*
 * All threads of the block.  g: entries from `rows` on are zero.  l: [rows columns, pitch], pitch
 * at least 16 B; rows past `rows` become zero.
 */
template <int B, class E>
__device__ void factor(Entries<B, E> &g, int rows, FactorMemory *m, Factor *out) {
    int tx = (int)threadIdx.x % FACTOR_SIDE, ty = (int)threadIdx.x / FACTOR_SIDE;
    /* The largest diagonal entry by the high words, which order positive numbers. */
#pragma unroll
    for (int a = 0; a < B; a++)
        if (tx == ty) m->key[ty + FACTOR_SIDE * a] = (unsigned)__double2hiint(leading(g.at[a][a]));
    __syncthreads();
    unsigned most = largest_key(m, rows);
    out->finite = most < 0x7ff00000u;
    double unit = most && out->finite ? 1.0 / __hiloint2double((int)most, 0) : 0.0;
    __syncthreads();
#pragma unroll
    for (int a = 0; a < B; a++) {
        int i = ty + FACTOR_SIDE * a;
        if (tx == ty) m->key[i] = pivot_key(leading(g.at[a][a]), unit, i);
    }
    __syncthreads();
    uint64_t alive = ~(uint64_t)0;
    const E *column = column_of(m, E{});
    out->least = 0.0;
    int j = 0;
    for (; j < rows; j++) {
        unsigned key = largest_key(m, rows);
        if (key == 0u) break;
        int pivot = (int)(key & 63u);
        publish_column(g, pivot, alive, m);
        __syncthreads();
        E d = column[pivot];
        alive &= ~((uint64_t)1 << pivot);
        out->least = leading(d) * unit;
        double inverse = rsqrt(leading(d)); /* for both: root and quotient are slow */
        if ((int)threadIdx.x < FACTOR_SIDE * B)
            out->l[j * out->pitch + (int)threadIdx.x] = leading(column[threadIdx.x]) * inverse;
        eliminate(g, alive, unit, m, d, inverse * inverse);
        __syncthreads();
    }
    out->rank = j;
}

#endif
