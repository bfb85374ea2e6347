/* src/base/available_memory.h - how much memory this process can still fill. */
#ifndef OLE_SRC_BASE_AVAILABLE_MEMORY_H
#define OLE_SRC_BASE_AVAILABLE_MEMORY_H

#include "base/export.h"

/*
 * Bytes that can be filled before the kernel kills a process: free and reclaimable memory plus free
 * swap, or less if a control group of the process limits it.  INT64_MAX if unknown.  `root` is "",
 * or for tests a folder with proc and sys/fs/cgroup in it.
 */
int64_t ole_memory_left(const char *root);

/*
 * OLE_ERROR_MEMORY if fewer than the `bytes` that `what` ("a batch of 64") needs are left; the
 * message adds how many there are, and `remedy`, what to do.  OLE_MEMORY_CHECK=off in the
 * environment disables the check.
 */
OLE_INTERNAL ole_status ole_memory_check(size_t bytes, const char *what, const char *remedy,
                                         ole_error *error);

#endif
