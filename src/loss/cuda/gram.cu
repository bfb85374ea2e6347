/*
 * src/loss/cuda/gram.cu - Gram matrices of the small matrices, every sum kept in two float64 parts
 * (about 105 bits), so that small.cu can take their triangular factor without losing the weak
 * singular values to the squaring.
 *
 * Tiles of 8 x 8 entries, a block each, with the sum split over blockIdx.y as well; small.cu adds
 * the parts.  Three kinds of tile:
 *   rows     entry (i, j) = <row i, row j> of the sorted rows, within GRAM_BAND tiles of the
 *            diagonal: the blocks of the classes and, where it is small itself, the whole;
 *   whole    entry (i, j) = <column i, column j> over all rows, where there are more rows than
 *            columns and few columns;
 *   classes  the same for each class with more rows than columns.  Two of them start more than dim
 *            places apart, so that start / (dim + 1) numbers them.
 */
#include "loss/cuda/element.cuh"

namespace {

enum {
    DEPTH = 64,        /* of the sum, staged at once */
    PITCH = DEPTH + 4, /* 4 mod 16: a half-warp's reads fall on distinct banks */
    SHARES = 4,        /* threads on one entry */
    THREADS = GRAM_ENTRIES * SHARES
};

/* Two lists of vectors to multiply: element k of vector i. */
struct Source {
    int start; /* first sorted row */
    int columns;
    int vectors; /* there are */
    int depth;   /* elements of a vector */
};

__device__ double element(const loss_call &call, const Source &s, int i, int k, double scale) {
    if (i >= s.vectors || k >= s.depth) return 0.0;
    int row = call.order[s.start + (s.columns ? k : i)];
    return scale * read_element(call, row * call.x_stride + (s.columns ? i : k));
}

/* (sum, rest) += v, with the rounding error of `sum` added to `rest`. */
__device__ void add_two(double &sum, double &rest, double v) {
    double s = sum + v, b = s - sum;
    rest += (sum - (s - b)) + (v - b);
    sum = s;
}

__device__ void add_product(double &sum, double &rest, double a, double b, bool exact) {
    double p = a * b;
    if (!exact) rest += fma(a, b, -p);
    add_two(sum, rest, p);
}

__device__ void stage(const loss_call &call, const Source &s, int first, int k0, double scale,
                      double (*to)[PITCH]) {
    for (int e = (int)threadIdx.x; e < GRAM_TILE * DEPTH; e += THREADS) {
        /* neighbours in memory to neighbouring threads */
        int i = s.columns ? e % GRAM_TILE : e / DEPTH;
        int k = s.columns ? e / GRAM_TILE : e % DEPTH;
        to[i][k] = element(call, s, first + i, k0 + k, scale);
    }
}

/* A tile of part blockIdx.y of `splits` of the sum, to out[splits, GRAM_ENTRIES]. */
__device__ void tile(const loss_call &call, const Source &s, int row_tile, int column_tile,
                     int splits, double scale, double2 *out) {
    __shared__ double a[GRAM_TILE][PITCH], b[GRAM_TILE][PITCH];
    int entry = (int)threadIdx.x / SHARES, share = (int)threadIdx.x % SHARES;
    int i = entry / GRAM_TILE, j = entry % GRAM_TILE;
    bool exact = call.dtype != OLE_F64;
    double sum = 0.0, rest = 0.0;
    for (int k0 = (int)blockIdx.y * DEPTH; k0 < s.depth; k0 += splits * DEPTH) {
        __syncthreads();
        stage(call, s, row_tile * GRAM_TILE, k0, scale, a);
        stage(call, s, column_tile * GRAM_TILE, k0, scale, b);
        __syncthreads();
#pragma unroll 4
        for (int k = share; k < DEPTH; k += SHARES)
            add_product(sum, rest, a[i][k], b[j][k], exact);
    }
    for (int offset = 1; offset < SHARES; offset <<= 1) {
        double other = __shfl_xor_sync(0xffffffffu, sum, offset);
        double other_rest = __shfl_xor_sync(0xffffffffu, rest, offset);
        /* the same order on both sides, so that both get the same bits */
        bool low = (share & offset) == 0;
        double s0 = low ? sum : other, s1 = low ? other : sum;
        rest = low ? rest + other_rest : other_rest + rest;
        sum = s0;
        add_two(sum, rest, s1);
    }
    if (share == 0) out[(int64_t)blockIdx.y * GRAM_ENTRIES + entry] = make_double2(sum, rest);
}

/* Tile t of a lower triangle, row by row. */
__device__ void triangle(int t, int *i, int *j) {
    int row = 0;
    while ((row + 1) * (row + 2) / 2 <= t)
        row++;
    *i = row;
    *j = t - row * (row + 1) / 2;
}

/* Some class, or the whole, needs the tile: it is where the class of its first row reaches. */
__device__ bool row_tile_needed(const loss_call &call, int used, int row_tile, int column_tile) {
    if (row_tile * GRAM_TILE >= used || column_tile < 0) return false;
    if (used <= LOSS_SMALL && used <= call.dim) return true;
    return call.first[row_tile * GRAM_TILE] < (column_tile + 1) * GRAM_TILE;
}

/* Class number `index` among those with more rows than columns; -1: none. */
__device__ int column_class(const loss_call &call, int used, int index) {
    __shared__ int found;
    if (threadIdx.x == 0) found = -1;
    __syncthreads();
    int begin = index * (call.dim + 1), end = begin + call.dim + 1;
    for (int p = begin + (int)threadIdx.x; p < end && p < used; p += THREADS)
        if (call.first[p] == p && call.count[p] > call.dim) found = p; /* at most one */
    __syncthreads();
    return found;
}

__global__ void __launch_bounds__(THREADS) gram_of_rows(const loss_call call) {
    __shared__ double scratch[THREADS / 32];
    int used = *call.used;
    int row_tile = (int)blockIdx.x / GRAM_BAND, back = (int)blockIdx.x % GRAM_BAND;
    if (!row_tile_needed(call, used, row_tile, row_tile - back)) return;
    Source s = {0, 0, used, call.dim};
    int64_t at = (int64_t)blockIdx.x * call.row_splits * GRAM_ENTRIES;
    tile(call, s, row_tile, row_tile - back, call.row_splits, block_scale(call, scratch),
         call.gram_rows + at);
}

__global__ void __launch_bounds__(THREADS) gram_of_columns(const loss_call call) {
    __shared__ double scratch[THREADS / 32];
    int used = *call.used;
    int matrix = (int)blockIdx.x / call.column_tiles, t = (int)blockIdx.x % call.column_tiles;
    Source s = {0, 1, call.dim, used};
    int splits = matrix == 0 ? call.column_splits : 1;
    if ((int)blockIdx.y >= splits) return;
    if (matrix == 0) {
        if (used <= call.dim) return;
    } else {
        int p = column_class(call, used, matrix - 1);
        if (p < 0) return;
        s.start = p;
        s.depth = call.count[p];
    }
    int i, j;
    triangle(t, &i, &j);
    double2 *out = call.gram_columns + column_gram_at(call, matrix, t);
    tile(call, s, i, j, splits, block_scale(call, scratch), out);
}

} // namespace

cudaError_t loss_launch_gram(const loss_call *call, cudaStream_t stream) {
    int tiles = (call->rows + GRAM_TILE - 1) / GRAM_TILE;
    dim3 grid((unsigned)(tiles * GRAM_BAND), (unsigned)call->row_splits);
    cudaError_t code = launch(gram_of_rows, grid, THREADS, call, stream);
    if (code != cudaSuccess || call->rows <= call->dim || call->dim > LOSS_SMALL) return code;
    int matrices = 2 + call->rows / (call->dim + 1);
    grid = dim3((unsigned)(matrices * call->column_tiles), (unsigned)call->column_splits);
    return launch(gram_of_columns, grid, THREADS, call, stream);
}
