/*
 * src/train/options/option_table.h - the options of a training run, as rows of base/option.h over
 * ole_train_options, which the program shows as flags.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTION_TABLE_H
#define OLE_SRC_TRAIN_OPTIONS_OPTION_TABLE_H

#include "base/export.h"
#include "base/option.h"
#include "ole/train/train.h"

#include <stdio.h>

enum { OLE_TRAIN_MOST_OPTIONS = 64 };

OLE_INTERNAL extern const ole_option ole_train_table[];

/* The options to open a run's data with: the samples it takes and those it holds out. */
OLE_INTERNAL void ole_train_dataset_options(const ole_train_options *options,
                                            ole_dataset_options *data);

/* Prints the options that are not as by default, as " --flag value", quoted for the shell: all but
 * the data, or those that have one of these bits of ole_option's flags. */
OLE_INTERNAL void ole_train_put_flags(FILE *to, const ole_train_options *options, unsigned flags);

#endif
