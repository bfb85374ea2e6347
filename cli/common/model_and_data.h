/* cli/common/model_and_data.h - a model and a split of a data set, for `ole eval` and `ole
 * features`. */
#ifndef OLE_CLI_COMMON_MODEL_AND_DATA_H
#define OLE_CLI_COMMON_MODEL_AND_DATA_H

#include "common/alignment.h"
#include "common/args.h"
#include "common/progress.h"
#include "common/trained_data.h"

#include <limits.h>
#include <ole/train/model.h>

enum { MODEL_AND_DATA_OPTIONS = 9 };

typedef struct model_and_data {
    const char *model_path, *data; /* from the command line */
    data_flags flags;
    int split; /* as in ole_split */
    int threads;
    progress line;
    ole_model *model; /* opened */
    ole_dataset *set;
    trained_data run;
    alignment marks; /* of image files, in place of `set` */
} model_and_data;

/* Defaults; the positionals MODEL and DATA, and the options, for the command's tables. */
void model_and_data_init(model_and_data *s, arg_positional positionals[2],
                         ole_option options[MODEL_AND_DATA_OPTIONS]);

/*
 * Opens both.  Data that the model was trained on are split as in its run, which is reported;
 * images of a folder get the model's shape.  From then on the line shows the model's progress, and
 * Ctrl-C stops it.  EXIT_DONE, or the exit code after a message by `command`; close it either way.
 */
int model_and_data_open(model_and_data *s, const char *command);
void model_and_data_close(model_and_data *s);

/* The same for files: opens the model and, if it takes images, what they are aligned by. */
int model_and_data_open_files(model_and_data *s, const char *command);

/* The file of a sample of the set, by a path that can be opened from here; NULL: it is none. */
const char *sample_path(const model_and_data *s, ole_split split, int64_t i, char path[PATH_MAX]);

/* ole_dataset_open() with a line of progress; the exit code, after a message by `command`. */
int open_dataset(const char *command, const char *data, const ole_dataset_options *options,
                 ole_dataset **set);

/* Has the images of folder:PATH resized to a model's shape; other sets stay as they are. */
void fit_folder(ole_dataset_options *options, const char *data, const ole_model_info *model);

#endif
