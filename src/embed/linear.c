/*
 * src/embed/linear.c - softmax regression with OLÉ, by preconditioned L-BFGS on blocks of rows.
 *
 * Preconditioner.  At W = 0 the Hessian of the softmax loss is (I - 11ᵀ/C)/C ⊗ XᵀX/N.  Its inverse
 * with the decay added, from one eigendecomposition of XᵀX/N, takes the correlations of the
 * features out of the problem, so that tens of steps do.
 *
 * OLÉ.  Singular values do not change when all rows are rotated.  So with more classes than
 * dimensions OLÉ is evaluated on R x with W = U R, Uᵀ U = I, which has D instead of C columns.  It
 * takes up to OLE_ROWS rows at once, in an order drawn from the seed; more rows are cut into parts.
 *
 * A fit runs with the softmax loss in float32 (softmax_rows.h), and from where that is no longer
 * exact enough in float64. All sums are in an order that the shape alone decides.
 */
#include "embed/linear.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/sort.h"
#include "embed/minimise.h"
#include "embed/softmax_rows.h"
#include "linalg/eigen.h"
#include "ole/linalg.h"
#include "ole/loss.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLE_RANDOM_PARTS = 42, /* b = row */
    OLE_ROWS = 16384,
    MOST_STEPS = 200,
    MOST_ROWS = 4096,           /* of a block */
    BLOCK_SIZE = 1 << 21,       /* logits of a block */
    TASK_ROWS = 64,             /* of a softmax task */
    MOST_PRECONDITIONED = 2048, /* dimensions; an eigendecomposition of more takes too long */
};

/* Down to this share of the first gradient float32 is exact enough. */
static const double FAST_TOLERANCE = 1e-4;

struct ole_linear {
    ole_problem *p;
    int64_t dim, classes, n; /* n = C D + C variables */
    int64_t block;           /* rows */
    double *x;               /* [n]: W, then b */
    double *scaled, *shift;  /* [C, D], [C]: W and b for rows as they lie in memory */
    double *sum;             /* [C, D] */
    double *logits;          /* [block, C], then the residuals */
    double *loss;            /* [tasks of a block] */
    double *a_room, *b_room; /* panels */
    double *w_room;          /* panels of `scaled` */
    ole_panels w_panels;
    double *eigenvalues; /* [D] of XᵀX/N; NULL: not decomposed, then */
    double *vectors;     /* [D, pad]: eigenvectors as rows */
    int64_t pad;
    double variance; /* mean eigenvalue */
    double *turned;  /* [C, D] scratch of the preconditioner */
    void *memory;
    double reference;

    /* Of the current fit: */
    const ole_linear_fit *fit;
    int64_t steps; /* before the current minimisation */
    double total;  /* sum of the weights of its rows */
    int64_t rows;

    ole_softmax_rows *softmax; /* the loss in float32 */

    /* OLÉ, once a fit needs it: */
    int64_t width; /* min(C, D) */
    int64_t parts, part_rows;
    int64_t *order;      /* [rows]: those with a class, shuffled */
    float *y, *dy;       /* [rows, width] */
    float *part, *dpart; /* [part_rows, width] */
    int32_t *labels;     /* [part_rows] */
    double *rotation;    /* [C, D]: U; [D, D]: R times the scale */
    double *ole_sum;     /* [D, D] */
    ole_loss_plan *plan;
};

/* ---- Memory ------------------------------------------------------------------------------- */

static int64_t max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void lay_out(ole_linear *l, ole_arena *arena) {
    int64_t c = l->classes, d = l->dim, b = l->block;
    l->x = ole_arena_take(arena, l->n, sizeof(double));
    l->scaled = ole_arena_take(arena, c * d, sizeof(double));
    l->shift = ole_arena_take(arena, c, sizeof(double));
    l->sum = ole_arena_take(arena, c * d, sizeof(double));
    l->turned = ole_arena_take(arena, c * d, sizeof(double));
    l->logits = ole_arena_take(arena, b * max(c, d), sizeof(double));
    l->loss = ole_arena_take(arena, b / TASK_ROWS + 1, sizeof(double));
    int64_t a_size = max(ole_panels_size(b, d), ole_panels_size(c, max(b, d)));
    a_size = max(a_size, ole_panels_size(d, b));
    int64_t b_size = max(ole_panels_size(d, b), ole_panels_size(d, d));
    l->a_room = ole_arena_take(arena, a_size, sizeof(double));
    l->b_room = ole_arena_take(arena, b_size, sizeof(double));
    l->w_room = ole_arena_take(arena, ole_panels_size(max(c, d), d), sizeof(double));
    if (d <= MOST_PRECONDITIONED) {
        l->eigenvalues = ole_arena_take(arena, d, sizeof(double));
        l->vectors = ole_arena_take(arena, l->pad * l->pad, sizeof(double));
    }
}

static ole_status out_of_memory(double bytes, ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a fit: it needs %.3g GiB",
                    bytes / 1073741824.0);
}

/* XᵀX/N of the centred, scaled rows, over all that have a class. */
static ole_status decompose(ole_linear *l, ole_error *error) {
    ole_problem *p = l->p;
    int64_t d = l->dim, pad = l->pad;
    double *gram = l->vectors;
    ole_arena arena = {0};
    double *work = NULL, *panels = NULL, *scratch = NULL;
    for (int pass = 0; pass < 2; pass++) {
        work = ole_arena_take(&arena, pad * pad, sizeof(double));
        panels = ole_arena_take(&arena, ole_eigen_panels(d), sizeof(double));
        scratch = ole_arena_take(&arena, ole_eigen_scratch(d), sizeof(double));
        if (pass == 0 && !ole_arena_reserve(&arena))
            return out_of_memory((double)arena.used, error);
    }
    char *base = arena.base;
    memset(gram, 0, (size_t)(pad * pad) * sizeof *gram);
    for (int64_t first = 0; first < p->rows; first += l->block) {
        int64_t rows = p->rows - first < l->block ? p->rows - first : l->block;
        ole_operand items = ole_problem_rows(p, first, rows, true);
        ole_panels a = ole_panels_pack(p->pool, l->a_room, &items);
        const ole_product product = {1.0, gram, pad, OLE_STORE_ADD, true};
        ole_panels_multiply(p->pool, &a, &a, &product);
    }
    double factor = p->scale * p->scale / (double)p->rows, trace = 0.0;
    for (int64_t i = 0; i < d; i++)
        for (int64_t k = 0; k <= i; k++)
            gram[i * pad + k] =
                factor * (gram[i * pad + k] - (double)p->rows * p->mean[i] * p->mean[k]);
    for (int64_t i = 0; i < d; i++)
        trace += gram[i * pad + i];
    l->variance = trace > 0.0 ? trace / (double)d : 1.0;
    bool good = ole_eigen(p->pool, gram, d, l->eigenvalues, work, panels, scratch);
    free(base);
    if (!good || !isfinite(trace)) l->eigenvalues = NULL; /* fits are slower without */
    return OLE_OK;
}

ole_status ole_linear_create(ole_linear **result, ole_problem *p, ole_error *error) {
    *result = NULL;
    ole_linear *l = calloc(1, sizeof *l);
    if (!l) return out_of_memory(sizeof *l, error);
    l->p = p;
    l->dim = p->dim;
    l->classes = p->classes;
    l->n = l->classes * l->dim + l->classes;
    l->width = l->classes < l->dim ? l->classes : l->dim;
    l->pad = ole_eigen_pad(l->dim);
    l->variance = 1.0 / (double)l->dim;
    l->block = BLOCK_SIZE / max(l->classes, l->dim);
    l->block = l->block < TASK_ROWS ? TASK_ROWS : l->block > MOST_ROWS ? MOST_ROWS : l->block;
    if (l->block > p->rows) l->block = p->rows;
    ole_arena arena = {0};
    lay_out(l, &arena);
    l->memory = ole_arena_reserve(&arena);
    if (!l->memory) {
        free(l);
        return out_of_memory((double)arena.used, error);
    }
    lay_out(l, &arena);
    memset(l->x, 0, (size_t)l->n * sizeof *l->x);
    ole_status status = l->eigenvalues ? decompose(l, error) : OLE_OK;
    if (status == OLE_OK) status = ole_softmax_rows_create(&l->softmax, p, error);
    if (status == OLE_OK)
        *result = l;
    else
        ole_linear_free(l);
    return status;
}

void ole_linear_free(ole_linear *l) {
    if (!l) return;
    ole_loss_plan_destroy(l->plan);
    ole_softmax_rows_free(l->softmax);
    free(l->order);
    free(l->y);
    free(l->dy);
    free(l->part);
    free(l->dpart);
    free(l->labels);
    free(l->rotation);
    free(l->ole_sum);
    free(l->memory);
    free(l);
}

double *ole_linear_weights(ole_linear *l) {
    return l->x;
}

int64_t ole_linear_variables(const ole_linear *l) {
    return l->n;
}

/* ---- Logits ------------------------------------------------------------------------------- */

/* W (x - mean) scale + b = (scale W) x + (b - scale W mean). */
static void unscale(const ole_linear *l, const double *x, double *map, double *bias) {
    const ole_problem *p = l->p;
    for (int64_t c = 0; c < l->classes; c++) {
        const double *w = x + c * l->dim;
        double shift = 0.0;
        for (int64_t d = 0; d < l->dim; d++) {
            map[c * l->dim + d] = p->scale * w[d];
            shift += map[c * l->dim + d] * p->mean[d];
        }
        bias[c] = x[l->classes * l->dim + c] - shift;
    }
}

void ole_linear_unscaled(const ole_linear *l, double *map, double *bias) {
    unscale(l, l->x, map, bias);
}

/* Packs the weights for what follows. */
static void set_weights(ole_linear *l, const double *x) {
    unscale(l, x, l->scaled, l->shift);
    const ole_operand w = {l->scaled, OLE_F64, l->classes, l->dim, l->dim, 1, false};
    l->w_panels = ole_panels_pack(l->p->pool, l->w_room, &w);
}

/* out[rows, items] = X Wᵀ of the packed weights, without the shift. */
static void multiply_rows(ole_linear *l, int64_t first, int64_t rows, const ole_panels *weights,
                          double *out) {
    ole_operand items = ole_problem_rows(l->p, first, rows, false);
    ole_panels a = ole_panels_pack(l->p->pool, l->a_room, &items);
    const ole_product product = {1.0, out, weights->items, OLE_STORE_SET, false};
    ole_panels_multiply(l->p->pool, &a, weights, &product);
}

int64_t ole_linear_right(ole_linear *l) {
    return ole_softmax_rows_right(l->softmax, l->x);
}

void ole_linear_score(ole_linear *l, const int64_t *rows, int64_t count, float *logits) {
    set_weights(l, l->x);
    for (int64_t first = 0, done = 0; done < count; first += l->block) {
        int64_t block = l->p->rows - first < l->block ? l->p->rows - first : l->block;
        if (rows[done] >= first + block) continue;
        multiply_rows(l, first, block, &l->w_panels, l->logits);
        for (; done < count && rows[done] < first + block; done++) {
            const double *z = l->logits + (rows[done] - first) * l->classes;
            for (int64_t c = 0; c < l->classes; c++)
                logits[done * l->classes + c] = (float)(z[c] + l->shift[c]);
        }
    }
}

/* ---- Softmax ------------------------------------------------------------------------------ */

typedef struct softmax_job {
    ole_linear *l;
    int64_t first, rows;
} softmax_job;

/* Turns logits into the gradient of the loss at them; rows that do not count get zeros. */
static void softmax_task(void *context, int64_t task, int worker) {
    (void)worker;
    const softmax_job *job = context;
    ole_linear *l = job->l;
    const ole_problem *p = l->p;
    int64_t end = (task + 1) * TASK_ROWS < job->rows ? (task + 1) * TASK_ROWS : job->rows;
    double loss = 0.0;
    for (int64_t i = task * TASK_ROWS; i < end; i++) {
        double *z = l->logits + i * l->classes, largest = -INFINITY, sum = 0.0;
        if (!ole_problem_has(p, job->first + i, l->fit->fold)) {
            memset(z, 0, (size_t)l->classes * sizeof *z);
            continue;
        }
        int32_t right = p->label[job->first + i];
        double weight = p->weight[right] / l->total;
        for (int64_t c = 0; c < l->classes; c++) {
            z[c] += l->shift[c];
            largest = z[c] > largest ? z[c] : largest;
        }
        double margin = z[right] - largest;
        for (int64_t c = 0; c < l->classes; c++) {
            z[c] = exp(z[c] - largest);
            sum += z[c];
        }
        loss += weight * (log(sum) - margin);
        for (int64_t c = 0; c < l->classes; c++)
            z[c] *= weight / sum;
        z[right] -= weight;
    }
    l->loss[task] = loss;
}

/* ---- OLÉ ---------------------------------------------------------------------------------- */

static bool shuffle_rows(ole_linear *l) {
    const ole_problem *p = l->p;
    ole_keyed *keys = malloc((size_t)p->used * sizeof *keys);
    l->order = malloc((size_t)p->used * sizeof *l->order);
    int64_t count = 0;
    for (int64_t i = 0; i < p->rows && keys; i++) {
        uint32_t word[4];
        if (p->label[i] < 0) continue;
        ole_philox(p->options->seed, OLE_RANDOM_PARTS, 0, (uint64_t)i, word);
        keys[count++] = (ole_keyed){word[0], i};
    }
    bool good = keys && l->order;
    if (good) qsort(keys, (size_t)count, sizeof *keys, ole_by_key);
    for (int64_t i = 0; i < count && good; i++)
        l->order[i] = keys[i].row;
    free(keys);
    return good;
}

static ole_status prepare_ole(ole_linear *l, ole_error *error) {
    if (l->plan) return OLE_OK;
    const ole_problem *p = l->p;
    l->parts = (p->used + OLE_ROWS - 1) / OLE_ROWS;
    l->part_rows = (p->used + l->parts - 1) / l->parts;
    size_t all = (size_t)(p->rows * l->width), part = (size_t)(l->part_rows * l->width);
    size_t square = (size_t)(l->dim * l->dim);
    l->y = malloc(all * sizeof *l->y);
    l->dy = malloc(all * sizeof *l->dy);
    l->part = malloc(part * sizeof *l->part);
    l->dpart = malloc(part * sizeof *l->dpart);
    l->labels = malloc((size_t)l->part_rows * sizeof *l->labels);
    if (l->width < l->classes) {
        l->rotation = malloc(((size_t)(l->classes * l->dim) + square) * sizeof *l->rotation);
        l->ole_sum = malloc(square * sizeof *l->ole_sum);
    }
    if (!l->y || !l->dy || !l->part || !l->dpart || !l->labels || !shuffle_rows(l) ||
        (l->width < l->classes && (!l->rotation || !l->ole_sum)))
        return out_of_memory(2.0 * (double)all * sizeof *l->y, error);
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.threads = p->threads;
    return ole_loss_plan_create(&l->plan, l->part_rows, l->width, OLE_F32, &options, error);
}

/* W = U R: `rotation` gets U [C, D], then R times the scale [D, D]. */
static ole_status rotate_weights(ole_linear *l, const double *x, ole_panels *packed,
                                 ole_error *error) {
    const ole_problem *p = l->p;
    int64_t c = l->classes, d = l->dim;
    double *u = l->rotation, *r = u + c * d;
    const ole_matrix w = {.data = (double *)x, .rows = c, .cols = d, .dtype = OLE_F64};
    const ole_matrix polar = {.data = u, .rows = c, .cols = d, .dtype = OLE_F64};
    ole_status status = ole_polar(&w, 0.0, 1e-12, p->threads, &polar, NULL, error);
    if (status != OLE_OK) return status;
    const ole_operand left = {u, OLE_F64, d, c, 1, d, true}, right = {x, OLE_F64, d, c, 1, d, true};
    const ole_product product = {p->scale, r, d, OLE_STORE_SET, false};
    int64_t size = ole_panels_size(d, c);
    double *panels = ole_arena_allocate(2 * (size_t)size * sizeof *panels);
    if (!panels) return out_of_memory(2.0 * (double)size * sizeof *panels, error);
    ole_multiply(p->pool, &left, panels, &right, panels + size, &product);
    free(panels);
    const ole_operand items = {r, OLE_F64, d, d, d, 1, false};
    *packed = ole_panels_pack(p->pool, l->w_room, &items);
    return OLE_OK;
}

/* y[rows, width]: the rows that OLÉ sees. */
static ole_status map_rows(ole_linear *l, const double *x, ole_error *error) {
    const ole_problem *p = l->p;
    ole_panels weights = l->w_panels;
    const double *map = l->scaled;
    if (l->rotation) {
        ole_status status = rotate_weights(l, x, &weights, error);
        if (status != OLE_OK) return status;
        map = l->rotation + l->classes * l->dim;
    }
    double *shift = l->turned; /* of the centred rows */
    for (int64_t k = 0; k < l->width; k++) {
        shift[k] = 0.0;
        for (int64_t d = 0; d < l->dim; d++)
            shift[k] -= map[k * l->dim + d] * p->mean[d];
    }
    for (int64_t first = 0; first < p->rows; first += l->block) {
        int64_t rows = p->rows - first < l->block ? p->rows - first : l->block;
        multiply_rows(l, first, rows, &weights, l->logits);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < l->width; k++)
                l->y[(first + i) * l->width + k] = (float)(l->logits[i * l->width + k] + shift[k]);
    }
    return OLE_OK;
}

/* OLÉ of the rows and its gradient at y, part by part. */
static ole_status evaluate_ole(ole_linear *l, const double *x, double *value, ole_error *error) {
    const ole_problem *p = l->p;
    ole_status status = map_rows(l, x, error);
    memset(l->dy, 0, (size_t)(p->rows * l->width) * sizeof *l->dy);
    *value = 0.0;
    for (int64_t part = 0; part < l->parts && status == OLE_OK; part++) {
        int64_t first = part * l->part_rows, count = 0, used = 0;
        for (; count < l->part_rows && first + count < p->used; count++) {
            int64_t row = l->order[first + count];
            bool has = ole_problem_has(p, row, l->fit->fold);
            l->labels[count] = has ? p->label[row] : -1;
            used += has;
            memcpy(l->part + count * l->width, l->y + row * l->width,
                   (size_t)l->width * sizeof *l->part);
        }
        if (used == 0) continue;
        double share = (double)used / (double)l->rows;
        const ole_loss_batch batch = {count, l->part, 0, l->labels, OLE_I32};
        const ole_loss_gradient gradient = {.data = l->dpart, .upstream = share};
        ole_loss_result result = {0};
        status = ole_loss_eval(l->plan, &batch, &gradient, &result, error);
        *value += share * result.value;
        for (int64_t i = 0; i < count && status == OLE_OK; i++)
            memcpy(l->dy + l->order[first + i] * l->width, l->dpart + i * l->width,
                   (size_t)l->width * sizeof *l->dy);
    }
    if (status != OLE_ERROR_DATA && status != OLE_ERROR_NUMERIC) return status;
    *value = NAN; /* too long a step */
    return OLE_OK;
}

/* ---- Value and gradient ------------------------------------------------------------------- */

/* sum[items, D] += residualsᵀ X of a block; residuals are [rows, items]. */
static void add_product(ole_linear *l, const void *residuals, ole_dtype dtype, int64_t items,
                        int64_t first, int64_t rows, double *sum) {
    const ole_operand left = {residuals, dtype, items, rows, 1, items, true};
    ole_operand right = ole_problem_rows(l->p, first, rows, true);
    const ole_product product = {1.0, sum, l->dim, OLE_STORE_ADD, false};
    ole_multiply(l->p->pool, &left, l->a_room, &right, l->b_room, &product);
}

/* gradient[items, D] = scale (sum - columns meanᵀ): X centred and scaled afterwards. */
static void centre(const ole_problem *p, const double *columns, int64_t items, double *sum) {
    for (int64_t k = 0; k < items; k++)
        for (int64_t d = 0; d < p->dim; d++)
            sum[k * p->dim + d] = p->scale * (sum[k * p->dim + d] - columns[k] * p->mean[d]);
}

/* Adds U (dyᵀ X) of the rotated OLÉ to the gradient. */
static void add_rotated(ole_linear *l, double *gradient) {
    const ole_problem *p = l->p;
    int64_t c = l->classes, d = l->dim;
    double *columns = l->turned;
    memset(l->ole_sum, 0, (size_t)(d * d) * sizeof *l->ole_sum);
    memset(columns, 0, (size_t)d * sizeof *columns);
    for (int64_t first = 0; first < p->rows; first += l->block) {
        int64_t rows = p->rows - first < l->block ? p->rows - first : l->block;
        const float *dy = l->dy + first * d;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < d; k++)
                columns[k] += (double)dy[i * d + k];
        add_product(l, dy, OLE_F32, d, first, rows, l->ole_sum);
    }
    centre(p, columns, d, l->ole_sum);
    for (int64_t first = 0; first < c; first += l->block) { /* a block of classes at a time */
        int64_t rows = c - first < l->block ? c - first : l->block;
        const ole_operand left = {l->rotation + first * d, OLE_F64, rows, d, d, 1, false};
        const ole_operand right = {l->ole_sum, OLE_F64, d, d, 1, d, true};
        const ole_product product = {l->fit->lambda, gradient + first * d, d, OLE_STORE_ADD, false};
        ole_multiply(p->pool, &left, l->a_room, &right, l->b_room, &product);
    }
}

static ole_status evaluate(void *context, const double *x, double *value, double *gradient,
                           ole_error *error) {
    ole_linear *l = context;
    ole_problem *p = l->p;
    int64_t c = l->classes, cd = c * l->dim;
    double ole = 0.0, *columns = gradient + cd;
    bool with_ole = l->fit->lambda > 0.0;
    set_weights(l, x);
    ole_status status = with_ole ? evaluate_ole(l, x, &ole, error) : OLE_OK;
    if (status != OLE_OK) return status;
    if (with_ole && l->rotation) set_weights(l, x); /* R was packed in their place */
    *value = l->fit->lambda * ole;
    memset(l->sum, 0, (size_t)cd * sizeof *l->sum);
    memset(columns, 0, (size_t)c * sizeof *columns);
    double *bias = l->turned;
    memset(bias, 0, (size_t)c * sizeof *bias);
    for (int64_t first = 0; first < p->rows; first += l->block) {
        int64_t rows = p->rows - first < l->block ? p->rows - first : l->block;
        int64_t tasks = (rows + TASK_ROWS - 1) / TASK_ROWS;
        multiply_rows(l, first, rows, &l->w_panels, l->logits);
        softmax_job job = {l, first, rows};
        ole_pool_run(p->pool, tasks, softmax_task, &job);
        for (int64_t t = 0; t < tasks; t++)
            *value += l->loss[t];
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < c; k++)
                bias[k] += l->logits[i * c + k];
        for (int64_t i = 0; i < rows && with_ole && !l->rotation; i++)
            for (int64_t k = 0; k < c; k++) {
                double dy = l->fit->lambda * (double)l->dy[(first + i) * c + k];
                l->logits[i * c + k] += dy;
                columns[k] += dy; /* of W x, which the bias is not part of */
            }
        add_product(l, l->logits, OLE_F64, c, first, rows, l->sum);
    }
    for (int64_t k = 0; k < c; k++)
        columns[k] += bias[k];
    centre(p, columns, c, l->sum);
    memcpy(columns, bias, (size_t)c * sizeof *columns);
    double square = 0.0;
    for (int64_t i = 0; i < cd; i++) {
        square += x[i] * x[i];
        gradient[i] = l->sum[i] + l->fit->decay * x[i];
    }
    *value += 0.5 * l->fit->decay * square;
    if (with_ole && l->rotation) add_rotated(l, gradient);
    return OLE_OK;
}

/* The same to six digits, with the softmax loss in float32. */
static ole_status evaluate_fast(void *context, const double *x, double *value, double *gradient,
                                ole_error *error) {
    ole_linear *l = context;
    int64_t cd = l->classes * l->dim;
    double ole = 0.0, square = 0.0;
    bool with_ole = l->fit->lambda > 0.0;
    if (with_ole) {
        set_weights(l, x);
        ole_status status = evaluate_ole(l, x, &ole, error);
        if (status != OLE_OK) return status;
    }
    ole_softmax_call call = {.x = x,
                             .fold = l->fit->fold,
                             .total = l->total,
                             .other = with_ole && !l->rotation ? l->dy : NULL,
                             .factor = l->fit->lambda,
                             .gradient = gradient};
    ole_softmax_rows_run(l->softmax, &call);
    for (int64_t i = 0; i < cd; i++) {
        square += x[i] * x[i];
        gradient[i] += l->fit->decay * x[i];
    }
    *value = call.value + l->fit->lambda * ole + 0.5 * l->fit->decay * square;
    if (with_ole && l->rotation) add_rotated(l, gradient);
    return OLE_OK;
}

/* ---- Fitting ------------------------------------------------------------------------------ */

/* out[C, D] = in Q (to the eigenvectors' axes) or in Qᵀ (back). */
static void turn(ole_linear *l, const double *in, bool back, double *out) {
    int64_t d = l->dim, pad = l->pad;
    ole_operand right = {l->vectors, OLE_F64, d, d, pad, 1, false};
    if (back) right = ole_operand_transposed(right);
    ole_panels q = ole_panels_pack(l->p->pool, l->b_room, &right);
    for (int64_t first = 0; first < l->classes; first += l->block) {
        int64_t rows = l->classes - first < l->block ? l->classes - first : l->block;
        const ole_operand left = {in + first * d, OLE_F64, rows, d, d, 1, false};
        ole_panels a = ole_panels_pack(l->p->pool, l->a_room, &left);
        const ole_product product = {1.0, out + first * d, d, OLE_STORE_SET, false};
        ole_panels_multiply(l->p->pool, &a, &q, &product);
    }
}

static void precondition(void *context, const double *gradient, double *direction) {
    ole_linear *l = context;
    int64_t d = l->dim, cd = l->classes * d;
    double curvature = 1.0 / (double)l->classes;
    double floor = l->fit->decay + 1e-9 * curvature * l->variance; /* without rows, without decay */
    if (l->eigenvalues) {
        turn(l, gradient, false, l->turned);
        for (int64_t i = 0; i < cd; i++)
            l->turned[i] /= curvature * fmax(l->eigenvalues[i % d], 0.0) + floor;
        turn(l, l->turned, true, direction);
    } else {
        for (int64_t i = 0; i < cd; i++)
            direction[i] = gradient[i] / (curvature * l->variance + floor);
    }
    for (int64_t i = cd; i < l->n; i++)
        direction[i] = gradient[i] / curvature;
}

static bool report_step(void *context, int64_t step, double value) {
    (void)value;
    ole_linear *l = context;
    int64_t epochs = l->p->options->epochs;
    return ole_problem_report(l->p, l->fit->part, l->steps + step, epochs ? epochs : MOST_STEPS);
}

static void count_fit(ole_linear *l, const ole_linear_fit *fit) {
    l->fit = fit;
    l->steps = 0;
    l->total = 0.0;
    l->rows = 0;
    for (int64_t i = 0; i < l->p->rows; i++)
        if (ole_problem_has(l->p, i, fit->fold)) {
            l->total += l->p->weight[l->p->label[i]];
            l->rows++;
        }
}

ole_status ole_linear_evaluate(ole_linear *l, const ole_linear_fit *fit, bool fast, const double *x,
                               double *value, double *gradient, ole_error *error) {
    count_fit(l, fit);
    ole_status status = fit->lambda > 0.0 ? prepare_ole(l, error) : OLE_OK;
    if (status != OLE_OK) return status;
    return (fast ? evaluate_fast : evaluate)(l, x, value, gradient, error);
}

ole_status ole_linear_run(ole_linear *l, ole_linear_fit *fit, ole_error *error) {
    const ole_embed_options *o = l->p->options;
    bool cold = true; /* convergence is measured against the gradient at 0 */
    for (int64_t i = 0; i < l->n && cold; i++)
        cold = l->x[i] == 0.0;
    count_fit(l, fit);
    if (!(l->total > 0.0))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "class_weights: no row with a weight is left to fit to");
    ole_minimiser m = {.n = l->n,
                       .context = l,
                       .evaluate = evaluate_fast,
                       .precondition = precondition,
                       .report = report_step,
                       .most = o->epochs ? o->epochs : MOST_STEPS,
                       .tolerance = fmax(o->tolerance, FAST_TOLERANCE),
                       .reference = cold ? 0.0 : l->reference};
    ole_minimum minimum = {0};
    ole_status status = fit->lambda > 0.0 ? prepare_ole(l, error) : OLE_OK;
    if (status == OLE_OK) status = ole_minimise(&m, l->x, &minimum, error);
    fit->steps = minimum.steps;
    bool done = minimum.converged && o->tolerance >= FAST_TOLERANCE;
    if (status == OLE_OK && !done && !minimum.stopped && minimum.steps < m.most) {
        m.evaluate = evaluate; /* on from there, as far as float64 goes */
        l->steps = minimum.steps;
        m.most -= minimum.steps;
        m.tolerance = o->tolerance;
        status = ole_minimise(&m, l->x, &minimum, error);
        fit->steps += minimum.steps;
    }
    l->reference = m.reference;
    fit->objective = minimum.value;
    return status;
}
