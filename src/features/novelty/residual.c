/*
 * src/features/novelty/residual.c - what a feature leaves outside the nearest class's subspace.
 *
 *     max_c ‖B_c h‖² / ‖h‖² = 1 - min_c ‖h - B_c^T B_c h‖² / ‖h‖²
 *
 * B_c: an orthonormal basis of the principal subspace of class c, which holds a share (0.95) of
 * Σ‖h‖² over its known features, in at most 32 directions.  The OLÉ loss gives each class such a
 * subspace and makes them orthogonal (Lezama et al., CVPR 2018, Sec. 3).
 */
#include "features/novelty/directions.h"
#include "features/subspace.h"

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    ole_subspaces found;
    ole_status status = ole_subspaces_of(&found, t->known, &t->classes, t->options->energy, NULL,
                                         t->pool, t->threads, error);
    if (status != OLE_OK) return status;
    int64_t dim = found.dim, count = 0;
    for (int64_t c = 0; c < found.classes; c++)
        count += found.of[c].size;
    int64_t *size = scorer_add(s, "sizes", OLE_I64, found.classes, 0, error);
    /* Of features that are all zero there is no direction: one of zeros stands for it. */
    float *to = size ? scorer_add(s, "directions", OLE_F32, count ? count : 1, dim, error) : NULL;
    if (to && count == 0) size[0] = 1;
    for (int64_t c = 0; c < found.classes && to; c++) {
        if (count > 0) size[c] = found.of[c].size;
        for (int64_t i = 0; i < found.of[c].size * dim; i++)
            *to++ = (float)found.of[c].basis[i];
    }
    ole_subspaces_destroy(&found);
    return to ? OLE_OK : OLE_ERROR_MEMORY;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    directions_run(s, b, false, scores);
}

const score_kind score_residual = {.name = "residual",
                                   .title = "share inside the nearest class's subspace",
                                   .needs = OLE_NEEDS_FEATURES,
                                   .fit = fit,
                                   .prepare = directions_prepare,
                                   .run = run};
