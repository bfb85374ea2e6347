/*
 * src/analyze/novelty_collect.c - running parts of data sets through a model, and the directions of
 * the classes.
 */
#include "analyze/novelty.h"

#include "analyze/subspace.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 256 };              /* samples between two calls of the callback */
static const double energy = 0.95; /* of a class, in its subspace */

/* ---- Running ------------------------------------------------------------------------------ */

/* The collection at work. */
typedef struct run {
    ole_outputs *to;
    ole_model *model;
    const ole_model_info *info;
    const ole_part *part;
    const ole_novelty_options *options;
    float *images; /* [CHUNK, image] */
    int64_t total, image;
} run;

static ole_status allocate(run *r, ole_error *error) {
    const int64_t *count = ole_dataset_get_info(r->part->set)->count;
    for (int s = 0; s < 3; s++)
        if (r->part->all || s == (int)r->part->split) r->total += count[s];
    r->image = (int64_t)r->info->channels * r->info->height * r->info->width;
    size_t rows = (size_t)r->total + 1;
    r->images = malloc((size_t)(CHUNK * r->image) * sizeof *r->images);
    r->to->features = malloc(rows * (size_t)r->info->features * sizeof(float));
    r->to->logits = malloc(rows * (size_t)r->info->classes * sizeof(float));
    r->to->labels = malloc(rows * sizeof *r->to->labels);
    if (r->images && r->to->features && r->to->logits && r->to->labels) return OLE_OK;
    return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the features of %" PRId64 " %s",
                    r->total, r->part->name);
}

static bool all_finite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static ole_status check_finite(const run *r, int64_t first, int64_t rows, ole_split split,
                               int64_t sample, ole_error *error) {
    static const char *const names[] = {"training", "test", "validation"};
    int64_t dim = r->info->features, classes = r->info->classes;
    for (int64_t i = 0; i < rows; i++)
        if (!all_finite(r->to->features + (first + i) * dim, dim) ||
            !all_finite(r->to->logits + (first + i) * classes, classes))
            return ole_fail(error, OLE_ERROR_DATA,
                            "the features of sample %" PRId64 " of the %s split of %s hold NaN or "
                            "Inf: look at the data",
                            sample + i, names[split], ole_dataset_get_info(r->part->set)->name);
    return OLE_OK;
}

/* Samples [first, first + rows) of a split behind what is there. */
static ole_status run_chunk(run *r, ole_split split, int64_t first, int64_t rows,
                            ole_error *error) {
    const ole_dataset *set = r->part->set;
    ole_status status = OLE_OK;
    for (int64_t i = 0; i < rows && status == OLE_OK; i++)
        status = ole_dataset_sample(set, split, first + i, r->images + i * r->image, error);
    int64_t at = r->to->count;
    if (status == OLE_OK)
        status = ole_model_run(r->model, r->images, rows, r->to->features + at * r->info->features,
                               r->to->logits + at * r->info->classes, error);
    if (status == OLE_OK) status = check_finite(r, at, rows, split, first, error);
    memcpy(r->to->labels + at, ole_dataset_labels(set, split) + first,
           (size_t)rows * sizeof *r->to->labels);
    r->to->count += rows;
    return status;
}

static ole_status run_split(run *r, ole_split split, bool *interrupted, ole_error *error) {
    const ole_novelty_options *o = r->options;
    int64_t count = ole_dataset_get_info(r->part->set)->count[split];
    ole_status status = OLE_OK;
    for (int64_t first = 0; first < count && status == OLE_OK && !*interrupted; first += CHUNK) {
        int64_t rows = count - first < CHUNK ? count - first : CHUNK;
        status = run_chunk(r, split, first, rows, error);
        if (status == OLE_OK && o->callback)
            *interrupted = o->callback(o->callback_context, r->part->name, r->to->count, r->total);
    }
    return status;
}

static ole_status check_shape(const run *r, ole_error *error) {
    const ole_dataset_info *set = ole_dataset_get_info(r->part->set);
    if (set->channels == r->info->channels && set->height == r->info->height &&
        set->width == r->info->width)
        return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "the model takes %dx%dx%d, the %s of %s are %dx%dx%d", r->info->channels,
                    r->info->height, r->info->width, r->part->name, set->name, set->channels,
                    set->height, set->width);
}

ole_status ole_outputs_collect(ole_outputs *outputs, ole_model *model, const ole_part *part,
                               const ole_novelty_options *options, bool *interrupted,
                               ole_error *error) {
    *outputs = (ole_outputs){0};
    run r = {.to = outputs,
             .model = model,
             .info = ole_model_get_info(model),
             .part = part,
             .options = options};
    ole_status status = check_shape(&r, error);
    if (status == OLE_OK) status = allocate(&r, error);
    for (int s = 0; s < 3 && status == OLE_OK; s++)
        if (part->all || s == (int)part->split)
            status = run_split(&r, (ole_split)s, interrupted, error);
    free(r.images);
    if (status != OLE_OK || *interrupted) ole_outputs_free(outputs);
    return status;
}

void ole_outputs_free(ole_outputs *outputs) {
    free(outputs->features);
    free(outputs->logits);
    free(outputs->labels);
    *outputs = (ole_outputs){0};
}

/* ---- Directions --------------------------------------------------------------------------- */

static ole_status copy_subspaces(ole_directions *d, const ole_subspaces *s, int classes,
                                 ole_error *error) {
    int64_t rows = 0;
    for (int64_t c = 0; c < s->classes; c++)
        rows += s->of[c].size;
    ole_status status = ole_directions_make(d, classes, s->dim, rows, error);
    float *to = d->basis;
    for (int64_t c = 0; c < s->classes && status == OLE_OK; c++) { /* by rising label */
        d->size[s->of[c].label] = s->of[c].size;
        for (int64_t i = 0; i < s->of[c].size * s->dim; i++)
            *to++ = (float)s->of[c].basis[i];
    }
    return status;
}

static ole_status find_subspaces(ole_directions *d, const ole_outputs *training, int classes,
                                 int64_t dim, int threads, ole_error *error) {
    int64_t *labels = malloc(((size_t)training->count + 1) * sizeof *labels);
    if (!labels) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < training->count; i++)
        labels[i] = training->labels[i];
    ole_pool *pool;
    ole_status status = ole_pool_create(&pool, threads, error);
    if (status == OLE_OK) {
        ole_subspaces subspaces;
        status = ole_subspaces_create(&subspaces, training->count, dim, OLE_F32, training->features,
                                      labels, energy, pool, threads, error);
        if (status == OLE_OK) status = copy_subspaces(d, &subspaces, classes, error);
        ole_subspaces_destroy(&subspaces);
        ole_pool_destroy(pool);
    }
    free(labels);
    return status;
}

/* Adds x / ‖x‖ to `sum`; a row of zeros adds nothing. */
static void add_unit(double *sum, const float *x, int64_t dim) {
    double square = 0.0;
    for (int64_t k = 0; k < dim; k++)
        square += (double)x[k] * x[k];
    for (int64_t k = 0; k < dim && square > 0.0; k++)
        sum[k] += x[k] / sqrt(square);
}

static ole_status find_means(ole_directions *d, const ole_outputs *training, int classes,
                             int64_t dim, ole_error *error) {
    ole_status status = ole_directions_make(d, classes, dim, classes, error);
    double *sums = calloc((size_t)(classes * dim), sizeof *sums);
    if (status == OLE_OK && !sums) status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    for (int64_t i = 0; i < training->count && status == OLE_OK; i++)
        add_unit(sums + training->labels[i] * dim, training->features + i * dim, dim);
    for (int c = 0; c < classes && status == OLE_OK; c++) {
        double *sum = sums + c * dim, square = 0.0;
        for (int64_t k = 0; k < dim; k++)
            square += sum[k] * sum[k];
        d->size[c] = 1;
        for (int64_t k = 0; k < dim; k++)
            d->basis[c * dim + k] = square > 0.0 ? (float)(sum[k] / sqrt(square)) : 0.0f;
    }
    free(sums);
    return status;
}

ole_status ole_novelty_directions_make(struct ole_novelty_directions *directions,
                                       const ole_outputs *training, int classes, int64_t dim,
                                       int threads, ole_error *error) {
    ole_status status =
        find_subspaces(&directions->subspaces, training, classes, dim, threads, error);
    if (status == OLE_OK) status = find_means(&directions->means, training, classes, dim, error);
    return status;
}

void ole_novelty_directions_free(struct ole_novelty_directions *directions) {
    if (!directions) return;
    ole_directions_free(&directions->subspaces);
    ole_directions_free(&directions->means);
    free(directions);
}
