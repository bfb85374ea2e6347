/*
 * bindings/python/native/jax.h - handlers of XLA's foreign function interface for the loss, which
 * ole/jax.py registers under the name "ole_loss".
 *
 *     arguments   features [N, D] float32 or float64, N >= 1
 *                 labels [N] int32, int64, uint32 or uint64
 *     results     an ole_loss_outcome as 14 words of uint32; and, if there is a second one, the
 *                 gradient [N, D] of the features' type
 *     attributes  delta_floor, delta_abs, delta_rel (float64), mean, threads, check (int64)
 *
 * The outcome is returned as words because XLA converts types and JAX has no float64 by default.
 * NaN or Inf makes a call on the CPU fail; with check 0, and on a GPU, value and gradient become
 * NaN.  If every row is ignored the value is 0.  An unsigned label too large for its signed type
 * makes a call on the CPU fail too; elsewhere its row is ignored and the caller returns NaN.
 */
#ifndef OLE_BINDINGS_JAX_H
#define OLE_BINDINGS_JAX_H

#include "xla_ffi.h"

#include <ole/loss.h>

enum { OLE_JAX_WORDS = sizeof(ole_loss_outcome) / sizeof(uint32_t) };

/* On the CPU: returns when done. */
OLE_API xla_error *ole_jax_loss_cpu(xla_call *call);

/* On a GPU: queues on XLA's stream and returns. */
OLE_API xla_error *ole_jax_loss_cuda(xla_call *call);

#endif
