/* src/analyze/novelty.h - what a model makes of a part of a data set, and the directions of it. */
#ifndef OLE_SRC_ANALYZE_NOVELTY_H
#define OLE_SRC_ANALYZE_NOVELTY_H

#include "ole/novelty.h"
#include "train/score.h"

/* Features, logits and labels of some samples. */
typedef struct ole_outputs {
    int64_t count;
    float *features; /* [count, features] */
    float *logits;   /* [count, classes] */
    int32_t *labels; /* [count] */
} ole_outputs;

/* Which samples: one split, or all three. */
typedef struct ole_part {
    const char *name; /* for progress and messages: "novel samples" */
    const ole_dataset *set;
    ole_split split;
    bool all;
} ole_part;

/*
 * Runs a part through the model, telling the callback how far it is.  *interrupted is set where the
 * callback asks to stop.  NaN or Inf among the features is OLE_ERROR_DATA.  On failure, or
 * interrupted, there is nothing to free.
 */
ole_status ole_outputs_collect(ole_outputs *outputs, ole_model *model, const ole_part *part,
                               const ole_novelty_options *options, bool *interrupted,
                               ole_error *error);
void ole_outputs_free(ole_outputs *outputs);

/* What the scores of features compare with. */
struct ole_novelty_directions {
    ole_directions subspaces; /* orthonormal, 95 % of each class's energy */
    ole_directions means;     /* one a class: the mean of its features of length 1 */
};

ole_status ole_novelty_directions_make(struct ole_novelty_directions *directions,
                                       const ole_outputs *training, int classes, int64_t dim,
                                       int threads, ole_error *error);
void ole_novelty_directions_free(struct ole_novelty_directions *directions);

#endif
