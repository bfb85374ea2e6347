/* src/train/folder.h - paths of a run folder, making and taking it. */
#ifndef OLE_SRC_TRAIN_FOLDER_H
#define OLE_SRC_TRAIN_FOLDER_H

#include "ole/base.h"

#include <stdbool.h>

enum { OLE_RUN_PATH = 4096 };

/* "out/name" into `path`. */
ole_status ole_run_path(char path[OLE_RUN_PATH], const char *out, const char *name,
                        ole_error *error);

/* Makes the folder and those above it. */
ole_status ole_run_make_folder(const char *out, ole_error *error);

/* An error where the folder holds a run. */
ole_status ole_run_refuse_used(const char *out, ole_error *error);

/*
 * Takes the folder, so that two processes do not work in it at once: *lock is to be closed when the
 * work is done, and ends with the process in any case.  The lock is on the folder itself; a file
 * system without locks has none.  *lock is -1 on failure.
 */
ole_status ole_run_lock(int *lock, const char *out, ole_error *error);

/* Whether out/name is there. */
bool ole_run_has(const char *out, const char *name);

#endif
