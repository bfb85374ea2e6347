/*
 * tests/support/analyzer.h - what clang's analyzer, which sees one file at a time, has to know of
 * functions in others: a status that was passed in comes back.  .clang-tidy includes it before
 * each source.
 */
#include "base/error.h"
#include "ole/ranks.h"

#define ole_fail(error, status, ...) ((void)ole_fail(error, status, __VA_ARGS__), (status))

/* Errors stay errors; OLE_OK may become another rank's error. */
static inline ole_status analyzed_agree(ole_ranks *ranks, ole_status status, ole_error *error) {
    ole_status agreed = ole_ranks_agree(ranks, status, error);
    return status == OLE_OK ? agreed : status;
}
#define ole_ranks_agree(ranks, status, error) analyzed_agree(ranks, status, error)
