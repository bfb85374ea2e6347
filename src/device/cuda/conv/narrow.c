/*
 * src/device/cuda/conv/narrow.c - which convolutions the kernels of narrow.h can compute, and which
 * of their variants fit.
 */
#include "device/cuda/conv/narrow.h"

#include <stdio.h>
#include <string.h>

/* A 3 x 3 convolution of bfloat16 whose images can be counted in int by the kernels. */
static bool is_narrow(const cuda_problem *p) {
    enum { MOST = 1 << 29 }; /* elements of an image's x, and of its y: a tile may span two */
    int64_t channels = p->in > p->out ? p->in : p->out;
    return p->type == CUDA_BFLOAT16 && p->kernel == 3 && p->stride == 1 && p->pad == 1 &&
           (p->out == 16 || p->out == 32) && p->in_h * p->in_w * channels <= MOST &&
           p->n * p->in_h * p->in_w < INT32_MAX;
}

static const narrow_table *const tables[] = {[CUDA_PASS_FORWARD] = &narrow_forward,
                                             [CUDA_PASS_DATA] = &narrow_data,
                                             [CUDA_PASS_WEIGHT] = &narrow_weight};

static size_t workspace_of(const ole_device_context *context, const cuda_problem *p,
                           const narrow_variant *v) {
    return v->workspace ? v->workspace(context, p) : 0;
}

/* Whether its tiles fit the image and the channels with little waste. */
static bool suits(const ole_device_context *context, const cuda_problem *p,
                  const narrow_variant *v) {
    int64_t rest = p->in_w % 16;
    int columns = rest >= 1 && rest <= 8 ? 8 : 16;
    return v->out == p->out && v->columns == columns && v->channels - 16 <= p->in &&
           workspace_of(context, p, v) <= context->workspace_bytes;
}

static void fill_algorithm(const ole_device_context *context, const cuda_problem *p,
                           const narrow_variant *v, cuda_algorithm *algorithm) {
    *algorithm = (cuda_algorithm){
        .kind = CUDA_ALGORITHM_NARROW, .workspace = workspace_of(context, p, v), .variant = v};
    snprintf(algorithm->name, sizeof algorithm->name, "%s", v->name);
}

int cuda_narrow_algorithms(const ole_device_context *context, const cuda_problem *problem,
                           cuda_algorithm *algorithms, int room) {
    const narrow_table *table = tables[problem->pass];
    int count = 0;
    if (!is_narrow(problem)) return 0;
    for (int i = 0; i < table->count && count < room; i++)
        if (suits(context, problem, &table->variant[i]))
            fill_algorithm(context, problem, &table->variant[i], &algorithms[count++]);
    return count;
}

bool cuda_narrow_named(const ole_device_context *context, const cuda_problem *problem,
                       const char *name, cuda_algorithm *algorithm) {
    const narrow_table *table = tables[problem->pass];
    if (!is_narrow(problem)) return false;
    for (int i = 0; i < table->count; i++) {
        const narrow_variant *v = &table->variant[i];
        if (!suits(context, problem, v) || strcmp(v->name, name) != 0) continue;
        fill_algorithm(context, problem, v, algorithm);
        return true;
    }
    return false;
}

bool cuda_narrow_run(ole_device_context *context, const cuda_problem *problem,
                     const cuda_algorithm *algorithm, const cuda_arrays *arrays) {
    return algorithm->variant->run(context, problem, arrays);
}
