/*
 * src/train/options/options.h - the options of a run: their table, and the check before a run
 * begins.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTIONS_H
#define OLE_SRC_TRAIN_OPTIONS_OPTIONS_H

#include "ole/train/train.h"
#include "train/options/option_table.h"

/* Copies the caller's options, replaces missing texts by their defaults and checks ranges, choices
 * and texts (model/option_syntax.h). An error names the option. */
ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error);

#endif
