/* src/train/options/choose.h - fills in what the caller of a training left to the data. */
#ifndef OLE_SRC_TRAIN_OPTIONS_CHOOSE_H
#define OLE_SRC_TRAIN_OPTIONS_CHOOSE_H

#include "ole/train/train.h"

/*
 * In checked options: net if NULL; resize if the images of a folder differ in size, or are large
 * and no net is given; channels if some are grey and some coloured; epochs if 0. The options are
 * then as if the caller had given them, and each choice is reported by the options' message.
 */
ole_status ole_train_choose(ole_train_options *options, ole_error *error);

#endif
