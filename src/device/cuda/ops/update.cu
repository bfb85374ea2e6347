/*
 * src/device/cuda/ops/update.cu - an optimiser step on all parameters in one launch, as
 * torch.optim.SGD, Adam and AdamW, with the arithmetic of ref/update.c: in double, rounded to float
 * where it is kept.
 *
 * Before it the gradients are clipped by their joint norm, in the same tiles.
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

    __device__ void start(const cuda_clock *clock, double factor) {
        lr = clock->lr * factor;
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
    bool decoupled;
    int64_t begun;
    double rate, correct2, penalty, keep;

    __device__ void start(const cuda_clock *clock, double factor) {
        double lr = clock->lr * factor;
        rate = lr / (1 - pow(beta1, (double)((int64_t)clock->step - begun)));
        correct2 = 1 - pow(beta2, (double)((int64_t)clock->step - begun));
        penalty = decoupled ? 0.0 : weight_decay;
        keep = decoupled ? 1 - lr * weight_decay : 1.0;
    }
    __device__ void step(float &param, float gradient, float &first, float &second) const {
        double g = (double)gradient + penalty * (double)param;
        double m = beta1 * (double)first + (1 - beta1) * g;
        double v = beta2 * (double)second + (1 - beta2) * g * g;
        first = (float)m;
        second = (float)v;
        param = (float)(keep * (double)param - rate * m / (sqrt(v / correct2) + eps));
    }
};

__device__ void load_gradient(const cuda_update_item &item, int64_t i, float (&g)[8]) {
    if (item.gradient_type == CUDA_FLOAT)
        load8<float>(item.gradient, i, g);
    else
        load8<bfloat16>(item.gradient, i, g);
}

__device__ void store_gradient(const cuda_update_item &item, int64_t i, const float (&g)[8]) {
    if (item.gradient_type == CUDA_FLOAT)
        store8<float>(item.gradient, i, g);
    else
        store8<bfloat16>(item.gradient, i, g);
}

/* The vectors of a tile, from `first` to before `end`. */
__device__ void find_tile(const cuda_update_item &item, int32_t tile, int64_t *first,
                          int64_t *end) {
    *first = (int64_t)tile * (CUDA_UPDATE_TILE / 8);
    *end = min(*first + CUDA_UPDATE_TILE / 8, item.size / 8);
}

/* The sum over the threads of a block, in a fixed order; thread 0 has it. */
__device__ double block_sum(double value) {
    __shared__ double part[THREADS];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}

/* squares[tile] = the sum over its elements. */
__global__ void square_tiles(const cuda_update_item *items, const int32_t *tiles, double *squares) {
    const cuda_update_item item = items[tiles[2 * blockIdx.x]];
    int64_t first, end;
    find_tile(item, tiles[2 * blockIdx.x + 1], &first, &end);
    double sum = 0.0;
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS) {
        float g[8];
        load_gradient(item, i, g);
        for (int k = 0; k < 8; k++)
            sum += (double)g[k] * (double)g[k];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

/* squares[count] = the factor of the gradients, by one block. */
__global__ void find_factor(double largest, double *squares, int count) {
    double sum = 0.0;
    for (int i = (int)threadIdx.x; i < count; i += THREADS)
        sum += squares[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) squares[count] = largest / (sqrt(sum) + 1e-6);
}

__global__ void scale_tiles(const cuda_update_item *items, const int32_t *tiles,
                            const double *factor) {
    if (!(*factor < 1.0)) return;
    const cuda_update_item item = items[tiles[2 * blockIdx.x]];
    int64_t first, end;
    find_tile(item, tiles[2 * blockIdx.x + 1], &first, &end);
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS) {
        float g[8];
        load_gradient(item, i, g);
        for (int k = 0; k < 8; k++)
            g[k] = (float)(*factor * (double)g[k]);
        store_gradient(item, i, g);
    }
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
        rule.start(clock, item.rate);
        shared = rule;
    }
    __syncthreads();
    int64_t first, end;
    find_tile(item, tiles[2 * blockIdx.x + 1], &first, &end);
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
        update_vector(shared, item, i);
}

/* The moving average of the weights, as in ole_average_decay(). */
__global__ void average_tiles(double decay, int64_t begun, const cuda_clock *clock,
                              const cuda_update_item *items, const int32_t *tiles) {
    if (clock->bad_step != 0) return;
    const cuda_update_item item = items[tiles[2 * blockIdx.x]];
    double steps = (double)((int64_t)clock->step - begun);
    double part = 1 - fmin(decay, (1.0 + steps) / (10.0 + steps));
    int64_t first, end;
    find_tile(item, tiles[2 * blockIdx.x + 1], &first, &end);
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS) {
        float param[8], average[8];
        load8<float>(item.master, i, param);
        load8<float>(item.state[0], i, average);
        for (int k = 0; k < 8; k++)
            average[k] =
                (float)((double)average[k] + part * ((double)param[k] - (double)average[k]));
        store8<float>(item.state[0], i, average);
    }
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
        adam rule = {update->beta1,
                     update->beta2,
                     update->eps,
                     update->weight_decay,
                     update->decoupled,
                     update->begun,
                     0.0,
                     0.0,
                     0.0,
                     0.0};
        update_tiles<<<tile_count, THREADS, 0, context->stream>>>(rule, context->clock, items,
                                                                  tiles);
    }
    cuda_launched(context, "update");
}

extern "C" void cuda_clip(ole_device_context *context, double largest,
                          const cuda_update_item *items, const int32_t *tiles, int tile_count,
                          double *squares) {
    if (tile_count == 0) return;
    cudaStream_t stream = context->stream;
    square_tiles<<<tile_count, THREADS, 0, stream>>>(items, tiles, squares);
    find_factor<<<1, THREADS, 0, stream>>>(largest, squares, tile_count);
    scale_tiles<<<tile_count, THREADS, 0, stream>>>(items, tiles, squares + tile_count);
    cuda_launched(context, "clipping");
}

extern "C" void cuda_average(ole_device_context *context, const ole_update *update,
                             const cuda_update_item *items, const int32_t *tiles, int tile_count) {
    if (tile_count == 0) return;
    average_tiles<<<tile_count, THREADS, 0, context->stream>>>(update->average, update->begun,
                                                               context->clock, items, tiles);
    cuda_launched(context, "averaging");
}
