/*
 * src/embed/softmax_rows.c - block by block: rows are centred and multiplied with the weights,
 * their logits become residuals, and the residuals times the rows are the block's part of the
 * gradient.
 */
#include "embed/softmax_rows.h"

#include "base/arena.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/min_max.h"
#include "embed/linear_kernels.h"
#include "model/network.h"

#include <stdalign.h>
#include <string.h>

enum {
    BLOCK_ROWS = 2048,
    BLOCK_SIZE = 1 << 22, /* logits of a block */
    TASK_ROWS = 64,       /* of a task from rows to residuals */
    TASK_CLASSES = 64,    /* of a task of the gradient, which has `width` dimensions */
    DEPTH = 128,          /* rows that a task of the gradient takes at a time */
    WIDEST = 64,          /* at least every kernel's width */
    STRIDE = OLE_LINEAR_PANEL + OLE_LINEAR_UNIT, /* odd in cache lines: rows spread over the sets */
};

struct ole_softmax_rows {
    const ole_problem *p;
    const ole_linear_kernels *kernels;
    int64_t classes, dim; /* padded to whole units */
    int64_t panels;       /* of dimensions */
    int64_t stride;       /* of logits */
    int64_t block;        /* rows: a multiple of TASK_ROWS */
    int64_t chunks;       /* of classes */
    float *weights;       /* panels of `width` classes: [dim, width] each */
    float *bias;          /* [classes] */
    float *rows;          /* [panels, block, STRIDE]: centred */
    float *logits;        /* [block, stride], then the residuals */
    float *sums;          /* [tasks of a block, classes] of the residuals */
    double *loss;         /* [tasks of a block] */

    /* Of the current call: */
    const ole_softmax_call *call;
    int64_t first, count;
};

/* ---- Memory ------------------------------------------------------------------------------- */

OLE_CPU_VARIANTS(ole_linear_kernels, ole_linear_kernels);

const ole_linear_kernels *ole_linear_kernels_get(void) {
    return OLE_CPU_SELECT(ole_linear_kernels);
}

static int64_t parts(int64_t count, int64_t part) {
    return (count + part - 1) / part;
}

static void lay_out(ole_softmax_rows *s, ole_arena *arena) {
    int64_t tasks = s->block / TASK_ROWS;
    s->weights = ole_arena_take(arena, s->classes * s->dim, sizeof(float));
    s->bias = ole_arena_take(arena, s->classes, sizeof(float));
    s->rows = ole_arena_take(arena, s->panels * s->block * STRIDE, sizeof(float));
    s->logits = ole_arena_take(arena, s->block * s->stride, sizeof(float));
    s->sums = ole_arena_take(arena, tasks * s->classes, sizeof(float));
    s->loss = ole_arena_take(arena, tasks, sizeof(double));
}

ole_status ole_softmax_rows_create(ole_softmax_rows **result, const ole_problem *p,
                                   ole_error *error) {
    ole_softmax_rows s = {.p = p, .kernels = ole_linear_kernels_get()};
    s.classes = parts(p->classes, OLE_LINEAR_UNIT) * OLE_LINEAR_UNIT;
    s.dim = parts(p->dim, OLE_LINEAR_UNIT) * OLE_LINEAR_UNIT;
    s.panels = parts(s.dim, OLE_LINEAR_PANEL);
    s.stride = s.classes + (s.classes / OLE_LINEAR_UNIT % 2 ? 0 : OLE_LINEAR_UNIT);
    s.chunks = parts(s.classes, TASK_CLASSES);
    int64_t block = BLOCK_SIZE / ole_max(s.classes, s.dim);
    block = ole_min(ole_min(block, BLOCK_ROWS), p->rows);
    s.block = parts(ole_max(block, 1), TASK_ROWS) * TASK_ROWS;
    ole_arena arena = {0};
    lay_out(&s, &arena);
    size_t head = (sizeof s + OLE_ALIGNMENT - 1) / OLE_ALIGNMENT * OLE_ALIGNMENT;
    size_t bytes = arena.used;
    char *memory = bytes < SIZE_MAX - head ? ole_arena_allocate(head + bytes) : NULL;
    *result = (ole_softmax_rows *)memory;
    if (!memory)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a fit: it needs %.3g GiB",
                        (double)bytes / 1073741824.0);
    arena = (ole_arena){.base = memory + head};
    lay_out(&s, &arena);
    memset(memory + head, 0, bytes); /* what pads rows and classes stays 0 */
    **result = s;
    return OLE_OK;
}

void ole_softmax_rows_free(ole_softmax_rows *s) {
    free(s);
}

/* ---- Rows to residuals -------------------------------------------------------------------- */

/* Packs a panel of classes. */
static void pack_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_softmax_rows *s = context;
    const ole_problem *p = s->p;
    int64_t first = task * s->kernels->width;
    int64_t width = ole_min(s->classes - first, s->kernels->width);
    int64_t count = ole_min(p->classes - first, width);
    float *to = s->weights + first * s->dim;
    for (int64_t c = 0; c < count; c++) {
        const double *w = s->call->x + (first + c) * p->dim;
        for (int64_t d = 0; d < p->dim; d++)
            to[d * width + c] = (float)w[d];
    }
}

/* Row `row` of the block, centred and scaled, into the panels. */
static void centre_row(ole_softmax_rows *s, int64_t row) {
    const ole_problem *p = s->p;
    for (int64_t first = 0; first < p->dim; first += OLE_LINEAR_PANEL) {
        int64_t count = ole_min(p->dim - first, OLE_LINEAR_PANEL);
        int64_t at = (s->first + row) * p->dim + first;
        float *to = s->rows + (first / OLE_LINEAR_PANEL * s->block + row) * STRIDE;
        const void *x = p->embedding->features;
        if (p->embedding->dtype == OLE_F32)
            s->kernels->centre_f32((const float *)x + at, p->mean + first, p->scale, count, to);
        else
            s->kernels->centre_f64((const double *)x + at, p->mean + first, p->scale, count, to);
    }
}

/* The logits of TASK_ROWS rows, without the bias. */
static void multiply_rows(ole_softmax_rows *s, int64_t row) {
    ole_linear_tile tile = {.rows = TASK_ROWS, .lda = STRIDE, .ldc = s->stride};
    for (int64_t first = 0; first < s->dim; first += OLE_LINEAR_PANEL) {
        tile.a = s->rows + (first / OLE_LINEAR_PANEL * s->block + row) * STRIDE;
        tile.depth = ole_min(s->dim - first, OLE_LINEAR_PANEL);
        tile.add = first > 0;
        for (int64_t c = 0; c < s->classes; c += s->kernels->width) {
            tile.columns = tile.ldb = ole_min(s->classes - c, s->kernels->width);
            tile.b = s->weights + c * s->dim + first * tile.ldb;
            tile.c = s->logits + row * s->stride + c;
            s->kernels->multiply(&tile);
        }
    }
}

/* Rows that are right instead of residuals. */
static void right_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_softmax_rows *s = context;
    const ole_problem *p = s->p;
    int64_t first = task * TASK_ROWS, count = ole_min(s->count - first, TASK_ROWS);
    for (int64_t i = 0; i < count; i++)
        centre_row(s, first + i);
    multiply_rows(s, first);
    s->loss[task] = 0.0;
    for (int64_t i = 0; i < count; i++) {
        float *z = s->logits + (first + i) * s->stride;
        int32_t label = p->label[s->first + first + i];
        for (int64_t c = 0; c < p->classes; c++)
            z[c] += s->bias[c];
        s->loss[task] += label >= 0 && ole_largest(z, p->classes) == label;
    }
}

/* Rows that do not count, and those that fill up the last task, have residuals of 0. */
static void residual_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_softmax_rows *s = context;
    const ole_problem *p = s->p;
    const ole_softmax_call *call = s->call;
    int64_t first = task * TASK_ROWS, count = ole_min(s->count - first, TASK_ROWS);
    for (int64_t i = 0; i < count; i++)
        centre_row(s, first + i);
    multiply_rows(s, first);
    float *sums = s->sums + task * s->classes;
    memset(sums, 0, (size_t)s->classes * sizeof *sums);
    double loss = 0.0;
    for (int64_t i = 0; i < TASK_ROWS; i++) {
        float *z = s->logits + (first + i) * s->stride;
        int64_t at = s->first + first + i;
        if (i >= count || !ole_problem_has(p, at, call->fold)) {
            memset(z, 0, (size_t)s->classes * sizeof *z);
            continue;
        }
        double weight = p->weight[p->label[at]] / call->total;
        const ole_linear_row row = {s->classes, s->bias, p->label[at], (float)weight};
        loss += weight * s->kernels->softmax(&row, z, sums);
        for (int64_t c = 0; c < p->classes && call->other; c++)
            z[c] += (float)call->factor * call->other[at * p->classes + c];
    }
    s->loss[task] = loss;
}

/* ---- Residuals to gradient ---------------------------------------------------------------- */

static void gradient_task(void *context, int64_t task, int worker) {
    (void)worker;
    ole_softmax_rows *s = context;
    const ole_problem *p = s->p;
    int64_t first = task % s->chunks * TASK_CLASSES, column = task / s->chunks * s->kernels->width;
    alignas(OLE_ALIGNMENT) float sum[TASK_CLASSES * WIDEST] = {0};
    ole_linear_tile tile = {.rows = ole_min(s->classes - first, TASK_CLASSES),
                            .columns = ole_min(s->dim - column, s->kernels->width),
                            .lda = s->stride,
                            .transposed = true,
                            .ldb = STRIDE,
                            .c = sum,
                            .ldc = s->kernels->width};
    const float *rows = s->rows + column / OLE_LINEAR_PANEL * s->block * STRIDE;
    for (int64_t row = 0; row < s->count; row += DEPTH) {
        tile.depth = ole_min(s->count - row, DEPTH);
        tile.a = s->logits + row * s->stride + first;
        tile.b = rows + row * STRIDE + column % OLE_LINEAR_PANEL;
        tile.add = row > 0;
        s->kernels->multiply(&tile);
    }
    int64_t classes = ole_min(p->classes - first, TASK_CLASSES);
    int64_t columns = ole_min(p->dim - column, s->kernels->width);
    for (int64_t c = 0; c < classes; c++) {
        double *to = s->call->gradient + (first + c) * p->dim + column;
        for (int64_t d = 0; d < columns; d++)
            to[d] += (double)sum[c * tile.ldc + d];
    }
}

/* ---- All rows ----------------------------------------------------------------------------- */

static void set_weights(ole_softmax_rows *s, const ole_softmax_call *call) {
    const double *bias = call->x + (int64_t)s->p->classes * s->p->dim;
    s->call = call;
    for (int64_t c = 0; c < s->classes; c++)
        s->bias[c] = c < s->p->classes ? (float)bias[c] : -1e30f;
    ole_pool_run(s->p->pool, parts(s->classes, s->kernels->width), pack_task, s);
}

void ole_softmax_rows_run(ole_softmax_rows *s, ole_softmax_call *call) {
    const ole_problem *p = s->p;
    double *columns = call->gradient + (int64_t)p->classes * p->dim;
    call->value = 0.0;
    memset(call->gradient, 0, (size_t)(p->classes * (p->dim + 1)) * sizeof *call->gradient);
    set_weights(s, call);
    for (s->first = 0; s->first < p->rows; s->first += s->block) {
        s->count = ole_min(p->rows - s->first, s->block);
        int64_t tasks = parts(s->count, TASK_ROWS);
        ole_pool_run(p->pool, tasks, residual_task, s);
        for (int64_t t = 0; t < tasks; t++) {
            call->value += s->loss[t];
            for (int64_t c = 0; c < p->classes; c++)
                columns[c] += (double)s->sums[t * s->classes + c];
        }
        ole_pool_run(p->pool, s->chunks * parts(s->dim, s->kernels->width), gradient_task, s);
    }
    s->call = NULL;
}

int64_t ole_softmax_rows_right(ole_softmax_rows *s, const double *x) {
    const ole_softmax_call call = {.x = x};
    double right = 0.0;
    set_weights(s, &call);
    for (s->first = 0; s->first < s->p->rows; s->first += s->block) {
        s->count = ole_min(s->p->rows - s->first, s->block);
        int64_t tasks = parts(s->count, TASK_ROWS);
        ole_pool_run(s->p->pool, tasks, right_task, s);
        for (int64_t t = 0; t < tasks; t++)
            right += s->loss[t];
    }
    s->call = NULL;
    return (int64_t)right;
}
