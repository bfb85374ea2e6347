/*
 * src/features/align.c - orthogonal Procrustes: sums A^T B in float64 block by block, decomposes
 * it, and measures the map on a second pass over the rows.
 */
#include "ole/align.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/pool.h"
#include "base/struct_size.h"
#include "linalg/panels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024 };

static const ole_align_options defaults = {.struct_size = sizeof(ole_align_options), .threads = 1};

void ole_align_options_init_sized(ole_align_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- Rows --------------------------------------------------------------------------------- */

static int64_t stride_of(const ole_matrix *m) {
    return m->stride ? m->stride : m->cols;
}

static double element(const ole_matrix *m, int64_t i, int64_t k) {
    int64_t at = i * stride_of(m) + k;
    return m->dtype == OLE_F32 ? (double)((const float *)m->data)[at]
                               : ((const double *)m->data)[at];
}

static ole_status check(const char *name, const ole_matrix *m, ole_error *error) {
    if (!m || !m->data) return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", name);
    if (m->rows < 1 || m->cols < 1 || (m->dtype != OLE_F32 && m->dtype != OLE_F64) ||
        stride_of(m) < m->cols)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s is %" PRId64 " x %" PRId64
                        " %s; must have at least one row of float32 or float64, and a stride of at "
                        "least its columns",
                        name, m->rows, m->cols, ole_dtype_name(m->dtype));
    return OLE_OK;
}

/* The means of the columns; an error names the first row with NaN or Inf. */
static ole_status find_means(const char *name, const ole_matrix *m, double *mean,
                             ole_error *error) {
    memset(mean, 0, (size_t)m->cols * sizeof *mean);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t k = 0; k < m->cols; k++) {
            double x = element(m, i, k);
            if (!isfinite(x))
                return ole_fail(error, OLE_ERROR_DATA, "%s: row %" PRId64 " holds NaN or Inf", name,
                                i);
            mean[k] += x / (double)m->rows;
        }
    return OLE_OK;
}

/* ---- The map ------------------------------------------------------------------------------ */

typedef struct work {
    const ole_matrix *a, *b;
    ole_alignment *out;
    ole_pool *pool;
    double *mean_a, *mean_b; /* zeros unless centred */
    double *x, *y;           /* [BLOCK, from] and [BLOCK, to] */
    double *mapped;          /* [BLOCK, to] */
    double *left, *right;    /* panels */
    double *cross, *u, *vt;  /* [from, to], [from, from], [from, to] */
    double *sigma;           /* [from] */
} work;

static void place(work *w, ole_arena *arena) {
    int64_t from = w->a->cols, to = w->b->cols;
    w->mean_a = ole_arena_take(arena, from, sizeof(double));
    w->mean_b = ole_arena_take(arena, to, sizeof(double));
    w->x = ole_arena_take(arena, BLOCK * from, sizeof(double));
    w->y = ole_arena_take(arena, BLOCK * to, sizeof(double));
    w->mapped = ole_arena_take(arena, BLOCK * to, sizeof(double));
    w->left = ole_arena_take(
        arena, ole_max(ole_panels_size(from, BLOCK), ole_panels_size(ole_max(BLOCK, from), from)),
        sizeof(double));
    w->right = ole_arena_take(arena, ole_max(ole_panels_size(to, BLOCK), ole_panels_size(to, from)),
                              sizeof(double));
    w->cross = ole_arena_take(arena, from, (size_t)to * sizeof(double));
    w->u = ole_arena_take(arena, from, (size_t)from * sizeof(double));
    w->vt = ole_arena_take(arena, from, (size_t)to * sizeof(double));
    w->sigma = ole_arena_take(arena, from, sizeof(double));
}

static int64_t copy_block(const work *w, int64_t first) {
    int64_t from = w->a->cols, to = w->b->cols, count = ole_min(BLOCK, w->a->rows - first);
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < from; k++)
            w->x[i * from + k] = element(w->a, first + i, k) - w->mean_a[k];
        for (int64_t k = 0; k < to; k++)
            w->y[i * to + k] = element(w->b, first + i, k) - w->mean_b[k];
    }
    return count;
}

static void sum_cross(work *w) {
    int64_t from = w->a->cols, to = w->b->cols;
    for (int64_t first = 0; first < w->a->rows; first += BLOCK) {
        int64_t count = copy_block(w, first);
        const ole_operand a = {w->x, OLE_F64, from, count, 1, from, true};
        const ole_operand b = {w->y, OLE_F64, to, count, 1, to, true};
        const ole_product product = {.alpha = 1.0,
                                     .c = w->cross,
                                     .ldc = to,
                                     .store = first > 0 ? OLE_STORE_ADD : OLE_STORE_SET};
        ole_multiply(w->pool, &a, w->left, &b, w->right, &product);
    }
}

static ole_status decompose(work *w, ole_error *error) {
    int64_t from = w->a->cols, to = w->b->cols;
    const ole_matrix cross = {w->cross, from, to, 0, OLE_F64}, u = {w->u, from, from, 0, OLE_F64},
                     vt = {w->vt, from, to, 0, OLE_F64};
    ole_status status = ole_svd(&cross, &u, w->sigma, &vt, error);
    if (status != OLE_OK) return status;
    const ole_operand left = {w->u, OLE_F64, from, from, from, 1, false};
    const ole_operand right = {w->vt, OLE_F64, to, from, 1, to, true};
    const ole_product product = {.alpha = 1.0, .c = w->out->map, .ldc = to};
    ole_multiply(w->pool, &left, w->left, &right, w->right, &product);
    double cut = (double)to * DBL_EPSILON * w->sigma[0];
    while (w->out->rank < from && w->sigma[w->out->rank] > cut)
        w->out->rank++;
    return OLE_OK;
}

/* The shift, and how well the mapped rows fit. */
static void measure(work *w) {
    int64_t from = w->a->cols, to = w->b->cols, compared = 0;
    double a_square = 0.0, b_square = 0.0, residual = 0.0, nuclear = 0.0, cosine = 0.0;
    ole_alignment *out = w->out;
    for (int64_t k = 0; k < to; k++) {
        out->shift[k] = w->mean_b[k];
        for (int64_t i = 0; i < from; i++)
            out->shift[k] -= w->mean_a[i] * out->map[i * to + k];
    }
    for (int64_t first = 0; first < w->a->rows; first += BLOCK) {
        int64_t count = copy_block(w, first);
        const ole_operand a = {w->x, OLE_F64, count, from, from, 1, false};
        const ole_operand map = {out->map, OLE_F64, to, from, 1, to, true};
        const ole_product product = {.alpha = 1.0, .c = w->mapped, .ldc = to};
        ole_multiply(w->pool, &a, w->left, &map, w->right, &product);
        for (int64_t i = 0; i < count; i++) {
            double aa = 0.0, bb = 0.0, ab = 0.0;
            for (int64_t k = 0; k < to; k++) {
                double x = w->mapped[i * to + k], y = w->y[i * to + k];
                aa += x * x;
                bb += y * y;
                ab += x * y;
                residual += (x - y) * (x - y);
            }
            a_square += aa;
            b_square += bb;
            if (aa > 0.0 && bb > 0.0) {
                cosine += ab / sqrt(aa) / sqrt(bb);
                compared++;
            }
        }
    }
    for (int64_t i = 0; i < from; i++)
        nuclear += w->sigma[i];
    out->scale = a_square > 0.0 ? nuclear / a_square : NAN;
    out->residual = b_square > 0.0 ? sqrt(residual / b_square) : NAN;
    out->cosine = compared > 0 ? cosine / (double)compared : NAN;
}

static ole_status align(work *w, bool centre, ole_error *error) {
    ole_status status = find_means("a", w->a, w->mean_a, error);
    if (status == OLE_OK) status = find_means("b", w->b, w->mean_b, error);
    if (status != OLE_OK) return status;
    if (!centre) {
        memset(w->mean_a, 0, (size_t)w->a->cols * sizeof *w->mean_a);
        memset(w->mean_b, 0, (size_t)w->b->cols * sizeof *w->mean_b);
    }
    sum_cross(w);
    status = decompose(w, error);
    if (status == OLE_OK) measure(w);
    return status;
}

static ole_status check_pair(const ole_matrix *a, const ole_matrix *b, ole_error *error) {
    ole_status status = check("a", a, error);
    if (status == OLE_OK) status = check("b", b, error);
    if (status != OLE_OK) return status;
    if (a->rows != b->rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "a has %" PRId64 " rows and b %" PRId64
                        ": row i of both must be the same item",
                        a->rows, b->rows);
    if (a->cols > b->cols)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "a has %" PRId64 " dimensions and b %" PRId64
                        ": a map into fewer dimensions keeps no angles; exchange the two",
                        a->cols, b->cols);
    return OLE_OK;
}

ole_status ole_align(ole_alignment *alignment, const ole_matrix *a, const ole_matrix *b,
                     const ole_align_options *options, ole_error *error) {
    if (!alignment) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_align: alignment is NULL");
    ole_align_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_align_options, threads),
                                        "ole_align_options_init", error);
    if (status == OLE_OK) status = check_pair(a, b, error);
    if (status == OLE_OK && (o.threads < 1 || o.threads > 1024))
        status = ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d; must be 1 to 1024",
                          o.threads);
    ole_alignment out = {0};
    work w = {.a = a, .b = b, .out = &out};
    if (status == OLE_OK) status = ole_pool_create(&w.pool, o.threads, error);
    if (status != OLE_OK) return status;
    ole_arena arena = {0};
    place(&w, &arena);
    char *memory = ole_arena_reserve(&arena);
    out.from = a->cols;
    out.to = b->cols;
    out.map = malloc((size_t)(a->cols + 1) * (size_t)b->cols * sizeof *out.map);
    if (memory && out.map) {
        out.shift = out.map + a->cols * b->cols;
        place(&w, &arena);
        status = align(&w, o.centre, error);
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for a map of %" PRId64 " x %" PRId64 " numbers", a->cols,
                          b->cols);
    }
    ole_pool_destroy(w.pool);
    free(memory);
    if (status == OLE_OK)
        *alignment = out;
    else
        free(out.map);
    return status;
}

void ole_alignment_free(ole_alignment *alignment) {
    if (!alignment) return;
    free(alignment->map); /* the shift lies behind it */
    *alignment = (ole_alignment){0};
}

ole_status ole_align_apply(const ole_alignment *alignment, const ole_matrix *rows,
                           const ole_matrix *mapped, ole_error *error) {
    if (!alignment || !alignment->map)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_align_apply: alignment is NULL or empty");
    ole_status status = check("rows", rows, error);
    if (status == OLE_OK) status = check("mapped", mapped, error);
    if (status != OLE_OK) return status;
    int64_t from = alignment->from, to = alignment->to;
    if (rows->cols != from || mapped->cols != to || mapped->rows != rows->rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "the map takes %" PRId64 " dimensions and gives %" PRId64
                        "; rows is %" PRId64 " x %" PRId64 ", mapped %" PRId64 " x %" PRId64,
                        from, to, rows->rows, rows->cols, mapped->rows, mapped->cols);
    ole_arena arena = {0};
    double *x = NULL, *y = NULL, *left = NULL, *right = NULL;
    char *memory = NULL;
    for (int pass = 0; pass < 2; pass++) { /* counts, then places */
        x = ole_arena_take(&arena, BLOCK * from, sizeof *x);
        y = ole_arena_take(&arena, BLOCK * to, sizeof *y);
        left = ole_arena_take(&arena, ole_panels_size(BLOCK, from), sizeof *left);
        right = ole_arena_take(&arena, ole_panels_size(to, from), sizeof *right);
        if (pass == 0 && !(memory = ole_arena_reserve(&arena)))
            return ole_fail(error, OLE_ERROR_MEMORY, "out of memory to map rows");
    }
    const ole_operand map = {alignment->map, OLE_F64, to, from, 1, to, true};
    for (int64_t first = 0; first < rows->rows; first += BLOCK) {
        int64_t count = ole_min(BLOCK, rows->rows - first);
        for (int64_t i = 0; i < count * from; i++)
            x[i] = element(rows, first + i / from, i % from);
        const ole_operand a = {x, OLE_F64, count, from, from, 1, false};
        const ole_product product = {.alpha = 1.0, .c = y, .ldc = to};
        ole_multiply(NULL, &a, left, &map, right, &product);
        for (int64_t i = 0; i < count * to; i++) {
            double value = y[i] + alignment->shift[i % to];
            int64_t at = (first + i / to) * stride_of(mapped) + i % to;
            if (mapped->dtype == OLE_F32)
                ((float *)mapped->data)[at] = (float)value;
            else
                ((double *)mapped->data)[at] = value;
        }
    }
    free(memory);
    return OLE_OK;
}
