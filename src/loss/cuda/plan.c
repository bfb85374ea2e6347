/*
 * src/loss/cuda/plan.c - plans of the loss on a GPU: their memory on the GPU, which kernels an
 * evaluation queues, and the table "ole_cuda_loss" (loss/cuda.h) that libole.so calls.
 */
#include "base/arena.h"
#include "base/error.h"
#include "base/min_max.h"
#include "loss/cuda.h"
#include "loss/cuda/call.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The largest batch that the grids of the kernels can cover. */
enum { MAX_ROWS = 1 << 24, MAX_DIM = 1 << 20 };

enum {
    GRAM_DEPTH = 128, /* a partial sum of a Gram matrix is over at least so many products */
    MAX_SPLITS = 16,
    ROUNDS_NARROW = 3, /* of iterate: σ down to 1e-12 of the largest, or */
    ROUNDS_WIDE = 4,   /* 1e-19 */
};

struct ole_cuda_loss {
    loss_call call; /* the part that is the same for all evaluations */
    ole_loss_options options;
    int gpu;
    int blocks; /* of iterate */
    void *memory;
    size_t bytes;
    ole_loss_outcome *outcome; /* device memory, of eval */
    ole_loss_class *classes;   /* host memory, of eval: [max_rows] */
    void *host;                /* host memory, of eval: copies of norm, rank, first, count, label */
};

static ole_status fail_cuda(cudaError_t code, const char *doing, ole_error *error) {
    ole_status status =
        code == cudaErrorMemoryAllocation ? OLE_ERROR_MEMORY : OLE_ERROR_UNSUPPORTED;
    return ole_fail(error, status, "CUDA: %s: %s", doing, cudaGetErrorString(code));
}

/* ---- planning ----------------------------------------------------------------------------- */

static int splits_of(int64_t depth) {
    int64_t splits = depth / GRAM_DEPTH;
    return (int)(splits < 1 ? 1 : (splits > MAX_SPLITS ? MAX_SPLITS : splits));
}

static void place_grams(loss_call *c, ole_arena *arena) {
    int64_t tiles = (c->max_rows + GRAM_TILE - 1) / GRAM_TILE;
    /* Many tiles fill the GPU without a split. */
    c->row_splits = tiles * GRAM_BAND > 512 ? 1 : (int)ole_min(splits_of(c->dim), 4);
    c->gram_rows =
        ole_arena_take(arena, tiles * GRAM_BAND * c->row_splits * GRAM_ENTRIES, sizeof(double2));
    c->k_class = ole_arena_take(arena, (int64_t)c->max_rows * LOSS_SMALL, sizeof(double));
    c->k_whole = ole_arena_take(arena, LOSS_SMALL * LOSS_SMALL, sizeof(double));
    if (c->max_rows <= c->dim || c->dim > LOSS_SMALL) return;
    int64_t side = (c->dim + GRAM_TILE - 1) / GRAM_TILE, classes = 1 + c->max_rows / (c->dim + 1);
    c->column_tiles = (int)(side * (side + 1) / 2);
    c->column_splits = splits_of(c->max_rows);
    c->gram_columns = ole_arena_take(
        arena, (c->column_splits + classes) * c->column_tiles * GRAM_ENTRIES, sizeof(double2));
}

static void place_iterate(loss_call *c, ole_arena *arena) {
    int64_t rows = c->max_rows, side = ole_min(rows, c->dim);
    if (side <= LOSS_SMALL) return;
    c->max_large = (int)(2 + rows / (LOSS_SMALL + 1));
    c->large = ole_arena_take(arena, c->max_large, sizeof *c->large);
    c->sorted = ole_arena_take(arena, rows * c->dim, sizeof(double));
    c->square_pitch = side;
    c->deviation_pitch = loss_iterate_tiles(side);
    c->deviation = ole_arena_take(arena, c->max_large * c->deviation_pitch, sizeof(double));
    for (int kind = 0; kind < 2; kind++) {
        for (int i = 0; i < 2; i++)
            c->y[kind][i] = ole_arena_take(arena, rows * c->dim, sizeof(double));
        /* The whole's is side x side; classes have side^2 <= rows * side of the batch together. */
        for (int i = 0; i < 3; i++)
            c->square[kind][i] =
                ole_arena_take(arena, (kind == 0 ? side : rows) * side, sizeof(double));
        for (int i = 0; i < 2; i++)
            c->vector[kind][i] = ole_arena_take(arena, rows, sizeof(double));
    }
}

static void place(ole_cuda_loss *loss, ole_arena *arena) {
    loss_call *c = &loss->call;
    int64_t rows = c->max_rows;
    loss->outcome = ole_arena_take(arena, 1, sizeof *loss->outcome);
    c->used = ole_arena_take(arena, 1, sizeof *c->used);
    c->order = ole_arena_take(arena, rows, sizeof *c->order);
    c->first = ole_arena_take(arena, rows, sizeof *c->first);
    c->count = ole_arena_take(arena, rows, sizeof *c->count);
    c->label = ole_arena_take(arena, rows, sizeof *c->label);
    c->bad = ole_arena_take(arena, rows, sizeof *c->bad);
    c->largest = ole_arena_take(arena, rows, sizeof *c->largest);
    c->norm = ole_arena_take(arena, rows + 1, sizeof *c->norm);
    c->rank = ole_arena_take(arena, rows + 1, sizeof *c->rank);
    place_grams(c, arena);
    place_iterate(c, arena);
}

/* Bytes of the host copies of each slot's results. */
static size_t host_bytes(const loss_call *c) {
    return (size_t)c->max_rows * (sizeof *c->label + sizeof *c->norm + sizeof *c->first +
                                  sizeof *c->count + sizeof *c->rank);
}

static ole_status allocate(ole_cuda_loss *loss, ole_error *error) {
    ole_arena arena = {0};
    place(loss, &arena);
    loss->bytes = arena.used;
    loss->host = malloc(host_bytes(&loss->call));
    loss->classes = malloc((size_t)loss->call.max_rows * sizeof *loss->classes);
    if (!loss->host || !loss->classes) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed; /* see create() */
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaError_t code = cudaMalloc(&loss->memory, loss->bytes);
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (code != cudaSuccess) {
        cudaGetLastError(); /* it has been heard */
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "cuda:%d is out of memory: a plan for %d x %d %s needs %.3g GiB", loss->gpu,
                        loss->call.max_rows, loss->call.dim,
                        ole_dtype_name((ole_dtype)loss->call.dtype),
                        (double)loss->bytes / 1073741824.0);
    }
    arena = (ole_arena){.base = loss->memory};
    place(loss, &arena);
    return OLE_OK;
}

static void fill_call(ole_cuda_loss *loss, int64_t max_rows, int64_t dim, ole_dtype dtype) {
    const ole_loss_options *o = &loss->options;
    loss->call = (loss_call){
        .dtype = (int)dtype,
        .dim = (int)dim,
        .max_rows = (int)max_rows,
        .weight = o->weight,
        .floor = o->delta_floor,
        .cut_absolute = o->delta_abs,
        .cut_relative = o->delta_rel,
        .terms = LOSS_CLASSES | LOSS_WHOLE,
        .mean = o->reduction == OLE_REDUCTION_MEAN,
        .scaled = dtype == OLE_F64,
        .rounds = dtype == OLE_F64 ? ROUNDS_WIDE : ROUNDS_NARROW,
    };
}

/* Makes the plan's GPU the current one; `before` receives the previous one. */
static cudaError_t enter(const ole_cuda_loss *loss, int *before) {
    cudaError_t code = cudaGetDevice(before);
    return code == cudaSuccess && *before != loss->gpu ? cudaSetDevice(loss->gpu) : code;
}

static void leave(const ole_cuda_loss *loss, int before) {
    if (before != loss->gpu) cudaSetDevice(before);
}

static ole_status prepare(ole_cuda_loss *loss, ole_error *error) {
    int multiprocessors = 0;
    cudaError_t code =
        cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, loss->gpu);
    if (code == cudaSuccess) code = loss_iterate_blocks(multiprocessors, &loss->blocks);
    if (code == cudaSuccess) code = loss_small_prepare();
    if (code != cudaSuccess) return fail_cuda(code, "querying the GPU", error);
    return allocate(loss, error);
}

static void destroy(ole_cuda_loss *loss) {
    if (!loss) return;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaThreadExchangeStreamCaptureMode(&mode);
    if (cudaFree(loss->memory) != cudaSuccess) cudaGetLastError(); /* not for the next launch */
    cudaThreadExchangeStreamCaptureMode(&mode);
    free(loss->classes);
    free(loss->host);
    free(loss);
}

/* A plan may be made, and freed, while a stream is being captured in a graph. */
static ole_status create(ole_cuda_loss **result, int64_t max_rows, int64_t dim, ole_dtype dtype,
                         const ole_loss_options *options, ole_error *error) {
    *result = NULL;
    if (max_rows > MAX_ROWS || dim > MAX_DIM)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "%" PRId64 " x %" PRId64 " features; the limit on a GPU is %d x %d",
                        max_rows, dim, MAX_ROWS, MAX_DIM);
    ole_cuda_loss *loss = calloc(1, sizeof *loss);
    if (!loss) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    loss->options = *options;
    int before = 0, gpus = 0;
    cudaError_t code = cudaGetDevice(&before);
    if (code == cudaSuccess) code = cudaGetDeviceCount(&gpus);
    loss->gpu = options->gpu < 0 ? before : options->gpu;
    ole_status status = OLE_OK;
    if (code == cudaSuccess && loss->gpu >= gpus)
        status = ole_fail(error, OLE_ERROR_ARGUMENT, "options.gpu is %d; must be 0 to %d",
                          loss->gpu, gpus - 1);
    else if (code == cudaSuccess)
        code = enter(loss, &before);
    if (status == OLE_OK && code != cudaSuccess)
        status = fail_cuda(code, "selecting the GPU", error);
    if (status == OLE_OK) {
        fill_call(loss, max_rows, dim, dtype);
        status = prepare(loss, error);
        leave(loss, before);
    }
    if (status != OLE_OK) {
        destroy(loss);
        return status;
    }
    *result = loss;
    return OLE_OK;
}

void loss_restrict(ole_cuda_loss *loss, int terms, double shift) {
    loss->call.terms = terms;
    loss->call.shift = shift;
}

const double *loss_norms(const ole_cuda_loss *loss) {
    return loss->call.norm;
}

static size_t bytes(const ole_cuda_loss *loss) {
    return loss->bytes;
}

/* ---- evaluating --------------------------------------------------------------------------- */

static loss_call call_of(const ole_cuda_loss *loss, const ole_loss_batch *batch,
                         const ole_loss_gradient *gradient, ole_loss_outcome *outcome) {
    loss_call c = loss->call;
    c.x = batch->features;
    c.x_stride = batch->stride ? batch->stride : c.dim;
    c.labels = batch->labels;
    c.wide_labels = batch->label_type == OLE_I64;
    c.rows = (int)batch->rows;
    c.outcome = outcome;
    if (gradient) {
        c.gradient = gradient->data;
        c.gradient_stride = gradient->stride ? gradient->stride : c.dim;
        c.upstream = gradient->upstream;
        c.accumulate = gradient->accumulate;
    }
    return c;
}

static cudaError_t queue_kernels(const ole_cuda_loss *loss, const loss_call *c,
                                 cudaStream_t stream) {
    bool large = ole_min(c->rows, c->dim) > LOSS_SMALL;
    cudaError_t code = loss_launch_group(c, stream);
    if (code == cudaSuccess) code = loss_launch_gram(c, stream);
    if (code == cudaSuccess) code = loss_launch_small(c, stream);
    if (code == cudaSuccess && large) code = loss_launch_iterate(c, loss->blocks, stream);
    if (code == cudaSuccess) code = loss_launch_apply(c, stream);
    return code;
}

static ole_status queue(ole_cuda_loss *loss, const ole_loss_batch *batch,
                        const ole_loss_gradient *gradient, ole_loss_outcome *outcome, void *stream,
                        ole_error *error) {
    loss_call c = call_of(loss, batch, gradient, outcome);
    int before = 0;
    cudaError_t code = enter(loss, &before);
    if (code == cudaSuccess) {
        code = queue_kernels(loss, &c, stream);
        leave(loss, before);
    }
    return code == cudaSuccess ? OLE_OK : fail_cuda(code, "queueing the loss", error);
}

/* The classes of an evaluation that has run, by rising label, to loss->classes. */
static cudaError_t read_classes(ole_cuda_loss *loss, int64_t used) {
    const loss_call *c = &loss->call;
    size_t n = (size_t)used, room = (size_t)c->max_rows;
    int64_t *label = loss->host;
    double *norm = (double *)(label + room);
    int *first = (int *)(norm + room), *count = first + room, *rank = count + room;
    cudaError_t code = cudaMemcpy(label, c->label, n * sizeof *label, cudaMemcpyDeviceToHost);
    if (code == cudaSuccess)
        code = cudaMemcpy(norm, c->norm, n * sizeof *norm, cudaMemcpyDeviceToHost);
    if (code == cudaSuccess)
        code = cudaMemcpy(first, c->first, n * sizeof *first, cudaMemcpyDeviceToHost);
    if (code == cudaSuccess)
        code = cudaMemcpy(count, c->count, n * sizeof *count, cudaMemcpyDeviceToHost);
    if (code == cudaSuccess)
        code = cudaMemcpy(rank, c->rank, n * sizeof *rank, cudaMemcpyDeviceToHost);
    int64_t classes = 0;
    for (int64_t p = 0; p < used && code == cudaSuccess; p++)
        if (first[p] == p)
            loss->classes[classes++] = (ole_loss_class){
                .label = label[p], .count = count[p], .rank = rank[p], .norm = norm[p]};
    return code;
}

static double largest_of(int dtype) {
    const double half = 65504.0;
    return dtype == OLE_F64 ? DBL_MAX : (dtype == OLE_F16 ? half : (double)FLT_MAX);
}

/* Reports what the CPU would have refused. */
static ole_status check_outcome(const ole_cuda_loss *loss, const ole_loss_batch *batch,
                                const ole_loss_gradient *gradient, const ole_loss_outcome *got,
                                const ole_loss_result *result, ole_error *error) {
    if (got->rows == 0)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "batch.labels: all %" PRId64 " rows are ignored (label < 0)", batch->rows);
    if (result->per_class && result->per_class_capacity < got->classes)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "result.per_class_capacity is %" PRId64 ", but %" PRId64
                        " classes are present",
                        result->per_class_capacity, got->classes);
    if (got->bad_row >= 0)
        return ole_fail(error, OLE_ERROR_DATA,
                        "features: row %" PRId64 " holds NaN or Inf; check what produced it",
                        got->bad_row);
    if (!isfinite(got->value))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the loss overflows (sum of norms %g); scale the features down",
                        got->class_term);
    double scale = gradient ? loss->options.weight * gradient->upstream : 0.0;
    if (loss->call.mean) scale /= (double)got->rows;
    if (!(fabs(scale) <= largest_of(loss->call.dtype) / 4.0))
        return ole_fail(error, OLE_ERROR_NUMERIC,
                        "the gradient overflows %s (weight * upstream, over N for the mean, is "
                        "%g); use a smaller weight or upstream",
                        ole_dtype_name((ole_dtype)loss->call.dtype), scale);
    return OLE_OK;
}

static cudaError_t run(ole_cuda_loss *loss, const loss_call *c, ole_loss_outcome *got) {
    cudaError_t code = queue_kernels(loss, c, NULL);
    if (code == cudaSuccess)
        code = cudaMemcpy(got, c->outcome, sizeof *got, cudaMemcpyDeviceToHost);
    if (code == cudaSuccess) code = read_classes(loss, got->rows);
    return code;
}

/* On the stream that waits for all others' work, and that they wait for. */
static ole_status eval(ole_cuda_loss *loss, const ole_loss_batch *batch,
                       const ole_loss_gradient *gradient, ole_loss_result *result,
                       ole_error *error) {
    loss_call c = call_of(loss, batch, gradient, loss->outcome);
    ole_loss_outcome got = {0};
    int before = 0;
    cudaError_t code = enter(loss, &before);
    if (code == cudaSuccess) {
        code = run(loss, &c, &got);
        leave(loss, before);
    }
    if (code != cudaSuccess) return fail_cuda(code, "evaluating the loss", error);
    ole_status status = check_outcome(loss, batch, gradient, &got, result, error);
    if (status != OLE_OK) return status;
    result->value = got.value;
    result->class_term = got.class_term;
    result->global_norm = got.global_norm;
    result->rows = got.rows;
    result->classes = got.classes;
    result->rank = got.rank;
    if (result->per_class)
        memcpy(result->per_class, loss->classes, (size_t)got.classes * sizeof *result->per_class);
    return OLE_OK;
}

__attribute__((visibility("default"))) extern const ole_cuda_loss_table
    ole_cuda_loss_entry __asm__("ole_cuda_loss");
const ole_cuda_loss_table ole_cuda_loss_entry = {
    .create = create,
    .destroy = destroy,
    .bytes = bytes,
    .queue = queue,
    .eval = eval,
};
