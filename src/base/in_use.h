/*
 * src/base/in_use.h - detects two threads that use one object at the same time.
 *
 *     if (!ole_in_use_take(&plan->in_use, "plan", error)) return OLE_ERROR_ARGUMENT;
 *     ...
 *     ole_in_use_release(&plan->in_use);
 *
 * An object that owns its working memory serves one call at a time.  This is not a lock: the
 * second caller gets an error instead of corrupt numbers, for the price of one atomic exchange.
 */
#ifndef OLE_SRC_BASE_IN_USE_H
#define OLE_SRC_BASE_IN_USE_H

#include "base/error.h"

#include <stdatomic.h>

typedef atomic_bool ole_in_use; /* false at first */

/* Whether the caller may proceed; `what` names the object in the error. */
static inline bool ole_in_use_take(ole_in_use *flag, const char *what, ole_error *error) {
    bool idle = false;
    if (atomic_compare_exchange_strong_explicit(flag, &idle, true, memory_order_acquire,
                                                memory_order_relaxed))
        return true;
    ole_fail(error, OLE_ERROR_ARGUMENT,
             "the %s is in use by another thread; make one %s per thread", what, what);
    return false;
}

static inline void ole_in_use_release(ole_in_use *flag) {
    atomic_store_explicit(flag, false, memory_order_release);
}

#endif
