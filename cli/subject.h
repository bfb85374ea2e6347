/* cli/subject.h - a model and a split of a data set: what `ole eval` and `ole features` look at. */
#ifndef OLE_CLI_SUBJECT_H
#define OLE_CLI_SUBJECT_H

#include "args.h"
#include "progress.h"

#include <ole/model.h>
#include <ole/train.h>

enum { SUBJECT_OPTIONS = 7 };

typedef struct subject {
    const char *model_path, *data; /* from the command line */
    ole_dataset_options set_options;
    const char *validation; /* "10%" */
    int split;              /* as in ole_split */
    arg_seed seed;
    int threads;
    progress line;
    ole_model *model; /* opened */
    ole_dataset *set;
} subject;

/* Defaults; the positionals MODEL and DATA, and the options, for the command's tables. */
void subject_init(subject *s, arg_positional positionals[2], arg_option options[SUBJECT_OPTIONS]);

/*
 * Opens both; images of a folder get the model's shape.  From then on the line shows how far the
 * model is with a split, and Ctrl-C stops it.  EXIT_DONE, or the exit code after an error,
 * explained in the name of `command`; close it either way.
 */
int subject_open(subject *s, const char *command);
void subject_close(subject *s);

/* Has the images of folder:PATH resized to a model's shape; other sets stay as they are. */
void fit_folder(ole_dataset_options *options, const char *data, const ole_model_info *model);

/* The data of a run, as it was trained with these options. */
ole_dataset_options run_dataset_options(const ole_train_options *run, int threads);

#endif
