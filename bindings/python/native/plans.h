/*
 * bindings/python/native/plans.h - plans of the loss for callers that come from many threads.
 *
 *     ole_loss_plan *plan = plans_take(&kind, &error);
 *     ... one evaluation ...
 *     plans_give(&kind, plan);
 *
 * An idle plan of the kind is handed out, or a new one is made; at most PLANS_KEPT idle ones are
 * kept, the longest unused go first.  On a GPU the stream is part of the kind: what the next caller
 * queues there runs after what the last one did, so a plan comes back while the GPU still works
 * with it.
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

/* NULL when there is no memory, or the library refuses: `error` says why. */
ole_loss_plan *plans_take(const plan_kind *kind, ole_error *error);
void plans_give(const plan_kind *kind, ole_loss_plan *plan);

#endif
