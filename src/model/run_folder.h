/* src/model/run_folder.h - run folders: paths inside them, creating and locking them. */
#ifndef OLE_SRC_MODEL_RUN_FOLDER_H
#define OLE_SRC_MODEL_RUN_FOLDER_H

#include "base/export.h"
#include "base/memory_file.h"
#include "ole/base.h"

#include <stdbool.h>
#include <stdint.h>

enum { OLE_RUN_PATH = 4096 };

/* "out/name" into `path`. */
OLE_INTERNAL ole_status ole_run_path(char path[OLE_RUN_PATH], const char *out, const char *name,
                                     ole_error *error);

/*
 * The same for a file or a folder that is about to be written: an error where the name, or a
 * folder on the way from `out` to it, is a link or something else.  So nothing of a run lands
 * outside its folder.
 */
OLE_INTERNAL ole_status ole_run_output(char path[OLE_RUN_PATH], const char *out, const char *name,
                                       ole_error *error);
OLE_INTERNAL ole_status ole_run_output_folder(char path[OLE_RUN_PATH], const char *out,
                                              const char *name, ole_error *error);

/* Replaces out/name by the text, as by ole_atomic_file_put(); NULL is an error: out of memory. */
OLE_INTERNAL ole_status ole_run_put(const char *out, const char *name, const char *text,
                                    ole_error *error);

/* The same with what was printed into a memory file, which it closes. */
OLE_INTERNAL ole_status ole_run_put_memory(const char *out, const char *name,
                                           ole_memory_file *memory, ole_error *error);

/*
 * An error where one of these files, up to a NULL, is in the folder already: for a folder that is
 * not Olé's yet.  Empty ones are nobody's loss.
 */
OLE_INTERNAL ole_status ole_run_refuse_files(const char *out, const char *const *names,
                                             ole_error *error);

/*
 * Makes the folder and those above it.  *made is how much of the path names the first of them that
 * was not there, 0 where all were; NULL: not asked for.
 */
OLE_INTERNAL ole_status ole_run_make_folder(const char *out, size_t *made, ole_error *error);

/* Removes what that made, as far as it is empty and below the first of them: for what is refused
 * before it begins. */
OLE_INTERNAL void ole_run_remove_folder(const char *out, size_t made);

/*
 * An error if the folder holds something else: a study; a run, unless one is resumed; one run
 * instead of several seeds, or the other way round; links or foreign files with the names of a
 * run's files.
 */
OLE_INTERNAL ole_status ole_run_refuse_used(const char *out, bool resume, int64_t seeds,
                                            uint64_t seed, ole_error *error);

/*
 * Locks the folder, so that two processes do not work in it at once: close *lock when the work is
 * done; it ends with the process in any case. The lock is on the folder itself, if the file system
 * has locks. *lock is -1 on failure.
 */
OLE_INTERNAL ole_status ole_run_lock(int *lock, const char *out, ole_error *error);

/* Whether out/name is there. */
OLE_INTERNAL bool ole_run_has(const char *out, const char *name);

#endif
