/* src/embed/problem.c - checking labelled rows, counting their classes, and dealing them to folds.
 */
#include "embed/problem.h"

#include "base/error.h"
#include "base/philox.h"
#include "features/classes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLE_RANDOM_FOLDS = 41 }; /* a = class, b = place in its shuffle */

static ole_status out_of_memory(ole_error *error) {
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the labels of a fit");
}

/* ---- Classes ------------------------------------------------------------------------------ */

static ole_status name_class(ole_problem *p, int c, int64_t label, const char *const *names,
                             int64_t given, ole_error *error) {
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, label);
    if (names && label >= given)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "label %" PRId64 " has no name: there are %" PRId64 " names", label, given);
    p->name[c] = strdup(names ? names[label] : number);
    return p->name[c] ? OLE_OK : out_of_memory(error);
}

static ole_status count_classes(ole_problem *p, const char *const *names, int64_t given,
                                ole_error *error) {
    const ole_embedding *e = p->embedding;
    ole_classes found;
    ole_status status = ole_classes_create(&found, e->rows, e->labels, error);
    if (status != OLE_OK) return status;
    int64_t count = found.classes;
    p->used = found.rows;
    if (count < 2)
        status = ole_fail(error, OLE_ERROR_ARGUMENT,
                          count == 0 ? "every label is negative, so every row is ignored"
                                     : "all rows have one class; a fit needs at least two");
    else if (count > 1 << 20)
        status = ole_fail(error, OLE_ERROR_ARGUMENT, "%" PRId64 " classes are too many: at most %d",
                          count, 1 << 20);
    if (status == OLE_OK) {
        p->label = malloc((size_t)e->rows * sizeof *p->label);
        p->size = calloc((size_t)count, sizeof *p->size);
        p->weight = calloc((size_t)count, sizeof *p->weight);
        p->name = calloc((size_t)count, sizeof *p->name);
        if (!p->label || !p->size || !p->weight || !p->name) status = out_of_memory(error);
        p->classes = p->name ? (int)count : 0;
    }
    for (int64_t i = 0; i < e->rows && status == OLE_OK; i++)
        p->label[i] = -1;
    for (int c = 0; c < p->classes && status == OLE_OK; c++) {
        for (int64_t i = found.begin[c]; i < found.begin[c + 1]; i++)
            p->label[found.order[i]] = c;
        p->size[c] = found.begin[c + 1] - found.begin[c];
        status = name_class(p, c, found.label[c], names, given, error);
    }
    ole_classes_destroy(&found);
    return status;
}

static ole_status weigh_classes(ole_problem *p, ole_error *error) {
    const ole_embed_options *o = p->options;
    double sum = 0.0;
    for (int c = 0; c < p->classes; c++) {
        p->weight[c] = o->class_weights ? o->class_weights[c] : 1.0;
        if (!(p->weight[c] >= 0.0) || !isfinite(p->weight[c]))
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "class_weights: class %s has weight %g; weights are finite and not "
                            "negative",
                            p->name[c], p->weight[c]);
        if (o->balanced)
            p->weight[c] *= (double)p->used / ((double)p->classes * (double)p->size[c]);
        sum += p->weight[c] * (double)p->size[c];
    }
    if (sum > 0.0 && isfinite(sum)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT, "class_weights: all weights are 0, or too large");
}

/* ---- Shift and scale ---------------------------------------------------------------------- */

static double element(const ole_embedding *e, int64_t at) {
    return e->dtype == OLE_F32 ? (double)((const float *)e->features)[at]
                               : ((const double *)e->features)[at];
}

/* Two passes: the mean, then the mean square of what is left. */
static ole_status measure_rows(ole_problem *p, ole_error *error) {
    const ole_embedding *e = p->embedding;
    p->mean = calloc((size_t)e->dim, sizeof *p->mean);
    if (!p->mean) return out_of_memory(error);
    for (int64_t i = 0; i < e->rows; i++) {
        if (p->label[i] < 0) continue;
        double row = 0.0;
        for (int64_t d = 0; d < e->dim; d++) {
            double x = element(e, i * e->dim + d);
            row += fabs(x);
            p->mean[d] += x;
        }
        if (!isfinite(row) || row > 1e30)
            return ole_fail(error, OLE_ERROR_DATA,
                            isfinite(row) ? "row %" PRId64
                                            " holds numbers over 1e30, which float32 "
                                            "arithmetic cannot square"
                                          : "row %" PRId64 " holds NaN or Inf",
                            i);
    }
    double square = 0.0;
    for (int64_t d = 0; d < e->dim; d++)
        p->mean[d] /= (double)p->used;
    for (int64_t i = 0; i < e->rows; i++) {
        if (p->label[i] < 0) continue;
        for (int64_t d = 0; d < e->dim; d++) {
            double x = element(e, i * e->dim + d) - p->mean[d];
            square += x * x;
        }
    }
    square /= (double)p->used;
    p->scale = square > 0.0 ? 1.0 / sqrt(square) : 1.0;
    return OLE_OK;
}

/* ---- A problem ---------------------------------------------------------------------------- */

static ole_status check_embedding(const ole_embedding *e, ole_error *error) {
    if (!e || !e->features || !e->labels)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_embed_fit: the embedding, its features or its labels are NULL");
    if (e->rows < 1 || e->dim < 1 || e->dim > 65536)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_embed_fit: %" PRId64 " rows of %" PRId64
                        " dimensions; give at least one row, and 1 to 65536 dimensions",
                        e->rows, e->dim);
    if (e->dtype != OLE_F32 && e->dtype != OLE_F64)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_embed_fit: features are %s; must be float32 or float64",
                        ole_dtype_name(e->dtype));
    return OLE_OK;
}

ole_status ole_problem_open(ole_problem *p, const ole_embedding *embedding,
                            const char *const *names, int64_t classes,
                            const ole_embed_options *options, ole_error *error) {
    *p = (ole_problem){.embedding = embedding, .options = options, .threads = options->threads};
    ole_status status = check_embedding(embedding, error);
    if (status != OLE_OK) return status;
    p->rows = embedding->rows;
    p->dim = embedding->dim;
    status = count_classes(p, names, classes, error);
    if (status == OLE_OK) status = weigh_classes(p, error);
    if (status == OLE_OK) status = measure_rows(p, error);
    if (status == OLE_OK) status = ole_pool_create(&p->pool, p->threads, error);
    if (status != OLE_OK) ole_problem_close(p);
    return status;
}

void ole_problem_close(ole_problem *p) {
    for (int c = 0; c < p->classes; c++)
        free(p->name[c]);
    free(p->name);
    free(p->label);
    free(p->size);
    free(p->weight);
    free(p->mean);
    free(p->fold);
    ole_pool_destroy(p->pool);
    *p = (ole_problem){0};
}

/* ---- Folds -------------------------------------------------------------------------------- */

/* A row's place in the shuffle of its class. */
typedef struct deal {
    int32_t label;
    uint32_t key;
    int64_t row;
} deal;

static int by_deal(const void *a, const void *b) {
    const deal *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

ole_status ole_problem_deal(ole_problem *p, int folds, ole_error *error) {
    deal *order = malloc((size_t)p->used * sizeof *order);
    if (!p->fold) p->fold = malloc((size_t)p->rows * sizeof *p->fold);
    if (!order || !p->fold) {
        free(order);
        return out_of_memory(error);
    }
    int64_t count = 0;
    for (int64_t i = 0; i < p->rows; i++) {
        uint32_t word[4];
        p->fold[i] = -1;
        if (p->label[i] < 0) continue;
        ole_philox(p->options->seed, OLE_RANDOM_FOLDS, (uint64_t)p->label[i], (uint64_t)i, word);
        order[count++] = (deal){p->label[i], word[0], i};
    }
    qsort(order, (size_t)count, sizeof *order, by_deal);
    for (int64_t i = 0, next = 0; i < count; i++) /* one after the other, over the classes too */
        if (p->size[order[i].label] > 1) p->fold[order[i].row] = (int32_t)(next++ % folds);
    p->folds = folds;
    free(order);
    return OLE_OK;
}

/* ---- Rows --------------------------------------------------------------------------------- */

ole_operand ole_problem_rows(const ole_problem *p, int64_t first, int64_t count, bool transposed) {
    const ole_embedding *e = p->embedding;
    const char *data = e->features;
    ole_operand rows = {.data = data + (size_t)(first * e->dim) * ole_dtype_size(e->dtype),
                        .dtype = e->dtype,
                        .items = count,
                        .depth = e->dim,
                        .item_stride = e->dim,
                        .depth_stride = 1};
    return transposed ? ole_operand_transposed(rows) : rows;
}

void ole_problem_copy_row(const ole_problem *p, int64_t row, float *out) {
    for (int64_t d = 0; d < p->dim; d++)
        out[d] = (float)element(p->embedding, row * p->dim + d);
}

bool ole_problem_report(ole_problem *p, const char *part, int64_t done, int64_t total) {
    const ole_embed_options *o = p->options;
    if (o->callback && o->callback(o->callback_context, part, done, total)) p->stopped = true;
    return p->stopped;
}
