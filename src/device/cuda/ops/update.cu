/*
 * src/device/cuda/ops/update.cu - an optimiser step on all parameters in one launch, as
 * torch.optim.SGD and Adam, with the arithmetic of ref/update.c: in double, rounded to float where
 * it is kept.
 *
 * A block takes CUDA_UPDATE_TILE elements of one parameter; sizes are multiples of 8.  Rate and
 * step are the clock's.
 */
#include "device/cuda/ops/kernels.cuh"

namespace {

enum { THREADS = 256 };

/* b = momentum b + g; param -= lr (g + momentum b) with Nesterov, else lr b. b starts at 0. */
struct sgd {
    double momentum, weight_decay;
    bool nesterov;
    double lr;

    __device__ void start(const cuda_clock *clock) {
        lr = clock->lr;
    }
    __device__ void step(float &param, float gradient, float &buffer, float &second) const {
        (void)second;
        double g = (double)gradient + weight_decay * (double)param;
        if (momentum != 0.0) {
            double b = momentum * (double)buffer + g;
            buffer = (float)b;
            g = nesterov ? g + momentum * b : b;
        }
        param = (float)((double)param - lr * g);
    }
};

/* The moments m, v and their corrections for having started at 0. */
struct adam {
    double beta1, beta2, eps, weight_decay;
    double rate, correct2;

    __device__ void start(const cuda_clock *clock) {
        rate = clock->lr / (1 - pow(beta1, (double)clock->step));
        correct2 = 1 - pow(beta2, (double)clock->step);
    }
    __device__ void step(float &param, float gradient, float &first, float &second) const {
        double g = (double)gradient + weight_decay * (double)param;
        double m = beta1 * (double)first + (1 - beta1) * g;
        double v = beta2 * (double)second + (1 - beta2) * g * g;
        first = (float)m;
        second = (float)v;
        param = (float)((double)param - rate * m / (sqrt(v / correct2) + eps));
    }
};

__device__ void load_gradient(const cuda_update_item &item, int64_t i, float (&g)[8]) {
    if (item.gradient_type == CUDA_FLOAT)
        load8<float>(item.gradient, i, g);
    else
        load8<bfloat16>(item.gradient, i, g);
}

/* Vector i of a parameter. */
template <class Rule>
__device__ void update_vector(const Rule &rule, const cuda_update_item &item, int64_t i) {
    float param[8], gradient[8], first[8], second[8];
    load8<float>(item.master, i, param);
    load_gradient(item, i, gradient);
    if (item.state[0]) load8<float>(item.state[0], i, first);
    if (item.state[1]) load8<float>(item.state[1], i, second);
#pragma unroll
    for (int k = 0; k < 8; k++)
        rule.step(param[k], gradient[k], first[k], second[k]);
    store8<float>(item.master, i, param);
    if (item.copy) store8<bfloat16>(item.copy, i, param);
    if (item.state[0]) store8<float>(item.state[0], i, first);
    if (item.state[1]) store8<float>(item.state[1], i, second);
}

template <class Rule>
__global__ void update_tiles(Rule rule, const cuda_clock *clock, const cuda_update_item *items,
                             const int32_t *tiles) {
    __shared__ Rule shared;
    if (clock->bad_step != 0) return;
    const cuda_update_item item = items[tiles[2 * blockIdx.x]];
    if (threadIdx.x == 0) {
        rule.start(clock);
        shared = rule;
    }
    __syncthreads();
    int64_t first = (int64_t)tiles[2 * blockIdx.x + 1] * (CUDA_UPDATE_TILE / 8);
    int64_t end = min(first + CUDA_UPDATE_TILE / 8, item.size / 8);
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
        update_vector(shared, item, i);
}

} // namespace

extern "C" void cuda_update(ole_device_context *context, const ole_update *update,
                            const cuda_update_item *items, const int32_t *tiles, int tile_count) {
    if (tile_count == 0) return;
    if (update->kind == ole_update::OLE_UPDATE_SGD) {
        sgd rule = {update->momentum, update->weight_decay, update->nesterov, 0.0};
        update_tiles<<<tile_count, THREADS, 0, context->stream>>>(rule, context->clock, items,
                                                                  tiles);
    } else {
        adam rule = {update->beta1, update->beta2, update->eps, update->weight_decay, 0.0, 0.0};
        update_tiles<<<tile_count, THREADS, 0, context->stream>>>(rule, context->clock, items,
                                                                  tiles);
    }
    cuda_launched(context, "update");
}
