/* bindings/python/native/jax.c - XLA handlers that call the library. */
#include "jax.h"

#include "plans.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A parsed call. */
typedef struct job {
    plan_kind kind;
    ole_loss_batch batch;
    ole_loss_gradient gradient; /* data NULL: none requested */
    void *outcome;
    bool unsigned_labels; /* no label is negative */
    bool check;           /* bad rows are an error, on the CPU */
} job;

/* ---- Answers ------------------------------------------------------------------------------ */

static xla_error *fail(const xla_call *call, int code, const char *message) {
    char text[600];
    snprintf(text, sizeof text, "ole_loss: %s", message);
    xla_make_error arguments = {.struct_size = sizeof arguments, .message = text, .code = code};
    return call->api->make_error(&arguments);
}

static xla_error *fail_with(const xla_call *call, const ole_error *error) {
    bool input = error->status == OLE_ERROR_ARGUMENT || error->status == OLE_ERROR_DATA;
    int code = input                               ? XLA_INVALID_ARGUMENT
               : error->status == OLE_ERROR_MEMORY ? XLA_RESOURCE_EXHAUSTED
                                                   : XLA_INTERNAL;
    return fail(call, code, error->message);
}

/*
 * Whether XLA only asks what the handler is, and the answer: of whatever 0.x it is itself.  The
 * first version asks without a table to look that up in.
 */
static bool answer_metadata(const xla_call *call) {
    for (xla_extension *e = call->extensions; e; e = e->next) {
        if (e->type != XLA_METADATA) continue;
        xla_metadata *metadata = ((xla_metadata_extension *)e)->metadata;
        metadata->version = (xla_version){.struct_size = sizeof(xla_version),
                                          .major = XLA_MAJOR,
                                          .minor = call->api ? call->api->version.minor : 1};
        metadata->traits = 0;
        return true;
    }
    return false;
}

/* ---- Taking a call apart ------------------------------------------------------------------ */

static const xla_buffer *get_buffer(const xla_values *values, int64_t i) {
    return i < values->count && values->type[i] == XLA_BUFFER ? values->value[i] : NULL;
}

/* The number of an attribute; NaN when it is missing. */
static double get_number(const xla_attributes *attributes, const char *name) {
    for (int64_t i = 0; i < attributes->count; i++) {
        const xla_text *text = attributes->name[i];
        if (text->length != strlen(name) || memcmp(text->at, name, text->length) != 0) continue;
        const xla_scalar *scalar = attributes->value[i];
        if (attributes->type[i] != XLA_SCALAR) return NAN;
        if (scalar->dtype == XLA_F64) return *(const double *)scalar->value;
        if (scalar->dtype == XLA_S64) return (double)*(const int64_t *)scalar->value;
    }
    return NAN;
}

/* What is wrong with the arrays, or NULL. */
static const char *read_arrays(job *j, const xla_call *call) {
    const xla_buffer *x = get_buffer(&call->arguments, 0), *y = get_buffer(&call->arguments, 1);
    const xla_buffer *outcome = get_buffer(&call->results, 0);
    const xla_buffer *gradient = get_buffer(&call->results, 1);
    if (!x || x->rank != 2 || (x->dtype != XLA_F32 && x->dtype != XLA_F64))
        return "features must be float32 or float64 [N, D]";
    bool short_labels = y && (y->dtype == XLA_S32 || y->dtype == XLA_U32);
    bool long_labels = y && (y->dtype == XLA_S64 || y->dtype == XLA_U64);
    if (!(short_labels || long_labels) || y->rank != 1 || y->dims[0] != x->dims[0])
        return "labels must be int32 or int64 [N]";
    if (!outcome || outcome->rank != 1 || outcome->dims[0] != OLE_JAX_WORDS ||
        outcome->dtype != XLA_U32)
        return "the first result must be the outcome's words";
    if (gradient && (gradient->dtype != x->dtype || gradient->rank != 2 ||
                     gradient->dims[0] != x->dims[0] || gradient->dims[1] != x->dims[1]))
        return "the gradient must have the features' type and shape";
    j->kind.rows = x->dims[0];
    j->kind.dim = x->dims[1];
    j->kind.dtype = x->dtype == XLA_F32 ? OLE_F32 : OLE_F64;
    j->batch = (ole_loss_batch){.rows = x->dims[0],
                                .features = x->data,
                                .labels = y->data,
                                .label_type = short_labels ? OLE_I32 : OLE_I64};
    j->unsigned_labels = y->dtype == XLA_U32 || y->dtype == XLA_U64;
    j->gradient = (ole_loss_gradient){.data = gradient ? gradient->data : NULL, .upstream = 1.0};
    j->outcome = outcome->data;
    return NULL;
}

static const char *read_options(job *j, const xla_call *call, ole_device device) {
    ole_loss_options *options = &j->kind.options;
    double mean = get_number(&call->attributes, "mean");
    double threads = get_number(&call->attributes, "threads");
    double check = get_number(&call->attributes, "check");
    ole_loss_options_init(options);
    options->delta_floor = get_number(&call->attributes, "delta_floor");
    options->delta_abs = get_number(&call->attributes, "delta_abs");
    options->delta_rel = get_number(&call->attributes, "delta_rel");
    if (isnan(mean) || isnan(check) || !(threads >= 1 && threads <= 1024) ||
        isnan(options->delta_floor) || isnan(options->delta_abs) || isnan(options->delta_rel))
        return "an attribute is missing or wrong: ole/jax.py and libole_jax.so do not fit";
    options->reduction = mean != 0.0 ? OLE_REDUCTION_MEAN : OLE_REDUCTION_SUM;
    options->threads = device == OLE_DEVICE_CPU ? (int)threads : 1;
    options->device = device;
    j->check = check != 0.0;
    return NULL;
}

/* ---- Running ------------------------------------------------------------------------------ */

static int64_t label_of(const ole_loss_batch *batch, int64_t row) {
    return batch->label_type == OLE_I32 ? ((const int32_t *)batch->labels)[row]
                                        : ((const int64_t *)batch->labels)[row];
}

static bool has_label(const ole_loss_batch *batch) {
    for (int64_t i = 0; i < batch->rows; i++)
        if (label_of(batch, i) >= 0) return true;
    return false;
}

/* Unsigned labels that are too large would turn negative, and their rows be ignored. */
static ole_status check_labels(const job *j, ole_error *error) {
    bool narrow = j->batch.label_type == OLE_I32;
    for (int64_t i = 0; j->unsigned_labels && i < j->batch.rows; i++) {
        int64_t label = label_of(&j->batch, i);
        if (label >= 0) continue;
        *error = (ole_error){.status = OLE_ERROR_DATA};
        snprintf(error->message, sizeof error->message,
                 "labels: row %lld is %llu, which does not fit %s", (long long)i,
                 narrow ? (unsigned long long)(uint32_t)label : (unsigned long long)label,
                 narrow ? "int32" : "int64");
        return OLE_ERROR_DATA;
    }
    return OLE_OK;
}

static void fill_gradient(const job *j, double value) {
    int64_t count = j->gradient.data ? j->kind.rows * j->kind.dim : 0;
    for (int64_t i = 0; i < count; i++)
        if (j->kind.dtype == OLE_F32)
            ((float *)j->gradient.data)[i] = (float)value;
        else
            ((double *)j->gradient.data)[i] = value;
}

/* On the CPU, with the outcome that a GPU would give. */
static ole_status evaluate(const job *j, ole_loss_plan *plan, ole_error *error) {
    ole_loss_outcome outcome = {.bad_row = -1};
    ole_loss_result result = {0};
    if (j->check && check_labels(j, error) != OLE_OK) return error->status;
    if (has_label(&j->batch)) {
        ole_status status =
            ole_loss_eval(plan, &j->batch, j->gradient.data ? &j->gradient : NULL, &result, error);
        bool bad = !j->check && (status == OLE_ERROR_DATA || status == OLE_ERROR_NUMERIC);
        if (status != OLE_OK && !bad) return status;
        if (bad) {
            result.value = result.class_term = result.global_norm = NAN;
            fill_gradient(j, NAN);
        }
    } else {
        fill_gradient(j, 0.0);
    }
    outcome.value = result.value;
    outcome.class_term = result.class_term;
    outcome.global_norm = result.global_norm;
    outcome.rows = result.rows;
    outcome.classes = result.classes;
    outcome.rank = result.rank;
    memcpy(j->outcome, &outcome, sizeof outcome);
    return OLE_OK;
}

static xla_error *run(xla_call *call, ole_device device) {
    if (answer_metadata(call) || call->stage != XLA_STAGE_EXECUTE) return NULL;
    job j = {.kind = {0}};
    const char *wrong = read_arrays(&j, call);
    if (!wrong) wrong = read_options(&j, call, device);
    if (wrong) return fail(call, XLA_INVALID_ARGUMENT, wrong);
    if (device == OLE_DEVICE_CUDA) {
        xla_get_stream stream = {.struct_size = sizeof stream, .context = call->context};
        xla_error *error = call->api->get_stream(&stream);
        if (error) return error;
        j.kind.stream = stream.stream;
    }
    ole_error error;
    ole_loss_plan *plan = plans_take(&j.kind, &error);
    if (!plan) return fail_with(call, &error);
    ole_status status = device == OLE_DEVICE_CPU
                            ? evaluate(&j, plan, &error)
                            : ole_loss_queue(plan, &j.batch, j.gradient.data ? &j.gradient : NULL,
                                             j.outcome, j.kind.stream, &error);
    plans_give(&j.kind, plan);
    return status == OLE_OK ? NULL : fail_with(call, &error);
}

xla_error *ole_jax_loss_cpu(xla_call *call) {
    return run(call, OLE_DEVICE_CPU);
}

xla_error *ole_jax_loss_cuda(xla_call *call) {
    return run(call, OLE_DEVICE_CUDA);
}
