/*
 * src/train/options/option_table.h - the options of a training run, as rows of base/option.h over
 * ole_train_options.  libole does not export the table; the program compiles the file too.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTION_TABLE_H
#define OLE_SRC_TRAIN_OPTIONS_OPTION_TABLE_H

#include "base/export.h"
#include "base/option.h"

enum { OLE_TRAIN_MOST_OPTIONS = 64 };

OLE_INTERNAL extern const ole_option ole_train_table[];

#endif
