/* cli/subject.h - a model and a split of a data set: what `ole eval` and `ole features` look at. */
#ifndef OLE_CLI_SUBJECT_H
#define OLE_CLI_SUBJECT_H

#include "args.h"
#include "progress.h"
#include "trained_data.h"

#include <ole/train/model.h>

enum { SUBJECT_OPTIONS = 8 };

typedef struct subject {
    const char *model_path, *data; /* from the command line */
    data_flags flags;
    int split; /* as in ole_split */
    int threads;
    progress line;
    ole_model *model; /* opened */
    ole_dataset *set;
} subject;

/* Defaults; the positionals MODEL and DATA, and the options, for the command's tables. */
void subject_init(subject *s, arg_positional positionals[2], ole_option options[SUBJECT_OPTIONS]);

/*
 * Opens both: the data as in the model's run where they are those, which is said; images of a
 * folder get the model's shape.  From then on the line shows how far the model is with a split, and
 * Ctrl-C stops it.  EXIT_DONE, or the exit code after an error,
 * explained in the name of `command`; close it either way.
 */
int subject_open(subject *s, const char *command);
void subject_close(subject *s);

/* Has the images of folder:PATH resized to a model's shape; other sets stay as they are. */
void fit_folder(ole_dataset_options *options, const char *data, const ole_model_info *model);

#endif
