/*
 * src/embed/transform.c - OLE_EMBED_TRANSFORM: the linear transform of Qiu and Sapiro (Learning
 * Transformations for Clustering and Classification, JMLR 16, 2015),
 *
 *     min over T of  sum_c ‖T Y_c‖_* - ‖T Y‖_*   with ‖T‖_2 = 1.
 *
 * A concave-convex procedure: the concave part is replaced by its tangent at T, and one subgradient
 * step is taken on what is convex then; T is scaled back to ‖T‖_2 = 1.  A step that does not lower
 * the objective is halved, so the objective falls from step to step.  Value and subgradient are
 * OLÉ's (ole/loss.h, Δ = 0) on the rows T y.  It starts from the identity.
 *
 * The objective has minima of no use: a T that keeps only directions in which the rows hardly
 * differ brings it near 0.  The first steps help, later ones lead there.  So unless the number of
 * steps is given, a fifth of the rows is held out, and the steps are as many as give the lowest
 * error of the nearest neighbour, by cosine, on them.
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/sort.h"
#include "embed/embed.h"
#include "ole/classify.h"
#include "ole/linalg.h"
#include "ole/loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OLE_RANDOM_TRANSFORM = 44, /* b = row */
    MOST_ROWS = 16384,         /* of more, a sample is used */
    MOST_DIM = 4096,
    CHOOSING_ROWS = 4096, /* the same while the number of steps is chosen */
    STEPS = 50,
    PATIENCE = 5, /* steps without a lower error on held-out rows */
};

typedef struct descent {
    ole_problem *p;
    int64_t rows, dim;
    int64_t held_out;  /* rows behind the others in y, z and labels */
    float *y, *z, *dz; /* [rows, D] */
    int32_t *labels;   /* [rows] */
    int64_t *wide;     /* [rows] the same */
    double *t, *next;  /* [D, D] */
    double *g, *g_next;
    double *a_room, *b_room;
    ole_loss_plan *plan;
    void *memory;
} descent;

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a fit");
}

static void lay_out(descent *s, ole_arena *arena) {
    int64_t n = s->rows + s->held_out, d = s->dim, square = d * d;
    s->y = ole_arena_take(arena, n * d, sizeof(float));
    s->z = ole_arena_take(arena, n * d, sizeof(float));
    s->dz = ole_arena_take(arena, n * d, sizeof(float));
    s->labels = ole_arena_take(arena, n, sizeof(int32_t));
    s->wide = ole_arena_take(arena, n, sizeof(int64_t));
    double **matrices[] = {&s->t, &s->next, &s->g, &s->g_next};
    for (int i = 0; i < 4; i++)
        *matrices[i] = ole_arena_take(arena, square, sizeof(double));
    int64_t block = n < 1024 ? n : 1024, longest = block > d ? block : d;
    int64_t size = ole_panels_size(longest, longest);
    s->a_room = ole_arena_take(arena, size, sizeof(double));
    s->b_room = ole_arena_take(arena, size, sizeof(double));
}

/* ---- Rows --------------------------------------------------------------------------------- */

/* The rows that are held out, or the others, in the order of their keys; returns how many. */
static int64_t list_rows(const ole_problem *p, bool held_out, bool all, ole_keyed *keys) {
    int64_t count = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        uint32_t word[4];
        if (p->label[i] < 0 || (!all && (p->fold[i] == 0) != held_out)) continue;
        ole_philox(p->options->seed, OLE_RANDOM_TRANSFORM, 0, (uint64_t)i, word);
        keys[count++] = (ole_keyed){word[0], i};
    }
    qsort(keys, (size_t)count, sizeof *keys, ole_by_key);
    return count;
}

static void copy_rows(descent *s, const ole_keyed *keys, int64_t first, int64_t count) {
    const ole_problem *p = s->p;
    for (int64_t i = 0; i < count; i++) {
        ole_problem_copy_row(p, keys[i].row, s->y + (first + i) * s->dim);
        s->wide[first + i] = s->labels[first + i] = p->label[keys[i].row];
    }
}

/* Scales the rows to a mean square length of 1. */
static void scale_rows(descent *s) {
    double square = 0.0;
    for (int64_t i = 0; i < s->rows * s->dim; i++)
        square += (double)s->y[i] * (double)s->y[i];
    double scale = square > 0.0 ? sqrt((double)s->rows / square) : 1.0;
    for (int64_t i = 0; i < (s->rows + s->held_out) * s->dim; i++)
        s->y[i] = (float)(scale * (double)s->y[i]);
}

/* ---- Objective ---------------------------------------------------------------------------- */

/* The objective at T, and its subgradient (dZ)ᵀ Y; both divided by the number of rows. */
static ole_status evaluate(descent *s, const double *t, double *value, double *gradient,
                           ole_error *error) {
    ole_pool *pool = s->p->pool;
    int64_t d = s->dim, all = s->rows + s->held_out, block = all < 1024 ? all : 1024;
    const ole_operand map = {t, OLE_F64, d, d, d, 1, false};
    double *z = malloc((size_t)(block * d) * sizeof *z);
    if (!z) return out_of_memory(error);
    ole_panels packed = ole_panels_pack(pool, s->b_room, &map);
    for (int64_t first = 0; first < all; first += block) {
        int64_t rows = all - first < block ? all - first : block;
        const ole_operand y = {s->y + first * d, OLE_F32, rows, d, d, 1, false};
        ole_panels a = ole_panels_pack(pool, s->a_room, &y);
        const ole_product product = {1.0, z, d, OLE_STORE_SET, false};
        ole_panels_multiply(pool, &a, &packed, &product);
        for (int64_t i = 0; i < rows * d; i++)
            s->z[first * d + i] = (float)z[i];
    }
    free(z);
    const ole_loss_batch batch = {s->rows, s->z, 0, s->labels, OLE_I32};
    const ole_loss_gradient to = {.data = s->dz, .upstream = 1.0};
    ole_loss_result result = {0};
    ole_status status = ole_loss_eval(s->plan, &batch, &to, &result, error);
    *value = result.value;
    memset(gradient, 0, (size_t)(d * d) * sizeof *gradient);
    for (int64_t first = 0; first < s->rows && status == OLE_OK; first += block) {
        int64_t rows = s->rows - first < block ? s->rows - first : block;
        const ole_operand dz = {s->dz + first * d, OLE_F32, d, rows, 1, d, true};
        const ole_operand y = {s->y + first * d, OLE_F32, d, rows, 1, d, true};
        const ole_product product = {1.0, gradient, d, OLE_STORE_ADD, false};
        ole_multiply(pool, &dz, s->a_room, &y, s->b_room, &product);
    }
    return status;
}

/* Scales T to ‖T‖_2 = 1. */
static ole_status normalise(descent *s, double *t, ole_error *error) {
    double *sigma = malloc((size_t)s->dim * sizeof *sigma);
    if (!sigma) return out_of_memory(error);
    const ole_matrix matrix = {t, s->dim, s->dim, 0, OLE_F64};
    ole_status status = ole_singular_values(&matrix, s->p->threads, sigma, error);
    for (int64_t i = 0; i < s->dim * s->dim && status == OLE_OK && sigma[0] > 0.0; i++)
        t[i] /= sigma[0];
    free(sigma);
    return status;
}

static double length_of(const double *a, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * a[i];
    return sqrt(sum);
}

static void swap(double **a, double **b) {
    double *c = *a;
    *a = *b;
    *b = c;
}

/* The error of the nearest neighbour of the held-out rows, as T maps them, in percent. */
static ole_status measure(const descent *s, double *percent, ole_error *error) {
    const ole_embedding train = {s->rows, s->dim, OLE_F32, s->z, s->wide};
    const ole_embedding test = {s->held_out, s->dim, OLE_F32, s->z + s->rows * s->dim,
                                s->wide + s->rows};
    ole_classify_options options;
    ole_classify_options_init(&options);
    options.sample = 0;
    options.k = 1;
    options.threads = s->p->threads;
    ole_feature_errors errors;
    ole_status status = ole_classify_features(&errors, &train, &test, &options, error);
    if (status == OLE_OK) *percent = errors.knn1;
    return status;
}

/* What a descent came to. */
typedef struct course {
    double objective, error; /* the lowest error of held-out rows... */
    int64_t steps, best;     /* ...was found after `best` of the steps */
} course;

/* After a step: false ends the descent. */
static ole_status look(descent *s, course *c, bool *go_on, ole_error *error) {
    double percent;
    *go_on = true;
    if (s->held_out == 0) return OLE_OK;
    ole_status status = measure(s, &percent, error);
    if (status == OLE_OK && (c->steps == 0 || percent < c->error)) {
        c->error = percent;
        c->best = c->steps;
    }
    *go_on = c->steps - c->best < PATIENCE;
    return status;
}

static ole_status descend(descent *s, int64_t most, const char *part, course *c, ole_error *error) {
    ole_problem *p = s->p;
    int64_t square = s->dim * s->dim;
    double value = 0.0, next = 0.0, step = 0.1; /* the step's length as a share of T's */
    bool go_on = true;
    *c = (course){0};
    memset(s->t, 0, (size_t)square * sizeof *s->t);
    for (int64_t i = 0; i < s->dim; i++)
        s->t[i * s->dim + i] = 1.0;
    ole_status status = evaluate(s, s->t, &value, s->g, error);
    if (status == OLE_OK) status = look(s, c, &go_on, error);
    while (go_on && c->steps < most && status == OLE_OK && step > 1e-6) {
        double slope = length_of(s->g, square);
        if (!(slope > 0.0) || value <= 0.0) break; /* all classes are orthogonal already */
        double rate = step * length_of(s->t, square) / slope;
        for (int64_t i = 0; i < square; i++)
            s->next[i] = s->t[i] - rate * s->g[i];
        status = normalise(s, s->next, error);
        if (status == OLE_OK) status = evaluate(s, s->next, &next, s->g_next, error);
        if (status != OLE_OK) break;
        if (!(next < value)) {
            step *= 0.5;
            continue;
        }
        swap(&s->t, &s->next);
        swap(&s->g, &s->g_next);
        value = next;
        step *= 1.2;
        c->steps++;
        status = look(s, c, &go_on, error);
        if (ole_problem_report(p, part, c->steps, most)) break;
    }
    c->objective = value;
    return status;
}

/* ---- The method --------------------------------------------------------------------------- */

static void close_descent(descent *s) {
    ole_loss_plan_destroy(s->plan);
    free(s->memory);
    *s = (descent){0};
}

/* With a fifth of the rows held out, or all of them to learn from. */
static ole_status open_descent(descent *s, ole_problem *p, bool hold_out, ole_error *error) {
    *s = (descent){.p = p, .dim = p->dim};
    ole_keyed *keys = malloc((size_t)p->used * 2 * sizeof *keys), *others = keys + p->used;
    if (!keys) return out_of_memory(error);
    int64_t most = hold_out ? CHOOSING_ROWS : MOST_ROWS;
    s->rows = list_rows(p, false, !hold_out, keys);
    if (hold_out) s->held_out = list_rows(p, true, false, others);
    if (s->rows > most) s->rows = most;
    if (s->held_out > most / 4) s->held_out = most / 4;
    ole_arena arena = {0};
    lay_out(s, &arena);
    s->memory = ole_arena_reserve(&arena);
    ole_status status = s->memory ? OLE_OK : out_of_memory(error);
    if (status == OLE_OK) {
        lay_out(s, &arena);
        copy_rows(s, keys, 0, s->rows);
        copy_rows(s, others, s->rows, s->held_out);
        scale_rows(s);
        ole_loss_options options;
        ole_loss_options_init(&options);
        options.delta_floor = 0.0;
        options.threads = p->threads;
        status = ole_loss_plan_create(&s->plan, s->rows, s->dim, OLE_F32, &options, error);
    }
    free(keys);
    return status;
}

static ole_status choose_steps(ole_problem *p, int64_t *steps, ole_embed_summary *summary,
                               ole_error *error) {
    descent s = {0};
    course c = {0};
    *steps = p->options->epochs;
    if (*steps > 0) return OLE_OK;
    *steps = PATIENCE; /* where each class has a single row */
    if (summary->single == p->classes) return OLE_OK;
    ole_status status = ole_problem_deal(p, p->options->folds ? p->options->folds : 5, error);
    if (status == OLE_OK) status = open_descent(&s, p, true, error);
    if (status == OLE_OK && s.held_out > 0)
        status = descend(&s, STEPS, "choosing the number of steps", &c, error);
    if (status == OLE_OK && s.held_out > 0) {
        *steps = c.best;
        summary->held_out = s.held_out;
        summary->held_out_accuracy = 100.0 - c.error;
    }
    close_descent(&s);
    return status;
}

ole_status ole_fit_transform(ole_problem *p, ole_fit_result *result, ole_error *error) {
    if (p->dim > MOST_DIM)
        return ole_fail(
            error, OLE_ERROR_UNSUPPORTED,
            "transform: a map of %lld dimensions has %lld numbers and takes too long to "
            "decompose; reduce the rows to %d dimensions, by PCA for instance",
            (long long)p->dim, (long long)(p->dim * p->dim), MOST_DIM);
    descent s = {0};
    course c = {0};
    int64_t steps;
    char net[64];
    snprintf(net, sizeof net, "FC%lld[nobn,norelu,nobias]", (long long)p->dim);
    ole_status status = choose_steps(p, &steps, &result->summary, error);
    if (status == OLE_OK && !p->stopped) status = open_descent(&s, p, false, error);
    if (status == OLE_OK && !p->stopped) status = descend(&s, steps, "transform", &c, error);
    result->summary.objective = c.objective;
    result->summary.iterations = c.steps;
    float *room = malloc((size_t)(p->dim * p->dim) * sizeof *room);
    if (status == OLE_OK && !room) status = out_of_memory(error);
    if (status == OLE_OK && !p->stopped)
        status = ole_fit_make_model(&result->model, p, net, false, error);
    if (status == OLE_OK && !p->stopped)
        ole_fit_set_weight(result->model, "1.linear.weight", s.t, p->dim * p->dim, room);
    free(room);
    close_descent(&s);
    return status;
}
