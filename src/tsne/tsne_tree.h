/* src/tsne/tsne_tree.h - points sorted along a Hilbert curve, and the quadtree over them. */
#ifndef OLE_SRC_TSNE_TSNE_TREE_H
#define OLE_SRC_TSNE_TSNE_TREE_H

#include "base/pool.h"
#include "tsne/tsne_kernels.h"

/* Memory for trees of `points` points, and what sorting needs. */
typedef struct ole_tsne_forest {
    ole_tsne_tree tree;
    int32_t *order; /* [points]: which point is at a place of the sorted order */
    uint32_t *code; /* [points]: sorted */
    uint32_t *code_before;
    int32_t *order_before;
    double *sum; /* [points + 1, 2]: of the coordinates of the points before */
    void *memory;
} ole_tsne_forest;

ole_status ole_tsne_forest_create(ole_tsne_forest *f, int64_t points, double theta,
                                  ole_error *error);
void ole_tsne_forest_destroy(ole_tsne_forest *f);

/* f->tree over the points xy[points, 2], all finite, in the box given. */
void ole_tsne_forest_grow(ole_tsne_forest *f, ole_pool *pool, const float *xy, const float low[2],
                          const float high[2]);

#endif
