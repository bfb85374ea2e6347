/*
 * src/tsne/distances.h - squared Euclidean distances between all rows, a tile at a time, and the
 * exact nearest neighbours that follow from them.
 */
#ifndef OLE_SRC_TSNE_DISTANCES_H
#define OLE_SRC_TSNE_DISTANCES_H

#include "base/pool.h"
#include "linalg/kernels.h"
#include "ole/base.h"

#include <stdbool.h>

typedef struct ole_distances {
    int64_t rows, dim;
    const double *x; /* [rows, dim], the caller's */
    const ole_kernels *kernels;
    int64_t tile_rows, tile_columns; /* of a tile; first rows and columns are multiples of these */
    double *packed;                  /* all rows as panels */
    double *square;                  /* [rows]: their squared lengths */
} ole_distances;

/* Packs the rows; they stay the caller's. Release it in any case. */
ole_status ole_distances_prepare(ole_distances *d, ole_pool *pool, int64_t rows, int64_t dim,
                                 const double *x, ole_error *error);
void ole_distances_release(ole_distances *d);

/* How many tiles there are downwards, and doubles a tile takes. */
int64_t ole_distances_bands(const ole_distances *d);
int64_t ole_distances_tile_size(const ole_distances *d);

/*
 * Squared distances, >= 0, between the up to tile_rows rows from `row` on and the up to
 * tile_columns rows from `column` on, into tile[tile_rows, tile_columns].
 */
void ole_distances_tile(const ole_distances *d, int64_t row, int64_t column, double *tile);

/* Called between bands of rows; return true to stop the search. */
typedef bool ole_neighbours_progress(void *context, double share);

/*
 * The `count` nearest other rows of each, by rising distance (then number): near[rows, count], and
 * their squared distances away[rows, count], which may be NULL.  `progress` may be NULL.
 */
ole_status ole_neighbours(const ole_distances *d, ole_pool *pool, int threads, int count,
                          int32_t *near, double *away, ole_neighbours_progress *progress,
                          void *context, ole_error *error);

#endif
