/*
 * src/train/options.h - the options of a run: one table behind the C struct, the recipe's keys and
 * the command line's flags.
 */
#ifndef OLE_SRC_TRAIN_OPTIONS_H
#define OLE_SRC_TRAIN_OPTIONS_H

#include "ole/train.h"

/* A number with as few digits as read back to the same. */
void ole_option_number(double value, char room[OLE_TRAIN_OPTION_TEXT]);

/*
 * Whether option i belongs into a recipe, whether a resumed run may change it, and whether each
 * rank may have its own.
 */
bool ole_option_is_stored(size_t i);
bool ole_option_is_free(size_t i);
bool ole_option_is_own(size_t i);

/*
 * A copy of what the caller gave, every missing text replaced by its default, checked: ranges,
 * choices and the texts of spec.h.  An error names the option.
 */
ole_status ole_train_options_check(const ole_train_options *given, ole_train_options *out,
                                   ole_error *error);

#endif
