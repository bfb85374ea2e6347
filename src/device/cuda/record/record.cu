/*
 * src/device/cuda/record/record.cu - the kernels of recorded steps: assembling a batch from samples
 * on the GPU, the counters and sums that every step reads and updates, and collecting the features
 * of an evaluation.
 */
#include "device/cuda/link/link.h"
#include "device/cuda/ops/kernels.cuh"

/* ---- Batches: as in data/loader/augment.c ------------------------------------------------- */

namespace {

enum { THREADS = 256 };

/* Output pixel (y, x) is (y + top, x + left), x counted from the right if mirrored. */
__device__ void draw_window(const cuda_samples &s, int64_t epoch, int64_t sample,
                            ole_photo_draw *draw) {
    draw->top = draw->left = 0;
    draw->mirror = false;
    if (s.crop == 0 && !s.flip) return;
    uint32_t words[4];
    ole_philox(s.seed, OLE_RANDOM_WINDOW, (uint64_t)epoch, (uint64_t)sample, words);
    ole_photo_window(words, s.crop, s.flip, draw);
}

/* Element `at` of the samples, of a channel, normalised; at < 0: black. */
__device__ float value_of(const cuda_samples &s, int channel, int64_t at) {
    int row = s.statistics == 1 ? 0 : channel;
    if (!s.floats) return s.table[row * 256 + (at < 0 ? 0 : (int)s.bytes[at])];
    float x = at < 0 ? 0.0f : s.floats[at];
    return __fdiv_rn(x - s.table[row * 2], s.table[row * 2 + 1]);
}

/* What an image of a batch is made of: a sample, the one it is blended with (-1: none), and the
 * first one's share. */
struct ingredients {
    int64_t sample, other;
    float share;
};

__device__ ingredients find_ingredients(const cuda_samples &s, const int32_t *order, int64_t stride,
                                        const cuda_clock *clock, int64_t image) {
    int64_t at = clock->batch * stride + image;
    ingredients of = {order[at], -1, 1.0f};
    if (s.others && of.sample >= 0) of = {of.sample, s.others[at], s.shares[clock->batch]};
    return of;
}

/* By one thread of each image. */
__device__ void write_labels(const cuda_samples &s, const ingredients &of, int64_t image,
                             int32_t *labels, const ole_mix &mix) {
    labels[image] = of.sample < 0 ? -1 : s.labels[of.sample];
    if (!mix.labels) return;
    mix.labels[image] = of.other < 0 ? labels[image] : s.labels[of.other];
    if (image == 0) *mix.share = of.share;
}

__device__ void blend8(float value[8], const float other[8], float share) {
#pragma unroll
    for (int k = 0; k < 8; k++)
        value[k] = ole_mix_blend(value[k], other[k], share);
}

/* Eight channels of a pixel from `first` on. */
__device__ void read8(const cuda_samples &s, int64_t sample, const ole_photo_draw &from, int pixel,
                      int first, float value[8]) {
    int64_t area = (int64_t)s.h * s.w, start = sample < 0 ? 0 : s.index[sample] * s.c * area;
    int x = pixel % s.w, row = pixel / s.w + from.top;
    int column = (from.mirror ? s.w - 1 - x : x) + from.left;
    bool inside = row >= 0 && row < s.h && column >= 0 && column < s.w;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        int64_t at = start + (first + k) * area + (int64_t)row * s.w + column;
        bool exists = first + k < s.c && sample >= 0;
        value[k] = exists ? value_of(s, first + k, inside ? at : -1) : 0.0f;
    }
}

/* blockIdx.y is the image; a thread takes eight channels of a pixel. */
template <class T>
__global__ void assemble(cuda_samples s, const int32_t *order, int64_t stride,
                         const cuda_clock *clock, int groups, void *images, int32_t *labels,
                         ole_mix mix) {
    int64_t image = blockIdx.y, area = (int64_t)s.h * s.w;
    const ingredients of = find_ingredients(s, order, stride, clock, image);
    ole_photo_draw from, from_other;
    draw_window(s, clock->epoch, of.sample, &from);
    if (of.other >= 0) draw_window(s, clock->epoch, of.other, &from_other);
    if (blockIdx.x == 0 && threadIdx.x == 0) write_labels(s, of, image, labels, mix);
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < area * groups;
         i += (int64_t)gridDim.x * THREADS) {
        int pixel = (int)(i / groups), first = (int)(i % groups) * 8;
        float value[8], other[8];
        read8(s, of.sample, from, pixel, first, value);
        if (of.other >= 0) {
            read8(s, of.other, from_other, pixel, first, other);
            blend8(value, other, of.share);
        }
        store8<T>(images, image * area * groups + i, value);
    }
}

/* A pixel with data/loader/photo.h, normalised; zero where it is erased. */
__device__ void read_photo(const cuda_samples &s, int64_t sample, const ole_photo_draw &draw,
                           int pixel, float value[8]) {
    int64_t start = sample < 0 ? 0 : s.index[sample] * s.c * s.h * s.w;
    const uint8_t *bytes = s.floats ? NULL : s.bytes + start;
    const float *floats = s.floats ? s.floats + start : NULL;
    bool kept = sample >= 0 && ole_photo_pixel(&draw, s.photo.jitter > 0, bytes, floats, s.c, s.h,
                                               s.w, pixel / s.w, pixel % s.w, value);
#pragma unroll
    for (int k = 0; k < OLE_PHOTO_CHANNELS; k++)
        if (kept && k < s.c) value[k] = __fdiv_rn(value[k] - s.mean[k], s.deviation[k]);
}

/* The same with data/loader/photo.h, for images of up to OLE_PHOTO_CHANNELS channels. */
template <class T>
__global__ void assemble_photos(cuda_samples s, const int32_t *order, int64_t stride,
                                const cuda_clock *clock, int groups, void *images, int32_t *labels,
                                ole_mix mix) {
    __shared__ ole_photo_draw draw, draw_other;
    int64_t image = blockIdx.y, area = (int64_t)s.h * s.w;
    const ingredients of = find_ingredients(s, order, stride, clock, image);
    if (threadIdx.x == 0) {
        ole_photo_draw_sample(&s.photo, s.seed, s.crop, s.flip, s.h, s.w, clock->epoch, of.sample,
                              &draw);
        if (blockIdx.x == 0) write_labels(s, of, image, labels, mix);
    }
    if (threadIdx.x == 32 && of.other >= 0)
        ole_photo_draw_sample(&s.photo, s.seed, s.crop, s.flip, s.h, s.w, clock->epoch, of.other,
                              &draw_other);
    __syncthreads();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < area * groups;
         i += (int64_t)gridDim.x * THREADS) {
        int pixel = (int)(i / groups);
        float value[8] = {0}, other[8] = {0}; /* of all groups, the first has every channel */
        if (i % groups == 0) read_photo(s, of.sample, draw, pixel, value);
        if (i % groups == 0 && of.other >= 0) {
            read_photo(s, of.other, draw_other, pixel, other);
            blend8(value, other, of.share);
        }
        store8<T>(images, image * area * groups + i, value);
    }
}

} // namespace

extern "C" void cuda_assemble(ole_device_context *context, const cuda_samples *samples,
                              const int32_t *order, int64_t stride, int64_t n,
                              const cuda_layout *layout, void *images, int32_t *labels,
                              const ole_mix *mix) {
    const ole_mix to = mix ? *mix : ole_mix{NULL, NULL};
    int groups = layout->part[0].pitch / 8;
    int64_t work = (int64_t)layout->h * layout->w * groups;
    dim3 grid((unsigned)((work + THREADS - 1) / THREADS), (unsigned)n);
    for_type(layout->type, [&](auto element) {
        auto kernel =
            samples->augments ? assemble_photos<decltype(element)> : assemble<decltype(element)>;
        kernel<<<grid, THREADS, 0, context->stream>>>(*samples, order, stride, context->clock,
                                                      groups, images, labels, to);
    });
    cuda_launched(context, "assemble");
}

/* ---- The clock: kernels of one thread ----------------------------------------------------- */

namespace {

__global__ void tick(cuda_clock *clock, const double *rates) {
    clock->step++;
    clock->lr = rates[clock->batch];
    clock->now = {};
}

/* `judge`: all losses are in, so a bad one can be noted. */
__global__ void check(cuda_clock *clock, cuda_added_losses added, bool judge) {
    for (int i = 0; i < added.count; i++) {
        const ole_loss_outcome *outcome = added.outcome[i];
        double value = added.share[i] * outcome->value;
        clock->now.loss += added.weight[i] * value;
        clock->now.added += value;
        if (clock->bad_row < 0 && clock->bad_step == 0) clock->bad_row = outcome->bad_row;
    }
    if (added.criterion) {
        const ole_criterion_outcome &of = *added.criterion;
        clock->now.loss += added.criterion_weight * of.value;
        *(added.head ? &clock->now.softmax : &clock->now.feature) += of.value;
        if (added.head) clock->now.right += (double)of.correct;
        if (clock->bad_row < 0 && clock->bad_step == 0) clock->bad_row = of.bad_row;
    }
    if (judge && !isfinite(clock->now.loss) && clock->bad_step == 0)
        clock->bad_step = (int64_t)clock->step;
}

__global__ void tock(cuda_clock *clock) {
    clock->softmax_loss += clock->now.softmax;
    clock->added_loss += clock->now.added;
    clock->feature_loss += clock->now.feature;
    clock->correct += (int64_t)clock->now.right;
    if (clock->bad_step == 0) clock->loss += clock->now.loss;
    if (++clock->batch == clock->batches) clock->batch = 0;
}

__global__ void set_clock(cuda_clock *clock, uint64_t step, double lr) {
    clock->step = step;
    clock->lr = lr;
    clock->bad_step = 0;
    clock->bad_row = -1;
}

} // namespace

extern "C" void cuda_tick(ole_device_context *context, const double *rates) {
    tick<<<1, 1, 0, context->stream>>>(context->clock, rates);
    cuda_launched(context, "tick");
}

/* A loss that is NaN or Inf on one rank is so in the sum: all stop at the same step. */
extern "C" void cuda_check(ole_device_context *context) {
    bool linked = context->link != NULL;
    check<<<1, 1, 0, context->stream>>>(context->clock, context->added, !linked);
    context->added = {};
    cuda_launched(context, "check");
    if (!linked) return;
    cuda_linker.sum(context, &context->clock->now, CUDA_STEP_SUMS, OLE_F64);
    check<<<1, 1, 0, context->stream>>>(context->clock, context->added, true);
    cuda_launched(context, "check");
}

extern "C" void cuda_tock(ole_device_context *context) {
    tock<<<1, 1, 0, context->stream>>>(context->clock);
    cuda_launched(context, "tock");
}

extern "C" void cuda_set_clock(ole_device_context *context, uint64_t step, double lr) {
    set_clock<<<1, 1, 0, context->stream>>>(context->clock, step, lr);
    cuda_launched(context, "set_clock");
}

extern "C" void cuda_add_loss(ole_device_context *context, const ole_loss_outcome *outcome,
                              double weight, double share) {
    cuda_added_losses *added = &context->added;
    added->outcome[added->count] = outcome;
    added->share[added->count] = share;
    added->weight[added->count++] = weight;
}

extern "C" void cuda_add_criterion(ole_device_context *context,
                                   const ole_criterion_outcome *outcome, double weight, bool head) {
    context->added.criterion = outcome;
    context->added.criterion_weight = weight;
    context->added.head = head;
}

/* ---- Features of an evaluation, collected batch by batch ---------------------------------- */

namespace {

template <typename T>
__global__ void keep_rows(const cuda_clock *clock, int64_t n, int c, int64_t area, int pitch,
                          const T *from, float *all) {
    int64_t dim = c * area, count = n * dim;
    float *to = all + clock->batch * count;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = i / dim, channel = i % dim / area, pixel = i % area;
        to[i] = (float)from[(row * area + pixel) * pitch + channel];
    }
}

} // namespace

extern "C" void cuda_keep(ole_device_context *context, ole_layout given, const void *from,
                          float *all) {
    const cuda_layout *layout = static_cast<const cuda_layout *>(given);
    int64_t area = (int64_t)layout->h * layout->w, count = layout->n * area * layout->c;
    int blocks = (int)((count + THREADS - 1) / THREADS);
    if (blocks > 1024) blocks = 1024;
    for_type(layout->type, [&](auto element) {
        keep_rows<<<blocks, THREADS, 0, context->stream>>>(
            context->clock, layout->n, layout->c, area, layout->part[0].pitch,
            static_cast<const decltype(element) *>(from), all);
    });
    cuda_launched(context, "keep");
}
