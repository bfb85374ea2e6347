/*
 * src/device/cpu/onednn.h - the part of oneDNN we use behind one small interface: versions 2 and 3
 * differ in how primitives are described, and only onednn.c knows.
 */
#ifndef OLE_SRC_DEVICE_CPU_ONEDNN_H
#define OLE_SRC_DEVICE_CPU_ONEDNN_H

#include "ole/base.h"

#include <stdbool.h>

/* Engine and stream. */
typedef struct cpu_dnn cpu_dnn;

/* bf16: bfloat16 convolutions will be requested. */
ole_status cpu_dnn_create(cpu_dnn **dnn, bool bf16, ole_error *error);
void cpu_dnn_destroy(cpu_dnn *dnn);

/* The loaded version and the instruction set it uses: "2.6.3, AVX512_CORE". */
void cpu_dnn_describe(char *text, size_t size);

/* Floats per vector on this CPU: 16 (AVX-512) or 8. */
int cpu_dnn_block(void);

/* Whether an array is plain ([n, c, h, w], [o, i, k, k]) or blocked by cpu_dnn_block(). */
typedef enum cpu_format {
    CPU_PLAIN,
    CPU_BLOCKED, /* [n, c/b, h, w, b]; weights [o/b, i/b, k, k, b of i, b of o] */
} cpu_format;

typedef enum cpu_pass {
    CPU_FORWARD,
    CPU_BACKWARD_DATA,
    CPU_BACKWARD_WEIGHTS,
    CPU_BACKWARD_ADD, /* data, added to an existing gradient: only 1 x 1, stride 1, no padding */
    CPU_PASSES,
} cpu_pass;

typedef struct cpu_conv_spec {
    cpu_pass pass;
    bool train, bias, winograd;
    bool bf16; /* x and y are bfloat16 where blocked, and products are in bfloat16 */
    int64_t n, in, in_h, in_w, out, out_h, out_w;
    int kernel, stride, pad;
    cpu_format x, y, weight;
} cpu_conv_spec;

/* A planned convolution, with the reorders it needs for arrays it cannot use as given. */
typedef struct cpu_conv cpu_conv;

/* *conv stays NULL if Winograd or CPU_BACKWARD_ADD, which are optional, are not available. */
ole_status cpu_conv_create(cpu_conv **conv, cpu_dnn *dnn, const cpu_conv_spec *spec,
                           ole_error *error);
void cpu_conv_destroy(cpu_conv *conv);

size_t cpu_conv_scratch(const cpu_conv *conv);

/* The arrays of a pass: x, weight, bias and y, or their gradients if the pass writes those. */
typedef struct cpu_conv_arrays {
    void *x, *weight, *bias, *y;
    void *scratch;
} cpu_conv_arrays;
void cpu_conv_run(cpu_conv *conv, const cpu_conv_arrays *arrays);

/* Whether the CPU level is AMX; requests its registers from the kernel. */
bool cpu_has_amx(void);

#endif
