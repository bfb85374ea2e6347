/*
 * src/tsne/tsne_map.h - the map of t-SNE during optimisation: forces on all points, and the
 * steps along them.
 */
#ifndef OLE_SRC_TSNE_TSNE_MAP_H
#define OLE_SRC_TSNE_TSNE_MAP_H

#include "base/pool.h"
#include "tsne/affinity.h"

#include <stdbool.h>

typedef struct ole_tsne_map ole_tsne_map;

/* Everything for maps of P's points from start[rows, 2]; `affinity` stays the caller's. */
ole_status ole_tsne_map_create(ole_tsne_map **map, ole_pool *pool, const ole_affinity *affinity,
                               double theta, const double *start, ole_error *error);
void ole_tsne_map_destroy(ole_tsne_map *map);

/* One step against the gradient of KL(exaggeration * P || Q). False once the map diverges. */
bool ole_tsne_map_step(ole_tsne_map *map, double exaggeration, double momentum, double rate);

/* KL(P || Q) of the points as they are, Q's sum by the tree; NaN or Inf once they diverge. */
double ole_tsne_map_kl(ole_tsne_map *map);

/* The points as they are, [rows, 2], centred at 0; until the next call. */
const double *ole_tsne_map_points(ole_tsne_map *map);

#endif
