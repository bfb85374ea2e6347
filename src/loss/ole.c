/*
 * src/loss/ole.c - the OLÉ loss of include/ole/loss.h: plans, and the way of a batch through one of
 * the two routes (loss/route.h), which hold the linear algebra.
 */
#include "ole/loss.h"

#include "base/cuda_module.h"
#include "base/error.h"
#include "base/in_use.h"
#include "linalg/kernels.h"
#include "loss/checks.h"
#include "loss/cuda.h"
#include "loss/route.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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
    ole_in_use in_use;
};

/* ---- planning ----------------------------------------------------------------------------- */

static ole_status check_shape(int64_t max_rows, int64_t dim, ole_dtype dtype, bool gpu,
                              ole_error *error) {
    if (max_rows < 1 || max_rows > OLE_MAX_SIDE)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "max_rows is %" PRId64 "; must be 1 to %d",
                        max_rows, OLE_MAX_SIDE);
    ole_status status = ole_loss_check_dim(dim, error);
    if (status != OLE_OK) return status;
    bool narrow = dtype == OLE_BF16 || dtype == OLE_F16;
    if (dtype != OLE_F32 && dtype != OLE_F64 && !(gpu && narrow))
        return ole_fail(error, OLE_ERROR_ARGUMENT, "dtype is %s; must be OLE_F32 or OLE_F64%s",
                        ole_dtype_name(dtype), gpu ? ", OLE_BF16 or OLE_F16" : "");
    return OLE_OK;
}

static void place(ole_loss_plan *plan, ole_arena *arena) {
    ole_groups_lay_out(&plan->groups, arena, plan->max_rows);
    plan->classes = ole_arena_take(arena, plan->max_rows, sizeof *plan->classes);
    if (plan->dtype == OLE_F32)
        ole_route_gram_lay_out(&plan->gram, arena, plan->max_rows, plan->dim,
                               plan->options.threads);
    else
        ole_route_svd_lay_out(&plan->svd, arena, plan->max_rows, plan->dim);
}

static ole_status allocate(ole_loss_plan *plan, ole_error *error) {
    ole_arena arena = {0};
    place(plan, &arena);
    plan->bytes = arena.used;
    plan->memory = ole_arena_reserve(&arena);
    if (!plan->memory)
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory: a plan for %" PRId64 " x %" PRId64 " %s needs %.3g GiB",
                        plan->max_rows, plan->dim, ole_dtype_name(plan->dtype),
                        (double)plan->bytes / 1073741824.0);
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
                                ole_dtype dtype, const ole_loss_options *given, ole_error *error) {
    if (!result) return ole_fail(error, OLE_ERROR_ARGUMENT, "plan is NULL");
    *result = NULL;
    ole_loss_options options;
    ole_status status = ole_loss_read_options(&options, given, error);
    if (status == OLE_OK)
        status = check_shape(max_rows, dim, dtype, options.device == OLE_DEVICE_CUDA, error);
    if (status != OLE_OK) return status;
    ole_loss_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    plan->max_rows = max_rows;
    plan->dim = dim;
    plan->dtype = dtype;
    plan->options = options;
    plan->cut = ole_loss_cut(&options, dtype);
    plan->options.delta_rel = plan->cut.relative;
    status = options.device == OLE_DEVICE_CUDA ? plan_on_gpu(plan, error) : allocate(plan, error);
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
    return plan ? sizeof *plan + plan->bytes : 0;
}

/* ---- evaluating --------------------------------------------------------------------------- */

static ole_status check_batch(const ole_loss_plan *plan, const ole_loss_batch *batch,
                              const ole_loss_gradient *gradient, ole_error *error) {
    if (!plan || !batch)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "%s is NULL", !plan ? "plan" : "batch");
    if (batch->rows < 1 || batch->rows > plan->max_rows)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.rows is %" PRId64 ": the plan takes 1 to %" PRId64, batch->rows,
                        plan->max_rows);
    return ole_loss_check_call(plan->dim, batch, gradient, error);
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
                    "features: row %" PRId64 " holds NaN or Inf; check what produced it", bad);
}

static ole_status eval_on_cpu(ole_loss_plan *plan, const ole_loss_batch *batch,
                              const ole_loss_gradient *gradient, ole_loss_result *result,
                              ole_error *error) {
    ole_groups *groups = &plan->groups;
    ole_groups_fill(groups, batch->labels, batch->label_type, batch->rows);
    ole_status status =
        ole_loss_list_classes(groups, batch->rows, ole_loss_capacity(result), plan->classes, error);
    if (status == OLE_OK) status = gather(plan, batch, error);
    if (status != OLE_OK) return status;
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
    if (!solved) return ole_loss_not_solved(groups->rows, plan->dim, error);
    ole_loss_found found = {groups, plan->classes, job.norm, job.rank};
    double upstream = gradient ? gradient->upstream : 0.0, factor;
    status = ole_loss_finish(&plan->options, plan->dtype, &found, upstream, result, &factor, error);
    if (status == OLE_OK && gradient)
        ole_loss_write_gradient(groups, plan->dim, plan->dtype, batch, gradient, job.direction,
                                factor * upstream);
    return status;
}

ole_status ole_loss_eval(ole_loss_plan *plan, const ole_loss_batch *batch,
                         const ole_loss_gradient *gradient, ole_loss_result *result,
                         ole_error *error) {
    ole_status status = check_batch(plan, batch, gradient, error);
    if (status == OLE_OK && !result) status = ole_fail(error, OLE_ERROR_ARGUMENT, "result is NULL");
    if (status != OLE_OK) return status;
    if (!ole_in_use_take(&plan->in_use, "plan", error)) return OLE_ERROR_ARGUMENT;
    status = plan->cuda ? plan->table->eval(plan->cuda, batch, gradient, result, error)
                        : eval_on_cpu(plan, batch, gradient, result, error);
    ole_in_use_release(&plan->in_use);
    return status;
}

ole_status ole_loss_queue(ole_loss_plan *plan, const ole_loss_batch *batch,
                          const ole_loss_gradient *gradient, ole_loss_outcome *outcome,
                          void *stream, ole_error *error) {
    ole_status status = check_batch(plan, batch, gradient, error);
    if (status != OLE_OK) return status;
    if (!plan->cuda)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_loss_queue: the plan is for the CPU; plan with options.device = "
                        "OLE_DEVICE_CUDA, or call ole_loss_eval()");
    if (!ole_in_use_take(&plan->in_use, "plan", error)) return OLE_ERROR_ARGUMENT;
    status = plan->table->queue(plan->cuda, batch, gradient, outcome, stream, error);
    ole_in_use_release(&plan->in_use);
    return status;
}
