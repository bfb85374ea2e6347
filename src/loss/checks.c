/*
 * src/loss/checks.c - options, checks, and the way from what a route found to value and gradient.
 */
#include "loss/checks.h"

#include "base/error.h"
#include "base/struct_size.h"
#include "linalg/kernels.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_THREADS = 1024 };

static const ole_loss_options defaults = {
    .struct_size = sizeof(ole_loss_options),
    .weight = 1.0,
    .delta_floor = 1.0,
    .delta_abs = 1e-6,
    .delta_rel = OLE_DELTA_REL_AUTO,
    .reduction = OLE_REDUCTION_MEAN,
    .device = OLE_DEVICE_CPU,
    .threads = 1,
    .gpu = -1,
};

void ole_loss_options_init_sized(ole_loss_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

/* ---- what the caller gave ----------------------------------------------------------------- */

ole_status ole_loss_read_options(ole_loss_options *options, const ole_loss_options *given,
                                 ole_error *error) {
    *options = defaults;
    ole_status status = ole_struct_read(options, given, OLE_SIZE_UP_TO(ole_loss_options, gpu),
                                        "ole_loss_options_init", error);
    return status == OLE_OK ? ole_loss_check_options(options, error) : status;
}

static ole_status check_delta(const char *name, double value, const char *also, ole_error *error) {
    if (value >= 0.0 && isfinite(value)) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "options.delta_%s is %g; must be a finite number >= 0%s", name, value, also);
}

ole_status ole_loss_check_options(const ole_loss_options *o, ole_error *error) {
    if (!isfinite(o->weight))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.weight is %g; must be a finite number",
                        o->weight);
    ole_status status = check_delta("floor", o->delta_floor, "", error);
    if (status == OLE_OK) status = check_delta("abs", o->delta_abs, "", error);
    if (status == OLE_OK && o->delta_rel != OLE_DELTA_REL_AUTO)
        status = check_delta("rel", o->delta_rel, ", or OLE_DELTA_REL_AUTO", error);
    if (status != OLE_OK) return status;
    if (o->reduction != OLE_REDUCTION_MEAN && o->reduction != OLE_REDUCTION_SUM)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.reduction is %d; must be OLE_REDUCTION_MEAN or OLE_REDUCTION_SUM",
                        (int)o->reduction);
    if (o->threads < 1 || o->threads > MAX_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d; must be 1 to %d",
                        o->threads, MAX_THREADS);
    if (o->device != OLE_DEVICE_CPU && o->device != OLE_DEVICE_CUDA)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.device is %d; must be OLE_DEVICE_CPU or OLE_DEVICE_CUDA",
                        (int)o->device);
    return OLE_OK;
}

ole_status ole_loss_check_dim(int64_t dim, ole_error *error) {
    if (dim < 1 || dim > OLE_MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "dim is %" PRId64 "; must be 1 to %d", dim,
                        OLE_MAX_SIDE);
    return OLE_OK;
}

static ole_status check_stride(const char *name, int64_t stride, int64_t dim, ole_error *error) {
    if (stride == 0 || stride >= dim) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s is %" PRId64 ", smaller than dim = %" PRId64 "; must be 0 or at least dim",
                    name, stride, dim);
}

ole_status ole_loss_check_call(int64_t dim, const ole_loss_batch *batch,
                               const ole_loss_gradient *gradient, ole_error *error) {
    if (batch->rows > 0 && (!batch->features || !batch->labels))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "batch.%s is NULL",
                        batch->features ? "labels" : "features");
    if (batch->label_type != OLE_I32 && batch->label_type != OLE_I64)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.label_type is %s; must be OLE_I32 or OLE_I64",
                        ole_dtype_name(batch->label_type));
    ole_status status = check_stride("batch.stride", batch->stride, dim, error);
    if (status != OLE_OK || !gradient) return status;
    if (batch->rows > 0 && !gradient->data)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "gradient.data is NULL");
    if (!isfinite(gradient->upstream))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "gradient.upstream is %g; must be a finite number", gradient->upstream);
    return check_stride("gradient.stride", gradient->stride, dim, error);
}

ole_cut ole_loss_cut(const ole_loss_options *options, ole_dtype dtype) {
    double rel = 64.0 * (dtype == OLE_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    return (ole_cut){
        .absolute = options->delta_abs,
        .relative = options->delta_rel == OLE_DELTA_REL_AUTO ? rel : options->delta_rel,
    };
}

int64_t ole_loss_capacity(const ole_loss_result *result) {
    return result->per_class ? result->per_class_capacity : INT64_MAX;
}

ole_status ole_loss_list_classes(const ole_groups *groups, int64_t rows, int64_t capacity,
                                 ole_loss_class *classes, ole_error *error) {
    if (groups->rows == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.labels: all %" PRId64 " rows are ignored (label < 0)", rows);
    if (capacity < groups->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "result.per_class_capacity is %" PRId64 ", but %" PRId64
                        " classes are present",
                        capacity, groups->classes);
    for (int64_t c = 0; c < groups->classes; c++)
        classes[c] = (ole_loss_class){.label = groups->label[c],
                                      .count = groups->start[c + 1] - groups->start[c]};
    return OLE_OK;
}

/* ---- what the caller gets ----------------------------------------------------------------- */

/* No element of a direction, a difference of two polar factors, is over 2 in size. */
static bool gradient_fits(ole_dtype dtype, double scale) {
    return fabs(scale) <= (dtype == OLE_F32 ? (double)FLT_MAX : DBL_MAX) / 4.0;
}

ole_status ole_loss_not_solved(int64_t rows, int64_t dim, ole_error *error) {
    return ole_fail(error, OLE_ERROR_NUMERIC,
                    "the singular value decomposition of %" PRId64 " x %" PRId64
                    " features did not converge",
                    rows, dim);
}

ole_status ole_loss_finish(const ole_loss_options *options, ole_dtype dtype,
                           const ole_loss_found *found, double upstream, ole_loss_result *result,
                           double *factor, ole_error *error) {
    const ole_groups *groups = found->groups;
    double class_term = 0.0;
    for (int64_t c = 0; c < groups->classes; c++)
        class_term += fmax(options->delta_floor, found->classes[c].norm);
    *factor = options->weight;
    if (options->reduction == OLE_REDUCTION_MEAN) *factor /= (double)groups->rows;
    double value = *factor * (class_term - found->norm);
    if (!isfinite(value))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the loss overflows (sum of norms %g); scale the features down",
                        class_term);
    if (!gradient_fits(dtype, *factor * upstream))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the gradient overflows %s (weight * upstream, over N for the mean, is "
                        "%g); use a smaller weight or upstream",
                        ole_dtype_name(dtype), *factor * upstream);
    result->value = value;
    result->class_term = class_term;
    result->global_norm = found->norm;
    result->rows = groups->rows;
    result->classes = groups->classes;
    result->rank = found->rank;
    if (result->per_class)
        memcpy(result->per_class, found->classes,
               (size_t)groups->classes * sizeof *result->per_class);
    return OLE_OK;
}

/* One row of the gradient: to (+)= scale * direction. */
static void write_row_f32(float *to, const double *direction, double scale, bool add, int64_t n) {
    if (!add) {
        ole_kernels_get()->scale_to_f32(to, direction, scale, n);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        to[j] = (float)((double)to[j] + scale * direction[j]);
}

static void write_row_f64(double *to, const double *direction, double scale, bool add, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        to[j] = (add ? to[j] : 0.0) + scale * direction[j];
}

void ole_loss_write_gradient(const ole_groups *groups, int64_t dim, ole_dtype dtype,
                             const ole_loss_batch *batch, const ole_loss_gradient *gradient,
                             const double *direction, double scale) {
    int64_t stride = gradient->stride ? gradient->stride : dim;
    size_t size = ole_dtype_size(dtype);
    if (!gradient->accumulate)
        for (int64_t i = 0; i < batch->rows; i++)
            if (ole_label_at(batch->labels, batch->label_type, i) < 0)
                memset((char *)gradient->data + (size_t)(i * stride) * size, 0, (size_t)dim * size);
    for (int64_t i = 0; i < groups->rows; i++, direction += dim) {
        int64_t at = groups->order[i] * stride;
        if (dtype == OLE_F32)
            write_row_f32((float *)gradient->data + at, direction, scale, gradient->accumulate,
                          dim);
        else
            write_row_f64((double *)gradient->data + at, direction, scale, gradient->accumulate,
                          dim);
    }
}
