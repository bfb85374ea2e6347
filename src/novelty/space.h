/*
 * src/novelty/space.h - a map and a classifier fitted on labelled rows, and what they make of any
 * rows: the features and logits that scores are computed from.
 */
#ifndef OLE_SRC_NOVELTY_SPACE_H
#define OLE_SRC_NOVELTY_SPACE_H

#include "model/model.h"
#include "ole/train/embed.h"

/* How to fit. */
typedef struct ole_space_rule {
    const ole_embed_options *embed; /* method and settings, all given: nothing is chosen */
    bool head_only;                 /* a linear classifier on the rows as they are */
} ole_space_rule;

typedef struct ole_space {
    ole_model *model; /* NULL: the rows are the features */
    int classes;      /* by rising label */
    int64_t dim, features;
    int threads;
    double decay; /* of a classifier fitted alone */
    ole_linear_classifier classifier;
    float *weights; /* of the classifier */
} ole_space;

/* Rows with a label < 0 do not count. *stopped: by the callback of the options; then, and on
 * failure, there is nothing to free. */
ole_status ole_space_fit(ole_space *space, const ole_embedding *rows, const ole_space_rule *rule,
                         bool *stopped, ole_error *error);
void ole_space_free(ole_space *space);

/* The space of a fitted model, which stays the caller's while the space is in use. */
ole_status ole_space_of_model(ole_space *space, ole_model *model, int threads, ole_error *error);

/*
 * Features, logits and classes of the rows whose numbers are `index` [count] (NULL: the first
 * count).  class_of [rows of the matrix] becomes the labels; NULL: 0.
 */
ole_status ole_space_run(const ole_space *space, const ole_embedding *rows, const int64_t *index,
                         int64_t count, const int32_t *class_of, ole_outputs *outputs,
                         ole_error *error);

#endif
