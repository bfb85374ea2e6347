/* src/data/dataset.h - an open data set, as the loader and the statistics see it. */
#ifndef OLE_SRC_DATA_DATASET_H
#define OLE_SRC_DATA_DATASET_H

#include "data/source.h"

/* Which samples of a source go into which split, and under which label (split.c). */
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

struct ole_dataset {
    ole_dataset_info info;
    ole_source source;
    ole_splits splits;
    const char **class_names; /* [info.classes], into the source's */
};

/* The reader of NAME, or NULL after an error; *rest is what follows "NAME:", NULL without it. */
const ole_reader *ole_find_reader(const char *name, const char **rest, ole_error *error);

/*
 * The data set of a reader's source, which it owns from now on, also on failure.  `name` must
 * outlive the set.  NULL options: the defaults.
 */
ole_status ole_dataset_take(ole_dataset **set, const char *name, ole_source *source,
                            const ole_dataset_options *options, ole_error *error);

/* Whether a number names a split. */
static inline bool ole_is_split(ole_split split) {
    return split == OLE_SPLIT_TRAIN || split == OLE_SPLIT_TEST || split == OLE_SPLIT_VALIDATION;
}

/* As messages call a split: "no test samples". */
static inline const char *ole_split_name(ole_split split) {
    static const char *const names[] = {"training", "test", "validation"};
    return names[split];
}

/* Vectors have one mean and deviation for all their elements, images one per channel. */
static inline int ole_statistic_count(const ole_dataset_info *info) {
    return info->height == 1 && info->width == 1 ? 1 : info->channels;
}

#endif
