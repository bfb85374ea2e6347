/*
 * src/loss/criteria/plan.c - planning and evaluating a criterion: memory, checks, and the batch in
 * the order of its classes.
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "loss/criteria/criterion.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct ole_criterion_plan {
    ole_criterion_plan_options options;
    ole_groups groups;
    double *x, *dx;  /* [rows, dim] in the order of the classes */
    int32_t *labels; /* [rows], likewise */
    ole_criterion_call call;
    void *memory;
};

/* ---- Planning ----------------------------------------------------------------------------- */

static int64_t panels_size(int64_t rows, int64_t dim, int64_t classes) {
    const int64_t side[3] = {rows, dim, classes};
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            if (i != k || i == 0) most = ole_max(most, ole_panels_size(side[i], side[k]));
    int64_t least = ole_min(rows, dim); /* a square of MCR² */
    return ole_max(most, ole_panels_size(least, least));
}

static void lay_out(ole_criterion_plan *p, ole_arena *arena) {
    const ole_criterion_plan_options *o = &p->options;
    ole_criterion_call *c = &p->call;
    unsigned traits = o->criterion->traits;
    int64_t rows = o->rows, dim = o->dim, classes = traits & OLE_CRITERION_HEAD ? o->classes : 0;
    int64_t pairs = traits & OLE_CRITERION_HEAD ? 0 : rows,
            panels = panels_size(rows, dim, classes);
    double **const parts[] = {&p->x, &p->dx, &c->u, &c->du, &c->room};
    ole_groups_lay_out(&p->groups, arena, rows);
    p->labels = ole_arena_take(arena, rows, sizeof *p->labels);
    for (int i = 0; i < 5; i++)
        *parts[i] = ole_arena_take(arena, rows * dim, sizeof(double));
    c->length = ole_arena_take(arena, rows, sizeof(double));
    c->slope = ole_arena_take(arena, rows, sizeof(double));
    c->cosines = ole_arena_take(arena, rows * classes, sizeof(double));
    c->logits = ole_arena_take(arena, rows * classes, sizeof(double));
    c->dlogits = ole_arena_take(arena, rows * classes, sizeof(double));
    c->unit_w = ole_arena_take(arena, classes * dim, sizeof(double));
    c->dunit_w = ole_arena_take(arena, classes * dim, sizeof(double));
    c->w_length = ole_arena_take(arena, classes, sizeof(double));
    for (int i = 0; i < 2; i++) {
        c->square[i] = ole_arena_take(arena, pairs * pairs, sizeof(double));
        c->panels[i] = ole_arena_take(arena, panels, sizeof(double));
    }
    if (traits & OLE_CRITERION_SVD) ole_svd_lay_out(&c->svd, arena, rows, dim);
}

/* So that no product of two sides overflows; no machine has memory for a larger one. */
enum { LONGEST_SIDE = 1 << 30 };

ole_status ole_criterion_plan_create(ole_criterion_plan **plan,
                                     const ole_criterion_plan_options *options, ole_error *error) {
    ole_arena arena = {0};
    int64_t longest = ole_max(ole_max(options->rows, options->dim), options->classes);
    ole_criterion_plan *p = longest <= LONGEST_SIDE ? calloc(1, sizeof *p) : NULL;
    *plan = p;
    if (p) {
        p->options = *options;
        lay_out(p, &arena);
        p->memory = ole_arena_reserve(&arena);
        if (p->memory) {
            lay_out(p, &arena);
            return OLE_OK;
        }
    }
    free(p);
    *plan = NULL;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the loss %s",
                    options->criterion->name);
}

void ole_criterion_plan_free(ole_criterion_plan *plan) {
    if (plan) free(plan->memory);
    free(plan);
}

/* ---- Evaluating --------------------------------------------------------------------------- */

/* Copies the rows that count in the order of their classes. */
static ole_status gather(ole_criterion_plan *p, const ole_criterion_batch *batch,
                         ole_error *error) {
    int64_t dim = p->options.dim, bad = -1;
    for (int64_t i = 0; i < p->groups.rows; i++) {
        int64_t from = p->groups.order[i];
        const double *row = batch->x + from * dim;
        for (int64_t d = 0; d < dim; d++)
            if (!isfinite(row[d])) bad = bad < 0 || from < bad ? from : bad;
        memcpy(p->x + i * dim, row, (size_t)dim * sizeof *row);
        p->labels[i] = batch->labels[from];
    }
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "features: row %" PRId64 " holds NaN or Inf; check what produced it", bad);
}

static ole_status check(const ole_criterion_plan *p, const ole_criterion_batch *batch,
                        ole_error *error) {
    if (batch->rows < 0 || batch->rows > p->options.rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.rows is %" PRId64 ": the plan takes 0 to %" PRId64, batch->rows,
                        p->options.rows);
    for (int64_t i = 0; i < batch->rows; i++)
        if (batch->labels[i] >= p->options.classes)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "label %" PRId64 " is %" PRId32 ": there are %" PRId64 " classes", i,
                            batch->labels[i], p->options.classes);
    return OLE_OK;
}

ole_status ole_criterion_eval(ole_criterion_plan *p, const ole_criterion_batch *batch,
                              ole_criterion_result *result, ole_error *error) {
    int64_t dim = p->options.dim, classes = p->options.classes;
    bool head = p->options.criterion->traits & OLE_CRITERION_HEAD;
    ole_status status = check(p, batch, error);
    if (status != OLE_OK) return status;
    ole_groups_fill(&p->groups, batch->labels, OLE_I32, batch->rows);
    status = gather(p, batch, error);
    if (status != OLE_OK) return status;

    ole_criterion_call *c = &p->call;
    c->rows = p->groups.rows;
    c->dim = dim;
    c->classes = classes;
    c->step = batch->step;
    c->x = p->x;
    c->labels = p->labels;
    c->w = batch->w;
    c->b = batch->b;
    c->centers = batch->centers;
    c->param = p->options.param;
    c->present = p->groups.classes;
    c->start = p->groups.start;
    c->dx = p->dx;
    c->dw = result->dw;
    c->db = result->db;
    c->correct = 0;
    memset(p->dx, 0, (size_t)(c->rows * dim) * sizeof *p->dx);
    memset(result->dx, 0, (size_t)(batch->rows * dim) * sizeof *result->dx);
    if (head) memset(result->dw, 0, (size_t)(classes * dim) * sizeof *result->dw);
    if (head) memset(result->db, 0, (size_t)classes * sizeof *result->db);
    result->value = 0.0;
    result->correct = 0;
    if (c->rows == 0) return OLE_OK;
    if (!p->options.criterion->eval(c, &result->value))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the loss %s of %" PRId64 " x %" PRId64
                        " features: a decomposition did not converge",
                        p->options.criterion->name, c->rows, dim);
    result->correct = c->correct;
    for (int64_t i = 0; i < c->rows; i++)
        memcpy(result->dx + p->groups.order[i] * dim, p->dx + i * dim, (size_t)dim * sizeof *p->dx);
    return OLE_OK;
}
