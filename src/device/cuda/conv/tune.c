/*
 * src/device/cuda/conv/tune.c - chooses how to compute each problem: from the file, or by
 * measuring.
 *
 * The candidates are cuDNN's plans, cuBLASLt's algorithms for matrix products, our own kernels for
 * few channels, and for problems that add (a bias, or one gradient to another) the same without
 * adding plus an addition: the libraries do not always offer a fused addition, nor is it always
 * faster.  The fastest that can be recorded wins.  Measuring uses tensors of its own, of the
 * problem's size and filled with pseudo-random numbers.
 *
 * For tests, OLE_CUDA_WAY=PREFIX restricts problems that our own kernels can compute to kernels
 * with that prefix; PREFIX@K takes the K-th of them (modulo their number) without measuring.  The
 * file is then neither read nor written for such a problem.
 */
#include "device/cuda/conv/tune.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/cuda/conv/cache.h"
#include "device/cuda/conv/dnn.h"
#include "device/cuda/conv/narrow.h"
#include "device/cuda/conv/product.h"
#include "device/cuda/cuda.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Measuring ------------------------------------------------------------------------------- */

/*
 * Training replays recorded graphs, where the host's time to launch does not count: so runs are
 * recorded too, several in a row, and the replays timed.  Failures stay here: what does not run is
 * not chosen, and that is all.
 */

/* How long something takes on the GPU. */
typedef struct timing {
    double microseconds; /* per run, the quickest of several batches */
    bool recorded;       /* false: it cannot be recorded, and was timed as launched */
} timing;

typedef struct timer {
    cudaStream_t stream;
    cudaEvent_t start, end;
    bool (*launch)(void *argument);
    void *argument;
} timer;

static bool launch_all(const timer *t, int runs) {
    for (int i = 0; i < runs; i++)
        if (!t->launch(t->argument)) return false;
    return true;
}

/* Time from start to here, for each of `runs`. */
static bool read_timer(const timer *t, int runs, double *microseconds) {
    float milliseconds = 0;
    if (cudaEventRecord(t->end, t->stream) != cudaSuccess ||
        cudaEventSynchronize(t->end) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, t->start, t->end) != cudaSuccess)
        return false;
    *microseconds = 1e3 * (double)milliseconds / runs;
    return true;
}

static bool time_launched(const timer *t, int runs, double *microseconds) {
    return cudaEventRecord(t->start, t->stream) == cudaSuccess && launch_all(t, runs) &&
           read_timer(t, runs, microseconds);
}

static bool time_replayed(const timer *t, cudaGraphExec_t graph, int runs, double *microseconds) {
    return cudaEventRecord(t->start, t->stream) == cudaSuccess &&
           cudaGraphLaunch(graph, t->stream) == cudaSuccess && read_timer(t, runs, microseconds);
}

/* A graph of `runs` in a row; NULL if it cannot be recorded. */
static cudaGraphExec_t record(const timer *t, int runs) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    if (cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return NULL;
    bool launched = launch_all(t, runs);
    bool ended = cudaStreamEndCapture(t->stream, &graph) == cudaSuccess;
    if (launched && ended && cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess)
        executable = NULL;
    if (graph) cudaGraphDestroy(graph);
    return executable;
}

/* The quickest of several batches. */
static bool time_batches(const timer *t, double estimate, timing *measured) {
    enum { BATCH_MICROSECONDS = 400, MOST_RUNS = 20, LONG_MICROSECONDS = 2000 };
    int runs = estimate > 0 ? (int)(BATCH_MICROSECONDS / estimate) : MOST_RUNS;
    if (runs > MOST_RUNS) runs = MOST_RUNS;
    if (runs < 1) runs = 1;
    int batches = estimate > LONG_MICROSECONDS ? 2 : 5;
    cudaGraphExec_t graph = record(t, runs);
    double once;
    bool ok = graph ? time_replayed(t, graph, runs, &once) : true; /* warms up */
    if (!graph) cudaGetLastError();
    measured->recorded = graph != NULL;
    for (int i = 0; i < batches && ok; i++) {
        ok = graph ? time_replayed(t, graph, runs, &once) : time_launched(t, runs, &once);
        if (ok && (i == 0 || once < measured->microseconds)) measured->microseconds = once;
    }
    if (graph) cudaGraphExecDestroy(graph);
    return ok;
}

/*
 * launch(argument) enqueues one run on context->stream and returns false if that is refused.
 * False: it does not run, or takes so much longer than `best` microseconds (0: none yet) that it
 * was not timed further.
 */
static bool measure(ole_device_context *context, bool (*launch)(void *argument), void *argument,
                    double best, timing *measured) {
    timer t = {.stream = context->stream, .launch = launch, .argument = argument};
    double estimate = 0; /* with the host's time to launch, which may be most of it */
    bool ok = cudaEventCreate(&t.start) == cudaSuccess && cudaEventCreate(&t.end) == cudaSuccess &&
              time_launched(&t, 1, &estimate) && time_launched(&t, 2, &estimate) &&
              (best <= 0 || estimate < 3 * best + 30) && time_batches(&t, estimate, measured);
    if (t.start) cudaEventDestroy(t.start);
    if (t.end) cudaEventDestroy(t.end);
    if (!ok) cudaGetLastError(); /* so that the next check does not find it */
    return ok;
}

/* ---- Solvers ------------------------------------------------------------------------------ */

enum {
    MAX_KEY = 120,
    MAX_PLANS = 24,
    MAX_ALGORITHMS = 8,
    MAX_VARIANTS = 8,
    MAX_WAYS = 1 + MAX_PLANS + MAX_ALGORITHMS + MAX_VARIANTS
};

/* Increased when our own kernels are added or get faster, which invalidates older measurements. */
enum { OWN_WAYS = 1 };

/* Seconds per problem after which no more plans are made, and no more algorithms measured. */
static const double make_seconds = 0.2, measure_seconds = 0.15;

struct cuda_solver {
    cuda_solver *next;
    char key[MAX_KEY];
    cuda_problem problem;
    dnn_graph *dnn;           /* NULL if cuDNN is not used */
    cuda_product *product;    /* NULL if it is no matrix product */
    const cuda_solver *plain; /* the same without `add` or `bias`; NULL if it has neither */
    cuda_algorithm algorithm;
    cuda_layout y; /* where there is a bias */
};

struct cuda_tune {
    cuda_cache *cache;
    const char *only; /* OLE_CUDA_WAY's prefix; NULL: all algorithms */
    size_t only_length;
    int pick; /* what follows its @; -1: the quickest */
    cuda_solver *first;
};

/* ---- the table ---------------------------------------------------------------------------- */

static void name_file(const ole_device_context *context, const struct cudaDeviceProp *gpu,
                      char *name, size_t size) {
    int blas = 0;
    cublasGetVersion(context->blas, &blas);
    snprintf(name, size, "tune-%d-%s-sm%d%d-cudnn%zu-cublas%d.txt", OWN_WAYS, gpu->name, gpu->major,
             gpu->minor, cudnnGetVersion(), blas);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '.') *c = '-';
}

ole_status cuda_tune_open(ole_device_context *context, ole_error *error) {
    struct cudaDeviceProp gpu;
    char name[400];
    cudaError_t code = cudaGetDeviceProperties(&gpu, context->gpu);
    if (code != cudaSuccess)
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "cuda:%d: %s", context->gpu,
                        cudaGetErrorString(code));
    name_file(context, &gpu, name, sizeof name);
    cuda_tune *tune = calloc(1, sizeof *tune);
    if (tune) tune->cache = cuda_cache_open(name);
    if (!tune || !tune->cache) {
        free(tune);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    }
    const char *only = getenv("OLE_CUDA_WAY"), *at = only ? strchr(only, '@') : NULL;
    if (only && *only) tune->only = only;
    tune->only_length = at ? (size_t)(at - only) : only ? strlen(only) : 0;
    tune->pick = at ? atoi(at + 1) : -1;
    context->tune = tune;
    return OLE_OK;
}

static void free_solver(cuda_solver *solver) {
    dnn_algorithm_release(&solver->algorithm);
    dnn_graph_destroy(solver->dnn);
    cuda_product_destroy(solver->product);
    free(solver);
}

void cuda_tune_close(ole_device_context *context) {
    cuda_tune *tune = context->tune;
    if (!tune) return;
    while (tune->first) {
        cuda_solver *solver = tune->first;
        tune->first = solver->next;
        free_solver(solver);
    }
    cuda_cache_close(tune->cache);
    free(tune);
    context->tune = NULL;
}

static const char *pass_name(const cuda_problem *p) {
    static const char *const names[] = {
        [CUDA_PASS_FORWARD] = "forward", [CUDA_PASS_DATA] = "data", [CUDA_PASS_WEIGHT] = "weight"};
    return names[p->pass];
}

static const char *precision_name(const cuda_problem *p) {
    static const char *const names[] = {[OLE_PRECISION_FP32] = "fp32",
                                        [OLE_PRECISION_TF32] = "tf32",
                                        [OLE_PRECISION_BF16] = "bf16"};
    return names[p->precision];
}

static void name_problem(const cuda_problem *p, char key[MAX_KEY]) {
    snprintf(key, MAX_KEY, "%s%s%s-%s-%s-n%lld-%lldx%lldx%lld-%lldx%lldx%lld-k%llds%lldp%lld",
             pass_name(p), p->add ? "+add" : "", p->bias ? "+bias" : "", precision_name(p),
             p->direct ? "direct" : "any", (long long)p->n, (long long)p->in, (long long)p->in_h,
             (long long)p->in_w, (long long)p->out, (long long)p->out_h, (long long)p->out_w,
             (long long)p->kernel, (long long)p->stride, (long long)p->pad);
}

/* ---- running ------------------------------------------------------------------------------ */

size_t cuda_solver_scratch(const cuda_solver *solver) {
    const cuda_problem *p = &solver->problem;
    if (solver->algorithm.kind != CUDA_ALGORITHM_APART || !p->add) return 0;
    return (size_t)cuda_problem_x(p) * cuda_element(p->type);
}

/* Runs an algorithm once, without reporting failures; *dnn and *blas have them. */
static bool run_algorithm(ole_device_context *context, const cuda_solver *solver,
                          const cuda_algorithm *algorithm, const cuda_arrays *arrays,
                          cudnnStatus_t *dnn, cublasStatus_t *blas) {
    const cuda_problem *p = &solver->problem;
    if (algorithm->kind == CUDA_ALGORITHM_DNN) {
        *dnn = dnn_algorithm_run(context->dnn, algorithm, arrays);
        return *dnn == CUDNN_STATUS_SUCCESS;
    }
    if (algorithm->kind == CUDA_ALGORITHM_PRODUCT) {
        *blas = cuda_product_run(solver->product, algorithm, arrays);
        return *blas == CUBLAS_STATUS_SUCCESS;
    }
    if (algorithm->kind == CUDA_ALGORITHM_NARROW)
        return cuda_narrow_run(context, p, algorithm, arrays);
    cuda_arrays plain = *arrays;
    if (p->add) plain.x = arrays->scratch;
    if (!run_algorithm(context, solver->plain, &solver->plain->algorithm, &plain, dnn, blas))
        return false;
    if (p->add)
        cuda_accumulate(context, p->type, cuda_problem_x(p), plain.x, arrays->x);
    else
        cuda_add_bias(context, &solver->y, arrays->bias, arrays->y);
    return true;
}

void cuda_solver_run(ole_device_context *context, const cuda_solver *solver,
                     const cuda_arrays *arrays) {
    cudnnStatus_t dnn = CUDNN_STATUS_SUCCESS;
    cublasStatus_t blas = CUBLAS_STATUS_SUCCESS;
    if (run_algorithm(context, solver, &solver->algorithm, arrays, &dnn, &blas)) return;
    if (!cuda_failed_dnn(context, dnn, "a convolution") &&
        !cuda_failed_blas(context, blas, "a matrix product"))
        cuda_failed(context, cudaErrorLaunchOutOfResources, "a narrow convolution");
}

/* ---- measuring ---------------------------------------------------------------------------- */

typedef struct trial {
    ole_device_context *context;
    const cuda_solver *solver;
    const cuda_algorithm *algorithm;
    cuda_arrays arrays;
} trial;

static bool launch_trial(void *argument) {
    const trial *t = argument;
    cudnnStatus_t dnn;
    cublasStatus_t blas;
    return run_algorithm(t->context, t->solver, t->algorithm, &t->arrays, &dnn, &blas);
}

static size_t whole(int64_t elements, cuda_type type) {
    return cuda_aligned((size_t)elements * cuda_element(type));
}

/* Tensors to measure with, in one block of device memory, which the caller frees. */
static ole_status allocate(ole_device_context *context, const cuda_problem *p, const char *layer,
                           cuda_arrays *arrays, void **block, ole_error *error) {
    size_t x = whole(cuda_problem_x(p), p->type), w = whole(cuda_problem_w(p), p->type);
    size_t y = whole(cuda_problem_y(p), p->type), bias = whole(p->out, CUDA_FLOAT);
    size_t bytes = x + w + y + bias + (p->add ? x : 0);
    if (cudaMalloc(block, bytes) != cudaSuccess) {
        cudaGetLastError();
        return ole_fail(error, OLE_ERROR_MEMORY,
                        "out of memory on the GPU: choosing an algorithm for layer %s needs %.3g "
                        "GiB; use a smaller batch",
                        layer, (double)bytes / 1073741824.0);
    }
    char *memory = *block;
    float *numbers = (float *)(void *)(memory + x + w + y);
    *arrays = (cuda_arrays){.x = memory,
                            .w = memory + x,
                            .y = memory + x + w,
                            .bias = numbers,
                            .scratch = memory + x + w + y + bias,
                            .workspace = context->workspace[0],
                            .stream = context->stream};
    cuda_fill(context, p->type, cuda_problem_x(p), 1, arrays->x);
    cuda_fill(context, p->type, cuda_problem_w(p), 2, arrays->w);
    cuda_fill(context, p->type, cuda_problem_y(p), 3, arrays->y);
    cuda_fill(context, CUDA_FLOAT, p->out, 4, numbers);
    return OLE_OK;
}

/* The algorithms that OLE_CUDA_WAY allows; 0: it does not restrict this problem. */
static int restricted_algorithms(const ole_device_context *context, const cuda_solver *solver,
                                 cuda_algorithm algorithms[MAX_VARIANTS]) {
    const cuda_tune *tune = context->tune;
    int count = tune->only
                    ? cuda_narrow_algorithms(context, &solver->problem, algorithms, MAX_VARIANTS)
                    : 0;
    int left = 0;
    for (int i = 0; i < count; i++)
        if (strncmp(algorithms[i].name, tune->only, tune->only_length) == 0)
            algorithms[left++] = algorithms[i];
    if (left > 0 && tune->pick >= 0) {
        algorithms[0] = algorithms[tune->pick % left];
        left = 1;
    }
    return left;
}

static int gather(const ole_device_context *context, const cuda_solver *solver,
                  cuda_algorithm algorithms[MAX_WAYS]) {
    int count = restricted_algorithms(context, solver, algorithms);
    if (count > 0) return count;
    if (solver->plain)
        algorithms[count++] = (cuda_algorithm){.kind = CUDA_ALGORITHM_APART, .name = "apart"};
    count += cuda_narrow_algorithms(context, &solver->problem, algorithms + count, MAX_VARIANTS);
    if (solver->product)
        count += cuda_product_algorithms(solver->product, context->workspace_bytes,
                                         algorithms + count, MAX_ALGORITHMS);
    if (solver->dnn)
        count += dnn_graph_algorithms(solver->dnn, context->workspace_bytes,
                                      ole_clock() + make_seconds, algorithms + count, MAX_PLANS);
    return count;
}

static bool is_restricted(const ole_device_context *context, const cuda_solver *solver) {
    cuda_algorithm algorithms[MAX_VARIANTS];
    return restricted_algorithms(context, solver, algorithms) > 0;
}

static bool is_better(const timing *a, const timing *b) {
    if (a->recorded != b->recorded) return a->recorded;
    return a->microseconds < b->microseconds;
}

/* The best of the algorithms by measuring; -1: none runs. */
static int choose(ole_device_context *context, const cuda_solver *solver,
                  const cuda_algorithm *algorithms, int count, const cuda_arrays *arrays,
                  timing *best) {
    double deadline = ole_clock() + measure_seconds;
    int chosen = -1;
    for (int i = 0; i < count && (chosen < 0 || ole_clock() < deadline); i++) {
        trial t = {context, solver, &algorithms[i], *arrays};
        timing measured = {0};
        double limit = chosen >= 0 && best->recorded ? best->microseconds : 0;
        if (!measure(context, launch_trial, &t, limit, &measured)) continue;
        if (chosen >= 0 && !is_better(&measured, best)) continue;
        chosen = i;
        *best = measured;
    }
    return chosen;
}

static ole_status fail_none(const ole_device_context *context, const cuda_problem *p,
                            const char *layer, ole_error *error) {
    return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                    "layer %s: neither cuDNN nor cuBLAS has an algorithm for its %s pass in %s "
                    "(batch %lld, %lldx%lldx%lld to %lldx%lldx%lld, kernel %lld, stride %lld, pad "
                    "%lld) that repeats bit for bit and needs at most %.3g MiB of workspace; "
                    "change its shape or the precision, or use --device cpu",
                    layer, pass_name(p), precision_name(p), (long long)p->n, (long long)p->in,
                    (long long)p->in_h, (long long)p->in_w, (long long)p->out, (long long)p->out_h,
                    (long long)p->out_w, (long long)p->kernel, (long long)p->stride,
                    (long long)p->pad, (double)context->workspace_bytes / 1048576.0);
}

/* Measures all algorithms, keeps the best and adds it to the file. */
static ole_status tune(ole_device_context *context, cuda_solver *solver, const char *layer,
                       ole_error *error) {
    cuda_algorithm algorithms[MAX_WAYS] = {{0}};
    cuda_arrays arrays;
    void *block;
    timing best = {0};
    ole_status status = allocate(context, &solver->problem, layer, &arrays, &block, error);
    if (status != OLE_OK) return status;
    int count = gather(context, solver, algorithms);
    cudaGetLastError(); /* of plans that could not be made */
    bool restricted = is_restricted(context, solver),
         given = restricted && context->tune->pick >= 0;
    int chosen = given ? 0 : choose(context, solver, algorithms, count, &arrays, &best);
    cuda_failed(context, cudaStreamSynchronize(context->stream), "choosing an algorithm");
    cudaFree(block);
    for (int i = 0; i < count; i++)
        if (i != chosen) dnn_algorithm_release(&algorithms[i]);
    if (chosen >= 0) solver->algorithm = algorithms[chosen];
    if (context->failed != OLE_OK) return cuda_failure(context, error);
    if (chosen < 0) return fail_none(context, &solver->problem, layer, error);
    if (!restricted)
        cuda_cache_put(context->tune->cache, solver->key, solver->algorithm.name,
                       best.microseconds);
    return OLE_OK;
}

/* ---- solvers ------------------------------------------------------------------------------ */

/* Finds the algorithm that the file names; false if there is none that works. */
static bool recall(const ole_device_context *context, cuda_solver *solver) {
    const cuda_tune *tune = context->tune;
    if (is_restricted(context, solver)) return false;
    const char *name = cuda_cache_find(tune->cache, solver->key);
    size_t workspace = context->workspace_bytes;
    if (!name) return false;
    if (solver->plain && strcmp(name, "apart") == 0) {
        solver->algorithm = (cuda_algorithm){.kind = CUDA_ALGORITHM_APART, .name = "apart"};
        return true;
    }
    return cuda_narrow_named(context, &solver->problem, name, &solver->algorithm) ||
           (solver->dnn && dnn_graph_named(solver->dnn, workspace, name, &solver->algorithm)) ||
           (solver->product &&
            cuda_product_named(solver->product, workspace, name, &solver->algorithm));
}

/* Chooses the libraries to use. */
static void describe(const ole_device_context *context, cuda_solver *solver) {
    const cuda_problem *p = &solver->problem;
    bool product = cuda_problem_is_product(p), vectors = p->in_h * p->in_w == 1;
    if (p->bias) {
        solver->y = cuda_layout_of(context, p->n, (ole_shape){p->out, p->out_h, p->out_w});
        if (p->type != CUDA_FLOAT) return; /* both require a bias of the same type */
    }
    if (product) solver->product = cuda_product_create(context, p);
    if (!product || !vectors) solver->dnn = dnn_graph_create(context->dnn, p);
}

static ole_status make(ole_device_context *context, const cuda_problem *problem, const char *layer,
                       cuda_solver *solver, ole_error *error) {
    solver->problem = *problem;
    name_problem(problem, solver->key);
    if (problem->add || problem->bias) {
        cuda_problem plain = *problem;
        plain.add = plain.bias = false;
        ole_status status = cuda_solver_find(context, &plain, layer, &solver->plain, error);
        if (status != OLE_OK) return status;
    }
    ole_status status = OLE_OK;
    cuda_setup_lock();
    describe(context, solver);
    if (!recall(context, solver)) {
        cudaGetLastError(); /* of a plan that could not be made again */
        cuda_cache_refresh(context->tune->cache);
        if (!recall(context, solver)) status = tune(context, solver, layer, error);
    }
    cuda_setup_unlock();
    return status;
}

ole_status cuda_solver_find(ole_device_context *context, const cuda_problem *problem,
                            const char *layer, const cuda_solver **solver, ole_error *error) {
    char key[MAX_KEY];
    name_problem(problem, key);
    for (cuda_solver *s = context->tune->first; s; s = s->next)
        if (strcmp(s->key, key) == 0) {
            *solver = s;
            return OLE_OK;
        }
    if (context->failed != OLE_OK) return cuda_failure(context, error);
    cuda_solver *made = calloc(1, sizeof *made);
    if (!made) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    ole_status status = make(context, problem, layer, made, error);
    if (status != OLE_OK) {
        free_solver(made);
        return status;
    }
    made->next = context->tune->first;
    context->tune->first = made;
    *solver = made;
    return OLE_OK;
}
