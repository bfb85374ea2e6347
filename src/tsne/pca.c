/*
 * src/tsne/pca.c - principal components in float64, through the covariance of the smaller side:
 * of the dimensions, or of the rows where there are fewer of them.
 *
 * Products are summed over blocks in their order, so the bits do not depend on the threads.
 */
#include "tsne/pca.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "linalg/eigen.h"
#include "linalg/unit_rows.h"
#include "ole/tsne.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, MOST_THREADS = 1024 }; /* rows or columns packed at once */

ole_status ole_features_check(const char *function, int64_t rows, int64_t dim, ole_dtype dtype,
                              const void *features, int threads, ole_error *error) {
    if (!features) return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: features is NULL", function);
    if (dtype != OLE_F32 && dtype != OLE_F64)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: features are %s; use float32 or float64",
                        function, ole_dtype_name(dtype));
    if (rows < 1 || dim < 1 || rows > INT32_MAX || dim > INT32_MAX)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s: features are %" PRId64 " x %" PRId64
                        ": both sides must be 1 to 2^31 - 1",
                        function, rows, dim);
    if (threads < 1 || threads > MOST_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s: threads is %d; must be 1 to %d", function,
                        threads, MOST_THREADS);
    const ole_row_set set = {rows, dim, dtype, features, NULL};
    for (int64_t i = 0; i < rows; i++)
        if (!isfinite(ole_row_largest(&set, i)))
            return ole_fail(error, OLE_ERROR_DATA, "row %" PRId64 " holds NaN or Inf", i);
    return OLE_OK;
}

void ole_features_centre(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                         double *out, double *scale) {
    const ole_row_set set = {rows, dim, dtype, features, NULL};
    double largest = 0.0;
    for (int64_t i = 0; i < rows; i++)
        largest = fmax(largest, ole_row_largest(&set, i));
    int exponent = 0;
    frexp(largest, &exponent);
    if (exponent < -1000) exponent = -1000; /* 2^1000 is still a number */
    *scale = ldexp(1.0, -exponent);
    for (int64_t i = 0; i < rows; i++) {
        ole_row_copy(&set, i, out + i * dim);
        for (int64_t k = 0; k < dim; k++)
            out[i * dim + k] *= *scale;
    }
    for (int64_t k = 0; k < dim; k += 8) {
        double mean[8] = {0.0};
        int64_t wide = ole_min(dim - k, 8);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < wide; j++)
                mean[j] += out[i * dim + k + j]; /* NOLINT(clang-analyzer-core.*): filled above */
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < wide; j++)
                out[i * dim + k + j] -= mean[j] / (double)rows;
    }
}

/* ---- The components ----------------------------------------------------------------------- */

typedef struct decomposition {
    ole_pool *pool;
    int64_t rows, dim;
    const double *x;   /* [rows, dim] */
    int64_t side, pad; /* the smaller of both, and padded */
    int64_t components;
    double *matrix;  /* [pad, pad]: the covariance, then its vectors */
    double *work;    /* [pad, pad] */
    double *values;  /* [pad] */
    int64_t *order;  /* [side]: by falling value */
    double *weights; /* [components, dim] */
    double *panels, *more_panels, *scratch;
} decomposition;

static void place(decomposition *p, ole_arena *arena) {
    int64_t block = ole_max(ole_panels_size(BLOCK, p->dim), ole_panels_size(p->side, BLOCK));
    int64_t few =
        ole_max(ole_panels_size(p->components, p->dim),
                ole_max(ole_panels_size(p->components, p->rows), ole_eigen_panels(p->side)));
    p->matrix = ole_arena_take(arena, p->pad * p->pad, sizeof(double));
    p->work = ole_arena_take(arena, p->pad * p->pad, sizeof(double));
    p->values = ole_arena_take(arena, p->pad, sizeof(double));
    p->order = ole_arena_take(arena, p->side, sizeof(int64_t));
    p->weights = ole_arena_take(arena, p->components * p->dim, sizeof(double));
    p->panels =
        ole_arena_take(arena, ole_max(block, ole_panels_size(BLOCK, p->rows)), sizeof(double));
    p->more_panels = ole_arena_take(arena, few, sizeof(double));
    p->scratch = ole_arena_take(arena, ole_eigen_scratch(p->side), sizeof(double));
}

/* X^T X, or X X^T where that is smaller: lower triangle into the matrix. */
static void form_covariance(const decomposition *p) {
    memset(p->matrix, 0, (size_t)(p->pad * p->pad) * sizeof(double));
    bool by_columns = p->dim <= p->rows; /* items are dimensions, depth are rows */
    int64_t depth = by_columns ? p->rows : p->dim;
    const ole_product product = {1.0, p->matrix, p->pad, OLE_STORE_ADD, true};
    for (int64_t at = 0; at < depth; at += BLOCK) {
        int64_t now = ole_min(depth - at, BLOCK);
        ole_operand part = {p->x + at, OLE_F64, p->rows, now, p->dim, 1, false};
        if (by_columns)
            part = (ole_operand){p->x + at * p->dim, OLE_F64, p->dim, now, 1, p->dim, true};
        ole_panels packed = ole_panels_pack(p->pool, p->panels, &part);
        ole_panels_multiply(p->pool, &packed, &packed, &product);
    }
}

/* Sorts by falling value; insertion keeps equals in their order. */
static void order_values(const decomposition *p) {
    for (int64_t i = 0; i < p->side; i++) {
        int64_t at = i;
        for (; at > 0 && p->values[p->order[at - 1]] < p->values[i]; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = i;
    }
}

/* Row c of the weights to length 1, its largest element positive; zero where it has no length. */
static void normalise(double *w, int64_t dim) {
    double square = 0.0, largest = 0.0;
    for (int64_t k = 0; k < dim; k++) {
        square += w[k] * w[k];
        if (fabs(w[k]) > fabs(largest)) largest = w[k];
    }
    double factor = square > 0.0 ? copysign(1.0 / sqrt(square), largest) : 0.0;
    for (int64_t k = 0; k < dim; k++)
        w[k] *= factor;
}

/* The weights of each component from the vectors of the covariance. */
static void form_weights(const decomposition *p) {
    bool by_columns = p->dim <= p->rows;
    if (by_columns) {
        for (int64_t c = 0; c < p->components; c++)
            memcpy(p->weights + c * p->dim, p->matrix + p->order[c] * p->pad,
                   (size_t)p->dim * sizeof(double));
    } else {
        /* Of vectors u of the rows: X^T u. The vectors are brought together first. */
        for (int64_t c = 0; c < p->components; c++)
            memcpy(p->work + c * p->pad, p->matrix + p->order[c] * p->pad,
                   (size_t)p->side * sizeof(double));
        const ole_operand u = {p->work, OLE_F64, p->components, p->rows, p->pad, 1, false};
        ole_panels left = ole_panels_pack(p->pool, p->more_panels, &u);
        for (int64_t at = 0; at < p->dim; at += BLOCK) {
            const ole_operand x = {p->x + at, OLE_F64, ole_min(p->dim - at, BLOCK), p->rows, 1,
                                   p->dim,    true};
            ole_panels right = ole_panels_pack(p->pool, p->panels, &x);
            const ole_product product = {1.0, p->weights + at, p->dim, OLE_STORE_SET, false};
            ole_panels_multiply(p->pool, &left, &right, &product);
        }
    }
    /* Directions that hold nothing but rounding stay out. */
    double least = 1e-14 * p->values[p->order[0]];
    for (int64_t c = 0; c < p->components; c++) {
        double *w = p->weights + c * p->dim;
        if (p->values[p->order[c]] > least)
            normalise(w, p->dim);
        else
            memset(w, 0, (size_t)p->dim * sizeof(double));
    }
}

static void project(const decomposition *p, double *out) {
    const ole_operand w = {p->weights, OLE_F64, p->components, p->dim, p->dim, 1, false};
    ole_panels right = ole_panels_pack(p->pool, p->more_panels, &w);
    for (int64_t at = 0; at < p->rows; at += BLOCK) {
        const ole_operand x = {
            p->x + at * p->dim, OLE_F64, ole_min(p->rows - at, BLOCK), p->dim, p->dim, 1, false};
        ole_panels left = ole_panels_pack(p->pool, p->panels, &x);
        const ole_product product = {1.0, out + at * p->components, p->components, OLE_STORE_SET,
                                     false};
        ole_panels_multiply(p->pool, &left, &right, &product);
    }
}

ole_status ole_pca_project(ole_pool *pool, int64_t rows, int64_t dim, const double *centred,
                           int64_t components, double *out, ole_error *error) {
    decomposition p = {.pool = pool,
                       .rows = rows,
                       .dim = dim,
                       .x = centred,
                       .side = ole_min(rows, dim),
                       .components = components};
    p.pad = ole_eigen_pad(p.side);
    ole_arena arena = {0};
    place(&p, &arena);
    void *memory = ole_arena_reserve(&arena);
    if (!memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory: the components need %.3g GiB",
                        (double)arena.used / 1073741824.0);
    place(&p, &arena);
    form_covariance(&p);
    ole_status status = OLE_OK;
    if (ole_eigen(pool, p.matrix, p.side, p.values, p.work, p.more_panels, p.scratch)) {
        order_values(&p);
        form_weights(&p);
        project(&p, out);
    } else {
        status = ole_fail(error, OLE_ERROR_NUMERIC, "the principal components did not converge");
    }
    free(memory);
    return status;
}

ole_status ole_pca(int64_t rows, int64_t dim, ole_dtype dtype, const void *features,
                   int64_t components, int threads, double *out, ole_error *error) {
    ole_status status = ole_features_check("ole_pca", rows, dim, dtype, features, threads, error);
    if (status != OLE_OK) return status;
    if (!out) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_pca: out is NULL");
    if (components < 1 || components > ole_min(rows, dim))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_pca: components is %" PRId64 "; must be 1 to %" PRId64, components,
                        ole_min(rows, dim));
    double *centred = malloc((size_t)(rows * dim) * sizeof *centred);
    if (!centred) return ole_fail(error, OLE_ERROR_MEMORY, "ole_pca: out of memory");
    double scale;
    ole_features_centre(rows, dim, dtype, features, centred, &scale);
    ole_pool *pool;
    status = ole_pool_create(&pool, threads, error);
    if (status == OLE_OK)
        status = ole_pca_project(pool, rows, dim, centred, components, out, error);
    for (int64_t i = 0; i < rows * components && status == OLE_OK; i++)
        out[i] /= scale;
    ole_pool_destroy(pool);
    free(centred);
    return status;
}
