/*
 * src/features/novelty/directions.h - orthonormal directions of each class, kept as float32: the
 * tensors "sizes" [classes] and "directions" [sum of sizes, dim], as model files have them since
 * 0.1.
 */
#ifndef OLE_SRC_FEATURES_NOVELTY_DIRECTIONS_H
#define OLE_SRC_FEATURES_NOVELTY_DIRECTIONS_H

#include "features/novelty/scorer.h"

/* Checks the tensors, sets dim and classes, and packs the directions. */
ole_status directions_prepare(ole_scorer *s, ole_error *error);

/*
 * The scores of a block: the largest cosine with a class's direction, or the largest share of ‖h‖²
 * in the span of a class's directions.  A feature of zeros has the score 0.  The products are in
 * float32, like the directions, on features scaled to about 1: the scores are good to about 1e-6.
 */
void directions_run(const ole_scorer *s, const score_block *b, bool cosine, double *scores);

#endif
