/* src/features/novelty/covariance.c - first and second moments of the known features. */
#include "features/novelty/covariance.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "base/sort.h"
#include "linalg/eigen.h"
#include "linalg/unit_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024 };

/* ---- Means -------------------------------------------------------------------------------- */

typedef struct mean_job {
    const score_training *t;
    double *sums; /* [classes, dim] */
    double *row;  /* [threads, dim] */
} mean_job;

static void sum_class(void *context, int64_t c, int worker) {
    const mean_job *j = context;
    const ole_classes *classes = &j->t->classes;
    const ole_row_set set = ole_embedding_rows(j->t->known, classes->order, classes->rows);
    double *sum = j->sums + c * set.dim, *row = j->row + worker * set.dim;
    for (int64_t i = classes->begin[c]; i < classes->begin[c + 1]; i++) {
        ole_row_copy(&set, i, row);
        for (int64_t k = 0; k < set.dim; k++)
            sum[k] += row[k];
    }
}

ole_status known_means(const score_training *t, double *centre, double *means, ole_error *error) {
    int64_t dim = t->known->dim, classes = t->classes.classes;
    mean_job j = {t, calloc((size_t)(classes * dim), sizeof *j.sums),
                  malloc((size_t)(t->threads * dim) * sizeof *j.row)};
    ole_status status = OLE_OK;
    if (j.sums && j.row) {
        ole_pool_run(t->pool, classes, sum_class, &j);
        memset(centre, 0, (size_t)dim * sizeof *centre);
        for (int64_t c = 0; c < classes; c++) {
            double count = (double)(t->classes.begin[c + 1] - t->classes.begin[c]);
            for (int64_t k = 0; k < dim; k++) {
                double sum = j.sums[c * dim + k];
                centre[k] += sum / (double)t->classes.rows;
                if (means) means[c * dim + k] = sum / count;
            }
        }
    } else {
        status = ole_fail(error, OLE_ERROR_MEMORY,
                          "out of memory for the means of %" PRId64 " classes", classes);
    }
    free(j.sums);
    free(j.row);
    return status;
}

/* ---- Scatter matrices --------------------------------------------------------------------- */

typedef struct scatter_job {
    const score_training *t;
    const double *means;
    const int64_t *class_of; /* [rows] of the class order; NULL: one mean for all */
    int64_t first;
    double *rows;   /* [BLOCK, dim] */
    double *panels; /* rows packed by columns */
    double *square; /* [BLOCK]: ‖x‖² */
} scatter_job;

static void centre_row(void *context, int64_t row, int worker) {
    (void)worker;
    const scatter_job *j = context;
    const ole_row_set set =
        ole_embedding_rows(j->t->known, j->t->classes.order, j->t->classes.rows);
    double *to = j->rows + row * set.dim, square = 0.0;
    const double *mean = j->means;
    if (j->class_of) mean += j->class_of[j->first + row] * set.dim;
    ole_row_copy(&set, j->first + row, to);
    for (int64_t k = 0; k < set.dim; k++) {
        to[k] -= mean[k];
        square += to[k] * to[k];
    }
    j->square[row] = square;
}

static void sum_scatter(scatter *s, scatter_job *j) {
    int64_t rows = j->t->classes.rows;
    for (j->first = 0; j->first < rows; j->first += BLOCK) {
        int64_t count = ole_min(BLOCK, rows - j->first);
        ole_pool_run(j->t->pool, count, centre_row, j);
        for (int64_t i = 0; i < count; i++)
            s->fourth += j->square[i] * j->square[i];
        const ole_operand columns = {j->rows, OLE_F64, s->dim, count, 1, s->dim, true};
        ole_panels packed = ole_panels_pack(j->t->pool, j->panels, &columns);
        const ole_product product = {.alpha = 1.0 / (double)rows,
                                     .c = s->matrix,
                                     .ldc = s->pad,
                                     .store = j->first > 0 ? OLE_STORE_ADD : OLE_STORE_SET,
                                     .lower = true};
        ole_panels_multiply(j->t->pool, &packed, &packed, &product);
    }
}

static ole_status out_of_memory(int64_t dim, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY,
                    "out of memory for the covariance of %" PRId64 " dimensions", dim);
}

static void place(scatter *s, ole_arena *arena) {
    s->matrix = ole_arena_take(arena, s->pad, (size_t)s->pad * sizeof *s->matrix);
    s->values = ole_arena_take(arena, s->pad, sizeof *s->values);
    s->order = ole_arena_take(arena, s->dim, sizeof *s->order);
}

ole_status scatter_of(scatter *s, const score_training *t, const double *means, bool by_class,
                      ole_error *error) {
    int64_t dim = t->known->dim, rows = t->classes.rows;
    *s = (scatter){.dim = dim, .pad = ole_eigen_pad(dim)};
    ole_arena arena = {0};
    place(s, &arena);
    s->memory = ole_arena_reserve(&arena);
    scatter_job j = {.t = t,
                     .means = means,
                     .rows = malloc((size_t)(BLOCK * dim) * sizeof *j.rows),
                     .panels =
                         ole_arena_allocate((size_t)ole_panels_size(dim, BLOCK) * sizeof *j.panels),
                     .square = malloc(BLOCK * sizeof *j.square)};
    int64_t *class_of = by_class ? malloc((size_t)rows * sizeof *class_of) : NULL;
    ole_status status = OLE_OK;
    if (s->memory && j.rows && j.panels && j.square && (class_of || !by_class)) {
        place(s, &arena);
        memset(s->memory, 0, arena.used);
        for (int64_t c = 0; c < t->classes.classes && by_class; c++)
            for (int64_t i = t->classes.begin[c]; i < t->classes.begin[c + 1]; i++)
                class_of[i] = c;
        j.class_of = class_of;
        sum_scatter(s, &j);
        if (!isfinite(s->fourth))
            status = ole_fail(error, OLE_ERROR_NUMERIC,
                              "the covariance of the features overflows: scale them down");
    } else {
        status = out_of_memory(dim, error);
    }
    free(j.rows);
    free(j.panels);
    free(j.square);
    free(class_of);
    if (status != OLE_OK) scatter_destroy(s);
    return status;
}

void scatter_destroy(scatter *s) {
    free(s->memory);
    *s = (scatter){0};
}

void scatter_fill(scatter *s) {
    for (int64_t i = 0; i < s->dim; i++)
        for (int64_t k = i + 1; k < s->dim; k++)
            s->matrix[i * s->pad + k] = s->matrix[k * s->pad + i];
}

double scatter_shrink(scatter *s, int64_t rows) {
    double trace = 0.0, square = 0.0, dim = (double)s->dim, n = (double)rows;
    for (int64_t i = 0; i < s->dim; i++) {
        const double *row = s->matrix + i * s->pad;
        trace += row[i];
        square += row[i] * row[i];
        for (int64_t k = 0; k < i; k++)
            square += 2.0 * row[k] * row[k];
    }
    double mean = trace / dim;
    double spread = (square - dim * mean * mean) / dim;  /* of S around mean I */
    double noise = (s->fourth / n - square) / (dim * n); /* of S around its expectation */
    double shrinkage = noise > 0.0 && spread > 0.0 ? fmin(1.0, noise / spread) : 0.0;
    for (int64_t i = 0; i < s->dim; i++) {
        double *row = s->matrix + i * s->pad;
        for (int64_t k = 0; k <= i; k++)
            row[k] *= 1.0 - shrinkage;
        row[i] += shrinkage * mean;
    }
    return mean;
}

/* ---- Spectrum ----------------------------------------------------------------------------- */

ole_status scatter_decompose(scatter *s, ole_pool *pool, ole_error *error) {
    int64_t dim = s->dim;
    ole_arena arena = {0};
    double *work = NULL, *panels = NULL, *scratch = NULL;
    ole_ranked *rank = NULL;
    char *memory = NULL;
    for (int pass = 0; pass < 2; pass++) { /* counts, then places */
        work = ole_arena_take(&arena, s->pad, (size_t)s->pad * sizeof *work);
        panels = ole_arena_take(&arena, ole_eigen_panels(dim), sizeof *panels);
        scratch = ole_arena_take(&arena, ole_eigen_scratch(dim), sizeof *scratch);
        rank = ole_arena_take(&arena, dim, sizeof *rank);
        if (pass == 0 && !(memory = ole_arena_reserve(&arena))) return out_of_memory(dim, error);
    }
    bool good = ole_eigen(pool, s->matrix, dim, s->values, work, panels, scratch);
    for (int64_t i = 0; i < dim && good; i++)
        rank[i] = (ole_ranked){s->values[i], i};
    if (good) qsort(rank, (size_t)dim, sizeof *rank, ole_by_falling_value);
    for (int64_t i = 0; i < dim && good; i++)
        s->order[i] = rank[i].at;
    free(memory);
    if (good) return OLE_OK;
    return ole_fail(error, OLE_ERROR_NUMERIC, "the eigenvalues of the covariance do not converge");
}
