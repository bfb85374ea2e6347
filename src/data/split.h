/* src/data/split.h - which samples of a source go into which split, and under which label. */
#ifndef OLE_SRC_DATA_SPLIT_H
#define OLE_SRC_DATA_SPLIT_H

#include "data/source.h"

typedef struct ole_splits {
    int classes;        /* kept */
    int *class;         /* [classes]: their numbers in the source */
    int64_t *index[3];  /* by ole_split: sample numbers in the source, ascending */
    int32_t *labels[3]; /* the same samples' labels, 0 to classes - 1 */
    int64_t count[3];
} ole_splits;

ole_status ole_splits_make(ole_splits *splits, const ole_source *source, const char *name,
                           const ole_dataset_options *options, ole_error *error);
void ole_splits_free(ole_splits *splits);

#endif
