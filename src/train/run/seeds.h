/*
 * src/train/run/seeds.h - several runs that differ in their seeds: one after the other,
 * concurrently on a device with room for them, or on several ranks.
 */
#ifndef OLE_SRC_TRAIN_RUN_SEEDS_H
#define OLE_SRC_TRAIN_RUN_SEEDS_H

#include "ole/train/train.h"

/* Does options->seeds runs, in folders out/seed-N, and returns means and deviations over the
 * finished ones. options->ranks divide the runs, and all get the same summary or error. */
ole_status ole_train_seeds(const ole_train_options *options, ole_train_summary *summary,
                           ole_error *error);

#endif
