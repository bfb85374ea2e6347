/*
 * src/tsne/affinity.h - P of t-SNE: how much two rows are neighbours.
 *
 * Around row i a Gaussian p(j|i) ~ exp(-beta_i |x_i - x_j|²) whose entropy is log(perplexity), and
 * p(i, j) = (p(j|i) + p(i|j)) / 2 rows, which sums to 1.
 */
#ifndef OLE_SRC_TSNE_AFFINITY_H
#define OLE_SRC_TSNE_AFFINITY_H

#include "base/pool.h"
#include "ole/base.h"

/* Sparse and symmetric: row i holds column[e], p[e] for start[i] <= e < start[i + 1]. */
typedef struct ole_affinity {
    int64_t rows;
    int64_t *start;  /* [rows + 1] */
    int32_t *column; /* rising in each row */
    float *p;
} ole_affinity;

/*
 * beta for the squared distances away[count] (count >= 1), the entropy to 1e-9 or as near as
 * distances that are equal allow; `guess` > 0, or 0 for none.
 */
double ole_affinity_beta(const double *away, int64_t count, double perplexity, double guess);

/* sum_j exp(-beta (away[j] - least)), with `least` the smallest of them. */
double ole_affinity_sum(const double *away, int64_t count, double beta, double least);

/* From the neighbours of each row (tsne/distances.h). Release it in any case. */
ole_status ole_affinity_make(ole_affinity *a, ole_pool *pool, int threads, int64_t rows, int count,
                             const int32_t *near, const double *away, double perplexity,
                             ole_error *error);
void ole_affinity_release(ole_affinity *a);

#endif
