/* src/model/run_folder.h - run folders: paths inside them, creating and locking them. */
#ifndef OLE_SRC_MODEL_RUN_FOLDER_H
#define OLE_SRC_MODEL_RUN_FOLDER_H

#include "ole/base.h"

#include <stdbool.h>
#include <stdint.h>

enum { OLE_RUN_PATH = 4096 };

/* "out/name" into `path`. */
ole_status ole_run_path(char path[OLE_RUN_PATH], const char *out, const char *name,
                        ole_error *error);

/* The same for a file or folder that is about to be written: an error if it, or a folder on the way
 * from `out` to it, is a link or something else. So nothing of a run lands outside its folder. */
ole_status ole_run_output(char path[OLE_RUN_PATH], const char *out, const char *name,
                          ole_error *error);
ole_status ole_run_output_folder(char path[OLE_RUN_PATH], const char *out, const char *name,
                                 ole_error *error);

/* An error if one of these files, up to a NULL, is already in a folder that is not Olé's yet. Empty
 * files do not count. */
ole_status ole_run_refuse_files(const char *out, const char *const *names, ole_error *error);

/* Creates the folder and those above it. *made, unless NULL, is the length of the path up to the
 * first folder created, 0 if all existed. */
ole_status ole_run_make_folder(const char *out, size_t *made, ole_error *error);

/* Removes what that created, as far as it is empty: for runs that fail before they start. */
void ole_run_remove_folder(const char *out, size_t made);

/*
 * An error if the folder holds something else: a study; a run, unless one is resumed; one run
 * instead of several seeds, or the other way round; links or foreign files with the names of a
 * run's files.
 */
ole_status ole_run_refuse_used(const char *out, bool resume, int64_t seeds, uint64_t seed,
                               ole_error *error);

/*
 * Locks the folder, so that two processes do not work in it at once: close *lock when the work is
 * done; it ends with the process in any case. The lock is on the folder itself, if the file system
 * has locks. *lock is -1 on failure.
 */
ole_status ole_run_lock(int *lock, const char *out, ole_error *error);

/* Whether out/name exists. */
bool ole_run_has(const char *out, const char *name);

#endif
