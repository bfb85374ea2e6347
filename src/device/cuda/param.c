/*
 * src/device/cuda/param.c - copies parameters between plain floats on the host and GPU memory:
 * element order, padding, and the bfloat16 copy of weights.
 */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

bool cuda_param_is_weight(const ole_param *param) {
    return param->kind == OLE_PARAM_WEIGHT;
}

/* A weight as [out, window, in]: a linear layer's window is 1. */
typedef struct filter {
    int64_t out, window, in;
    int64_t in_pitch;
} filter;

static filter filter_of(const ole_param *param) {
    filter f = {.out = param->shape[0], .window = 1, .in = param->shape[1]};
    if (param->ndim == 4) f.window = param->shape[2] * param->shape[3];
    f.in_pitch = cuda_pitch(f.in);
    return f;
}

int64_t cuda_param_size(const ole_param *param) {
    if (!cuda_param_is_weight(param)) return cuda_pitch(param->count);
    filter f = filter_of(param);
    return cuda_pitch(f.out) * f.window * f.in_pitch;
}

/* The position of element e of the plain parameter. */
static int64_t place_of(const ole_param *param, const filter *f, int64_t e) {
    if (!cuda_param_is_weight(param)) return e;
    int64_t w = e % f->window, in = e / f->window % f->in, out = e / f->window / f->in;
    return (out * f->window + w) * f->in_pitch + in;
}

static bool has_copy(const ole_device_context *context, const ole_param *param) {
    return context->type == CUDA_BFLOAT16 && cuda_param_is_weight(param);
}

const void *cuda_weight(const ole_device_context *context, const void *param, int64_t size) {
    return context->type == CUDA_BFLOAT16 ? (const void *)((const float *)param + size) : param;
}

size_t cuda_param_bytes(ole_device_context *context, const ole_node *node, const ole_param *param) {
    (void)node;
    return (size_t)cuda_param_size(param) * (has_copy(context, param) ? 6 : 4);
}

size_t cuda_state_bytes(ole_device_context *context, const ole_node *node, const ole_param *param) {
    (void)context, (void)node;
    return (size_t)cuda_param_size(param) * sizeof(float);
}

/* To the nearest; ties to even. */
static uint16_t to_bfloat16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static float from_bfloat16(uint16_t x) {
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Host memory for a parameter in device layout, zeroed; NULL is recorded in the context. */
static void *make_room(ole_device_context *context, const ole_node *node, const ole_param *param) {
    void *room = calloc(1, cuda_param_bytes(context, node, param));
    if (!room) cuda_failed(context, cudaErrorMemoryAllocation, "moving a parameter");
    return room;
}

/* Floats, and behind them their bfloat16 copy if `bytes` has room for it. */
static void write_floats(ole_device_context *context, const ole_node *node, const ole_param *param,
                         const float *plain, size_t bytes, void *to) {
    float *room = make_room(context, node, param);
    if (!room) return;
    int64_t size = cuda_param_size(param);
    uint16_t *copy = (uint16_t *)(room + size);
    bool copies = bytes > (size_t)size * sizeof *room;
    filter f = cuda_param_is_weight(param) ? filter_of(param) : (filter){0};
    for (int64_t e = 0; e < param->count; e++) {
        int64_t at = place_of(param, &f, e);
        room[at] = plain[e];
        if (copies) copy[at] = to_bfloat16(plain[e]);
    }
    cuda_copy(context, to, room, bytes, cudaMemcpyHostToDevice, "setting a parameter");
    free(room);
}

void cuda_param_from_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const float *plain, void *to) {
    write_floats(context, node, param, plain, cuda_param_bytes(context, node, param), to);
}

void cuda_state_from_plain(ole_device_context *context, const ole_node *node,
                           const ole_param *param, const float *plain, void *to) {
    write_floats(context, node, param, plain, cuda_state_bytes(context, node, param), to);
}

/* `narrow`: the elements are bfloat16. */
static void read_elements(ole_device_context *context, const ole_node *node, const ole_param *param,
                          bool narrow, const void *from, float *plain) {
    void *room = make_room(context, node, param);
    if (!room) return;
    size_t bytes = (size_t)cuda_param_size(param) * (narrow ? 2 : 4);
    cuda_copy(context, room, from, bytes, cudaMemcpyDeviceToHost, "reading a parameter");
    filter f = cuda_param_is_weight(param) ? filter_of(param) : (filter){0};
    for (int64_t e = 0; e < param->count; e++) {
        int64_t at = place_of(param, &f, e);
        plain[e] = narrow ? from_bfloat16(((uint16_t *)room)[at]) : ((float *)room)[at];
    }
    free(room);
}

void cuda_param_to_plain(ole_device_context *context, const ole_node *node, const ole_param *param,
                         const void *from, float *plain) {
    read_elements(context, node, param, false, from, plain);
}

void cuda_gradient_from_plain(ole_device_context *context, const ole_node *node,
                              const ole_param *param, const float *plain, void *to) {
    void *room = make_room(context, node, param);
    if (!room) return;
    bool narrow = has_copy(context, param);
    size_t bytes = (size_t)cuda_param_size(param) * (narrow ? 2 : 4);
    filter f = cuda_param_is_weight(param) ? filter_of(param) : (filter){0};
    for (int64_t e = 0; e < param->count; e++) {
        int64_t at = place_of(param, &f, e);
        if (narrow)
            ((uint16_t *)room)[at] = to_bfloat16(plain[e]);
        else
            ((float *)room)[at] = plain[e];
    }
    cuda_copy(context, to, room, bytes, cudaMemcpyHostToDevice, "setting a gradient");
    free(room);
}

void cuda_gradient_to_plain(ole_device_context *context, const ole_node *node,
                            const ole_param *param, const void *from, float *plain) {
    read_elements(context, node, param, has_copy(context, param), from, plain);
}
