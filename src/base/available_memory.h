/* src/base/available_memory.h - how much memory this process can still fill. */
#ifndef OLE_SRC_BASE_AVAILABLE_MEMORY_H
#define OLE_SRC_BASE_AVAILABLE_MEMORY_H

#include "base/export.h"

/*
 * Bytes that can be filled before the kernel ends somebody for them: what the machine has free or
 * can free, and free swap, or less where a control group of the process has less.  INT64_MAX where
 * the system does not tell.  `root` is "", or for tests a folder with a proc and a sys/fs/cgroup in
 * it.
 */
int64_t ole_memory_left(const char *root);

/* OLE_ERROR_MEMORY where less is left: `what` ("a batch of 64") needs that many bytes; the message
 * says how much there is, and `remedy`, what to do.  OLE_MEMORY_CHECK=off in the environment:
 * never. */
OLE_INTERNAL ole_status ole_memory_check(size_t bytes, const char *what, const char *remedy,
                                         ole_error *error);

#endif
