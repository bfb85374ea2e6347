/*
 * src/device/cuda/conv/algorithm.h - one pass of a convolution or linear layer as a problem, and
 * an algorithm that computes it.
 *
 * A linear layer is a 1 x 1 convolution of 1 x 1 images: x [n, in], w [out, in], y [n, out].  All
 * three tensors are packed with channels innermost and channel counts rounded up (cuda.h); elements
 * have one type, sums are in float.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_ALGORITHM_H
#define OLE_SRC_DEVICE_CUDA_CONV_ALGORITHM_H

#include "device/cuda/cuda.h"

#include <cublasLt.h>

typedef enum cuda_pass {
    CUDA_PASS_FORWARD, /* y from x and w */
    CUDA_PASS_DATA,    /* the gradient of x from w and that of y */
    CUDA_PASS_WEIGHT,  /* the gradient of w from x and that of y */
} cuda_pass;

typedef struct cuda_problem {
    cuda_pass pass;
    bool add;  /* CUDA_PASS_DATA: adds instead of overwriting */
    bool bias; /* CUDA_PASS_FORWARD: adds a number per output channel */
    cuda_type type;
    ole_precision precision;
    bool direct; /* neither Winograd nor FFT */
    int64_t n, in, in_h, in_w, out, out_h, out_w;
    int64_t kernel, stride, pad;
} cuda_problem;

/* The tensors of a pass: x, w, y or their gradients, in device memory aligned to 16 bytes. */
typedef struct cuda_arrays {
    void *x, *w, *y;
    const float *bias; /* [out], if the problem has one */
    void *scratch;     /* of cuda_solver_scratch() bytes */
    void *workspace;   /* of context->workspace_bytes */
    cudaStream_t stream;
} cuda_arrays;

enum { CUDA_ALGORITHM_NAME = 320, CUDA_TENSOR_ALIGNMENT = 16 };

/*
 * An algorithm for a problem. For given versions of the libraries its name identifies it:
 * "cudnn:ENGINE:KNOB=VALUE:...", "cublas:" and the words of an algorithm, "narrow:" and a variant,
 * or "apart".
 */
typedef struct cuda_algorithm {
    enum {
        CUDA_ALGORITHM_DNN,     /* a cuDNN plan */
        CUDA_ALGORITHM_PRODUCT, /* a matrix product by cuBLASLt */
        CUDA_ALGORITHM_NARROW,  /* a kernel of our own (narrow.h) */
        CUDA_ALGORITHM_APART,   /* without `add` (into scratch) or `bias`, then an addition */
    } kind;
    size_t workspace; /* bytes */
    bool bias;        /* a cuDNN plan that adds it */
    cudnnBackendDescriptor_t config, plan;
    cublasLtMatmulAlgo_t matmul;
    const struct narrow_variant *variant;
    char name[CUDA_ALGORITHM_NAME];
} cuda_algorithm;

static inline int64_t cuda_problem_x(const cuda_problem *p) { /* elements */
    return p->n * p->in_h * p->in_w * p->in;
}

static inline int64_t cuda_problem_w(const cuda_problem *p) {
    return p->out * p->kernel * p->kernel * p->in;
}

static inline int64_t cuda_problem_y(const cuda_problem *p) {
    return p->n * p->out_h * p->out_w * p->out;
}

/* Whether the pass is one matrix product, with every pixel on its own. */
static inline bool cuda_problem_is_product(const cuda_problem *p) {
    return p->kernel == 1 && p->stride == 1 && p->pad == 0;
}

#endif
