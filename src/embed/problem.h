/*
 * src/embed/problem.h - labelled rows as the fits see them: classes counted from 0, weights per
 * row, and the shift and scale under which the rows are centred with a mean square length of 1.
 *
 * Rows are read where they lie, block by block, so a mapped file larger than memory will do.  A fit
 * that leaves rows out gives them weight 0.
 */
#ifndef OLE_SRC_EMBED_PROBLEM_H
#define OLE_SRC_EMBED_PROBLEM_H

#include "base/pool.h"
#include "linalg/panels.h"
#include "ole/train/embed.h"

typedef struct ole_problem {
    const ole_embedding *embedding;
    int64_t rows, dim;
    int64_t used;   /* rows with a class */
    int classes;    /* C */
    int32_t *label; /* [rows] class, or -1: ignored */
    int64_t *size;  /* [C] rows of each class */
    double *weight; /* [C] of the rows of a class */
    char **name;    /* [C] */
    double *mean;   /* [dim] of the used rows */
    double scale;   /* 1 / sqrt(mean square length of the centred rows) */
    int32_t *fold;  /* [rows] which fold holds the row out; -1: none does */
    int folds;      /* 0: no row is held out */
    ole_pool *pool;
    int threads;
    const ole_embed_options *options;
    bool stopped; /* by the callback */
} ole_problem;

/* `options` must have been checked, and outlive the problem. On failure as after a free. */
ole_status ole_problem_open(ole_problem *problem, const ole_embedding *embedding,
                            const char *const *names, int64_t classes,
                            const ole_embed_options *options, ole_error *error);
void ole_problem_close(ole_problem *problem);

/* Deals the rows of each class to `folds` folds in turn, in an order drawn from the seed. Classes
 * of one row are never held out. */
ole_status ole_problem_deal(ole_problem *problem, int folds, ole_error *error);

/* Rows that have a class and are not held out by `fold` (-1: all). */
static inline bool ole_problem_has(const ole_problem *p, int64_t row, int fold) {
    return p->label[row] >= 0 && (fold < 0 || p->fold[row] != fold);
}

/* Rows first to first + count - 1 as items (transposed: as depth) of a product. */
ole_operand ole_problem_rows(const ole_problem *problem, int64_t first, int64_t count,
                             bool transposed);

/* The same rows as floats, without shift and scale. */
void ole_problem_copy_row(const ole_problem *problem, int64_t row, float *out);

/* Reports to the callback; true: stop, which `stopped` remembers. */
bool ole_problem_report(ole_problem *problem, const char *part, int64_t done, int64_t total);

#endif
