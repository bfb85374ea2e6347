/*
 * src/features/novelty/vim.c - ViM, the energy of the logits against a virtual logit: the length of
 * a feature outside the principal subspace of the known ones.
 *
 *     log Σ_c exp(z_c) - α ‖R (h - o)‖
 *
 * o = -W⁺ b is the point where all logits vanish; R: an orthonormal basis of all but the K leading
 * eigenvectors of Σ (h - o)(h - o)^T; α = mean max_c z_c / mean ‖R (h - o)‖ over the known
 * features. Wang et al., "ViM: Out-of-distribution with virtual-logit matching", CVPR 2022, with
 * the dimensions that its authors chose: K = 1000 from 2048 dimensions on, 512 from 768 on, else
 * half. Where the known features span too little for that, K is half of what they span.
 */
#include "features/novelty/covariance.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "linalg/unit_rows.h"
#include "ole/linalg.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* origin = -W⁺ b, without singular values that float32 weights cannot resolve. */
static ole_status find_origin(const ole_linear_classifier *c, double *origin, ole_error *error) {
    int64_t classes = c->classes, dim = c->dim, rank = ole_min(classes, dim);
    double *memory =
        malloc((size_t)(classes * dim + classes * rank + rank * dim + rank) * sizeof *memory);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the score 'vim'");
    double *w = memory, *u = w + classes * dim, *vt = u + classes * rank, *sigma = vt + rank * dim;
    for (int64_t i = 0; i < classes * dim; i++)
        w[i] = c->weight[i];
    const ole_matrix matrix = {w, classes, dim, 0, OLE_F64}, left = {u, classes, rank, 0, OLE_F64},
                     right = {vt, rank, dim, 0, OLE_F64};
    ole_status status = ole_svd(&matrix, &left, sigma, &right, error);
    memset(origin, 0, (size_t)dim * sizeof *origin);
    for (int64_t i = 0; i < rank && status == OLE_OK && c->bias; i++) {
        if (!(sigma[i] > (double)ole_max(classes, dim) * FLT_EPSILON * sigma[0])) break;
        double along = 0.0;
        for (int64_t k = 0; k < classes; k++)
            along += u[k * rank + i] * c->bias[k];
        for (int64_t k = 0; k < dim; k++)
            origin[k] -= along / sigma[i] * vt[i * dim + k];
    }
    free(memory);
    return status;
}

static int64_t choose_principal(const score_training *t, const scatter *s) {
    int64_t dim = s->dim, wanted = t->options->principal, spanned = 0;
    if (wanted == 0) wanted = dim >= 2048 ? 1000 : dim >= 768 ? 512 : dim / 2;
    double largest = s->values[s->order[0]];
    while (spanned < dim && s->values[s->order[spanned]] > 1e-12 * largest)
        spanned++;
    return spanned <= wanted ? spanned / 2 : wanted;
}

enum { BLOCK = 256 };

/* What the mean logit and the mean residual are summed with. */
typedef struct summing {
    ole_panels residual, weight;
    double *room[2], *rows, *panels, *product, *logits;
} summing;

static void place(summing *m, const score_training *t, int64_t outside, ole_arena *arena) {
    int64_t dim = t->known->dim, classes = t->classifier->classes;
    m->room[0] = ole_arena_take(arena, ole_panels_size(outside, dim), sizeof(double));
    m->room[1] = ole_arena_take(arena, ole_panels_size(classes, dim), sizeof(double));
    m->rows = ole_arena_take(arena, BLOCK * dim, sizeof(double));
    m->panels = ole_arena_take(arena, ole_panels_size(BLOCK, dim), sizeof(double));
    m->product = ole_arena_take(arena, BLOCK * outside, sizeof(double));
    m->logits = ole_arena_take(arena, BLOCK * classes, sizeof(double));
}

/* The sums of max z and ‖R (h - o)‖ over one block of known rows. */
static void add_block(const summing *m, const score_training *t, const double *origin,
                      int64_t first, double *logit, double *length) {
    const ole_row_set set = ole_embedding_rows(t->known, t->classes.order, t->classes.rows);
    const ole_linear_classifier *c = t->classifier;
    int64_t dim = set.dim, count = ole_min(BLOCK, set.rows - first);
    const ole_operand rows = {m->rows, OLE_F64, count, dim, dim, 1, false};
    for (int64_t i = 0; i < count; i++)
        ole_row_copy(&set, first + i, m->rows + i * dim);
    ole_panels packed = ole_panels_pack(t->pool, m->panels, &rows);
    const ole_product logits = {.alpha = 1.0, .c = m->logits, .ldc = c->classes};
    ole_panels_multiply(t->pool, &packed, &m->weight, &logits);
    for (int64_t i = 0; i < count * dim; i++)
        m->rows[i] -= origin[i % dim];
    packed = ole_panels_pack(t->pool, m->panels, &rows);
    const ole_product product = {.alpha = 1.0, .c = m->product, .ldc = m->residual.items};
    ole_panels_multiply(t->pool, &packed, &m->residual, &product);
    for (int64_t i = 0; i < count; i++) {
        double *z = m->logits + i * c->classes;
        for (int64_t k = 0; k < c->classes && c->bias; k++)
            z[k] += c->bias[k];
        *logit += z[scorer_largest(z, c->classes)];
        *length += sqrt(scorer_square(m->product + i * m->residual.items, m->residual.items));
    }
}

static ole_status find_scale(const score_training *t, const double *origin, const double *residual,
                             int64_t outside, double *scale, ole_error *error) {
    int64_t dim = t->known->dim;
    summing m = {0};
    ole_arena arena = {0};
    place(&m, t, outside, &arena);
    char *memory = ole_arena_reserve(&arena);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the score 'vim'");
    place(&m, t, outside, &arena);
    const ole_operand basis = {residual, OLE_F64, outside, dim, dim, 1, false};
    const ole_operand weight = {
        t->classifier->weight, OLE_F32, t->classifier->classes, dim, dim, 1, false};
    m.residual = ole_panels_pack(t->pool, m.room[0], &basis);
    m.weight = ole_panels_pack(t->pool, m.room[1], &weight);
    double logit = 0.0, length = 0.0;
    for (int64_t i = 0; i < t->classes.rows; i += BLOCK)
        add_block(&m, t, origin, i, &logit, &length);
    *scale = length > 0.0 ? logit / length : 0.0;
    free(memory);
    return OLE_OK;
}

static ole_status fit(ole_scorer *s, const score_training *t, ole_error *error) {
    int64_t dim = t->known->dim;
    if (t->options->principal >= dim)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the score 'vim' needs a dimension outside the principal subspace; give "
                        "fewer than the features' %lld",
                        (long long)dim);
    double *origin = scorer_add(s, "origin", OLE_F64, dim, 0, error);
    if (!origin) return OLE_ERROR_MEMORY;
    scatter found;
    ole_status status = find_origin(t->classifier, origin, error);
    if (status == OLE_OK) status = scatter_of(&found, t, origin, false, error);
    if (status != OLE_OK) return status;
    status = scatter_decompose(&found, t->pool, error);
    int64_t inside = status == OLE_OK ? choose_principal(t, &found) : 0, outside = dim - inside;
    double *residual =
        status == OLE_OK ? scorer_add(s, "residual", OLE_F64, outside, dim, error) : NULL;
    double scale = 0.0;
    for (int64_t i = 0; i < outside && residual; i++)
        memcpy(residual + i * dim, found.matrix + found.order[inside + i] * found.pad,
               (size_t)dim * sizeof *residual);
    scatter_destroy(&found);
    if (status != OLE_OK || !residual) return status != OLE_OK ? status : OLE_ERROR_MEMORY;
    status = find_scale(t, origin, residual, outside, &scale, error);
    return status == OLE_OK ? scorer_add_number(s, "scale", scale, error) : status;
}

static ole_status prepare(ole_scorer *s, ole_error *error) {
    const ole_scorer_tensor *residual = scorer_find(s, "residual", OLE_F64, -1, s->dim, error);
    if (!residual || !scorer_find(s, "origin", OLE_F64, s->dim, 0, error)) return OLE_ERROR_FORMAT;
    ole_status status = scorer_find_number(s, "scale", -DBL_MAX, DBL_MAX, error);
    return status == OLE_OK ? scorer_pack(s, residual, &s->operand, error) : status;
}

static void run(const ole_scorer *s, const score_block *b, double *scores) {
    double scale = scorer_number(s, "scale");
    int64_t outside = s->operand.items;
    scorer_centre(s, b, scorer_find(s, "origin", OLE_F64, s->dim, 0, NULL)->data);
    scorer_multiply(b, b->centred, OLE_F64, &s->operand, b->product);
    for (int64_t i = 0; i < b->rows; i++)
        scores[i] = scorer_log_sum_exp(b->logits + i * s->classes, s->classes) -
                    scale * sqrt(scorer_square(b->product + i * outside, outside));
}

const score_kind score_vim = {.name = "vim",
                              .title = "energy against the length outside a subspace (ViM)",
                              .needs = OLE_NEEDS_FEATURES | OLE_NEEDS_LOGITS | OLE_NEEDS_WEIGHTS,
                              .fit = fit,
                              .prepare = prepare,
                              .run = run};
