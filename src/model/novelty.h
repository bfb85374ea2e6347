/* src/model/novelty.h - the directions of known classes that novelty scores compare with. */
#ifndef OLE_SRC_MODEL_NOVELTY_H
#define OLE_SRC_MODEL_NOVELTY_H

#include "model/confidence.h"
#include "model/model.h"
#include "ole/train/novelty.h"

/* What the scores of features compare with. */
struct ole_novelty_directions {
    ole_score_directions subspaces; /* orthonormal, 95 % of each class's energy */
    ole_score_directions means;     /* one per class: the mean of its features, at length 1 */
};

ole_status ole_novelty_directions_make(struct ole_novelty_directions *directions,
                                       const ole_outputs *training, int classes, int64_t dim,
                                       int threads, ole_error *error);
void ole_novelty_directions_free(struct ole_novelty_directions *directions);

#endif
