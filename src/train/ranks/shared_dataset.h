/*
 * src/train/ranks/shared_dataset.h - the data set of ranks: one rank per host reads it, the others
 * map what it has read.
 */
#ifndef OLE_SRC_TRAIN_RANKS_SHARED_DATASET_H
#define OLE_SRC_TRAIN_RANKS_SHARED_DATASET_H

#include "ole/train/data.h"
#include "ranks/ranks.h"

/* As ole_dataset_open().  Collective; an error on one rank is an error on all. */
ole_status ole_samples_open(ole_dataset **set, const char *name, const ole_dataset_options *options,
                            ole_ranks *ranks, ole_error *error);

#endif
