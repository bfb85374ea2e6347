/*
 * src/loss/cuda/iterate.cu - the polar factors of the matrices with more than LOSS_SMALL rows and
 * columns, all of them at once, by one cooperative launch: matrix products on the tensor cores with
 * a barrier of the whole GPU between them.  The sizes come from the labels and so are known on the
 * GPU alone; there no launch is wasted and a loop ends when its work is done.
 *
 *     Y <- (a + b Y Y^T + c (Y Y^T)^2) Y          from Y = A / bound, in the steps of schedule.cuh
 *
 * brings every σ to 1 and leaves the vectors: Y becomes W, the polar factor of A, with the rounding
 * errors of a backward stable method since the rows themselves are iterated, never only their Gram
 * matrix.  ‖A‖_* = <W, A>.  Where σ under the threshold may be among them (the iteration did not
 * converge in the rounds that would have proven the contrary), the same polynomials give the sign
 * of H - threshold, H = W A^T, whose positive half is the projector P on the kept directions, and
 * the result is P W.  docs/maths.md section 7 bounds the errors.
 */
#include "loss/cuda/phases.cuh"

#include <cooperative_groups.h>

namespace {

using cooperative_groups::grid_group;

enum { POWER_STEPS = 8, SIGN_ROUNDS = 3 };

/* The same on all blocks, since all read the same after a barrier. */
__device__ bool any_active(const loss_call &call) {
    int any = 0;
    for (int s = (int)threadIdx.x; s < call.max_large; s += PRODUCT_THREADS)
        any |= call.large[s].active;
    return __syncthreads_or(any) != 0;
}

/* Entry s of the list: the whole, or the class that starts in [65 (s - 1), 65 s) and has over 64
 * rows: there is one at most. */
__device__ loss_large entry_of(const loss_call &call, int s, int used) {
    loss_large m = {};
    if (s == 0 && call.terms & LOSS_WHOLE) {
        m.slot = call.max_rows;
        m.rows = used;
        m.active = 1;
    }
    int begin = (s - 1) * (LOSS_SMALL + 1);
    bool looks = s > 0 && call.terms & LOSS_CLASSES;
    for (int p = begin; looks && p < begin + LOSS_SMALL + 1 && p < used; p++)
        if (call.first[p] == p && smaller_side(call, call.count[p]) > LOSS_SMALL) {
            m.slot = m.start = p;
            m.rows = call.count[p];
            m.active = 1;
        }
    m.side = smaller_side(call, m.rows);
    m.columns = m.rows > call.dim;
    m.current = -1;
    return m;
}

/* The list, and the rows in float64, sorted and scaled. */
__device__ void begin_phase(const loss_call &call, int used, double scale) {
    int64_t thread = (int64_t)blockIdx.x * PRODUCT_THREADS + threadIdx.x;
    int64_t threads = (int64_t)gridDim.x * PRODUCT_THREADS;
    for (int64_t s = thread; s < call.max_large; s += threads)
        call.large[s] = entry_of(call, (int)s, used);
    for (int64_t e = thread; e < (int64_t)used * call.dim; e += threads) {
        int row = call.order[e / call.dim];
        call.sorted[e] = scale * read_element(call, row * call.x_stride + e % call.dim);
    }
}

/* vector[0] = sums of |entries| of the rows of square[0], which bound its norm. */
__device__ void absolute_sums(const loss_call &call) {
    row_sums_phase(
        call, 0, [](const loss_large &m) { return make_int2(m.side, m.side); },
        [&](const loss_large &m, int i, int j) {
            return fabs(square_of(call, m, 0)[(int64_t)i * m.side + j]);
        });
}

__device__ double largest_sum(const loss_call &call, const loss_large &m) {
    return block_total<true>(m.side, [&](int64_t i) { return vector_of(call, m, 0)[i]; });
}

/* The bound on σ from the Gram matrix; a matrix of zeros is done. */
__device__ void bound_phase(const loss_call &call) {
    each_matrix(call, [&](const loss_large &m, int s) {
        double bound = sqrt(largest_sum(call, m));
        if (threadIdx.x != 0) return;
        call.large[s].bound = bound;
        if (bound > 0.0) return;
        call.large[s].active = 0;
        call.norm[m.slot] = 0.0;
        call.rank[m.slot] = 0;
    });
}

/* After a round: what has converged is done, and so is everything after the last one. */
__device__ void judge_phase(const loss_call &call, int round, int current, double scale) {
    each_matrix(call, [&](const loss_large &m, int s) {
        const double *deviation = call.deviation + s * call.deviation_pitch;
        bool done = block_total<true>(triangle_tiles(m), [&](int64_t t) { return deviation[t]; }) <=
                    CONVERGED;
        if (threadIdx.x != 0 || (!done && round + 1 < call.rounds)) return;
        double threshold = fmax(call.cut_absolute * scale, call.cut_relative * m.bound);
        call.large[s].active = 0;
        call.large[s].current = current;
        call.large[s].cut = !done || threshold > MARGIN * REACHED[round] * m.bound;
    });
}

__device__ Quintic step_of(int round, int k) {
    return round == 0 ? FIRST[k] : (round == 1 ? SECOND[k] : LATER[k]);
}

__device__ int steps_of(int round) {
    return round == 0 ? FIRST_STEPS : (round == 1 ? SECOND_STEPS : LATER_STEPS);
}

/* All matrices to their polar factors. */
__device__ void polar(const loss_call &call, grid_group &grid, ProductMemory *memory,
                      double scale) {
    gram_phase(call, -1, memory);
    grid.sync();
    absolute_sums(call);
    grid.sync();
    bound_phase(call);
    grid.sync();
    int from = -1;
    for (int round = 0; any_active(call); round++) {
        for (int k = 0; k < steps_of(round); k++) {
            int to = from == 0 ? 1 : 0;
            mix_phase(call, 0, step_of(round, k), from < 0, memory);
            grid.sync();
            turn_phase(call, from, to, memory);
            grid.sync();
            gram_phase(call, to, memory);
            grid.sync();
            from = to;
        }
        judge_phase(call, round, from, scale);
        grid.sync();
    }
}

/* active = which(matrix), for all; between two barriers, since others may still read it. */
template <typename Which>
__device__ void activate(const loss_call &call, grid_group &grid, Which which) {
    grid.sync();
    for (int s = (int)(blockIdx.x * PRODUCT_THREADS + threadIdx.x); s < call.max_large;
         s += (int)gridDim.x * PRODUCT_THREADS)
        call.large[s].active = which(call.large[s]);
    grid.sync();
}

/* Norms, from products of rows of W and A. */
__device__ void norms(const loss_call &call, grid_group &grid, double scale) {
    activate(call, grid, [](const loss_large &m) { return m.bound > 0.0; });
    row_sums_phase(
        call, 0, [&](const loss_large &m) { return make_int2(m.rows, call.dim); },
        [&](const loss_large &m, int i, int j) {
            int64_t at = (int64_t)i * call.dim + j;
            return y_of(call, m, m.current)[at] * input_of(call, m)[at];
        });
    grid.sync();
    each_matrix(call, [&](const loss_large &m, int) {
        double norm =
            block_total<false>(m.rows, [&](int64_t i) { return vector_of(call, m, 0)[i]; });
        if (threadIdx.x != 0) return;
        call.norm[m.slot] = norm / scale;
        call.rank[m.slot] = m.side;
    });
}

/* H = W A^T, made symmetric, to square[0]; its bound; the threshold by the power method. */
__device__ void threshold(const loss_call &call, grid_group &grid, ProductMemory *memory,
                          double scale) {
    against_input_phase(call, memory);
    grid.sync();
    entries_phase(call, [&](const loss_large &m, int i, int j) {
        const double *h = square_of(call, m, 1);
        square_of(call, m, 0)[(int64_t)i * m.side + j] =
            0.5 * (h[(int64_t)i * m.side + j] + h[(int64_t)j * m.side + i]);
    });
    grid.sync();
    absolute_sums(call);
    grid.sync();
    each_matrix(call, [&](const loss_large &m, int s) {
        double bound = largest_sum(call, m);
        if (threadIdx.x == 0) call.large[s].bound = bound;
    });
    grid.sync();
    for (int k = 0; k < POWER_STEPS; k++) {
        row_sums_phase(
            call, (k + 1) % 2, [](const loss_large &m) { return make_int2(m.side, m.side); },
            [&](const loss_large &m, int i, int j) {
                double h = square_of(call, m, 0)[(int64_t)i * m.side + j];
                return h / m.bound * vector_of(call, m, k % 2)[j];
            });
        grid.sync();
    }
    each_matrix(call, [&](const loss_large &m, int s) {
        double square[2];
        for (int k = 0; k < 2; k++)
            square[k] = block_total<false>(m.side, [&](int64_t i) {
                double v = vector_of(call, m, (POWER_STEPS + k) % 2)[i] / m.bound;
                return v * v;
            });
        double sigma = square[1] > 0.0 ? m.bound * sqrt(square[0] / square[1]) : 0.0;
        if (threadIdx.x == 0)
            call.large[s].threshold = fmax(call.cut_absolute * scale, call.cut_relative * sigma);
    });
    grid.sync();
}

/* Takes the matrices out whose square is the identity; false: none is left. */
__device__ bool sign_goes_on(const loss_call &call, grid_group &grid) {
    each_matrix(call, [&](const loss_large &m, int s) {
        const double *deviation = call.deviation + s * call.deviation_pitch;
        double off = block_total<true>(triangle_tiles(m), [&](int64_t t) { return deviation[t]; });
        if (threadIdx.x == 0 && off <= CONVERGED) call.large[s].active = 0;
    });
    grid.sync();
    return any_active(call);
}

/* square[0] = the sign of H - threshold: a round has an even number of steps, and ends there. */
__device__ void sign(const loss_call &call, grid_group &grid, ProductMemory *memory) {
    int current = 0;
    entries_phase(call, [&](const loss_large &m, int i, int j) {
        double *h = square_of(call, m, 0) + (int64_t)i * m.side + j;
        *h = (*h - (i == j ? m.threshold : 0.0)) / (m.bound + m.threshold);
    });
    grid.sync();
    for (int round = 0; round < SIGN_ROUNDS; round++) {
        for (int k = 0; k < LATER_STEPS; k++) {
            int other = 1 - current;
            square_phase(call, current, current, other, memory);
            grid.sync();
            if (round > 0 && k == 0 && !sign_goes_on(call, grid)) return;
            mix_phase(call, other, LATER[k], false, memory);
            grid.sync();
            square_phase(call, 2, current, other, memory);
            grid.sync();
            current = other;
        }
    }
}

/* W <- P W with P = (1 + sign) / 2 for the matrices that are active, and their ranks. */
__device__ void project(const loss_call &call, grid_group &grid, ProductMemory *memory) {
    static_assert(LATER_STEPS % 2 == 0, "a round of the sign must end in square[0]");
    entries_phase(call, [&](const loss_large &m, int i, int j) {
        int64_t at = (int64_t)i * m.side + j;
        square_of(call, m, 2)[at] = 0.5 * (square_of(call, m, 0)[at] + (i == j ? 1.0 : 0.0));
    });
    grid.sync();
    turn_phase(call, -2, 0, memory);
    grid.sync();
    each_matrix(call, [&](const loss_large &m, int s) {
        const double *p = square_of(call, m, 2);
        double trace = block_total<false>(m.side, [&](int64_t i) { return p[i * m.side + i]; });
        if (threadIdx.x != 0) return;
        call.rank[m.slot] = (int)rint(trace);
        call.large[s].current = 1 - m.current;
    });
}

__global__ void __launch_bounds__(PRODUCT_THREADS, 2) iterate(const loss_call call) {
    __shared__ ProductMemory memory;
    __shared__ double scratch[PHASE_WARPS];
    grid_group grid = cooperative_groups::this_grid();
    int used = *call.used;
    if (smaller_side(call, used) <= LOSS_SMALL || any_bad<PRODUCT_THREADS>(call))
        return; /* all blocks alike */
    double scale = block_scale(call, scratch);
    begin_phase(call, used, scale);
    grid.sync();
    polar(call, grid, &memory, scale);
    norms(call, grid, scale);
    auto is_cut = [](const loss_large &m) { return m.bound > 0.0 && m.cut; };
    activate(call, grid, is_cut);
    if (!any_active(call)) return;
    threshold(call, grid, &memory, scale);
    sign(call, grid, &memory);
    activate(call, grid, is_cut);
    project(call, grid, &memory);
}

} // namespace

cudaError_t loss_iterate_blocks(int multiprocessors, int *blocks) {
    int each = 0;
    cudaError_t code =
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, iterate, PRODUCT_THREADS, 0);
    /* More blocks hide more latency, but make the barrier slower. */
    *blocks = multiprocessors * (each < 3 ? each : 3);
    return code;
}

int64_t loss_iterate_tiles(int64_t side) {
    int64_t n = (side + PRODUCT_TILE - 1) / PRODUCT_TILE;
    return n * (n + 1) / 2;
}

cudaError_t loss_launch_iterate(const loss_call *call, int blocks, cudaStream_t stream) {
    void *arguments[] = {const_cast<loss_call *>(call)};
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void *>(iterate),
                                       dim3((unsigned)blocks), dim3(PRODUCT_THREADS), arguments, 0,
                                       stream);
}
