/*
 * src/features/novelty/knn.c - the cosine of a feature and its k-th nearest known feature.
 *
 *     h·r_(k) / (‖h‖ ‖r_(k)‖),   r_(k) the known feature with the k-th largest cosine
 *
 * Sun et al., "Out-of-distribution detection with deep nearest neighbors", ICML 2022, whose score
 * is minus the distance of the normalised features: the same order, as ‖u - v‖² = 2 - 2 cos.  The
 * search is exact; its time grows with the number of known features.
 */
#include "linalg/knn.h"
#include "base/error.h"
#include "base/min_max.h"
#include "features/novelty/scorer.h"

#include <stdlib.h>

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    int64_t dim = t->known->dim, rows = t->classes.rows;
    float *to = scorer_add(s, "rows", OLE_F32, rows, dim, error);
    double *unit = to ? scorer_keep(s, dim, sizeof *unit, error) : NULL;
    if (!unit) return OLE_ERROR_MEMORY;
    const ole_row_set set = ole_embedding_rows(t->known, t->classes.order, rows);
    for (int64_t i = 0; i < rows; i++, to += dim) {
        ole_row_unit(&set, i, unit);
        for (int64_t k = 0; k < dim; k++)
            to[k] = (float)unit[k];
    }
    return scorer_add_number(s, "neighbours", (double)ole_min(t->options->neighbours, rows), error);
}

static ole_status prepare(ole_scorer *s, ole_error *error) {
    const ole_scorer_tensor *rows = scorer_find(s, "rows", OLE_F32, -1, -1, error);
    if (!rows) return OLE_ERROR_FORMAT;
    s->dim = rows->shape[1];
    return scorer_find_number(s, "neighbours", 1.0, (double)rows->shape[0], error);
}

static ole_status run_all(const ole_scorer *s, const float *features, int64_t rows, double *scores,
                          ole_pool *pool, ole_error *error) {
    const ole_scorer_tensor *known = scorer_find(s, "rows", OLE_F32, -1, -1, error);
    int64_t k = (int64_t)scorer_number(s, "neighbours"), batch = ole_min(rows, 1 << 16);
    int64_t *nearest = malloc((size_t)(batch * k) * sizeof *nearest);
    double *cosine = malloc((size_t)(batch * k) * sizeof *cosine);
    ole_status status = OLE_OK;
    if (!nearest || !cosine)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for nearest neighbours");
    for (int64_t i = 0; i < rows && status == OLE_OK; i += batch) {
        int64_t count = ole_min(batch, rows - i);
        const ole_knn search = {.reference = {known->shape[0], s->dim, OLE_F32, known->data, NULL},
                                .query = {count, s->dim, OLE_F32, features + i * s->dim, NULL},
                                .k = (int)k,
                                .cosine = cosine};
        status = ole_knn_search(&search, pool, nearest, error);
        for (int64_t q = 0; q < count && status == OLE_OK; q++)
            scores[i + q] = cosine[q * k + k - 1];
    }
    free(nearest);
    free(cosine);
    return status;
}

const score_kind score_knn = {.name = "knn",
                              .title = "cosine with the k-th nearest known feature",
                              .needs = OLE_NEEDS_FEATURES,
                              .fit = fit,
                              .prepare = prepare,
                              .run_all = run_all};
