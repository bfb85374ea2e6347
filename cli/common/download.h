/*
 * cli/common/download.h - a line of progress for downloads, and opening models that may need one.
 */
#ifndef OLE_CLI_COMMON_DOWNLOAD_H
#define OLE_CLI_COMMON_DOWNLOAD_H

#include "common/progress.h"

#include <limits.h>
#include <ole/train/model.h>

/* The file being fetched, since when and from which byte on. */
typedef struct download_meter {
    progress line;
    char file[80];
    double began;
    int64_t began_at; /* bytes that were there before */
} download_meter;

/* Has the download draw its progress, and stop after Ctrl-C; call progress_clear(&meter->line)
 * behind it. */
void download_watch(download_meter *meter, ole_download_options *options);

/* Whether a MODEL is to be downloaded. */
bool is_on_hub(const char *name);

/*
 * What a command's MODEL means, for the library: hf:OWNER/MODEL is downloaded first, everything
 * else stays as it is.  EXIT_DONE, or the exit code after a message by `command`.
 */
int find_model(const char *command, const char *name, char path[PATH_MAX]);

/* The help of a positional MODEL. */
#define MODEL_HELP "a run folder, a .safetensors file, or hf:OWNER/MODEL from a hub"

/* ole_model_load() of it. */
int open_model(const char *command, const char *name, int threads, ole_model **model);

#endif
