/*
 * src/loss/ole.c - the OLÉ loss of include/ole/loss.h: plans, checks, and the way from a batch to
 * value and gradient.  The linear algebra is in the two routes (loss/route.h).
 */
#include "ole/loss.h"

#include "base/cuda_module.h"
#include "base/error.h"
#include "linalg/kernels.h"
#include "loss/cuda.h"
#include "loss/route.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIDE = 1 << 30, MAX_THREADS = 1024 };

struct ole_loss_plan {
    int64_t max_rows;
    int64_t dim;
    ole_dtype dtype;
    ole_loss_options options;
    ole_cut cut;
    ole_pool *pool;
    void *memory;
    size_t bytes;
    ole_groups groups;
    ole_loss_class *classes; /* [max_rows] */
    ole_route_gram gram;     /* float32 */
    ole_route_svd svd;       /* float64 */
    const ole_cuda_loss_table *table;
    ole_cuda_loss *cuda; /* of a plan for the GPU, which has none of the above */
};

void ole_loss_options_init(ole_loss_options *options) {
    *options = (ole_loss_options){
        .struct_size = sizeof *options,
        .weight = 1.0,
        .delta_floor = 1.0,
        .delta_abs = 1e-6,
        .delta_rel = OLE_DELTA_REL_AUTO,
        .reduction = OLE_REDUCTION_MEAN,
        .device = OLE_DEVICE_CPU,
        .threads = 1,
        .card = -1,
    };
}

/* ---- planning ------------------------------------------------------------------------------- */

static ole_status check_options(const ole_loss_options *o, ole_error *error) {
    if (o->struct_size != sizeof *o)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.struct_size is %zu, not %zu: fill options with "
                        "ole_loss_options_init() of the same version",
                        o->struct_size, sizeof *o);
    if (!isfinite(o->weight))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.weight is %g: give a finite number",
                        o->weight);
    if (!(o->delta_floor >= 0.0) || !isfinite(o->delta_floor))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.delta_floor is %g: give a finite number >= 0", o->delta_floor);
    if (!(o->delta_abs >= 0.0) || !isfinite(o->delta_abs))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.delta_abs is %g: give a finite number >= 0", o->delta_abs);
    if (!(o->delta_rel >= 0.0 || o->delta_rel == OLE_DELTA_REL_AUTO) || !isfinite(o->delta_rel))
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.delta_rel is %g: give a finite number >= 0, or "
                        "OLE_DELTA_REL_AUTO",
                        o->delta_rel);
    if (o->reduction != OLE_REDUCTION_MEAN && o->reduction != OLE_REDUCTION_SUM)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.reduction is %d: give OLE_REDUCTION_MEAN or OLE_REDUCTION_SUM",
                        (int)o->reduction);
    if (o->threads < 1 || o->threads > MAX_THREADS)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "options.threads is %d: give 1 to %d",
                        o->threads, MAX_THREADS);
    if (o->device != OLE_DEVICE_CPU && o->device != OLE_DEVICE_CUDA)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "options.device is %d: give OLE_DEVICE_CPU or OLE_DEVICE_CUDA",
                        (int)o->device);
    return OLE_OK;
}

static ole_status check_shape(int64_t max_rows, int64_t dim, ole_dtype dtype, bool gpu,
                              ole_error *error) {
    if (max_rows < 1 || max_rows > MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "max_rows is %" PRId64 ": give 1 to %d",
                        max_rows, MAX_SIDE);
    if (dim < 1 || dim > MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "dim is %" PRId64 ": give 1 to %d", dim,
                        MAX_SIDE);
    bool narrow = dtype == OLE_BF16 || dtype == OLE_F16;
    if (dtype != OLE_F32 && dtype != OLE_F64 && !(gpu && narrow))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "dtype is %s: give OLE_F32 or OLE_F64%s",
                        ole_dtype_name(dtype), gpu ? ", OLE_BF16 or OLE_F16" : "");
    return OLE_OK;
}

static void place(ole_loss_plan *plan, ole_arena *arena) {
    ole_groups_place(&plan->groups, arena, plan->max_rows);
    plan->classes = ole_arena_take(arena, plan->max_rows, sizeof *plan->classes);
    if (plan->dtype == OLE_F32)
        ole_route_gram_place(&plan->gram, arena, plan->max_rows, plan->dim, plan->options.threads);
    else
        ole_route_svd_place(&plan->svd, arena, plan->max_rows, plan->dim);
}

static ole_status allocate(ole_loss_plan *plan, ole_error *error) {
    ole_arena arena = {0};
    place(plan, &arena);
    plan->bytes = arena.used;
    plan->memory = ole_arena_allocate(arena.used);
    if (!plan->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory: a plan for %" PRId64 " x %" PRId64 " %s needs %.3g GiB",
                        plan->max_rows, plan->dim, ole_dtype_name(plan->dtype),
                        (double)plan->bytes / 1073741824.0);
    arena = (ole_arena){.base = plan->memory};
    place(plan, &arena);
    return ole_pool_create(&plan->pool, plan->options.threads, error);
}

/* The module's plan; it gets δ_rel as a number. */
static ole_status plan_on_gpu(ole_loss_plan *plan, ole_error *error) {
    const void *table;
    ole_status status = ole_cuda_module_check(error);
    if (status == OLE_OK) status = ole_cuda_module_table("ole_cuda_loss", &table, error);
    if (status != OLE_OK) return status;
    plan->table = table;
    status = plan->table->create(&plan->cuda, plan->max_rows, plan->dim, plan->dtype,
                                 &plan->options, error);
    if (status == OLE_OK) plan->bytes = plan->table->bytes(plan->cuda);
    return status;
}

ole_status ole_loss_plan_create(ole_loss_plan **result, int64_t max_rows, int64_t dim,
                                ole_dtype dtype, const ole_loss_options *options,
                                ole_error *error) {
    if (!result) return ole_fail(error, OLE_ERROR_ARGUMENT, "plan is NULL");
    *result = NULL;
    ole_loss_options defaults;
    ole_loss_options_init(&defaults);
    if (!options) options = &defaults;
    ole_status status = check_options(options, error);
    if (status == OLE_OK)
        status = check_shape(max_rows, dim, dtype, options->device == OLE_DEVICE_CUDA, error);
    if (status != OLE_OK) return status;
    ole_loss_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    plan->max_rows = max_rows;
    plan->dim = dim;
    plan->dtype = dtype;
    plan->options = *options;
    double rel = 64.0 * (dtype == OLE_F64 ? DBL_EPSILON : (double)FLT_EPSILON);
    plan->cut.absolute = options->delta_abs;
    plan->cut.relative = options->delta_rel == OLE_DELTA_REL_AUTO ? rel : options->delta_rel;
    plan->options.delta_rel = plan->cut.relative;
    status = options->device == OLE_DEVICE_CUDA ? plan_on_gpu(plan, error) : allocate(plan, error);
    if (status != OLE_OK) {
        ole_loss_plan_destroy(plan);
        return status;
    }
    *result = plan;
    return OLE_OK;
}

void ole_loss_plan_destroy(ole_loss_plan *plan) {
    if (!plan) return;
    if (plan->cuda) plan->table->destroy(plan->cuda);
    ole_pool_destroy(plan->pool);
    free(plan->memory);
    free(plan);
}

size_t ole_loss_plan_bytes(const ole_loss_plan *plan) {
    return sizeof *plan + plan->bytes;
}

/* ---- evaluating ----------------------------------------------------------------------------- */

static ole_status check_stride(const char *name, int64_t stride, int64_t dim, ole_error *error) {
    if (stride == 0 || stride >= dim) return OLE_OK;
    return ole_fail(error, OLE_ERROR_ARGUMENT,
                    "%s is %" PRId64 ", smaller than dim = %" PRId64 ": give 0 or at least dim",
                    name, stride, dim);
}

static ole_status check_batch(const ole_loss_plan *plan, const ole_loss_batch *batch,
                              const ole_loss_gradient *gradient, ole_error *error) {
    if (!plan || !batch)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", !plan ? "plan" : "batch");
    if (batch->rows < 1 || batch->rows > plan->max_rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.rows is %" PRId64 ": the plan takes 1 to %" PRId64, batch->rows,
                        plan->max_rows);
    if (!batch->features || !batch->labels)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "batch.%s is NULL",
                        batch->features ? "labels" : "features");
    if (batch->label_type != OLE_I32 && batch->label_type != OLE_I64)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.label_type is %s: give OLE_I32 or OLE_I64",
                        ole_dtype_name(batch->label_type));
    ole_status status = check_stride("batch.stride", batch->stride, plan->dim, error);
    if (status != OLE_OK || !gradient) return status;
    if (!gradient->data) return ole_fail(error, OLE_ERROR_ARGUMENT, "gradient.data is NULL");
    if (!isfinite(gradient->upstream))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "gradient.upstream is %g: give a finite number",
                        gradient->upstream);
    return check_stride("gradient.stride", gradient->stride, plan->dim, error);
}

static bool copy_finite_f64(double *to, const double *from, int64_t n) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite &= isfinite(from[i]) != 0;
        to[i] = from[i];
    }
    return finite;
}

/* Copies row `row` to place i of the class order; false if it holds NaN or Inf. */
static bool gather_row(ole_loss_plan *plan, const ole_loss_batch *batch, int64_t i, int64_t row) {
    int64_t dim = plan->dim, from = row * (batch->stride ? batch->stride : dim);
    if (plan->dtype == OLE_F64)
        return copy_finite_f64(plan->svd.rows + i * dim, (const double *)batch->features + from,
                               dim);
    return ole_kernels_get()->copy_finite_f32(plan->gram.rows + i * dim,
                                              (const float *)batch->features + from, dim);
}

static ole_status gather(ole_loss_plan *plan, const ole_loss_batch *batch, ole_error *error) {
    int64_t bad = -1;
    for (int64_t i = 0; i < plan->groups.rows; i++) {
        int64_t row = plan->groups.order[i];
        if (!gather_row(plan, batch, i, row) && (bad < 0 || row < bad)) bad = row;
    }
    if (bad < 0) return OLE_OK;
    return ole_fail(error, OLE_ERROR_DATA,
                    "features: row %" PRId64 " holds NaN or Inf: look at what produced it", bad);
}

static ole_status group(ole_loss_plan *plan, const ole_loss_batch *batch,
                        const ole_loss_result *result, ole_error *error) {
    ole_groups *groups = &plan->groups;
    ole_groups_fill(groups, batch->labels, batch->label_type, batch->rows);
    if (groups->rows == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.labels: all %" PRId64 " rows are ignored (label < 0), none is left",
                        batch->rows);
    if (result->per_class && result->per_class_capacity < groups->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "result.per_class_capacity is %" PRId64 ", but %" PRId64
                        " classes are present",
                        result->per_class_capacity, groups->classes);
    for (int64_t c = 0; c < groups->classes; c++)
        plan->classes[c] = (ole_loss_class){.label = groups->label[c],
                                            .count = groups->start[c + 1] - groups->start[c]};
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

/* No element of a direction, a difference of two polar factors, is over 2 in size. */
static bool gradient_fits(ole_dtype dtype, double scale) {
    return fabs(scale) <= (dtype == OLE_F32 ? (double)FLT_MAX : DBL_MAX) / 4.0;
}

static void write_gradient(const ole_loss_plan *plan, const ole_loss_batch *batch,
                           const ole_loss_gradient *gradient, const double *direction,
                           double scale) {
    int64_t stride = gradient->stride ? gradient->stride : plan->dim;
    size_t size = ole_dtype_size(plan->dtype);
    if (!gradient->accumulate)
        for (int64_t i = 0; i < batch->rows; i++)
            if (ole_label_at(batch->labels, batch->label_type, i) < 0)
                memset((char *)gradient->data + (size_t)(i * stride) * size, 0,
                       (size_t)plan->dim * size);
    for (int64_t i = 0; i < plan->groups.rows; i++, direction += plan->dim) {
        int64_t at = plan->groups.order[i] * stride;
        if (plan->dtype == OLE_F32)
            write_row_f32((float *)gradient->data + at, direction, scale, gradient->accumulate,
                          plan->dim);
        else
            write_row_f64((double *)gradient->data + at, direction, scale, gradient->accumulate,
                          plan->dim);
    }
}

ole_status ole_loss_eval(ole_loss_plan *plan, const ole_loss_batch *batch,
                         const ole_loss_gradient *gradient, ole_loss_result *result,
                         ole_error *error) {
    ole_status status = check_batch(plan, batch, gradient, error);
    if (status == OLE_OK && !result) status = ole_fail(error, OLE_ERROR_ARGUMENT, "result is NULL");
    if (status == OLE_OK && plan->cuda)
        return plan->table->eval(plan->cuda, batch, gradient, result, error);
    if (status == OLE_OK) status = group(plan, batch, result, error);
    if (status == OLE_OK) status = gather(plan, batch, error);
    if (status != OLE_OK) return status;
    const ole_groups *groups = &plan->groups;
    ole_route_job job = {
        .pool = plan->pool,
        .groups = groups,
        .dim = plan->dim,
        .floor = plan->options.delta_floor,
        .cut = plan->cut,
        .want_direction = gradient != NULL,
        .classes = plan->classes,
    };
    bool solved = plan->dtype == OLE_F32 ? ole_route_gram_run(&plan->gram, &job)
                                         : ole_route_svd_run(&plan->svd, &job);
    if (!solved)
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the singular value decomposition of %" PRId64 " x %" PRId64
                        " features did not converge",
                        groups->rows, plan->dim);
    double class_term = 0.0;
    for (int64_t c = 0; c < groups->classes; c++)
        class_term += fmax(plan->options.delta_floor, plan->classes[c].norm);
    double factor = plan->options.weight;
    if (plan->options.reduction == OLE_REDUCTION_MEAN) factor /= (double)groups->rows;
    double value = factor * (class_term - job.norm);
    if (!isfinite(value))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the loss overflows (sum of norms %g): scale the features down",
                        class_term);
    double scale = gradient ? factor * gradient->upstream : 0.0;
    if (!gradient_fits(plan->dtype, scale))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the gradient overflows %s (weight * upstream, over N for the mean, is "
                        "%g): make weight or upstream smaller",
                        ole_dtype_name(plan->dtype), scale);
    if (gradient) write_gradient(plan, batch, gradient, job.direction, scale);
    result->value = value;
    result->class_term = class_term;
    result->global_norm = job.norm;
    result->rows = groups->rows;
    result->classes = groups->classes;
    result->rank = job.rank;
    if (result->per_class)
        memcpy(result->per_class, plan->classes,
               (size_t)groups->classes * sizeof *result->per_class);
    return OLE_OK;
}

ole_status ole_loss_queue(ole_loss_plan *plan, const ole_loss_batch *batch,
                          const ole_loss_gradient *gradient, ole_loss_outcome *outcome,
                          void *stream, ole_error *error) {
    ole_status status = check_batch(plan, batch, gradient, error);
    if (status != OLE_OK) return status;
    if (!plan->cuda)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_loss_queue: the plan is for the CPU: plan with options.device = "
                        "OLE_DEVICE_CUDA, or call ole_loss_eval()");
    return plan->table->queue(plan->cuda, batch, gradient, outcome, stream, error);
}
