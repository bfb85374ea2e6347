/*
 * src/device/ref/ref.h - declarations shared by the files of the reference backend.
 *
 * Each file is compiled twice: with OLE_REAL float and OLE_REF ref, and with OLE_REAL double and
 * OLE_REF ref64.  REF(conv_forward) expands to ole_conv_forward_ref in the first.  Tensors are
 * plain [N, C, H, W] arrays of `real`; sums are in double in both.
 */
#ifndef OLE_SRC_DEVICE_REF_REF_H
#define OLE_SRC_DEVICE_REF_REF_H

#include "device/backend.h"

typedef OLE_REAL real;

#define REF_PASTE2(name, ref) ole_##name##_##ref
#define REF_PASTE(name, ref) REF_PASTE2(name, ref)
#define REF(name) REF_PASTE(name, OLE_REF)

/* One call of an op on a batch of n; `seed` is for dropout. */
typedef struct ref_run {
    const ole_node *node;
    const ole_op_call *call;
    int64_t n;
    uint64_t seed;
} ref_run;

typedef void ref_op(const ref_run *run);

ref_op REF(conv_forward), REF(conv_backward);
ref_op REF(norm_forward), REF(norm_backward);
ref_op REF(maxpool_forward), REF(maxpool_backward);
ref_op REF(avgpool_forward), REF(avgpool_backward);
ref_op REF(linear_forward), REF(linear_backward);
ref_op REF(relu_forward), REF(relu_backward);
ref_op REF(add_forward), REF(add_backward);
ref_op REF(concat_forward), REF(concat_backward);
ref_op REF(pad_forward), REF(pad_backward);
ref_op REF(flatten_forward), REF(flatten_backward);
ref_op REF(dropout_forward), REF(dropout_backward);

/* dparam[1] of a convolution or linear layer. */
ref_op REF(bias_gradient);

void REF(softmax_loss)(ole_device_context *context, int64_t n, int64_t classes, const void *logits,
                       const int32_t *labels, const ole_mix *mix, double smoothing, double scale,
                       void *dlogits, float *scores, double *loss, int64_t *correct);
void REF(clip)(ole_device_context *context, double largest, const ole_update_item *items,
               int count);

void REF(average)(ole_device_context *context, const ole_update *update,
                  const ole_update_item *items, int count);

void REF(update)(ole_device_context *context, const ole_update *update, size_t bytes, void *param,
                 const void *gradient, void *state[2]);

/* dx = value, or dx += value. */
static inline void ref_put(real *dx, bool accumulate, double value) {
    *dx = (real)(accumulate ? *dx + value : value);
}

#endif
