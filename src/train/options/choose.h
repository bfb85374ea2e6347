/* src/train/options/choose.h - fills in what the caller of a training left to the data. */
#ifndef OLE_SRC_TRAIN_OPTIONS_CHOOSE_H
#define OLE_SRC_TRAIN_OPTIONS_CHOOSE_H

#include "ole/train/train.h"

/*
 * Of checked options: net where it is NULL; resize where the images of a folder differ in size, or
 * no net is given for large ones; channels where some are grey and some coloured; epochs where they
 * are 0.  The options are then as if they had been given, and each choice is told by the options'
 * message.
 */
ole_status ole_train_choose(ole_train_options *options, ole_error *error);

#endif
