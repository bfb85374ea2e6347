/*
 * tests/support/gpu_loss.h - one evaluation of the loss on a GPU for the tests of it: the batch in
 * any element type on the GPU, the outcome and the gradient back as float64.
 */
#ifndef OLE_TESTS_CARD_LOSS_H
#define OLE_TESTS_CARD_LOSS_H

#include "cases.h"
#include "gpu.h"
#include "ole/loss.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- element types ------------------------------------------------------------------------- */

/* The 16-bit code of a number with `bits` of fraction and an exponent offset of `bias`. */
static inline uint16_t narrow_code(double v, int bits, int bias) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    double size = fabs(v);
    if (size == 0.0) return sign;
    if (isnan(v)) return 0x7fff;
    if (isinf(v)) return (uint16_t)(sign | (2 * bias + 1) << bits);
    int e = ilogb(size);
    if (e < 1 - bias) e = 1 - bias;
    int64_t m = llrint(ldexp(size, bits - e));
    return (uint16_t)(sign | (((int64_t)(e + bias - 1) << bits) + m));
}

static inline double narrow_value(uint16_t code, int bits, int bias) {
    int e = (code & 0x7fff) >> bits;
    double m = (double)(code & ((1 << bits) - 1));
    if (e == 2 * bias + 1) return m != 0.0 ? NAN : (code & 0x8000 ? -INFINITY : INFINITY);
    double size = e == 0 ? ldexp(m, 1 - bias - bits) : ldexp(m + (1 << bits), e - bias - bits);
    return code & 0x8000 ? -size : size;
}

static inline void element_put(void *to, ole_dtype dtype, int64_t i, double v) {
    if (dtype == OLE_F64) ((double *)to)[i] = v;
    if (dtype == OLE_F32) ((float *)to)[i] = (float)v;
    if (dtype == OLE_BF16) ((uint16_t *)to)[i] = narrow_code(v, 7, 127);
    if (dtype == OLE_F16) ((uint16_t *)to)[i] = narrow_code(v, 10, 15);
}

static inline double element_get(const void *from, ole_dtype dtype, int64_t i) {
    if (dtype == OLE_F64) return ((const double *)from)[i];
    if (dtype == OLE_F32) return ((const float *)from)[i];
    return narrow_value(((const uint16_t *)from)[i], dtype == OLE_BF16 ? 7 : 10,
                        dtype == OLE_BF16 ? 127 : 15);
}

/* ---- an evaluation ------------------------------------------------------------------------- */

/* What to evaluate; zeros are defaults. */
typedef struct gpu_batch {
    int64_t rows, dim;
    int64_t more_rows; /* the plan takes so many more */
    int64_t pad;       /* elements behind each row of features and gradient */
    ole_dtype dtype;
    bool narrow_labels; /* int32 */
    bool accumulate;
    double upstream;
    ole_loss_options options;
    double *x;       /* [rows, dim]; rounded to dtype by gpu_open() */
    int64_t *labels; /* [rows] */
} gpu_batch;

typedef struct gpu_loss {
    const ole_cuda_memory_table *memory;
    const gpu_batch *batch;
    ole_loss_plan *plan;
    ole_loss_batch device;
    ole_loss_gradient to;
    ole_loss_outcome *device_outcome;
    void *stream;
    size_t bytes; /* of features and of gradient, padding included */
    void *host;   /* so many */
    ole_loss_outcome outcome;
    double *gradient; /* [rows, dim] */
} gpu_loss;

/* The value gradients have before an accumulating call, and what lies in paddings. */
enum { CARD_BEFORE = 3 };

static inline int64_t gpu_stride(const gpu_batch *b) {
    return b->dim + b->pad;
}

static inline void gpu_send(gpu_loss *c) {
    const gpu_batch *b = c->batch;
    ole_error error = {0};
    for (int64_t i = 0; i < b->rows; i++)
        for (int64_t j = 0; j < gpu_stride(b); j++)
            element_put(c->host, b->dtype, i * gpu_stride(b) + j,
                        j < b->dim ? b->x[i * b->dim + j] : NAN);
    for (int64_t i = 0; i < b->rows * b->dim; i++) {
        int64_t at = i / b->dim * gpu_stride(b) + i % b->dim;
        b->x[i] = element_get(c->host, b->dtype, at);
    }
    if (!c->memory->copy_in((void *)(uintptr_t)c->device.features, c->host, c->bytes, &error))
        fail_msg("%s", error.message);
    for (int64_t i = 0; i < b->rows * gpu_stride(b); i++)
        element_put(c->host, b->dtype, i, CARD_BEFORE);
    if (!c->memory->copy_in(c->to.data, c->host, c->bytes, &error)) fail_msg("%s", error.message);
}

static inline void gpu_send_labels(gpu_loss *c) {
    const gpu_batch *b = c->batch;
    size_t size = b->narrow_labels ? sizeof(int32_t) : sizeof(int64_t);
    int32_t *narrow = malloc((size_t)b->rows * sizeof *narrow);
    for (int64_t i = 0; i < b->rows; i++)
        narrow[i] = (int32_t)b->labels[i];
    const void *from = b->narrow_labels ? (const void *)narrow : (const void *)b->labels;
    ole_error error = {0};
    if (!c->memory->copy_in((void *)(uintptr_t)c->device.labels, from, (size_t)b->rows * size,
                            &error))
        fail_msg("%s", error.message);
    free(narrow);
}

static inline void *gpu_memory(const gpu_loss *c, size_t bytes) {
    ole_error error = {0};
    void *memory = c->memory->allocate(bytes, &error);
    if (!memory) fail_msg("%s", error.message);
    return memory;
}

/* Plans, allocates and sends. Skips the test where there is no GPU. */
static inline gpu_loss gpu_open(gpu_batch *b) {
    gpu_loss c = {.memory = gpu_table("ole_cuda_memory"), .batch = b};
    ole_error error = {0};
    b->options.device = OLE_DEVICE_CUDA;
    assert_ok(ole_loss_plan_create(&c.plan, b->rows + b->more_rows, b->dim, b->dtype, &b->options,
                                   &error),
              &error);
    c.bytes = (size_t)(b->rows * gpu_stride(b)) * ole_dtype_size(b->dtype);
    c.host = malloc(c.bytes);
    c.gradient = malloc((size_t)(b->rows * b->dim) * sizeof *c.gradient);
    c.device_outcome = gpu_memory(&c, sizeof *c.device_outcome);
    c.device = (ole_loss_batch){.rows = b->rows,
                                .features = gpu_memory(&c, c.bytes),
                                .stride = b->pad ? gpu_stride(b) : 0,
                                .labels = gpu_memory(&c, (size_t)b->rows * sizeof(int64_t)),
                                .label_type = b->narrow_labels ? OLE_I32 : OLE_I64};
    c.to = (ole_loss_gradient){.data = gpu_memory(&c, c.bytes),
                               .stride = c.device.stride,
                               .upstream = b->upstream,
                               .accumulate = b->accumulate};
    c.stream = c.memory->stream(&error);
    if (!c.stream) fail_msg("%s", error.message);
    gpu_send(&c);
    gpu_send_labels(&c);
    return c;
}

/* Outcome and gradient to the host; what lies between the rows must not have changed. */
static inline void gpu_receive(gpu_loss *c) {
    const gpu_batch *b = c->batch;
    ole_error error = {0};
    if (!c->memory->wait(c->stream, &error) ||
        !c->memory->copy_out(&c->outcome, c->device_outcome, sizeof c->outcome, &error) ||
        !c->memory->copy_out(c->host, c->to.data, c->bytes, &error))
        fail_msg("%s", error.message);
    for (int64_t i = 0; i < b->rows * gpu_stride(b); i++) {
        int64_t row = i / gpu_stride(b), j = i % gpu_stride(b);
        double v = element_get(c->host, b->dtype, i);
        if (j < b->dim)
            c->gradient[row * b->dim + j] = v;
        else if (v != CARD_BEFORE)
            fail_msg("row %d: element %d behind the gradient's was written", (int)row, (int)j);
    }
}

static inline void gpu_queue(gpu_loss *c) {
    ole_error error = {0};
    assert_ok(ole_loss_queue(c->plan, &c->device, &c->to, c->device_outcome, c->stream, &error),
              &error);
}

static inline void gpu_close(gpu_loss *c) {
    ole_loss_plan_destroy(c->plan);
    c->memory->release((void *)(uintptr_t)c->device.features);
    c->memory->release((void *)(uintptr_t)c->device.labels);
    c->memory->release(c->to.data);
    c->memory->release(c->device_outcome);
    c->memory->close_stream(c->stream);
    free(c->host);
    free(c->gradient);
}

/* A batch of a structure: `seed` also picks round-robin or random labels. */
static inline gpu_batch gpu_batch_make(const int64_t shape[3], case_structure structure,
                                       ole_dtype dtype, double scale, uint64_t seed) {
    gpu_table("ole_cuda_loss"); /* where there is no GPU, the test ends before it takes memory */
    gpu_batch b = {.rows = shape[0], .dim = shape[1], .dtype = dtype, .upstream = 1.0};
    test_random random = {seed};
    b.x = malloc((size_t)(b.rows * b.dim) * sizeof *b.x);
    b.labels = malloc((size_t)b.rows * sizeof *b.labels);
    case_labels(b.labels, b.rows, shape[2], seed % 2 ? &random : NULL);
    case_fill(structure, b.x, b.labels, b.rows, b.dim, &random);
    for (int64_t i = 0; i < b.rows * b.dim; i++)
        b.x[i] *= scale;
    ole_loss_options_init(&b.options);
    return b;
}

static inline void gpu_batch_free(gpu_batch *b) {
    free(b->x);
    free(b->labels);
}

#endif
