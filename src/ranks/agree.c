/*
 * src/ranks/agree.c - one rank's error becomes that of all, where they meet and nothing is under
 * way.
 */
#include "base/error.h"
#include "ranks/ranks.h"

#include <stdio.h>

/* What the first rank that failed says. */
typedef struct failure {
    int64_t status;
    char host[64];
    ole_error error;
} failure;

ole_status(ole_ranks_agree)(ole_ranks *ranks, ole_status status, ole_error *error) {
    int64_t failed = status != OLE_OK;
    if (!ranks) return status;
    ole_ranks_sum(ranks, &failed, 1, OLE_I64);
    if (failed == 0) return OLE_OK;
    failure first = {.status = OLE_OK};
    int root = -1;
    while (first.status == OLE_OK && ++root < ranks->size) {
        if (root == ranks->rank) {
            first.status = status;
            snprintf(first.host, sizeof first.host, "%s", ranks->host);
            if (error) first.error = *error;
        }
        ole_ranks_broadcast(ranks, &first, (int64_t)sizeof first, root);
    }
    if (failed == ranks->size)
        return ole_fail(error, (ole_status)first.status, "%s", first.error.message);
    return ole_fail(error, (ole_status)first.status, "rank %d (%s): %.420s", root, first.host,
                    first.error.message);
}
