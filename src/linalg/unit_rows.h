/*
 * src/linalg/unit_rows.h - rows scaled to length 1 and packed block by block, so that the cosines
 * of many rows are products of blocks and the rows may lie in a mapped file.
 */
#ifndef OLE_SRC_LINALG_UNIT_ROWS_H
#define OLE_SRC_LINALG_UNIT_ROWS_H

#include "linalg/panels.h"

/* Which rows of a matrix [., dim] take part, and in which order. */
typedef struct ole_row_set {
    int64_t rows;
    int64_t dim;
    ole_dtype dtype; /* OLE_F32 or OLE_F64 */
    const void *data;
    const int64_t *index; /* [rows] rows of the matrix; NULL: the first `rows` of them */
} ole_row_set;

static inline int64_t ole_row_at(const ole_row_set *set, int64_t i) {
    return set->index ? set->index[i] : i;
}

/* The largest magnitude of row i; NaN or Inf where it holds one. */
double ole_row_largest(const ole_row_set *set, int64_t i);

/* Row i of the set into to[dim], as double or as float. */
void ole_row_copy(const ole_row_set *set, int64_t i, double *to);

OLE_INTERNAL void ole_row_copy_f32(const ole_row_set *set, int64_t i, float *to);

/* The same, times 1 / its length; a row of zeros stays one. Returns the length. */
OLE_INTERNAL double ole_row_unit(const ole_row_set *set, int64_t i, double *to);

/*
 * Rows first to first + count - 1 of the set at length 1, packed into `panels` (ole_panels_size()
 * doubles).  `rows` is scratch of [count, dim].
 */
ole_panels ole_unit_rows_pack(ole_pool *pool, const ole_row_set *set, int64_t first, int64_t count,
                              double *rows, double *panels);

#endif
