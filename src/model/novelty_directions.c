/*
 * src/model/novelty_directions.c - the directions of the known classes, from the training
 * features: each class's subspace and its mean direction.
 */
#include "model/novelty.h"

#include "base/error.h"
#include "features/subspace.h"

#include <math.h>
#include <stdlib.h>

static const double energy = 0.95; /* of a class, in its subspace */

static ole_status copy_subspaces(ole_score_directions *d, const ole_subspaces *s, int classes,
                                 ole_error *error) {
    int64_t rows = 0;
    for (int64_t c = 0; c < s->classes; c++)
        rows += s->of[c].size;
    ole_status status = ole_score_directions_make(d, classes, s->dim, rows, error);
    float *to = d->basis;
    for (int64_t c = 0; c < s->classes && status == OLE_OK; c++) { /* by rising label */
        d->size[s->of[c].label] = s->of[c].size;
        for (int64_t i = 0; i < s->of[c].size * s->dim; i++)
            *to++ = (float)s->of[c].basis[i];
    }
    return status;
}

static ole_status find_subspaces(ole_score_directions *d, const ole_outputs *training, int classes,
                                 int64_t dim, int threads, ole_error *error) {
    int64_t *labels = malloc(((size_t)training->count + 1) * sizeof *labels);
    if (!labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < training->count; i++)
        labels[i] = training->labels[i];
    ole_pool *pool;
    ole_status status = ole_pool_create(&pool, threads, error);
    if (status == OLE_OK) {
        ole_subspaces subspaces;
        status = ole_subspaces_create(&subspaces, training->count, dim, OLE_F32, training->features,
                                      labels, energy, pool, threads, error);
        if (status == OLE_OK) status = copy_subspaces(d, &subspaces, classes, error);
        ole_subspaces_destroy(&subspaces);
        ole_pool_destroy(pool);
    }
    free(labels);
    return status;
}

/* Adds x / ‖x‖ to `sum`; a row of zeros adds nothing. */
static void add_unit(double *sum, const float *x, int64_t dim) {
    double square = 0.0;
    for (int64_t k = 0; k < dim; k++)
        square += (double)x[k] * x[k];
    for (int64_t k = 0; k < dim && square > 0.0; k++)
        sum[k] += x[k] / sqrt(square);
}

static ole_status find_means(ole_score_directions *d, const ole_outputs *training, int classes,
                             int64_t dim, ole_error *error) {
    ole_status status = ole_score_directions_make(d, classes, dim, classes, error);
    double *sums = calloc((size_t)(classes * dim), sizeof *sums);
    if (status == OLE_OK && !sums) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < training->count && status == OLE_OK; i++)
        add_unit(sums + training->labels[i] * dim, training->features + i * dim, dim);
    for (int c = 0; c < classes && status == OLE_OK; c++) {
        double *sum = sums + c * dim, square = 0.0;
        for (int64_t k = 0; k < dim; k++)
            square += sum[k] * sum[k];
        d->size[c] = 1;
        for (int64_t k = 0; k < dim; k++)
            d->basis[c * dim + k] = square > 0.0 ? (float)(sum[k] / sqrt(square)) : 0.0f;
    }
    free(sums);
    return status;
}

ole_status ole_novelty_directions_make(struct ole_novelty_directions *directions,
                                       const ole_outputs *training, int classes, int64_t dim,
                                       int threads, ole_error *error) {
    ole_status status =
        find_subspaces(&directions->subspaces, training, classes, dim, threads, error);
    if (status == OLE_OK) status = find_means(&directions->means, training, classes, dim, error);
    return status;
}

void ole_novelty_directions_free(struct ole_novelty_directions *directions) {
    if (!directions) return;
    ole_score_directions_free(&directions->subspaces);
    ole_score_directions_free(&directions->means);
    free(directions);
}
