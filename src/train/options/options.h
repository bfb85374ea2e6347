/*
 * src/train/options/options.h - the options of a run: their table, the check before a run begins,
 * and the choices left to the data.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_OPTIONS_H
#define OLE_SRC_TRAIN_OPTIONS_OPTIONS_H

#include "ole/train/train.h"
#include "train/options/option_table.h"

/* A copy of the caller's options, of whatever version, unchecked. */
ole_status ole_train_options_read(ole_train_options *options, const ole_train_options *given,
                                  ole_error *error);

/*
 * The same with missing texts replaced by their defaults, checked: ranges, choices and the texts of
 * model/option_syntax.h.  An error names the option.
 */
ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error);

/*
 * In checked options: net if NULL; resize if the images of a folder differ in size, or are large
 * and no net is given; channels if some are grey and some coloured; epochs if 0. The options are
 * then as if the caller had given them, and each choice is reported by the options' message.
 */
ole_status ole_train_choose(ole_train_options *options, ole_error *error);

#endif
