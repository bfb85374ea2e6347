/*
 * src/features/collapse.c - neural collapse: one pass for the class means, one over all rows for
 * what is measured against them.
 *
 * With M / sqrt(C) = U S V^T, M the centred class means [C, dim], the pseudo-inverse of Σ_B is
 * V S^-2 V^T, so tr(Σ_W Σ_B⁺) is the sum over the directions v_k of the variance of the centred
 * rows along v_k, divided by s_k².  No matrix [dim, dim] is needed.
 */
#include "ole/analyze.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "features/novelty/covariance.h"
#include "features/subspace.h"
#include "linalg/unit_rows.h"
#include "ole/linalg.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 };

typedef struct work {
    score_training known; /* embedding, classes, pool */
    const ole_linear_classifier *classifier;
    ole_collapse *out;
    int64_t dim, classes, rank;
    double *mean, *means, *centred; /* [dim]; [classes, dim], the second less the mean of means */
    double *scaled;                 /* [classes, dim]: centred / sqrt(C) */
    double *sigma, *vt;             /* [side] and [side, dim], side = min(classes, dim) */
    double *rows, *product, *panels;
    double *room[3]; /* panels of directions, means and weights */
    ole_panels directions, mean_panels, weights;
    double *square; /* [classes]: ‖μ_c‖² */
    void *memory;
} work;

static void place(work *w, ole_arena *arena) {
    int64_t dim = w->dim, classes = w->classes, side = ole_min(dim, classes);
    size_t row = (size_t)dim * sizeof(double);
    w->mean = ole_arena_take(arena, 1, row);
    w->means = ole_arena_take(arena, classes, row);
    w->centred = ole_arena_take(arena, classes, row);
    w->scaled = ole_arena_take(arena, classes, row);
    w->sigma = ole_arena_take(arena, side, sizeof(double));
    w->vt = ole_arena_take(arena, side, row);
    w->rows = ole_arena_take(arena, BLOCK, row);
    w->product = ole_arena_take(arena, BLOCK * classes, sizeof(double));
    w->panels = ole_arena_take(arena, ole_panels_size(BLOCK, dim), sizeof(double));
    for (int i = 0; i < 3; i++)
        w->room[i] =
            ole_arena_take(arena, ole_panels_size(i ? classes : side, dim), sizeof(double));
    w->square = ole_arena_take(arena, classes, sizeof(double));
}

/* ---- Class means -------------------------------------------------------------------------- */

static double norm_of(const double *x, int64_t n) {
    return sqrt(ole_kernels_get()->dot_f64(x, x, n));
}

static ole_status centre_means(work *w, ole_error *error) {
    int64_t dim = w->dim, classes = w->classes;
    ole_status status = known_means(&w->known, w->mean, w->means, error);
    if (status != OLE_OK) return status;
    memset(w->mean, 0, (size_t)dim * sizeof *w->mean);
    for (int64_t i = 0; i < classes * dim; i++)
        w->mean[i % dim] += w->means[i] / (double)classes;
    for (int64_t i = 0; i < classes * dim; i++) {
        w->centred[i] = w->means[i] - w->mean[i % dim];
        w->scaled[i] = w->centred[i] / sqrt((double)classes);
        if (!isfinite(w->centred[i]))
            return ole_fail(error, OLE_ERROR_NUMERIC, "the class means overflow");
    }
    for (int64_t c = 0; c < classes; c++)
        w->square[c] = scorer_square(w->means + c * dim, dim);
    return OLE_OK;
}

/* Lengths and cosines of class means, of all pairs. */
static void measure_simplex(work *w) {
    int64_t dim = w->dim, classes = w->classes, pairs = 0, directed = 0;
    const ole_kernels *k = ole_kernels_get();
    double length = 0.0, square = 0.0, sum = 0.0, sum_square = 0.0, distance = 0.0, plain = 0.0;
    for (int64_t c = 0; c < classes; c++) {
        const double *a = w->centred + c * dim;
        double norm = norm_of(a, dim);
        length += norm / (double)classes;
        square += norm * norm / (double)classes;
        for (int64_t d = 0; d < c; d++) {
            const double *b = w->centred + d * dim;
            double lengths = norm * norm_of(b, dim), bare = sqrt(w->square[c] * w->square[d]);
            if (lengths > 0.0) {
                double cosine = k->dot_f64(a, b, dim) / lengths;
                sum += cosine;
                sum_square += cosine * cosine;
                distance += fabs(cosine + 1.0 / (double)(classes - 1));
                pairs++;
            }
            if (bare > 0.0) {
                plain += fabs(k->dot_f64(w->means + c * dim, w->means + d * dim, dim) / bare);
                directed++;
            }
        }
    }
    ole_collapse *o = w->out;
    if (length > 0.0) o->nc2_norms = sqrt(fmax(0.0, square - length * length)) / length;
    if (pairs > 0) {
        double mean = sum / (double)pairs;
        o->nc2_cosines = sqrt(fmax(0.0, sum_square / (double)pairs - mean * mean));
        o->nc2_simplex = distance / (double)pairs;
    }
    if (directed > 0) o->mean_cosine = plain / (double)directed;
}

static ole_status find_directions(work *w, ole_error *error) {
    int64_t side = ole_min(w->dim, w->classes);
    const ole_matrix m = {w->scaled, w->classes, w->dim, 0, OLE_F64};
    const ole_matrix vt = {w->vt, side, w->dim, 0, OLE_F64};
    ole_status status = ole_svd(&m, NULL, w->sigma, &vt, error);
    if (status != OLE_OK) return status;
    double cut = (double)ole_max(w->dim, w->classes) * DBL_EPSILON * w->sigma[0];
    while (w->rank < side && w->sigma[w->rank] > cut)
        w->rank++;
    const ole_operand v = {w->vt, OLE_F64, w->rank, w->dim, w->dim, 1, false};
    if (w->rank > 0) w->directions = ole_panels_pack(w->known.pool, w->room[0], &v);
    return OLE_OK;
}

/* ---- All rows ----------------------------------------------------------------------------- */

static void multiply(work *w, int64_t count, const ole_panels *right) {
    const ole_operand rows = {w->rows, OLE_F64, count, w->dim, w->dim, 1, false};
    const ole_product product = {.alpha = 1.0, .c = w->product, .ldc = right->items};
    ole_panels left = ole_panels_pack(w->known.pool, w->panels, &rows);
    ole_panels_multiply(w->known.pool, &left, right, &product);
}

/* Rows of the block whose class by the classifier is not that of the nearest mean. */
static int64_t count_disagreeing(work *w, int64_t count, int64_t *by_weights) {
    const ole_linear_classifier *l = w->classifier;
    int64_t classes = w->classes, different = 0;
    multiply(w, count, &w->weights);
    for (int64_t i = 0; i < count; i++) {
        double *z = w->product + i * classes;
        for (int64_t c = 0; c < classes && l->bias; c++)
            z[c] += l->bias[c];
        by_weights[i] = scorer_largest(z, classes);
    }
    multiply(w, count, &w->mean_panels);
    for (int64_t i = 0; i < count; i++) {
        double *z = w->product + i * classes;
        for (int64_t c = 0; c < classes; c++)
            z[c] = 2.0 * z[c] - w->square[c];
        different += scorer_largest(z, classes) != by_weights[i];
    }
    return different;
}

static void measure_rows(work *w) {
    const ole_classes *classes = &w->known.classes;
    const ole_row_set set = ole_embedding_rows(w->known.known, classes->order, classes->rows);
    int64_t by_weights[BLOCK], different = 0, c = 0;
    double sum = 0.0;
    for (int64_t first = 0; first < set.rows; first += BLOCK) {
        int64_t count = ole_min(BLOCK, set.rows - first);
        for (int64_t i = 0; i < count; i++)
            ole_row_copy(&set, first + i, w->rows + i * w->dim);
        if (w->classifier) different += count_disagreeing(w, count, by_weights);
        if (w->rank == 0) continue;
        for (int64_t i = 0; i < count; i++) {
            while (first + i >= classes->begin[c + 1])
                c++;
            for (int64_t k = 0; k < w->dim; k++)
                w->rows[i * w->dim + k] -= w->means[c * w->dim + k];
        }
        multiply(w, count, &w->directions);
        for (int64_t i = 0; i < count * w->rank; i++) {
            double along = w->product[i] / w->sigma[i % w->rank];
            sum += along * along;
        }
    }
    if (w->rank > 0) w->out->nc1 = sum / (double)set.rows / (double)w->classes;
    if (w->classifier) w->out->nc4 = 100.0 * (double)different / (double)set.rows;
}

/* ---- The classifier ----------------------------------------------------------------------- */

static void measure_duality(work *w) {
    const float *weight = w->classifier->weight;
    int64_t count = w->classes * w->dim;
    double of_weight = 0.0, of_means = norm_of(w->centred, count), sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        of_weight += (double)weight[i] * weight[i];
    of_weight = sqrt(of_weight);
    if (!(of_weight > 0.0 && of_means > 0.0)) return;
    for (int64_t i = 0; i < count; i++) {
        double difference = weight[i] / of_weight - w->centred[i] / of_means;
        sum += difference * difference;
    }
    w->out->nc3 = sqrt(sum);
}

/* From the length outside the subspace as well as inside: exact for small angles too. */
static double angle_to(const ole_subspace *s, const float *weight, int64_t dim, double *rest) {
    const ole_kernels *kernels = ole_kernels_get();
    double inside = 0.0;
    for (int64_t k = 0; k < dim; k++)
        rest[k] = weight[k];
    for (int64_t i = 0; i < s->size; i++) {
        double along = kernels->dot_f64(s->basis + i * dim, rest, dim);
        inside += along * along;
        kernels->axpy(rest, -along, s->basis + i * dim, dim);
    }
    double outside = norm_of(rest, dim);
    if (!(inside > 0.0 || outside > 0.0)) return NAN;
    return atan2(outside, sqrt(inside)) * 180.0 / 3.14159265358979323846;
}

static ole_status measure_angles(work *w, double energy, ole_error *error) {
    ole_subspaces found;
    ole_status status = ole_subspaces_of(&found, w->known.known, &w->known.classes, energy, NULL,
                                         w->known.pool, w->known.threads, error);
    if (status != OLE_OK) return status;
    ole_collapse *o = w->out;
    int64_t measured = 0;
    double sum = 0.0;
    o->angle = malloc((size_t)w->classes * sizeof *o->angle);
    if (o->angle) {
        for (int64_t c = 0; c < w->classes; c++) {
            o->angle[c] =
                angle_to(&found.of[c], w->classifier->weight + c * w->dim, w->dim, w->rows);
            if (isnan(o->angle[c])) continue;
            sum += o->angle[c];
            o->angle_most = measured ? fmax(o->angle_most, o->angle[c]) : o->angle[c];
            measured++;
        }
        if (measured > 0) o->angle_mean = sum / (double)measured;
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for angles");
    }
    ole_subspaces_destroy(&found);
    return status;
}

/* ---- All together ------------------------------------------------------------------------- */

static ole_status check_classifier(const work *w, ole_error *error) {
    const ole_linear_classifier *l = w->classifier;
    if (!l->weight || l->classes != w->classes || l->dim != w->dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the classifier is [%" PRId64 ", %" PRId64 "]%s; the features have %" PRId64
                        " classes and %" PRId64 " dimensions",
                        l->classes, l->dim, l->weight ? "" : " without weights", w->classes,
                        w->dim);
    for (int64_t c = 0; c < l->classes; c++)
        if (!ole_finite_f32(l->weight + c * l->dim, l->dim) || (l->bias && !isfinite(l->bias[c])))
            return ole_fail(error, OLE_ERROR_DATA, "classifier: row %" PRId64 " holds NaN or Inf",
                            c);
    return OLE_OK;
}

static ole_status measure(work *w, double energy, ole_error *error) {
    ole_arena arena = {0};
    place(w, &arena);
    w->memory = ole_arena_reserve(&arena);
    if (!w->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory for the means of %" PRId64 " classes", w->classes);
    place(w, &arena);
    ole_status status = centre_means(w, error);
    if (status == OLE_OK) status = find_directions(w, error);
    if (status != OLE_OK) return status;
    measure_simplex(w);
    if (w->classifier) {
        const ole_operand means = {w->means, OLE_F64, w->classes, w->dim, w->dim, 1, false};
        const ole_operand weights = {
            w->classifier->weight, OLE_F32, w->classes, w->dim, w->dim, 1, false};
        w->mean_panels = ole_panels_pack(w->known.pool, w->room[1], &means);
        w->weights = ole_panels_pack(w->known.pool, w->room[2], &weights);
        measure_duality(w);
    }
    measure_rows(w);
    return w->classifier ? measure_angles(w, energy, error) : OLE_OK;
}

ole_status ole_collapse_measure(ole_collapse *collapse, const ole_embedding *embedding,
                                const ole_linear_classifier *classifier, double energy, int threads,
                                ole_error *error) {
    if (!collapse || !(energy > 0.0 && energy <= 1.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_collapse_measure: collapse is NULL, or energy is not in (0, 1]");
    ole_collapse out = {0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NULL};
    work w = {
        .known = {.known = embedding, .threads = threads}, .classifier = classifier, .out = &out};
    ole_status status = ole_classes_open(&w.known.classes, &w.known.pool, "ole_collapse_measure",
                                         embedding, threads, error);
    if (status != OLE_OK) return status;
    w.dim = embedding->dim;
    w.classes = out.classes = w.known.classes.classes;
    if (w.classes < 2)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          "ole_collapse_measure: there must be at least two classes");
    if (status == OLE_OK && classifier) status = check_classifier(&w, error);
    if (status == OLE_OK) status = measure(&w, energy, error);
    free(w.memory);
    ole_classes_close(&w.known.classes, w.known.pool);
    if (status == OLE_OK)
        *collapse = out;
    else
        ole_collapse_free(&out);
    return status;
}

void ole_collapse_free(ole_collapse *collapse) {
    if (!collapse) return;
    free(collapse->angle);
    *collapse = (ole_collapse){0};
}
