/*
 * src/train/options/options.h - the options of a run: their table, and the check before a run
 * begins.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTIONS_H
#define OLE_SRC_TRAIN_OPTIONS_OPTIONS_H

#include "ole/train/train.h"
#include "train/options/option_table.h"

/*
 * A copy of what the caller gave, every missing text replaced by its default, checked: ranges,
 * choices and the texts of spec.h.  An error names the option.
 */
ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error);

#endif
