/*
 * src/features/novelty/mahalanobis.c - minus the squared distance to the nearest class mean, in the
 * covariance that all classes share; and the same relative to one Gaussian for all classes.
 *
 *     -min_c (h - μ_c)^T Σ^-1 (h - μ_c)
 *     -min_c (h - μ_c)^T Σ^-1 (h - μ_c) + (h - μ)^T Σ0^-1 (h - μ)
 *
 * Σ: covariance around the class means, Σ0: around the mean of all, both with Ledoit and Wolf's
 * shrinkage (covariance.h).  Lee et al., "A simple unified framework for detecting
 * out-of-distribution samples and adversarial attacks", NeurIPS 2018; Ren et al., "A simple fix to
 * Mahalanobis distance for improving near-OOD detection", 2021.
 *
 * Kept are the centre μ, a projection A with A Σ A^T = I and A Σ0 A^T = diag(1 / background), and
 * the projected means: with y = A (h - μ), one product gives both distances.  Features that do not
 * vary within classes (one sample per class) say nothing about Σ: it is then the identity times
 * their mean variance around μ, so that distances are Euclidean.
 */
#include "features/novelty/covariance.h"

#include "base/arena.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double least = 1e-10; /* eigenvalue of Σ, as a share of their mean */

/* ---- Fitting ------------------------------------------------------------------------------ */

/* projection[i] = eigenvector i / sqrt(eigenvalue i). */
static void whiten(const scatter *within, double mean, double *projection) {
    for (int64_t i = 0; i < within->dim; i++) {
        const double *vector = within->matrix + within->order[i] * within->pad;
        double scale = 1.0 / sqrt(fmax(within->values[within->order[i]], least * mean));
        for (int64_t k = 0; k < within->dim; k++)
            projection[i * within->dim + k] = scale * vector[k];
    }
}

static ole_operand rows_of(const double *data, int64_t rows, int64_t dim, int64_t ld) {
    return (ole_operand){data, OLE_F64, rows, dim, ld, 1, false};
}

/* to[rows, dim] = left right^T, for right [dim, dim] with leading dimension ld. */
static bool multiply(ole_pool *pool, const ole_operand *left, const ole_operand *right, double *to,
                     int64_t ld) {
    int64_t left_size = ole_panels_size(left->items, left->depth);
    int64_t right_size = ole_panels_size(right->items, right->depth);
    double *a = ole_arena_allocate((size_t)left_size * sizeof *a);
    double *b = ole_arena_allocate((size_t)right_size * sizeof *b);
    const ole_product product = {.alpha = 1.0, .c = to, .ldc = ld};
    bool good = a && b;
    if (good) ole_multiply(pool, left, a, right, b, &product);
    free(a);
    free(b);
    return good;
}

/*
 * Turns the projection so that it also makes the covariance of all rows diagonal; `total` is that
 * covariance, and its inverse in the new coordinates goes into background.
 */
static ole_status diagonalise(scatter *total, const score_training *t, double *projection,
                              double *background, ole_error *error) {
    int64_t dim = total->dim;
    double *half = malloc((size_t)(dim * dim) * sizeof *half);
    double *turned = malloc((size_t)(dim * dim) * sizeof *turned);
    scatter_fill(total);
    const ole_operand a = rows_of(projection, dim, dim, dim);
    const ole_operand covariance = rows_of(total->matrix, dim, dim, total->pad);
    const ole_operand left = rows_of(half, dim, dim, dim);
    bool room = half && turned && multiply(t->pool, &a, &covariance, half, dim) &&
                multiply(t->pool, &left, &a, total->matrix, total->pad);
    ole_status status = room ? scatter_decompose(total, t->pool, error)
                             : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for distances");
    if (status == OLE_OK) {
        const ole_operand vectors = rows_of(total->matrix, dim, dim, total->pad);
        const ole_operand columns = ole_operand_transposed(a);
        if (multiply(t->pool, &vectors, &columns, turned, dim)) {
            memcpy(projection, turned, (size_t)(dim * dim) * sizeof *turned);
            for (int64_t i = 0; i < dim; i++)
                background[i] = 1.0 / fmax(total->values[i], least);
        } else {
            status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for distances");
        }
    }
    free(half);
    free(turned);
    return status;
}

/* Σ, shrunk and decomposed, into the projection. */
static ole_status fit_within(const score_training *t, const double *centre, const double *means,
                             double *projection, ole_error *error) {
    scatter within, total = {0};
    ole_status status = scatter_of(&within, t, means, true, error);
    if (status != OLE_OK) return status;
    double mean = scatter_shrink(&within, t->classes.rows);
    if (!(mean > 0.0)) { /* no class varies */
        status = scatter_of(&total, t, centre, false, error);
        if (status == OLE_OK) mean = scatter_shrink(&total, t->classes.rows);
        scatter_destroy(&total);
        if (!(mean > 0.0)) mean = 1.0;
        for (int64_t i = 0; i < within.dim; i++)
            within.matrix[i * within.pad + i] = mean;
    }
    if (status == OLE_OK) status = scatter_decompose(&within, t->pool, error);
    if (status == OLE_OK) whiten(&within, mean, projection);
    scatter_destroy(&within);
    return status;
}

static ole_status fit_total(const score_training *t, const double *centre, double *projection,
                            double *background, ole_error *error) {
    scatter total;
    ole_status status = scatter_of(&total, t, centre, false, error);
    if (status != OLE_OK) return status;
    double mean = scatter_shrink(&total, t->classes.rows);
    for (int64_t i = 0; i < total.dim && !(mean > 0.0); i++) /* one point */
        total.matrix[i * total.pad + i] = 1.0;
    status = diagonalise(&total, t, projection, background, error);
    scatter_destroy(&total);
    return status;
}

/* means[c] = projection (means[c] - centre). */
static ole_status project_means(const score_training *t, const double *centre,
                                const double *projection, double *means, ole_error *error) {
    int64_t dim = t->known->dim, classes = t->classes.classes;
    double *centred = malloc((size_t)(classes * dim) * sizeof *centred);
    bool room = centred;
    for (int64_t i = 0; i < classes * dim && room; i++)
        centred[i] = means[i] - centre[i % dim];
    const ole_operand left = rows_of(centred, classes, dim, dim);
    const ole_operand right = rows_of(projection, dim, dim, dim);
    room = room && multiply(t->pool, &left, &right, means, dim);
    free(centred);
    return room ? OLE_OK : ole_fail(error, OLE_ERROR_MEMORY, "out of memory for distances");
}

static ole_status fit_both(ole_scorer *s, const score_training *t, bool relative,
                           ole_error *error) {
    int64_t dim = t->known->dim;
    double *centre = scorer_add(s, "centre", OLE_F64, dim, 0, error);
    double *projection = centre ? scorer_add(s, "projection", OLE_F64, dim, dim, error) : NULL;
    double *means =
        projection ? scorer_add(s, "means", OLE_F64, t->classes.classes, dim, error) : NULL;
    double *background =
        relative && means ? scorer_add(s, "background", OLE_F64, dim, 0, error) : NULL;
    if (!means || (relative && !background)) return OLE_ERROR_MEMORY;
    ole_status status = known_means(t, centre, means, error);
    if (status == OLE_OK) status = fit_within(t, centre, means, projection, error);
    if (status == OLE_OK && relative) status = fit_total(t, centre, projection, background, error);
    if (status == OLE_OK) status = project_means(t, centre, projection, means, error);
    return status;
}

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    return fit_both(s, t, false, error);
}

static ole_status fit_relative(ole_scorer *s, const score_training *t, ole_error *error) {
    return fit_both(s, t, true, error);
}

/* ---- Scoring ------------------------------------------------------------------------------ */

/* The nearest class is found by ‖m_c‖² - 2 y·m_c. */
static ole_status prepare(ole_scorer *s, ole_error *error) {
    const ole_scorer_tensor *means = scorer_find(s, "means", OLE_F64, -1, -1, error);
    if (!means) return OLE_ERROR_FORMAT;
    s->classes = means->shape[0];
    s->dim = means->shape[1];
    const ole_scorer_tensor *projection =
        scorer_find(s, "projection", OLE_F64, s->dim, s->dim, error);
    if (!projection || !scorer_find(s, "centre", OLE_F64, s->dim, 0, error))
        return OLE_ERROR_FORMAT;
    if (s->score == OLE_SCORE_RELATIVE && !scorer_find(s, "background", OLE_F64, s->dim, 0, error))
        return OLE_ERROR_FORMAT;
    ole_status status = scorer_pack(s, projection, &s->operand, error);
    if (status == OLE_OK) status = scorer_pack(s, means, &s->second, error);
    double *square = status == OLE_OK ? scorer_keep(s, s->classes, sizeof *square, error) : NULL;
    if (!square) return OLE_ERROR_MEMORY;
    for (int64_t c = 0; c < s->classes; c++)
        square[c] = scorer_square((const double *)means->data + c * s->dim, s->dim);
    s->square = square;
    return OLE_OK;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    const double *means = scorer_find(s, "means", OLE_F64, -1, -1, NULL)->data;
    const ole_scorer_tensor *background =
        s->score == OLE_SCORE_RELATIVE ? scorer_find(s, "background", OLE_F64, s->dim, 0, NULL)
                                       : NULL;
    int64_t dim = s->dim;
    scorer_centre(s, b, scorer_find(s, "centre", OLE_F64, dim, 0, NULL)->data);
    scorer_multiply(b, b->centred, OLE_F64, &s->operand, b->product);
    scorer_multiply(b, b->product, OLE_F64, &s->second, b->other);
    for (int64_t i = 0; i < b->rows; i++) {
        const double *y = b->product + i * dim, *along = b->other + i * s->classes;
        int64_t nearest = 0;
        double best = INFINITY, distance = 0.0, behind = 0.0;
        for (int64_t c = 0; c < s->classes; c++) {
            double d = s->square[c] - 2.0 * along[c];
            if (d < best) {
                best = d;
                nearest = c;
            }
        }
        const double *mean = means + nearest * dim; /* exactly: nothing cancels */
        for (int64_t k = 0; k < dim; k++)
            distance += (y[k] - mean[k]) * (y[k] - mean[k]);
        for (int64_t k = 0; k < dim && background; k++)
            behind += y[k] * y[k] * ((const double *)background->data)[k];
        scores[i] = behind - distance;
    }
}

const score_kind score_mahalanobis = {.name = "mahalanobis",
                                      .title = "Mahalanobis distance to the nearest class mean",
                                      .needs = OLE_NEEDS_FEATURES,
                                      .fit = fit,
                                      .prepare = prepare,
                                      .run = run};

const score_kind score_relative = {.name = "relative",
                                   .title = "Mahalanobis distance relative to that of all classes",
                                   .needs = OLE_NEEDS_FEATURES,
                                   .fit = fit_relative,
                                   .prepare = prepare,
                                   .run = run};
