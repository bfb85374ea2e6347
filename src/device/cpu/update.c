/*
 * src/device/cpu/update.c - one optimiser step on one parameter, as in torch.optim.SGD, Adam
 * and AdamW (ref/update.c has the arithmetic).  Blocked weights have no padding, so every
 * parameter is a plain array here.
 */
#include "device/cpu/cpu.h"

#include "base/min_max.h"

#include <math.h>

typedef struct arrays {
    const cpu_kernels *kernels;
    const ole_update *update;
    int64_t count;
    float *param;
    const float *gradient;
    float *state[2];
} arrays;

static void update_slice(void *argument, int64_t task) {
    const arrays *a = argument;
    int64_t first, length;
    cpu_slice(a->count, task, &first, &length);
    float *param = a->param + first;
    const float *gradient = a->gradient + first;
    if (a->update->kind == OLE_UPDATE_SGD)
        a->kernels->sgd(length, a->update, param, gradient, a->state[0] + first);
    else
        a->kernels->adam(length, a->update, param, gradient, a->state[0] + first,
                         a->state[1] + first);
}

void cpu_update(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                const void *gradient, void *state[2]) {
    arrays a = {.kernels = context->kernels,
                .update = update,
                .count = (int64_t)(bytes / sizeof(float)),
                .param = param,
                .gradient = gradient,
                .state = {state[0], state[1]}};
    cpu_parallel(context, cpu_slices(a.count), update_slice, &a);
}

/* ---- clipping ----------------------------------------------------------------------------- */

/* A gradient is divided into at most PARTS parts, whose sums are added in order: the norm does not
 * depend on the threads. */
enum { PARTS = 64, LEAST = 4096 };

typedef struct gradient_parts {
    int64_t count, parts;
    float *gradient;
    double squares[PARTS];
    float factor;
} gradient_parts;

static gradient_parts parts_of(const ole_update_item *item) {
    int64_t count = (int64_t)(item->bytes / sizeof(float));
    return (gradient_parts){
        .count = count, .parts = ole_min(count / LEAST + 1, PARTS), .gradient = item->gradient};
}

static void square_part(void *argument, int64_t part) {
    gradient_parts *g = argument;
    double sum = 0.0;
    for (int64_t i = g->count * part / g->parts; i < g->count * (part + 1) / g->parts; i++)
        sum += (double)g->gradient[i] * (double)g->gradient[i];
    g->squares[part] = sum;
}

static void scale_part(void *argument, int64_t part) {
    gradient_parts *g = argument;
    for (int64_t i = g->count * part / g->parts; i < g->count * (part + 1) / g->parts; i++)
        g->gradient[i] *= g->factor;
}

void cpu_clip(ole_device_context *context, double largest, const ole_update_item *items,
              int count) {
    double squares = 0.0;
    for (int i = 0; i < count; i++) {
        gradient_parts g = parts_of(&items[i]);
        cpu_parallel(context, g.parts, square_part, &g);
        for (int64_t part = 0; part < g.parts; part++)
            squares += g.squares[part];
    }
    double factor = largest / (sqrt(squares) + 1e-6);
    for (int i = 0; i < count && factor < 1.0; i++) {
        gradient_parts g = parts_of(&items[i]);
        g.factor = (float)factor;
        cpu_parallel(context, g.parts, scale_part, &g);
    }
}

/* ---- averaging ---------------------------------------------------------------------------- */

typedef struct averaged {
    int64_t count;
    const float *param;
    float *average;
    float part;
} averaged;

static void average_slice(void *argument, int64_t task) {
    const averaged *a = argument;
    int64_t first, length;
    cpu_slice(a->count, task, &first, &length);
    for (int64_t i = first; i < first + length; i++)
        a->average[i] += a->part * (a->param[i] - a->average[i]);
}

void cpu_average(ole_device_context *context, const ole_update *update,
                 const ole_update_item *items, int count) {
    double decay = ole_average_decay(update->average, update->step - update->begun);
    for (int i = 0; i < count; i++) {
        averaged a = {.count = (int64_t)(items[i].bytes / sizeof(float)),
                      .param = items[i].data,
                      .average = items[i].state[0],
                      .part = (float)(1 - decay)};
        cpu_parallel(context, cpu_slices(a.count), average_slice, &a);
    }
}
