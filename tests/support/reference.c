/*
 * tests/support/reference.c - dgesvd for small matrices, dgesdd from 512 up (dgesvd needs minutes
 * there), on copies, allocating freely.
 */
#include "reference.h"

#include <float.h>
#include <lapack.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *new_doubles(int64_t count) {
    double *p = calloc((size_t)(count > 0 ? count : 1), sizeof *p);
    if (!p) abort();
    return p;
}

void reference_svd(const double *a, int64_t rows, int64_t cols, double *u, double *sigma,
                   double *vt) {
    /* Column-major LAPACK sees the transpose, so its left vectors are the rows of vt. */
    int m = (int)cols, n = (int)rows, k = m < n ? m : n, info = 0, lwork = -1;
    double *copy = new_doubles(rows * cols), *left = new_doubles(cols * k);
    double *right = new_doubles(rows * k), size;
    int *iwork = calloc((size_t)(8 * k), sizeof *iwork);
    memcpy(copy, a, (size_t)(rows * cols) * sizeof *copy);
    bool large = k >= 512;
    for (double *work = &size; work; work = lwork < 0 ? new_doubles(lwork = (int)size) : NULL) {
        if (large)
            LAPACK_dgesdd("S", &m, &n, copy, &m, sigma, left, &m, right, &k, work, &lwork, iwork,
                          &info);
        else
            LAPACK_dgesvd("S", "S", &m, &n, copy, &m, sigma, left, &m, right, &k, work, &lwork,
                          &info);
        if (info != 0) abort();
        if (work != &size) {
            free(work);
            break;
        }
    }
    if (vt) memcpy(vt, left, (size_t)(cols * k) * sizeof *vt);
    if (u) memcpy(u, right, (size_t)(rows * k) * sizeof *u);
    free(copy);
    free(left);
    free(right);
    free(iwork);
}

/* σ under this share of the largest are what rounding left of a float64 SVD. */
static const double NOISE = 1e-14;

/* The rows listed in `list`: norm and rank, and alpha U1 V1^T added to their gradient rows. */
static double add_block(reference_loss *r, const double *x, int64_t dim, const int64_t *list,
                        int64_t count, const ole_loss_options *o, double relative, bool is_class,
                        int64_t *rank) {
    int64_t k = count < dim ? count : dim;
    double *block = new_doubles(count * dim), *u = new_doubles(count * k);
    double *vt = new_doubles(k * dim), *sigma = new_doubles(k), norm = 0.0;
    for (int64_t i = 0; i < count; i++)
        memcpy(block + i * dim, x + list[i] * dim, (size_t)dim * sizeof *block);
    reference_svd(block, count, dim, u, sigma, vt);
    double threshold = fmax(o->delta_abs, relative * sigma[0]), noise = NOISE * sigma[0];
    *rank = 0;
    for (int64_t i = 0; i < k; i++) {
        norm += sigma[i];
        *rank += sigma[i] > threshold;
        if (sigma[i] > threshold / 4 && sigma[i] < threshold * 4) r->clear = false;
        if (sigma[i] < noise && threshold < 4 * noise) r->clear = false;
    }
    if (*rank) r->condition = fmax(r->condition, sigma[0] / sigma[*rank - 1]);
    if (is_class && fabs(norm - o->delta_floor) < 1e-6) r->clear = false;
    double alpha = is_class ? (norm > o->delta_floor ? 1.0 : 0.0) : -1.0;
    for (int64_t i = 0; i < count && alpha != 0.0; i++)
        for (int64_t s = 0; s < *rank; s++)
            for (int64_t j = 0; j < dim; j++)
                r->gradient[list[i] * dim + j] += alpha * u[i * k + s] * vt[s * dim + j];
    free(block);
    free(u);
    free(vt);
    free(sigma);
    return norm;
}

reference_loss reference_evaluate(const double *features, const int64_t *labels, int64_t rows,
                                  int64_t dim, const ole_loss_options *options, bool narrow) {
    reference_loss r = {.clear = true, .gradient = new_doubles(rows * dim)};
    double relative = options->delta_rel;
    if (relative == OLE_DELTA_REL_AUTO)
        relative = 64.0 * (narrow ? (double)FLT_EPSILON : DBL_EPSILON);
    int64_t *list = calloc((size_t)rows, sizeof *list), unused;
    bool *done = calloc((size_t)rows, sizeof *done);
    for (int64_t i = 0; i < rows; i++) {
        if (labels[i] < 0 || done[i]) continue;
        int64_t count = 0;
        for (int64_t j = i; j < rows; j++)
            if (labels[j] == labels[i]) {
                list[count++] = j;
                done[j] = true;
            }
        double norm = add_block(&r, features, dim, list, count, options, relative, true, &unused);
        r.sum_of_norms += norm;
        r.class_term += fmax(norm, options->delta_floor);
        r.classes++;
    }
    for (int64_t i = 0; i < rows; i++)
        if (labels[i] >= 0) list[r.rows++] = i;
    r.global_norm = add_block(&r, features, dim, list, r.rows, options, relative, false, &r.rank);
    free(list);
    free(done);
    return r;
}
