/*
 * src/data/formats/generated.h - a data set made of random numbers, for measuring: no file is read.
 */
#ifndef OLE_SRC_DATA_FORMATS_GENERATED_H
#define OLE_SRC_DATA_FORMATS_GENERATED_H

#include "ole/train/data.h"

enum { OLE_RANDOM_TEST = 6 }; /* whatever is made up, b = its position */

typedef struct ole_generated_options {
    int channels, height, width, classes;
    int64_t count; /* of the training split; there is no other */
} ole_generated_options;

/* Random bytes, labels in turn: close it with ole_dataset_close(). */
ole_status ole_dataset_generate(ole_dataset **set, const ole_generated_options *options,
                                ole_error *error);

#endif
