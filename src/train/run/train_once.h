/* src/train/run/train_once.h - one run, from its first epoch, or where it was left, to its last. */
#ifndef OLE_SRC_TRAIN_RUN_TRAIN_ONCE_H
#define OLE_SRC_TRAIN_RUN_TRAIN_ONCE_H

#include "ole/train/train.h"

/* Does run `number` of `runs`, from 1, with checked options. */
ole_status ole_train_once(const ole_train_options *options, int64_t number, int64_t runs,
                          ole_train_summary *summary, ole_error *error);

#endif
