/*
 * src/features/spectra.c - singular values of all rows and of each class, and the loss they give.
 *
 * Few rows are gathered and decomposed by ole_singular_values().  Many are summed into a Gram
 * matrix [dim, dim] block by block, scaled by a power of two so that squares neither overflow nor
 * vanish: the memory does not grow with the rows.
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/sort.h"
#include "features/classes.h"
#include "linalg/eigen.h"
#include "ole/analyze.h"
#include "ole/linalg.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 2048, MOST_GATHERED = 1 << 24 };

/* ---- By a Gram matrix --------------------------------------------------------------------- */

typedef struct gram_job {
    ole_row_set set;
    int64_t first;
    double scale;    /* a power of two */
    double *rows;    /* [BLOCK, dim] */
    double *panels;  /* rows packed by columns; then of ole_eigen() */
    double *gram;    /* [pad, pad] */
    double *work;    /* the same */
    double *values;  /* [pad] */
    double *scratch; /* of ole_eigen() */
    double *largest; /* [tasks] */
} gram_job;

static void find_largest(void *context, int64_t task, int worker) {
    (void)worker;
    const gram_job *g = context;
    double largest = 0.0;
    for (int64_t i = task * BLOCK; i < (task + 1) * BLOCK && i < g->set.rows; i++)
        largest = fmax(largest, ole_row_largest(&g->set, i));
    g->largest[task] = largest;
}

static void scale_row(void *context, int64_t row, int worker) {
    (void)worker;
    const gram_job *g = context;
    double *to = g->rows + row * g->set.dim;
    ole_row_copy(&g->set, g->first + row, to);
    for (int64_t k = 0; k < g->set.dim; k++)
        to[k] *= g->scale;
}

static void sum_gram(gram_job *g, ole_pool *pool) {
    int64_t dim = g->set.dim, ld = ole_eigen_pad(dim);
    for (g->first = 0; g->first < g->set.rows; g->first += BLOCK) {
        int64_t rows = g->set.rows - g->first < BLOCK ? g->set.rows - g->first : BLOCK;
        ole_pool_run(pool, rows, scale_row, g);
        const ole_operand columns = {g->rows, OLE_F64, dim, rows, 1, dim, true};
        ole_panels packed = ole_panels_pack(pool, g->panels, &columns);
        const ole_product product = {.alpha = 1.0,
                                     .c = g->gram,
                                     .ldc = ld,
                                     .store = g->first > 0 ? OLE_STORE_ADD : OLE_STORE_SET,
                                     .lower = true};
        ole_panels_multiply(pool, &packed, &packed, &product);
    }
}

static void place(gram_job *g, ole_arena *arena) {
    int64_t dim = g->set.dim, pad = ole_eigen_pad(dim);
    int64_t packed = ole_panels_size(dim, BLOCK), eigen = ole_eigen_panels(dim);
    g->rows = ole_arena_take(arena, BLOCK * dim, sizeof *g->rows);
    g->panels = ole_arena_take(arena, packed > eigen ? packed : eigen, sizeof *g->panels);
    g->gram = ole_arena_take(arena, pad * pad, sizeof *g->gram);
    g->work = ole_arena_take(arena, pad * pad, sizeof *g->work);
    g->values = ole_arena_take(arena, pad, sizeof *g->values);
    g->scratch = ole_arena_take(arena, ole_eigen_scratch(dim), sizeof *g->scratch);
    g->largest = ole_arena_take(arena, g->set.rows / BLOCK + 1, sizeof *g->largest);
}

static ole_status sigma_by_gram(const ole_row_set *set, ole_pool *pool, double *sigma,
                                ole_error *error) {
    gram_job g = {.set = *set};
    ole_arena arena = {0};
    place(&g, &arena);
    void *memory = ole_arena_reserve(&arena);
    if (!memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory for the Gram matrix of %" PRId64 " dimensions", set->dim);
    place(&g, &arena);
    memset(memory, 0, arena.used);

    int64_t tasks = (set->rows + BLOCK - 1) / BLOCK;
    ole_pool_run(pool, tasks, find_largest, &g);
    double largest = 0.0;
    for (int64_t i = 0; i < tasks; i++)
        largest = fmax(largest, g.largest[i]);
    int exponent;
    frexp(largest, &exponent);
    if (exponent < -1000) exponent = -1000; /* the scale stays finite */
    g.scale = ldexp(1.0, -exponent);
    sum_gram(&g, pool);
    bool good = ole_eigen(pool, g.gram, set->dim, g.values, g.work, g.panels, g.scratch);
    for (int64_t k = 0; k < set->dim; k++)
        sigma[k] = ldexp(sqrt(fmax(g.values[k], 0.0)), exponent);
    qsort(sigma, (size_t)set->dim, sizeof *sigma, ole_by_falling_double);
    free(memory);
    if (good) return OLE_OK;
    return ole_fail(error, OLE_ERROR_NUMERIC, "the eigenvalues of the features do not converge");
}

/* ---- By gathering ------------------------------------------------------------------------- */

static ole_status sigma_by_gathering(const ole_row_set *set, int threads, double *sigma,
                                     ole_error *error) {
    size_t bytes = (size_t)set->dim * ole_dtype_size(set->dtype);
    char *rows = malloc((size_t)set->rows * bytes);
    if (!rows)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for %" PRId64 " rows", set->rows);
    for (int64_t i = 0; i < set->rows; i++)
        memcpy(rows + (size_t)i * bytes,
               (const char *)set->data + (size_t)ole_row_at(set, i) * bytes, bytes);
    const ole_matrix m = {.data = rows, .rows = set->rows, .cols = set->dim, .dtype = set->dtype};
    ole_status status = ole_singular_values(&m, threads, sigma, error);
    free(rows);
    return status;
}

/* ---- All together ------------------------------------------------------------------------- */

static ole_status spectrum_of(ole_row_spectrum *s, int64_t label, const ole_row_set *set,
                              ole_pool *pool, int threads, ole_error *error) {
    int64_t count = set->rows < set->dim ? set->rows : set->dim;
    *s = (ole_row_spectrum){.label = label,
                            .rows = set->rows,
                            .count = count,
                            .sigma = malloc((size_t)count * sizeof *s->sigma)};
    if (!s->sigma) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a spectrum");
    bool many = set->rows > set->dim && set->rows * set->dim > MOST_GATHERED;
    ole_status status = many ? sigma_by_gram(set, pool, s->sigma, error)
                             : sigma_by_gathering(set, threads, s->sigma, error);
    if (status != OLE_OK) return status;
    for (int64_t i = count - 1; i >= 0; i--)
        s->norm += s->sigma[i];
    s->effective_rank = ole_effective_rank(s->sigma, count);
    if (isfinite(s->norm)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "the nuclear norm of the features overflows; scale them down");
}

static ole_status measure(ole_spectra *s, const ole_embedding *e, const ole_classes *classes,
                          ole_pool *pool, int threads, ole_error *error) {
    s->of = calloc((size_t)classes->classes, sizeof *s->of);
    if (!s->of) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for spectra");
    ole_row_set set = ole_embedding_rows(e, classes->order, classes->rows);
    ole_status status = spectrum_of(&s->all, -1, &set, pool, threads, error);
    for (int64_t c = 0; c < classes->classes && status == OLE_OK; c++) {
        int64_t begin = classes->begin[c];
        set = ole_embedding_rows(e, classes->order + begin, classes->begin[c + 1] - begin);
        status = spectrum_of(&s->of[c], classes->label[c], &set, pool, threads, error);
        s->class_term += fmax(1.0, s->of[c].norm);
        s->classes = c + 1;
    }
    s->global_norm = s->all.norm;
    s->loss = (s->class_term - s->global_norm) / (double)classes->rows;
    return status;
}

ole_status ole_spectra_measure(ole_spectra *spectra, const ole_embedding *e, int threads,
                               ole_error *error) {
    if (!spectra)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_spectra_measure: spectra is NULL");
    ole_pool *pool;
    ole_classes classes;
    ole_status status = ole_classes_open(&classes, &pool, "ole_spectra_measure", e, threads, error);
    if (status != OLE_OK) return status;
    ole_spectra s = {0};
    status = measure(&s, e, &classes, pool, threads, error);
    ole_classes_close(&classes, pool);
    if (status == OLE_OK)
        *spectra = s;
    else
        ole_spectra_free(&s);
    return status;
}

void ole_spectra_free(ole_spectra *spectra) {
    if (!spectra) return;
    free(spectra->all.sigma);
    for (int64_t c = 0; c < spectra->classes; c++)
        free(spectra->of[c].sigma);
    free(spectra->of);
    *spectra = (ole_spectra){0};
}

/* ---- Effective rank ----------------------------------------------------------------------- */

double ole_effective_rank(const double *sigma, int64_t count) {
    double largest = 0.0, sum = 0.0, entropy = 0.0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, sigma[i]);
    if (!(largest > 0.0)) return 0.0;
    /* Relative to the largest, so that no sum overflows. */
    for (int64_t i = 0; i < count; i++)
        sum += sigma[i] / largest;
    for (int64_t i = 0; i < count; i++) {
        double share = sigma[i] / largest / sum;
        if (share > 0.0) entropy -= share * log(share);
    }
    return exp(entropy);
}
