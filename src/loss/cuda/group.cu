/*
 * src/loss/cuda/group.cu - the rows of the batch sorted by label, each class
 * by rising row, without the host: one warp per row counts the smaller labels and the equal ones
 * before it, which gives the row's place.  It also checks the row's features for NaN and Inf.
 *
 * Counting takes rows^2 comparisons, a few microseconds for 4096 rows; blocks are independent and
 * there is nothing to initialise.
 */
#include "loss/cuda/element.cuh"

namespace {

enum { WARPS = 4, ALL_LANES = 32 };

struct Counts {
    int below;  /* used rows with a smaller label */
    int before; /* rows of the same label above this one */
    int same;   /* rows of the same label */
    int used;
};

__device__ Counts count_labels(const loss_call &call, int row, int64_t label, int lane) {
    Counts c = {0, 0, 0, 0};
    for (int j = lane; j < call.rows; j += ALL_LANES) {
        int64_t other = read_label(call, j);
        c.used += other >= 0;
        c.below += other >= 0 && other < label;
        c.same += other == label;
        c.before += other == label && j < row;
    }
    c.below = __reduce_add_sync(0xffffffffu, c.below);
    c.before = __reduce_add_sync(0xffffffffu, c.before);
    c.same = __reduce_add_sync(0xffffffffu, c.same);
    c.used = __reduce_add_sync(0xffffffffu, c.used);
    return c;
}

/* The row's largest magnitude, and whether all of it is finite. */
__device__ double scan_features(const loss_call &call, int row, int lane, bool *finite) {
    double most = 0.0;
    bool good = true;
    int64_t base = row * call.x_stride;
#pragma unroll 4
    for (int j = lane; j < call.dim; j += ALL_LANES) {
        double v = read_element(call, base + j);
        good = good && isfinite(v);
        most = fmax(most, fabs(v));
    }
    for (int offset = ALL_LANES / 2; offset; offset >>= 1)
        most = fmax(most, __shfl_xor_sync(0xffffffffu, most, offset));
    *finite = __all_sync(0xffffffffu, good) != 0;
    return most;
}

__global__ void __launch_bounds__(WARPS *ALL_LANES) group_rows(const loss_call call) {
    int lane = (int)threadIdx.x % ALL_LANES;
    int row = (int)blockIdx.x * WARPS + (int)threadIdx.x / ALL_LANES;
    if (row >= call.rows) return;
    int64_t label = read_label(call, row);
    Counts counts = count_labels(call, row, label, lane);
    if (row == 0 && lane == 0) *call.used = counts.used;
    bool finite = true;
    double most = 0.0;
    if (label >= 0) most = scan_features(call, row, lane, &finite);
    if (lane != 0) return;
    call.bad[row] = !finite;
    if (call.scaled) call.largest[row] = finite ? most : 0.0;
    if (label < 0) return;
    int place = counts.below + counts.before;
    call.order[place] = row;
    call.first[place] = counts.below;
    call.count[place] = counts.same;
    call.label[place] = label;
}

} // namespace

cudaError_t loss_launch_group(const loss_call *call, cudaStream_t stream) {
    return launch(group_rows, dim3((unsigned)((call->rows + WARPS - 1) / WARPS)), WARPS * ALL_LANES,
                  call, stream);
}
