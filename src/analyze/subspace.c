/*
 * src/analyze/subspace.c - principal subspaces from Gram matrices.
 *
 * For a class X_c of n rows the smaller of X_c X_c^T and X_c^T X_c is formed in float64 and
 * decomposed: its eigenvalues are σ², its eigenvectors the left or right singular vectors. Squaring
 * loses only directions with σ/σ_max under 1e-8, far below the share of energy that counts here.
 * Rows are scaled by a power of two first, so that squares neither overflow nor vanish.
 */
#include "analyze/subspace.h"

#include "base/error.h"
#include "linalg/eigen.h"
#include "linalg/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 }; /* rows gathered at once where a class has more rows than dimensions */
static const double resolved = 1e-10; /* the least share of energy of a direction */

typedef struct labelled_row {
    int64_t label;
    int64_t row;
} labelled_row;

/* What the tasks of one call share. */
typedef struct job {
    const ole_subspaces *subspaces;
    const labelled_row *order; /* rows by (label, row), ignored ones left out */
    const int64_t *begin;      /* class c is order[begin[c]] to order[begin[c + 1] - 1] */
    ole_dtype dtype;
    const void *features;
    double energy;
    double *scratch; /* of all workers */
    int64_t scratch_size;
    bool *converged; /* [classes] */
} job;

/* A worker's scratch, cut into what one class of `rows` rows needs. */
typedef struct workspace {
    double *gram;     /* [pad, pad], 64-byte aligned */
    double *work;     /* the same size */
    double *values;   /* [pad] */
    double *scratch;  /* of ole_eigen() */
    double *gathered; /* [min(rows, chunk), dim] */
    double *panels;   /* gathered, packed; then of ole_eigen() */
    int64_t size;     /* doubles in all */
} workspace;

static int64_t round_up(int64_t n, int64_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

static bool is_tall(int64_t rows, int64_t dim) {
    return rows > dim;
}

static workspace cut_workspace(double *memory, int64_t rows, int64_t dim) {
    int64_t width = ole_kernels_get()->width;
    int64_t side = is_tall(rows, dim) ? dim : rows;
    int64_t pad = ole_eigen_pad(side);
    int64_t gathered = is_tall(rows, dim) && rows > CHUNK ? CHUNK : rows;
    int64_t depth = is_tall(rows, dim) ? gathered : dim;
    int64_t packed = round_up(side, width) * depth, eigen = ole_eigen_panels(side);
    const int64_t sizes[] = {pad * pad,
                             pad * pad,
                             pad,
                             ole_eigen_scratch(side),
                             gathered * dim,
                             packed > eigen ? packed : eigen};
    double *at[sizeof sizes / sizeof *sizes] = {0};
    int64_t used = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (memory) at[i] = memory + used;
        used += round_up(sizes[i], 8); /* 64 bytes */
    }
    return (workspace){at[0], at[1], at[2], at[3], at[4], at[5], used};
}

/* ---- One class ---------------------------------------------------------------------------- */

static double element(const job *j, int64_t row, int64_t col) {
    int64_t at = row * j->subspaces->dim + col;
    return j->dtype == OLE_F32 ? ((const float *)j->features)[at]
                               : ((const double *)j->features)[at];
}

/* The power of two that brings the largest element of the class into [0.5, 1); 0 for all zero. */
static int class_exponent(const job *j, int64_t begin, int64_t end) {
    double largest = 0.0;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < j->subspaces->dim; k++)
            largest = fmax(largest, fabs(element(j, j->order[i].row, k)));
    int exponent;
    frexp(largest, &exponent);
    return exponent;
}

/* Copies rows [begin, end) of the order, times 2^-exponent (in two steps: one may overflow). */
static void gather(const job *j, int64_t begin, int64_t end, int exponent, double *to) {
    double first = ldexp(1.0, -(exponent / 2)), second = ldexp(1.0, exponent / 2 - exponent);
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < j->subspaces->dim; k++)
            *to++ = element(j, j->order[i].row, k) * first * second;
}

/* The lower triangle of the smaller Gram matrix; for a class that is not tall, gathers it whole. */
static void form_gram(const job *j, int64_t begin, int64_t end, const workspace *w) {
    const ole_kernels *k = ole_kernels_get();
    int64_t dim = j->subspaces->dim;
    int exponent = class_exponent(j, begin, end);
    if (!is_tall(end - begin, dim)) {
        int64_t n = end - begin;
        gather(j, begin, end, exponent, w->gathered);
        k->pack_f64(w->panels, w->gathered, dim, 1, n, dim);
        k->multiply(w->panels, w->panels, n, n, dim, 1.0, w->gram, ole_eigen_pad(n), 0, 0, true,
                    OLE_STORE_SET);
        return;
    }
    for (int64_t i = begin; i < end; i += CHUNK) {
        int64_t stop = i + CHUNK < end ? i + CHUNK : end;
        gather(j, i, stop, exponent, w->gathered);
        k->pack_f64(w->panels, w->gathered, 1, dim, dim, stop - i);
        k->multiply(w->panels, w->panels, dim, dim, stop - i, 1.0, w->gram, ole_eigen_pad(dim), 0,
                    0, true, i == begin ? OLE_STORE_SET : OLE_STORE_ADD);
    }
}

/*
 * The eigenvalues that hold the share `energy`, largest first: their positions into `chosen`.
 * Plain selection: there are at most OLE_SUBSPACE_MAX, and an equal value keeps its order.
 */
static int64_t choose(const double *values, int64_t count, double energy,
                      int64_t chosen[OLE_SUBSPACE_MAX]) {
    double total = 0.0, held = 0.0;
    for (int64_t i = 0; i < count; i++)
        total += fmax(values[i], 0.0);
    int64_t size = 0;
    while (size < OLE_SUBSPACE_MAX && size < count && held < energy * total) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; i++) {
            bool taken = false;
            for (int64_t t = 0; t < size; t++)
                taken |= chosen[t] == i;
            if (!taken && (best < 0 || values[i] > values[best])) best = i;
        }
        if (!(values[best] > resolved * total)) break;
        held += values[best];
        chosen[size++] = best;
    }
    return size;
}

/* Makes row `i` of the basis orthogonal to those before it, twice for full accuracy, and unit. */
static void orthonormalise(double *basis, int64_t i, int64_t dim) {
    const ole_kernels *k = ole_kernels_get();
    double *v = basis + i * dim;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t p = 0; p < i; p++) {
            const double *before = basis + p * dim;
            k->axpy(v, -k->dot_f64(v, before, dim), before, dim);
        }
        double scale = 1.0 / sqrt(k->dot_f64(v, v, dim));
        for (int64_t c = 0; c < dim; c++)
            v[c] *= scale;
    }
}

static void solve_class(void *context, int64_t c, int worker) {
    const job *j = context;
    const ole_kernels *k = ole_kernels_get();
    ole_subspace *s = &j->subspaces->of[c];
    int64_t dim = j->subspaces->dim, n = j->begin[c + 1] - j->begin[c];
    workspace w = cut_workspace(j->scratch + worker * j->scratch_size, n, dim);
    form_gram(j, j->begin[c], j->begin[c + 1], &w);

    int64_t side = is_tall(n, dim) ? dim : n, pad = ole_eigen_pad(side);
    j->converged[c] = ole_eigen(NULL, w.gram, side, w.values, w.work, w.panels, w.scratch);
    int64_t chosen[OLE_SUBSPACE_MAX];
    s->size = choose(w.values, side, j->energy, chosen);
    for (int64_t i = 0; i < s->size; i++) {
        const double *vector = w.gram + chosen[i] * pad;
        double *v = s->basis + i * dim;
        if (is_tall(n, dim)) {
            memcpy(v, vector, (size_t)dim * sizeof *v);
            continue;
        }
        memset(v, 0, (size_t)dim * sizeof *v);
        for (int64_t r = 0; r < n; r++)
            k->axpy(v, vector[r], w.gathered + r * dim, dim);
        orthonormalise(s->basis, i, dim);
    }
}

/* ---- All classes -------------------------------------------------------------------------- */

static int compare_rows(const void *left, const void *right) {
    const labelled_row *a = left, *b = right;
    if (a->label != b->label) return a->label < b->label ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Names the first row with NaN or Inf among those that count. */
static ole_status check_finite(const job *j, int64_t count, ole_error *error) {
    int64_t bad = INT64_MAX;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < j->subspaces->dim; k++)
            if (!isfinite(element(j, j->order[i].row, k)) && j->order[i].row < bad)
                bad = j->order[i].row;
    if (bad == INT64_MAX) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA, "features: row %" PRId64 " holds NaN or Inf", bad);
}

/* Cuts the order into classes: fills `begin`, returns how many. */
static int64_t find_classes(const labelled_row *order, int64_t count, int64_t *begin) {
    int64_t classes = 0;
    for (int64_t i = 0; i < count; i++)
        if (i == 0 || order[i].label != order[i - 1].label) begin[classes++] = i;
    begin[classes] = count;
    return classes;
}

static int64_t max_size(int64_t rows, int64_t dim) {
    int64_t side = rows < dim ? rows : dim;
    return side < OLE_SUBSPACE_MAX ? side : OLE_SUBSPACE_MAX;
}

/* Allocates the subspaces and the scratch; sets labels and where each basis lies. */
static bool allocate(ole_subspaces *s, job *j, int threads) {
    int64_t total = 0;
    for (int64_t c = 0; c < s->classes; c++) {
        int64_t n = j->begin[c + 1] - j->begin[c];
        int64_t need = cut_workspace(NULL, n, s->dim).size;
        if (need > j->scratch_size) j->scratch_size = need;
        total += max_size(n, s->dim) * s->dim;
    }
    s->of = calloc((size_t)s->classes, sizeof *s->of);
    s->memory = malloc((size_t)total * sizeof *s->memory);
    j->converged = calloc((size_t)s->classes, sizeof *j->converged);
    j->scratch = aligned_alloc(64, (size_t)(threads * j->scratch_size) * sizeof *j->scratch);
    if (!s->of || !s->memory || !j->converged || !j->scratch) return false;
    double *next = s->memory;
    for (int64_t c = 0; c < s->classes; c++) {
        s->of[c] = (ole_subspace){.label = j->order[j->begin[c]].label, .basis = next};
        next += max_size(j->begin[c + 1] - j->begin[c], s->dim) * s->dim;
    }
    return true;
}

/* Solves every class of an order of `count` rows. */
static ole_status solve(ole_subspaces *s, job *j, int64_t count, ole_pool *pool, int threads,
                        ole_error *error) {
    ole_status status = check_finite(j, count, error);
    if (status != OLE_OK || s->classes <= 0) return status;
    if (!allocate(s, j, threads)) {
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for %" PRId64 " classes of %" PRId64 " dimensions",
                          s->classes, s->dim);
    } else {
        ole_pool_run(pool, s->classes, solve_class, j);
        for (int64_t c = 0; c < s->classes && status == OLE_OK; c++)
            if (!j->converged[c])
                status = ole_fail(error, OLE_ERROR_NUMERIC,
                                  "the eigenvalues of class %" PRId64 " do not converge",
                                  s->of[c].label);
    }
    free(j->converged);
    free(j->scratch);
    return status;
}

ole_status ole_subspaces_create(ole_subspaces *subspaces, int64_t rows, int64_t dim,
                                ole_dtype dtype, const void *features, const int64_t *labels,
                                double energy, ole_pool *pool, int threads, ole_error *error) {
    *subspaces = (ole_subspaces){.dim = dim};
    labelled_row *order = malloc((size_t)rows * sizeof *order);
    int64_t *begin = malloc(((size_t)rows + 1) * sizeof *begin);
    ole_status status = OLE_OK;
    if (!order || !begin) {
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " rows", rows);
    } else {
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++)
            if (labels[i] >= 0) order[count++] = (labelled_row){labels[i], i};
        qsort(order, (size_t)count, sizeof *order, compare_rows);
        subspaces->classes = find_classes(order, count, begin);
        job j = {.subspaces = subspaces,
                 .order = order,
                 .begin = begin,
                 .dtype = dtype,
                 .features = features,
                 .energy = energy};
        status = solve(subspaces, &j, count, pool, threads, error);
    }
    free(order);
    free(begin);
    if (status != OLE_OK) ole_subspaces_destroy(subspaces);
    return status;
}

void ole_subspaces_destroy(ole_subspaces *subspaces) {
    free(subspaces->of);
    free(subspaces->memory);
    *subspaces = (ole_subspaces){0};
}
