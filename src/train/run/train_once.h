/* src/train/run/train_once.h - one run, and several that differ in their seeds. */
#ifndef OLE_SRC_TRAIN_RUN_TRAIN_ONCE_H
#define OLE_SRC_TRAIN_RUN_TRAIN_ONCE_H

#include "ole/train/train.h"

/* Does run `number` of `runs`, from 1, with checked options: from its first epoch, or where it was
 * left, to its last. */
ole_status ole_train_once(const ole_train_options *options, int64_t number, int64_t runs,
                          ole_train_summary *summary, ole_error *error);

/* Does options->seeds runs, in folders out/seed-N, and returns means and deviations over the
 * finished ones. options->ranks divide the runs, and all get the same summary or error. */
ole_status ole_train_seeds(const ole_train_options *options, ole_train_summary *summary,
                           ole_error *error);

#endif
