/* src/ranks/ranks.c - what all kinds of groups do alike: gathering records, agreeing on an error.
 */
#include "ranks/ranks.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ole_ranks_rank(const ole_ranks *ranks) {
    return ranks ? ranks->rank : 0;
}

int ole_ranks_size(const ole_ranks *ranks) {
    return ranks ? ranks->size : 1;
}

void ole_ranks_gather(ole_ranks *ranks, const void *mine, const int64_t *bytes, void *all) {
    if (ranks)
        ranks->table->gather(ranks, mine, bytes, all);
    else if (mine != all && bytes[0] > 0)
        memcpy(all, mine, (size_t)bytes[0]);
}

/* ---- Agreeing ----------------------------------------------------------------------------- */

/* The error of the first rank that failed. */
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

void *ole_ranks_gather_records(ole_ranks *ranks, const void *mine, size_t size, ole_error *error) {
    size_t count = (size_t)ole_ranks_size(ranks);
    void *all = calloc(count, size);
    int64_t *bytes = calloc(count, sizeof *bytes);
    ole_status status = all && bytes ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (ole_ranks_agree(ranks, status, error) == OLE_OK) {
        for (size_t r = 0; r < count; r++)
            bytes[r] = (int64_t)size;
        ole_ranks_gather(ranks, mine, bytes, all);
    } else {
        free(all);
        all = NULL;
    }
    free(bytes);
    return all;
}
