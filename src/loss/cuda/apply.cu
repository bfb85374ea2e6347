/*
 * src/loss/cuda/apply.cu - value and gradient from the results of small.cu and iterate.cu.
 *
 * A block takes 8 sorted rows, one per warp, and 32 columns, one per lane:
 *
 *     row i of class c = factor * ( [‖X_c‖_* > Δ] polar(X_c)_i - polar(X)_i )
 *
 * where a polar factor is K X (small, of rows), X K (small, of columns) or lies ready (larger).
 * Products of rows share the rows they read through shared memory.  One more row of blocks writes
 * zeros to ignored rows, and one block the outcome.  NaN or Inf in a row that is not ignored makes
 * everything NaN.
 */
#include "loss/cuda/element.cuh"

namespace {

enum { ROWS = 8, COLUMNS = 32, THREADS = ROWS * COLUMNS, CHUNK = 32 };

/* Where a matrix's polar factor comes from. */
enum Kind { NOTHING, ROWS_K, COLUMNS_K, READY };

struct Part {
    Kind kind;
    double sign;
    int start, rows;    /* of the matrix, in the sorted order */
    const double *k;    /* [side, LOSS_SMALL] */
    const double *full; /* READY: [rows, dim], or NULL for zero */
};

__device__ Part part_of(const loss_call &call, int slot, int start, int rows, double sign) {
    Part p = {NOTHING, sign, start, rows, nullptr, nullptr};
    bool whole = slot == call.max_rows;
    if (sign == 0.0 || !(call.terms & (whole ? LOSS_WHOLE : LOSS_CLASSES))) return p;
    if (call.rank[slot] == 0) return p;
    if (smaller_side(call, rows) <= LOSS_SMALL) {
        p.kind = rows > call.dim ? COLUMNS_K : ROWS_K;
        p.k = whole ? call.k_whole : call.k_class + (int64_t)start * LOSS_SMALL;
        return p;
    }
    const loss_large &large = call.large[whole ? 0 : 1 + start / (LOSS_SMALL + 1)];
    p.kind = READY;
    p.full = call.y[whole ? 0 : 1][large.current] + (int64_t)start * call.dim;
    return p;
}

/* The norm of a matrix of so many rows. */
__device__ double norm_of(const loss_call &call, int slot, int rows) {
    return call.norm[slot] - call.shift * rows;
}

/* The class of the row at `place`. */
__device__ Part class_part(const loss_call &call, int place) {
    int start = call.first[place];
    double sign = norm_of(call, start, call.count[place]) > call.floor ? 1.0 : 0.0;
    return part_of(call, start, start, call.count[place], sign);
}

__device__ double coefficient(const Part &p, int place, int other) {
    if (p.kind != ROWS_K || other < p.start || other >= p.start + p.rows) return 0.0;
    return p.sign * p.k[(place - p.start) * LOSS_SMALL + other - p.start];
}

/* What does not go through shared memory: rows times K, and factors that lie ready. */
__device__ double direct(const loss_call &call, const Part &p, int place, int row, int column,
                         double scale) {
    if (p.kind == READY) return p.sign * p.full[(int64_t)(place - p.start) * call.dim + column];
    if (p.kind != COLUMNS_K) return 0.0;
    double sum = 0.0;
#pragma unroll 4
    for (int k = 0; k < call.dim; k++)
        sum = fma(scale * read_element(call, row * call.x_stride + k), p.k[k * LOSS_SMALL + column],
                  sum);
    return p.sign * sum;
}

/* WIDE: the type that an element is widened to before it is added to. */
template <class T, class WIDE>
__device__ void put_element(const loss_call &call, int64_t at, double v) {
    T *to = static_cast<T *>(call.gradient) + at;
    *to = T(call.accumulate ? (double)(WIDE)*to + v : v);
}

__device__ void write_element(const loss_call &call, int64_t at, double v) {
    switch (call.dtype) {
    case OLE_F64:
        return put_element<double, double>(call, at, v);
    case OLE_F32:
        return put_element<float, float>(call, at, v);
    case OLE_BF16:
        return put_element<__nv_bfloat16, float>(call, at, v);
    default:
        return put_element<__half, float>(call, at, v);
    }
}

__device__ double step_factor(const loss_call &call, int used) {
    return call.weight / (call.mean ? (double)used : 1.0);
}

/* The sum of K times rows for a place; the sorted rows of `range` take part. */
__device__ double product_of_rows(const loss_call &call, const Part &own, const Part &whole,
                                  int place, int2 range, int column, double scale) {
    __shared__ double x[CHUNK][COLUMNS], k[ROWS][CHUNK];
    int lane = (int)threadIdx.x % COLUMNS, warp = (int)threadIdx.x / COLUMNS;
    double sum = 0.0;
    for (int k0 = range.x; k0 < range.y; k0 += CHUNK) {
        __syncthreads();
        for (int i = warp; i < CHUNK; i += ROWS)
            x[i][lane] =
                k0 + i < range.y && column < call.dim
                    ? scale * read_element(call, call.order[k0 + i] * call.x_stride + column)
                    : 0.0;
        k[warp][lane] = coefficient(own, place, k0 + lane) + coefficient(whole, place, k0 + lane);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < CHUNK; i++)
            sum = fma(k[warp][i], x[i][lane], sum);
    }
    return sum;
}

/* The sorted rows [x, y) that products of rows with these 8 places need. */
__device__ int2 rows_needed(const Part &own, const Part &whole, int used) {
    __shared__ int begin[ROWS], end[ROWS];
    if (whole.kind == ROWS_K) return make_int2(0, used);
    bool any = own.kind == ROWS_K;
    begin[threadIdx.x / COLUMNS] = any ? own.start : used;
    end[threadIdx.x / COLUMNS] = any ? own.start + own.rows : 0;
    __syncthreads();
    int2 range = make_int2(used, 0);
    for (int w = 0; w < ROWS; w++)
        range = make_int2(min(range.x, begin[w]), max(range.y, end[w]));
    return range;
}

/* The gradient of 8 places and 32 columns. */
__device__ void gradient_tile(const loss_call &call, int used) {
    __shared__ double scratch[THREADS / 32];
    double scale = block_scale(call, scratch);
    int place = (int)blockIdx.x * ROWS + (int)threadIdx.x / COLUMNS;
    int column = (int)blockIdx.y * COLUMNS + (int)threadIdx.x % COLUMNS;
    bool valid = place < used && column < call.dim;
    place = place < used ? place : used - 1;
    Part own = class_part(call, place);
    Part whole = part_of(call, call.max_rows, 0, used, -1.0);
    int2 range = rows_needed(own, whole, used);
    double sum = product_of_rows(call, own, whole, place, range, column, scale);
    if (!valid) return;
    int row = call.order[place];
    sum += direct(call, own, place, row, column, scale);
    sum += direct(call, whole, place, row, column, scale);
    write_element(call, row * call.gradient_stride + column,
                  call.upstream * step_factor(call, used) * sum);
}

/* NaN to the 8 places and 32 columns. */
__device__ void poison_tile(const loss_call &call, int used) {
    int place = (int)blockIdx.x * ROWS + (int)threadIdx.x / COLUMNS;
    int column = (int)blockIdx.y * COLUMNS + (int)threadIdx.x % COLUMNS;
    if (place < used && column < call.dim)
        write_element(call, call.order[place] * call.gradient_stride + column, nan(""));
}

/* Zeros where the label says that the row does not count. */
__device__ void ignored_rows(const loss_call &call) {
    if (call.accumulate) return;
    int lane = (int)threadIdx.x % COLUMNS, column = (int)blockIdx.y * COLUMNS + lane;
    if (column >= call.dim) return;
    for (int row = (int)threadIdx.x / COLUMNS; row < call.rows; row += ROWS)
        if (read_label(call, row) < 0)
            write_element(call, row * call.gradient_stride + column, 0.0);
}

__device__ double block_sum(double v, double *shared) {
    for (int offset = 16; offset; offset >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0;
    for (int w = 0; w < THREADS / 32; w++)
        v += shared[w];
    return v;
}

/* Value, terms and counts, in an order of sums that the number of rows alone decides. */
__device__ void write_outcome(const loss_call &call, int used, bool bad) {
    __shared__ double shared[THREADS / 32];
    __shared__ int first_bad;
    double term = 0.0, classes = 0.0;
    for (int p = (int)threadIdx.x; p < used; p += THREADS)
        if (call.first[p] == p) {
            if (call.terms & LOSS_CLASSES)
                term += fmax(norm_of(call, p, call.count[p]), call.floor);
            classes += 1.0;
        }
    term = block_sum(term, shared);
    classes = block_sum(classes, shared);
    if (threadIdx.x == 0) first_bad = call.rows;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < call.rows; i += THREADS)
        if (call.bad[i]) atomicMin(&first_bad, i);
    __syncthreads();
    if (threadIdx.x != 0 || !call.outcome) return;
    ole_loss_outcome out = {0.0, 0.0, 0.0, used, (int64_t)classes, 0, bad ? first_bad : -1};
    if (used > 0) {
        out.class_term = bad ? nan("") : term;
        double norm = call.terms & LOSS_WHOLE ? norm_of(call, call.max_rows, used) : 0.0;
        out.global_norm = bad ? nan("") : norm;
        out.value = step_factor(call, used) * (out.class_term - out.global_norm);
        out.rank = bad || !(call.terms & LOSS_WHOLE) ? 0 : call.rank[call.max_rows];
    }
    *call.outcome = out;
}

__global__ void __launch_bounds__(THREADS) apply(const loss_call call) {
    int used = *call.used, tiles = (call.rows + ROWS - 1) / ROWS;
    bool bad = any_bad<THREADS>(call);
    if (!call.gradient) {
        write_outcome(call, used, bad);
    } else if ((int)blockIdx.x < tiles) {
        if ((int)blockIdx.x * ROWS >= used) return;
        if (bad)
            poison_tile(call, used);
        else
            gradient_tile(call, used);
    } else if ((int)blockIdx.x == tiles) {
        ignored_rows(call);
    } else if (blockIdx.y == 0) {
        write_outcome(call, used, bad);
    }
}

} // namespace

cudaError_t loss_launch_apply(const loss_call *call, cudaStream_t stream) {
    dim3 grid(1);
    if (call->gradient)
        grid = dim3((unsigned)((call->rows + ROWS - 1) / ROWS + 2),
                    (unsigned)((call->dim + COLUMNS - 1) / COLUMNS));
    return launch(apply, grid, THREADS, call, stream);
}
