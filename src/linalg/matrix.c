/*
 * src/linalg/matrix.c - the public functions of include/ole/linalg.h on the two routes: float32
 * through Gram matrices in float64 (spectrum.h), float64 through the SVD (svd.h).
 */
#include "ole/linalg.h"

#include "base/error.h"
#include "base/sort.h"
#include "linalg/spectrum.h"
#include "linalg/svd.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t stride_of(const ole_matrix *m) {
    return m->stride ? m->stride : m->cols;
}

static int64_t smaller_side(const ole_matrix *m) {
    return m->rows < m->cols ? m->rows : m->cols;
}

static ole_operand operand_of(const ole_matrix *m) {
    return (ole_operand){m->data, m->dtype, m->rows, m->cols, stride_of(m), 1, false};
}

static ole_status check_view(const char *name, const ole_matrix *m, ole_error *error) {
    if (!m || !m->data) return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", name);
    if (m->rows < 1 || m->cols < 1 || m->rows > INT32_MAX || m->cols > INT32_MAX)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s is %" PRId64 " x %" PRId64 ": both sides must be 1 to 2^31 - 1", name,
                        m->rows, m->cols);
    if (m->dtype != OLE_F32 && m->dtype != OLE_F64)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s has type %s; must be float32 or float64",
                        name, ole_dtype_name(m->dtype));
    if (stride_of(m) < m->cols)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "%s.stride is %" PRId64 ", smaller than cols = %" PRId64, name, m->stride,
                        m->cols);
    return OLE_OK;
}

static ole_status check_input(const ole_matrix *a, ole_error *error) {
    ole_status status = check_view("a", a, error);
    if (status != OLE_OK) return status;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            int64_t at = i * stride_of(a) + j;
            double x = a->dtype == OLE_F32 ? ((float *)a->data)[at] : ((double *)a->data)[at];
            if (!isfinite(x))
                return ole_fail(error, OLE_ERROR_DATA, "a: row %" PRId64 " holds NaN or Inf", i);
        }
    return OLE_OK;
}

static ole_status check_output(const char *name, const ole_matrix *m, const ole_matrix *a,
                               int64_t rows, int64_t cols, ole_error *error) {
    ole_status status = check_view(name, m, error);
    if (status != OLE_OK) return status;
    if (m->rows == rows && m->cols == cols && m->dtype == a->dtype) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s is %" PRId64 " x %" PRId64 " %s; must be %" PRId64 " x %" PRId64 " %s",
                    name, m->rows, m->cols, ole_dtype_name(m->dtype), rows, cols,
                    ole_dtype_name(a->dtype));
}

static ole_status check_threads(int threads, ole_error *error) {
    if (threads >= 1 && threads <= 1024) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "threads is %d; must be 1 to 1024", threads);
}

static ole_status not_converged(ole_error *error) {
    return ole_fail(error, OLE_ERROR_NUMERIC, "a: the decomposition did not converge");
}

static ole_status overflow(ole_error *error) {
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "a: the singular values overflow; scale the matrix down");
}

/* A float64 matrix decomposed: whether that went well, and the largest singular value fits. */
static ole_status check_svd(bool converged, const ole_svd_space *space, ole_error *error) {
    if (!converged) return not_converged(error);
    return isfinite(space->sigma[0]) ? OLE_OK : overflow(error);
}

/* Copies from[rows, cols] (contiguous) into a view of either type. */
static void fill_view(const ole_matrix *to, const double *from) {
    for (int64_t i = 0; i < to->rows; i++)
        for (int64_t j = 0; j < to->cols; j++) {
            double x = from[i * to->cols + j];
            int64_t at = i * stride_of(to) + j;
            if (to->dtype == OLE_F32)
                ((float *)to->data)[at] = (float)x;
            else
                ((double *)to->data)[at] = x;
        }
}

/* One matrix being decomposed by the route of its type. */
typedef struct solver {
    ole_operand a; /* float32: the smaller side as items */
    ole_pool *pool;
    void *memory;
    ole_spectrum_space gram;
    ole_spectrum spectrum;
    ole_svd_space svd;
    double *root;  /* float32: the inverse root */
    double *polar; /* [rows, cols] */
} solver;

static void place(solver *s, ole_arena *arena, const ole_matrix *m, bool want_polar) {
    int64_t k = smaller_side(m), longer = m->rows + m->cols - k;
    if (m->dtype == OLE_F32) {
        ole_spectrum_lay_out(&s->gram, arena, k, longer);
        if (want_polar) s->root = ole_arena_take(arena, k * k, sizeof(double));
    } else {
        ole_svd_lay_out(&s->svd, arena, m->rows, m->cols);
    }
    if (!want_polar) return;
    s->polar = ole_arena_take(arena, m->rows * m->cols, sizeof(double));
}

static void close_solver(solver *s) {
    ole_pool_destroy(s->pool);
    free(s->memory);
}

/* Makes room and decomposes; close_solver() in every case. */
static ole_status solve(solver *s, const ole_matrix *m, bool whole_tail, bool want_polar,
                        ole_cut cut, int threads, ole_error *error) {
    *s = (solver){.a = operand_of(m)};
    if (m->dtype == OLE_F32 && m->rows > m->cols) s->a = ole_operand_transposed(s->a);
    ole_arena arena = {0};
    place(s, &arena, m, want_polar);
    s->memory = ole_arena_reserve(&arena);
    if (!s->memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory: a needs %.3g GiB of work space",
                        (double)arena.used / 1073741824.0);
    place(s, &arena, m, want_polar);
    ole_status status = ole_pool_create(&s->pool, threads, error);
    if (status != OLE_OK) return status;
    if (m->dtype == OLE_F64) return check_svd(ole_svd_of(&s->a, &s->svd), &s->svd, error);
    if (ole_spectrum_of(s->pool, &s->a, false, whole_tail, cut, &s->gram, &s->spectrum))
        return OLE_OK;
    return not_converged(error);
}

ole_status ole_singular_values(const ole_matrix *a, int threads, double *sigma, ole_error *error) {
    ole_status status = check_input(a, error);
    if (status == OLE_OK) status = check_threads(threads, error);
    if (status == OLE_OK && !sigma) status = ole_fail(error, OLE_ERROR_ARGUMENT, "sigma is NULL");
    if (status != OLE_OK) return status;
    solver s;
    status = solve(&s, a, true, false, (ole_cut){0}, threads, error);
    if (status == OLE_OK) {
        size_t k = (size_t)smaller_side(a);
        memcpy(sigma, a->dtype == OLE_F32 ? s.spectrum.sigma : s.svd.sigma, k * sizeof *sigma);
        qsort(sigma, k, sizeof *sigma, ole_by_falling_double);
    }
    close_solver(&s);
    return status;
}

ole_status ole_nuclear_norm(const ole_matrix *a, int threads, double *norm, ole_error *error) {
    if (!norm) return ole_fail(error, OLE_ERROR_ARGUMENT, "norm is NULL");
    ole_status status = check_input(a, error);
    if (status != OLE_OK) return status;
    int64_t k = smaller_side(a);
    double *sigma = malloc((size_t)k * sizeof *sigma);
    if (!sigma) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    status = ole_singular_values(a, threads, sigma, error);
    double sum = 0.0;
    for (int64_t i = k - 1; i >= 0 && status == OLE_OK; i--)
        sum += sigma[i];
    free(sigma);
    if (status != OLE_OK) return status;
    if (!isfinite(sum)) return overflow(error);
    *norm = sum;
    return OLE_OK;
}

ole_status ole_svd(const ole_matrix *a, const ole_matrix *u, double *sigma, const ole_matrix *vt,
                   ole_error *error) {
    ole_status status = check_input(a, error);
    if (status == OLE_OK && !sigma) status = ole_fail(error, OLE_ERROR_ARGUMENT, "sigma is NULL");
    if (status != OLE_OK) return status;
    int64_t k = smaller_side(a);
    if (u) status = check_output("u", u, a, a->rows, k, error);
    if (status == OLE_OK && vt) status = check_output("vt", vt, a, k, a->cols, error);
    if (status != OLE_OK) return status;
    ole_svd_space space;
    ole_arena arena = {0};
    ole_svd_lay_out(&space, &arena, a->rows, a->cols);
    void *memory = ole_arena_reserve(&arena);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_svd_lay_out(&space, &arena, a->rows, a->cols);
    ole_operand source = operand_of(a);
    status = check_svd(ole_svd_of(&source, &space), &space, error);
    if (status == OLE_OK) {
        memcpy(sigma, space.sigma, (size_t)k * sizeof *sigma);
        if (u) fill_view(u, space.u);
        if (vt) fill_view(vt, space.vt);
    }
    free(memory);
    return status;
}

/* s->polar = U1 V1^T by the route of the type; returns how many directions were kept. */
static int64_t form_polar(solver *s, const ole_matrix *m, ole_cut cut) {
    ole_product product = {.alpha = 1.0, .c = s->polar, .ldc = m->cols};
    if (m->dtype == OLE_F32) {
        int64_t n = s->a.items;
        ole_spectrum_inverse_root(s->pool, &s->spectrum, &s->gram, s->root, n);
        ole_spectrum_apply(s->pool, &s->a, s->root, n, &s->gram, &product);
        return s->spectrum.rank;
    }
    int64_t rank = ole_svd_rank(&s->svd, smaller_side(m), cut);
    ole_svd_polar(s->pool, &s->svd, m->rows, m->cols, rank, &product);
    return rank;
}

ole_status ole_polar(const ole_matrix *a, double delta_abs, double delta_rel, int threads,
                     const ole_matrix *polar, int64_t *rank, ole_error *error) {
    ole_status status = check_input(a, error);
    if (status == OLE_OK) status = check_output("polar", polar, a, a->rows, a->cols, error);
    if (status == OLE_OK) status = check_threads(threads, error);
    if (status != OLE_OK) return status;
    if (delta_rel == -1.0)
        delta_rel = 64.0 * (a->dtype == OLE_F32 ? (double)FLT_EPSILON : DBL_EPSILON);
    if (!(delta_abs >= 0.0 && delta_rel >= 0.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "delta_abs is %g and delta_rel is %g; must be numbers >= 0", delta_abs,
                        delta_rel);
    ole_cut cut = {delta_abs, delta_rel};
    solver s;
    status = solve(&s, a, false, true, cut, threads, error);
    if (status == OLE_OK) {
        int64_t kept = form_polar(&s, a, cut);
        fill_view(polar, s.polar);
        if (rank) *rank = kept;
    }
    close_solver(&s);
    return status;
}
