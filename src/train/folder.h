/* src/train/folder.h - paths of a run folder. */
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

/* Whether out/name is there. */
bool ole_run_has(const char *out, const char *name);

#endif
