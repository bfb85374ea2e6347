/*
 * src/base/memory_file.h - a FILE that collects output in memory and detects lost bytes.
 *
 *     ole_memory_file m;
 *     if (!ole_memory_file_open(&m)) return out_of_memory();
 *     fprintf(m.file, "%d\n", 42);
 *     char *text = ole_memory_file_close(&m);
 *     if (!text) return out_of_memory();
 *
 * glibc's open_memstream() is unreliable when memory runs out: ferror() stays 0 after a write that
 * found none, and fclose() returns 0 with a NULL text when the last realloc() failed.
 */
#ifndef OLE_SRC_BASE_MEMORY_FILE_H
#define OLE_SRC_BASE_MEMORY_FILE_H

#include "base/export.h"

#include <stdbool.h>
#include <stdio.h>

/* Do not move it while it is open: the stream points to it. */
typedef struct ole_memory_file {
    FILE *file;  /* print here; it cannot seek */
    char *bytes; /* flushed so far, terminated */
    size_t size; /* of them */
    size_t room;
    bool failed; /* some bytes were lost; a caller may set it to discard the text */
} ole_memory_file;

/* False when out of memory; closing is then allowed, and returns NULL. */
OLE_INTERNAL bool ole_memory_file_open(ole_memory_file *memory);

/* All that was printed, terminated, its length in memory->size; free() it. NULL: out of memory. */
OLE_INTERNAL char *ole_memory_file_close(ole_memory_file *memory);

#endif
