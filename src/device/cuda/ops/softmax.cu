/*
 * src/device/cuda/ops/softmax.cu - softmax cross-entropy: the mean over the rows that have a label
 * of log(sum over j of exp(z[j])) - z[label], its gradient, the scores and the number of rows
 * right.  Smoothing and mixed labels are as in ref/softmax.c.
 *
 * One launch.  Each warp takes one row at a time.  A block leaves the sums of its rows in the
 * clock, and the last block to finish adds them up, in the same order each time.
 */
#include "device/cuda/ops/kernels.cuh"

namespace {

enum { WARPS = 8, THREADS = 32 * WARPS };

const unsigned all_lanes = 0xffffffffu;

struct softmax_call {
    const int32_t *labels;
    const int32_t *others; /* NULL, like the next: labels are not mixed */
    const float *share;
    int n, classes, pitch;
    double smoothing, scale;
    float *scores;
    double *sums;
    cuda_clock *clock;
    bool count;
};

template <class V>
__device__ V warp_sum(V value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(all_lanes, value, offset);
    return value;
}

/* Rows that have a label. All threads call it. */
__device__ int labelled(const softmax_call &s) {
    __shared__ int part[WARPS];
    int mine = 0, all = 0;
    for (int i = (int)threadIdx.x; i < s.n; i += THREADS)
        mine += s.labels[i] >= 0;
    mine = warp_sum(mine);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = mine;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        all += part[w];
    return all;
}

/* The largest logit and the first class that has it; NaN is it only in the first place. */
struct largest {
    float value;
    int at;
};

template <class T>
__device__ largest find_largest(const T *z, int classes) {
    largest best = {-INFINITY, INT32_MAX};
    for (int j = (int)threadIdx.x % 32; j < classes; j += 32) {
        float value = (float)z[j];
        if (value > best.value || best.at == INT32_MAX)
            best = {isnan(value) ? -INFINITY : value, j};
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        float value = __shfl_xor_sync(all_lanes, best.value, offset);
        int at = __shfl_xor_sync(all_lanes, best.at, offset);
        if (value > best.value || (value == best.value && at < best.at)) best = {value, at};
    }
    float first = (float)z[0];
    return isnan(first) ? largest{first, 0} : best;
}

/* One row, by a warp: its loss; writes its gradient and scores. factor: scale / labelled rows. */
template <class T>
__device__ double row_loss(const softmax_call &s, int row, const T *z, float factor, T *gradient,
                           bool *right) {
    int label = s.labels[row];
    largest best = find_largest(z, s.classes);
    double sum = 0.0, others = 0.0;
    for (int j = (int)threadIdx.x % 32; j < s.classes; j += 32)
        sum += (double)expf((float)z[j] - best.value);
    sum = warp_sum(sum);
    if (s.smoothing > 0.0 && label >= 0) {
        for (int j = (int)threadIdx.x % 32; j < s.classes; j += 32)
            others += (double)(float)z[j] - (double)(float)z[label];
        others = warp_sum(others) * s.smoothing / s.classes;
    }
    float hit = (float)(1 - s.smoothing), spread = (float)(s.smoothing / s.classes);
    int other = s.others ? s.others[row] : -1;
    double rest = 0.0; /* of the target, the other label's */
    if (other >= 0 && label >= 0) {
        rest = (1 - s.smoothing) * (1 - (double)*s.share);
        hit = (float)((1 - s.smoothing) * (double)*s.share);
        others -= rest * ((double)(float)z[label] - (double)(float)z[other]);
    }
    float inverse = (float)(1.0 / sum);
    for (int j = (int)threadIdx.x % 32; j < s.pitch; j += 32) {
        float score = j < s.classes ? expf((float)z[j] - best.value) * inverse : 0.0f;
        float distance = (j == label ? score - hit : score) - spread;
        if (j == other) distance -= (float)rest;
        if (s.scores && j < s.classes) s.scores[(int64_t)row * s.classes + j] = score;
        if (gradient) gradient[j] = T(j < s.classes && label >= 0 ? factor * distance : 0.0f);
    }
    *right = label >= 0 && best.at == label;
    return label < 0 ? 0.0 : log(sum) + (double)best.value - (double)(float)z[label] - others;
}

/* The last block: all blocks' sums. */
__device__ void finish(const softmax_call &s, int used) {
    double loss = 0.0;
    long long right = 0;
    if (threadIdx.x >= 32) return;
    for (int b = (int)threadIdx.x; b < (int)gridDim.x; b += 32) {
        loss += __ldcg(&s.clock->rows[b].loss);
        right += __ldcg((const long long *)&s.clock->rows[b].right);
    }
    loss = warp_sum(loss) / (used > 0 ? used : 1);
    right = warp_sum(right);
    if (threadIdx.x > 0) return;
    if (s.sums) {
        s.sums[0] = loss;
        s.sums[1] = (double)right;
    }
    if (!s.count) return;
    double part = s.scale == 0.0 ? loss : s.scale * loss;
    s.clock->now.loss += part;
    s.clock->now.softmax += part;
    s.clock->now.right += (double)right;
}

/* The sums of a block's warps into the clock; whether it is the last block. All threads call it. */
__device__ bool leave_sums(const softmax_call &s, double loss, int right) {
    __shared__ double losses[WARPS];
    __shared__ int rights[WARPS];
    __shared__ bool last;
    if (threadIdx.x % 32 == 0) {
        losses[threadIdx.x / 32] = loss;
        rights[threadIdx.x / 32] = right;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        cuda_row_sums sums = {0.0, 0};
        for (int w = 0; w < WARPS; w++) {
            sums.loss += losses[w];
            sums.right += rights[w];
        }
        s.clock->rows[blockIdx.x] = sums;
        __threadfence(); /* wraps to zero with the last */
        last = atomicInc(&s.clock->arrived, gridDim.x - 1) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

template <class T>
__global__ void softmax(softmax_call s, const T *logits, T *dlogits) {
    int used = labelled(s), rights = 0;
    float factor = (float)(s.scale / (used > 0 ? used : 1));
    double loss = 0.0;
    for (int row = (int)(blockIdx.x * WARPS + threadIdx.x / 32); row < s.n;
         row += (int)gridDim.x * WARPS) {
        bool right;
        int64_t at = (int64_t)row * s.pitch;
        loss += row_loss(s, row, logits + at, factor, dlogits ? dlogits + at : NULL, &right);
        rights += right;
    }
    if (leave_sums(s, loss, rights)) finish(s, used);
}

} // namespace

extern "C" void cuda_softmax(ole_device_context *context, const cuda_layout *layout,
                             const void *logits, const int32_t *labels, const ole_mix *mix,
                             double smoothing, double scale, void *dlogits, float *scores,
                             double *sums, bool count) {
    int blocks = (layout->n + WARPS - 1) / WARPS;
    if (blocks > CUDA_ROW_BLOCKS) blocks = CUDA_ROW_BLOCKS;
    softmax_call s = {labels,
                      mix ? mix->labels : NULL,
                      mix ? mix->share : NULL,
                      layout->n,
                      layout->c,
                      layout->part[0].pitch,
                      smoothing,
                      scale,
                      scores,
                      sums,
                      context->clock,
                      count};
    for_type(layout->type, [&](auto element) {
        typedef decltype(element) T;
        softmax<T><<<blocks, THREADS, 0, context->stream>>>(s, static_cast<const T *>(logits),
                                                            static_cast<T *>(dlogits));
    });
    cuda_launched(context, "softmax");
}
