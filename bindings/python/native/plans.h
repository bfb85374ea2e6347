/*
 * bindings/python/native/plans.h - plans of the loss, shared by callers on many threads.
 *
 *     ole_loss_plan *plan = plans_take(&kind, &error);
 *     ... one evaluation ...
 *     plans_give(&kind, plan);
 *
 * plans_take() returns an idle plan of the kind or creates one.  At most PLANS_KEPT idle plans are
 * kept; the least recently used are freed first.  On a GPU the stream is part of the kind: work of
 * the next caller is queued behind that of the last, so a plan can be given back while the GPU is
 * still using it.
 */
#ifndef OLE_BINDINGS_PLANS_H
#define OLE_BINDINGS_PLANS_H

#include <ole/loss.h>

enum { PLANS_KEPT = 32 };

typedef struct plan_kind {
    int64_t rows, dim;
    ole_dtype dtype;
    ole_loss_options options;
    void *stream;
} plan_kind;

/* NULL if the plan cannot be created; `error` says why. */
ole_loss_plan *plans_take(const plan_kind *kind, ole_error *error);
void plans_give(const plan_kind *kind, ole_loss_plan *plan);

#endif
