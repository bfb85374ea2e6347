/*
 * src/tsne/tsne_kernels.h - the inner loops of t-SNE and its neighbours, compiled once per
 * instruction set (tsne_kernels.c) and selected as in linalg.
 *
 * Repulsion.  The points lie in the order of a Hilbert curve, along which neighbours in the list
 * are neighbours in the plane.  `group` of them walk through the tree together: a cell counts as
 * one point when it is far enough from all of them, that is from the box around them, and what is
 * summed is then the same list for all, one lane per point.
 */
#ifndef OLE_SRC_TSNE_TSNE_KERNELS_H
#define OLE_SRC_TSNE_TSNE_KERNELS_H

#include "tsne/affinity.h"

#include <stdint.h>

enum { OLE_TSNE_LEVELS = 16 }; /* of the tree; a code has two bits each */

/*
 * A quadtree in the order of a walk that visits a cell before its parts: the first part of cell i
 * is i + 1, and what follows the whole of it is next[i].
 */
typedef struct ole_tsne_cell {
    float x, y;    /* centre of mass */
    float mass;    /* points in it */
    float reach;   /* (width / theta)²: farther away than that, squared, it counts as one */
    int32_t next;  /* the cell after this one and its parts */
    int32_t begin; /* of the points, in the sorted order */
    int32_t end;   /* of a leaf; 0 for a cell with parts */
} ole_tsne_cell;

typedef struct ole_tsne_tree {
    int64_t points;
    int64_t cells;
    ole_tsne_cell *cell;
    float *x, *y; /* [points]: sorted */
    float theta;
} ole_tsne_tree;

typedef struct ole_tsne_kernels {
    int group; /* points that walk together */

    /*
     * line[i] = max(0, line[i] + own + square[i]): squared distances from -2ab.  The places where
     * they are under `limit` go into place[], which has room for `count`; their number returns.
     */
    int64_t (*nearer)(double *line, const double *square, double own, int64_t count, double limit,
                      int32_t *place);

    /* The place of points on the Hilbert curve over the square [x0, x0 + side] x [y0, y0 + side].
     */
    void (*codes)(const float *xy, int64_t count, float x0, float y0, float side, uint32_t *code);

    /*
     * Of the sorted points `first` to first + group - 1 (or the last): sum_j q² (y_i - y_j) into
     * fx, fy at the same places, q = 1 / (1 + |y_i - y_j|²); returns sum_ij q, i itself included.
     */
    double (*repel)(const ole_tsne_tree *tree, int64_t first, float *fx, float *fy);

    /* The same sums over all points of a list instead of a tree. */
    double (*repel_all)(const float *x, const float *y, int64_t count, int64_t first);

    /* sum_j p_ij q (y_i - y_j) of the rows begin to end - 1, interleaved as xy is, into f. */
    void (*attract)(const ole_affinity *a, const float *xy, int64_t begin, int64_t end, float *f);

    /* sum p_ij log(1 + |y_i - y_j|²) over those rows, to six digits. */
    double (*cost)(const ole_affinity *a, const float *xy, int64_t begin, int64_t end);
} ole_tsne_kernels;

const ole_tsne_kernels *ole_tsne_kernels_get(void);

#endif
