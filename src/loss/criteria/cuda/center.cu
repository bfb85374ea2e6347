/* src/loss/criteria/cuda/center.cu - center loss, as in loss/criteria/center.c: a block per class.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

__global__ void __launch_bounds__(THREADS) center(const criterion_call c) {
    int first = (int)blockIdx.x;
    if (first >= *c.used) return;
    bool bad = any_bad(c);
    if (!is_first(c, first)) {
        if (threadIdx.x == 0) c.value[first] = 0.0;
        return;
    }
    int end = first + c.count[first];
    double n = (double)*c.used, sum = 0.0;
    double *to = c.in.centers + (int64_t)label_of(c, first) * c.dim;
    for (int d = (int)threadIdx.x; d < c.dim; d += THREADS) {
        double pull = 0.0, at = to[d];
        for (int i = first; i < end; i++) {
            double away = c.x[(int64_t)i * c.dim + d] - at;
            c.du[(int64_t)i * c.dim + d] = away / n;
            sum = fma(away, away, sum);
            pull += away;
        }
        if (!bad) to[d] = at + c.param[0] * pull / (double)(1 + end - first);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) c.value[first] = sum / (2.0 * n);
}

} // namespace

cudaError_t criterion_center(const criterion_call *c, cudaStream_t stream) {
    center<<<(unsigned)c->rows, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
